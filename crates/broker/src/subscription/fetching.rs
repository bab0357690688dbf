//! Reading older records from disk: one read at a time, for all consumers of a subscription.
//!
//! A read belongs to the subscription. It ends whether or not the consumer that began it ever
//! asks again, and whoever asks next is served from what was read.

use std::sync::Arc;

use domain::delivery::ConsumerId;
use storage::{Batch, Error, Result};

use super::{State, Subscription};

#[derive(Default)]
pub(super) struct Fetch {
    is_reading: bool,
    /// Who began the read and has not asked since it ended: nobody else reads elsewhere before
    /// that, or two consumers could take each other's records away for ever.
    reader: Option<ConsumerId>,
    /// What was read last. Dropped when nobody is there to take more of it, so that a slow
    /// consumer pins nothing.
    read: Option<Batch>,
    /// Why the read failed, to be told to its reader.
    error: Option<Error>,
}

impl Fetch {
    /// What was read.
    pub(super) fn read(&self) -> Option<&Batch> {
        self.read.as_ref()
    }

    /// Whether `consumer` may read now.
    pub(super) fn may_start(&self, consumer: ConsumerId) -> bool {
        !self.is_reading && self.reader.is_none_or(|reader| reader == consumer)
    }

    /// Whether nobody reads, nor has a right to what was read before all others.
    fn is_free(&self) -> bool {
        !self.is_reading && self.reader.is_none()
    }

    /// `consumer` begins a read.
    pub(super) fn start(&mut self, consumer: ConsumerId) {
        *self = Self { is_reading: true, reader: Some(consumer), read: None, error: None };
    }

    /// Whether `consumer` began the read that is under way.
    pub(super) fn is_for(&self, consumer: ConsumerId) -> bool {
        self.is_reading && self.reader == Some(consumer)
    }

    /// `consumer` asks. An error if that is what became of its read.
    pub(super) fn look(&mut self, consumer: ConsumerId) -> Result<()> {
        if self.is_reading || self.reader != Some(consumer) {
            return Ok(());
        }
        self.reader = None;
        self.error.take().map_or(Ok(()), Err)
    }

    /// `consumer` is gone, or does not ask.
    pub(super) fn forget(&mut self, consumer: ConsumerId) {
        if self.reader == Some(consumer) {
            self.reader = None;
        }
    }

    /// Drops what was read.
    pub(super) fn drop_read(&mut self) {
        self.read = None;
    }

    /// The read ended. Returns its reader, if there is one still.
    fn end(&mut self, outcome: Result<Batch>) -> Option<ConsumerId> {
        self.is_reading = false;
        match outcome {
            Ok(batch) => self.read = Some(batch),
            Err(error) => self.error = Some(error),
        }
        self.reader
    }
}

impl Subscription {
    /// The read that was begun has ended.
    pub(crate) fn end_fetch(self: &Arc<Self>, outcome: Result<Batch>) {
        if let Ok(batch) = &outcome {
            self.runtime.damaged.note(self.topic.id(), &batch.damaged);
        }
        let mut state = self.state.lock();
        match state.fetch.end(outcome) {
            Some(reader) => state.waiters.call(reader),
            None if state.waiters.in_line() == 0 => state.fetch.drop_read(),
            None => state.waiters.wake_any(),
        }
        self.keep_watch(&mut state);
    }

    /// What was read is dropped; `waiting`, who waits perhaps, wants nothing from disk for now.
    pub(crate) fn let_go_fetch(self: &Arc<Self>, waiting: Option<ConsumerId>) {
        let mut state = self.state.lock();
        state.fetch.drop_read();
        if let Some(consumer) = waiting {
            state.fetch.forget(consumer);
            state.waiters.leave_disk(consumer);
        }
        state.pass_disk_on();
        self.keep_watch(&mut state);
    }
}

impl State {
    /// Nobody reads from disk: whoever waited for that may look again.
    pub(super) fn pass_disk_on(&mut self) {
        if self.fetch.is_free() {
            self.waiters.wake_one_for_disk();
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Offset, OffsetRange};

    use super::*;

    const READER: ConsumerId = ConsumerId(1);
    const OTHER: ConsumerId = ConsumerId(2);

    fn batch() -> Batch {
        let covered = OffsetRange { from: Offset(1), to: Offset(2) };
        Batch { covered, records: Vec::new(), damaged: Vec::new() }
    }

    #[test]
    fn nobody_reads_elsewhere_before_the_reader_has_looked() {
        let mut fetch = Fetch::default();
        assert!(fetch.may_start(OTHER));
        fetch.start(READER);
        assert!(!fetch.may_start(OTHER) && !fetch.may_start(READER), "one read at a time");
        assert_eq!(fetch.end(Ok(batch())), Some(READER));
        assert!(fetch.look(OTHER).is_ok());
        assert!(!fetch.may_start(OTHER) && fetch.read().is_some());
        assert!(fetch.look(READER).is_ok());
        assert!(fetch.may_start(OTHER) && fetch.read().is_some(), "there for all");
    }

    #[test]
    fn a_reader_that_is_gone_or_silent_keeps_no_right() {
        let mut fetch = Fetch::default();
        fetch.start(READER);
        fetch.forget(READER);
        assert!(!fetch.may_start(OTHER), "it is still read");
        assert_eq!(fetch.end(Ok(batch())), None);
        assert!(fetch.may_start(OTHER));
    }

    #[test]
    fn an_error_is_told_to_the_reader_and_to_nobody_else() {
        let mut fetch = Fetch::default();
        fetch.start(READER);
        fetch.end(Err(Error::Full));
        assert!(fetch.look(OTHER).is_ok());
        assert!(fetch.look(READER).is_err());
        assert!(fetch.look(READER).is_ok(), "told once");
    }
}

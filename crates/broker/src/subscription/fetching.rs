//! Reading older records from disk: one read at a time, for all consumers of a subscription.
//!
//! A read belongs to the subscription, and whoever asks next is served from what was read. As long
//! as the consumer that began it waits for it, the read is looked at where it asks, which spares a
//! task and a wake-up for each. Once it waits for something else, or others wait for it and it does
//! not ask, a task of its own sees the read to its end.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use domain::delivery::ConsumerId;
use storage::{Batch, Error, Result};

use super::{State, Subscription};
use crate::spawn;

/// A read in the making.
type Read = storage::Future<Result<Batch>>;

#[derive(Default)]
pub(super) struct Fetch {
    reading: Reading,
    /// Who began the read and has not asked since it ended: nobody else reads elsewhere before
    /// that, or two consumers could take each other's records away for ever.
    reader: Option<ConsumerId>,
    /// What was read last. Dropped when nobody is there to take more of it, so that a slow
    /// consumer pins nothing.
    read: Option<Batch>,
    /// Why the read failed, to be told to its reader.
    error: Option<Error>,
}

#[derive(Default)]
enum Reading {
    #[default]
    Nothing,
    /// Looked at when the reader asks.
    ByReader(Read),
    /// A task looks at it.
    ByTask,
}

impl Fetch {
    /// What was read.
    pub(super) fn read(&self) -> Option<&Batch> {
        self.read.as_ref()
    }

    /// Whether `consumer` may read now.
    pub(super) fn may_start(&self, consumer: ConsumerId) -> bool {
        !self.is_reading() && self.reader.is_none_or(|reader| reader == consumer)
    }

    fn is_reading(&self) -> bool {
        !matches!(self.reading, Reading::Nothing)
    }

    /// Whether nobody reads, nor has a right to what was read before all others.
    fn is_free(&self) -> bool {
        !self.is_reading() && self.reader.is_none()
    }

    /// `consumer` begins a read.
    pub(super) fn start(&mut self, consumer: ConsumerId, read: Read) {
        let reading = Reading::ByReader(read);
        *self = Self { reading, reader: Some(consumer), read: None, error: None };
    }

    /// Whether `consumer` began the read that is under way.
    pub(super) fn is_for(&self, consumer: ConsumerId) -> bool {
        self.is_reading() && self.reader == Some(consumer)
    }

    /// What became of the read that `consumer` began and looks at; if it goes on, `waker` is
    /// called when it ends.
    pub(super) fn poll(&mut self, consumer: ConsumerId, waker: &Waker) -> Option<Result<Batch>> {
        match &mut self.reading {
            Reading::ByReader(read) if self.reader == Some(consumer) => {
                match read.as_mut().poll(&mut Context::from_waker(waker)) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                }
            }
            _ => None,
        }
    }

    /// `consumer` asks. An error if that is what became of its read.
    pub(super) fn look(&mut self, consumer: ConsumerId) -> Result<()> {
        if self.is_reading() || self.reader != Some(consumer) {
            return Ok(());
        }
        self.reader = None;
        self.error.take().map_or(Ok(()), Err)
    }

    /// Who must ask again for the read to go on.
    fn depends_on(&self) -> Option<ConsumerId> {
        self.reader.filter(|_| matches!(self.reading, Reading::ByReader(_)))
    }

    /// `consumer` is gone, or does not ask. A read that only it looks at is dropped.
    pub(super) fn forget(&mut self, consumer: ConsumerId) {
        if self.depends_on() == Some(consumer) {
            self.reading = Reading::Nothing;
        }
        if self.reader == Some(consumer) {
            self.reader = None;
        }
    }

    /// Drops what was read.
    pub(super) fn drop_read(&mut self) {
        self.read = None;
    }

    /// The read, for a task to see to its end.
    fn take_over(&mut self) -> Option<Read> {
        match std::mem::replace(&mut self.reading, Reading::ByTask) {
            Reading::ByReader(read) => Some(read),
            before => {
                self.reading = before;
                None
            }
        }
    }

    /// The read ended. Returns its reader, if there is one still.
    fn end(&mut self, outcome: Result<Batch>) -> Option<ConsumerId> {
        self.reading = Reading::Nothing;
        match outcome {
            Ok(batch) => self.read = Some(batch),
            Err(error) => self.error = Some(error),
        }
        self.reader
    }
}

impl Subscription {
    /// Others wait for a read that its reader may never look at again: a task sees to its end.
    pub(super) fn finish_fetch(self: &Arc<Self>, state: &mut State) {
        if let Some(read) = state.fetch.take_over() {
            let subscription = Arc::clone(self);
            drop(spawn::named("disk read", async move { subscription.end_fetch(read.await) }));
        }
    }

    /// The same, if `consumer` began the read.
    pub(super) fn finish_fetch_of(self: &Arc<Self>, state: &mut State, consumer: ConsumerId) {
        if state.fetch.depends_on() == Some(consumer) {
            self.finish_fetch(state);
        }
    }

    /// `consumer` is gone or wants nothing from disk for now. What it had begun to read is for
    /// others, where there are any.
    pub(super) fn leave_fetch(self: &Arc<Self>, state: &mut State, consumer: ConsumerId) {
        if state.waiters.has_others_in_line(consumer) {
            self.finish_fetch_of(state, consumer);
        }
        state.fetch.forget(consumer);
    }

    /// The consumer that asks may have begun a read that has ended.
    pub(super) fn look_at_fetch(
        &self,
        state: &mut State,
        consumer: ConsumerId,
        waker: &Waker,
    ) -> Result<()> {
        if let Some(outcome) = state.fetch.poll(consumer, waker) {
            self.take_read(state, outcome);
        }
        state.fetch.look(consumer)
    }

    /// A read has ended. Returns its reader, if there is one still.
    pub(super) fn take_read(
        &self,
        state: &mut State,
        outcome: Result<Batch>,
    ) -> Option<ConsumerId> {
        if let Ok(batch) = &outcome {
            self.runtime.damaged.note(self.topic.id(), &batch.damaged);
        }
        state.fetch.end(outcome)
    }

    /// The read that a task saw to its end has ended.
    fn end_fetch(self: &Arc<Self>, outcome: Result<Batch>) {
        let mut state = self.state.lock();
        match self.take_read(&mut state, outcome) {
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
            self.leave_fetch(&mut state, consumer);
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

    /// Whether somebody depends soon on a check of consumers that do not ask.
    pub(super) fn needs_check(&self) -> bool {
        let reader = self.fetch.depends_on();
        reader.is_some_and(|reader| self.waiters.has_others_in_line(reader))
            || self.waiters.needs_check()
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

    fn never() -> Read {
        Box::pin(std::future::pending())
    }

    #[test]
    fn nobody_reads_elsewhere_before_the_reader_has_looked() {
        let mut fetch = Fetch::default();
        assert!(fetch.may_start(OTHER));
        fetch.start(READER, never());
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
        fetch.start(READER, never());
        assert!(fetch.take_over().is_some(), "others wait for it");
        fetch.forget(READER);
        assert!(!fetch.may_start(OTHER), "it is still read");
        assert_eq!(fetch.end(Ok(batch())), None);
        assert!(fetch.may_start(OTHER));
    }

    #[test]
    fn a_read_that_only_its_reader_looks_at_goes_with_it() {
        let mut fetch = Fetch::default();
        fetch.start(READER, never());
        assert_eq!(fetch.depends_on(), Some(READER));
        fetch.forget(OTHER);
        assert!(!fetch.may_start(OTHER));
        fetch.forget(READER);
        assert!(fetch.may_start(OTHER) && fetch.take_over().is_none());
    }

    #[test]
    fn a_read_ends_where_its_reader_asks_and_nowhere_else() {
        let mut fetch = Fetch::default();
        fetch.start(READER, Box::pin(std::future::ready(Ok(batch()))));
        assert!(fetch.poll(OTHER, Waker::noop()).is_none());
        let outcome = fetch.poll(READER, Waker::noop()).expect("it was ready");
        assert_eq!(fetch.end(outcome), Some(READER));
        assert!(fetch.look(READER).is_ok() && fetch.read().is_some());
    }

    #[test]
    fn an_error_is_told_to_the_reader_and_to_nobody_else() {
        let mut fetch = Fetch::default();
        fetch.start(READER, never());
        fetch.end(Err(Error::Full));
        assert!(fetch.look(OTHER).is_ok());
        assert!(fetch.look(READER).is_err());
        assert!(fetch.look(READER).is_ok(), "told once");
    }
}

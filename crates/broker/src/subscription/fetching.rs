//! Reading older records from disk: one read at a time, for all consumers of a subscription.
//!
//! A read belongs to the subscription, and whoever asks next is served from what was read. As long
//! as the consumer that began it waits for it, the read is looked at where it asks, which spares a
//! task and a wake-up for each. Once it waits for something else, or others wait for it and it does
//! not ask, a separate task sees the read to its end.
//!
//! Where several consumers take from what was read, the next part is read ahead by a task: the disk
//! works while they deliver. Whoever needs that part takes it, or waits for it as its reader.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use domain::Offset;
use domain::delivery::ConsumerId;
use storage::{Batch, Error, ReadLimit, Result, TailRead};

use super::{State, Subscription};
use clock::tasks;

/// A read in the making.
type Read = storage::Future<Result<Batch>>;

#[derive(Default)]
pub(super) struct Fetch {
    reading: Reading,
    /// Who began the read and has not asked since it ended: nobody else reads elsewhere before
    /// that, or two consumers could take each other's records away forever.
    reader: Option<ConsumerId>,
    /// What was read last. Dropped when nobody is there to take more of it, so that a slow
    /// consumer pins nothing.
    read: Option<Batch>,
    /// Why the read failed, to be told to its reader.
    error: Option<Error>,
    /// The part behind what was read.
    ahead: Option<Ahead>,
}

enum Ahead {
    /// A task reads it. `has_reader` once a consumer waits for it.
    Reading { from: Offset, has_reader: bool },
    /// It is there.
    Read(Batch),
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
        *self = Self { reading, reader: Some(consumer), ..Self::default() };
    }

    /// Where to read ahead; `None` = not now.
    fn ahead_from(&self) -> Option<Offset> {
        let next = self.read.as_ref().map(|batch| batch.covered.to);
        next.filter(|_| self.ahead.is_none() && !self.is_reading())
    }

    /// Takes the part that was read ahead, if it holds `from`.
    pub(super) fn take_ahead(&mut self, from: Offset) -> bool {
        match self.ahead.take() {
            Some(Ahead::Read(batch)) if batch.covered.contains(from) => {
                self.read = Some(batch);
                true
            }
            other => {
                self.ahead = other;
                false
            }
        }
    }

    /// `consumer` waits as its reader for the part at `from`, if that is read ahead.
    pub(super) fn join_ahead(&mut self, consumer: ConsumerId, from: Offset) -> bool {
        match &mut self.ahead {
            Some(Ahead::Reading { from: at, has_reader }) if *at == from => {
                *has_reader = true;
                self.reading = Reading::ByTask;
                (self.reader, self.read, self.error) = (Some(consumer), None, None);
                true
            }
            _ => false,
        }
    }

    /// The part at `from` was read ahead. Returns what came of it if a consumer waits for it.
    fn end_ahead(&mut self, from: Offset, outcome: Result<Batch>) -> Option<Result<Batch>> {
        match self.ahead.take() {
            Some(Ahead::Reading { from: at, has_reader }) if at == from => match outcome {
                outcome if has_reader => return Some(outcome),
                Ok(batch) => self.ahead = Some(Ahead::Read(batch)),
                // Whoever reads it for itself is told.
                Err(_) => {}
            },
            other => self.ahead = other,
        }
        None
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

    /// Drops what was read, and what was read ahead if nobody waits for it.
    pub(super) fn drop_read(&mut self) {
        self.read = None;
        if !matches!(self.ahead, Some(Ahead::Reading { has_reader: true, .. })) {
            self.ahead = None;
        }
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
            drop(tasks::spawn("disk read", async move { subscription.end_fetch(read.await) }));
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
        self.hand_out_read(&mut self.state.lock(), outcome);
    }

    fn hand_out_read(self: &Arc<Self>, state: &mut State, outcome: Result<Batch>) {
        match self.take_read(state, outcome) {
            Some(reader) => state.waiters.call(reader),
            None if state.waiters.in_line() == 0 => state.fetch.drop_read(),
            None => state.waiters.wake_any(),
        }
        self.keep_watch(state);
    }

    /// Reads ahead what those in line will want next, if that is on disk.
    pub(super) fn read_ahead(self: &Arc<Self>, state: &mut State, limit: ReadLimit) {
        const ONE: ReadLimit = ReadLimit { records: 1, bytes: 0 };
        let Some(from) = state.fetch.ahead_from() else { return };
        let (log, topic) = (&self.runtime.log, self.topic.id());
        if !matches!(log.read_tail(topic, from, ONE), TailRead::NotInMemory) {
            return;
        }
        let read = log.read(topic, from, limit);
        state.fetch.ahead = Some(Ahead::Reading { from, has_reader: false });
        let subscription = Arc::clone(self);
        drop(tasks::spawn("disk read ahead", async move {
            subscription.end_ahead(from, read.await);
        }));
    }

    fn end_ahead(self: &Arc<Self>, from: Offset, outcome: Result<Batch>) {
        let mut state = self.state.lock();
        if let Ok(batch) = &outcome {
            self.runtime.damaged.note(self.topic.id(), &batch.damaged);
        }
        if let Some(outcome) = state.fetch.end_ahead(from, outcome) {
            self.hand_out_read(&mut state, outcome);
        } else if state.waiters.in_line() == 0 {
            state.fetch.drop_read();
        }
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

    /// Whether someone depends soon on a check of consumers that do not ask.
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

    fn batch_of(from: u64, to: u64) -> Batch {
        let covered = OffsetRange { from: Offset(from), to: Offset(to) };
        Batch { covered, records: Vec::new(), damaged: Vec::new() }
    }

    /// What was read is [1, 2), and a task reads on from 2.
    fn reading_ahead() -> Fetch {
        let mut fetch = Fetch::default();
        fetch.start(READER, never());
        assert_eq!(fetch.ahead_from(), None, "one read at a time");
        fetch.end(Ok(batch()));
        assert!(fetch.look(READER).is_ok());
        assert_eq!(fetch.ahead_from(), Some(Offset(2)));
        fetch.ahead = Some(Ahead::Reading { from: Offset(2), has_reader: false });
        assert_eq!(fetch.ahead_from(), None, "one part ahead");
        fetch
    }

    #[test]
    fn a_part_that_was_read_ahead_is_taken_by_who_needs_it() {
        let mut fetch = reading_ahead();
        assert!(!fetch.take_ahead(Offset(2)), "it is not there yet");
        assert!(fetch.end_ahead(Offset(2), Ok(batch_of(2, 9))).is_none());
        assert!(!fetch.take_ahead(Offset(9)) && fetch.take_ahead(Offset(5)));
        assert_eq!(fetch.read().map(|batch| batch.covered.to), Some(Offset(9)));
        assert_eq!(fetch.ahead_from(), Some(Offset(9)));
    }

    #[test]
    fn who_needs_the_part_that_is_read_ahead_becomes_its_reader() {
        let mut fetch = reading_ahead();
        assert!(!fetch.join_ahead(OTHER, Offset(7)), "that is elsewhere");
        assert!(fetch.join_ahead(OTHER, Offset(2)));
        assert!(fetch.is_for(OTHER) && !fetch.may_start(READER));
        fetch.drop_read();
        let outcome = fetch.end_ahead(Offset(2), Ok(batch_of(2, 9))).expect("it is waited for");
        assert_eq!(fetch.end(outcome), Some(OTHER));
        assert!(fetch.look(OTHER).is_ok() && fetch.read().is_some());
    }

    #[test]
    fn what_is_read_ahead_in_vain_is_dropped() {
        let mut fetch = reading_ahead();
        fetch.start(OTHER, never());
        assert!(fetch.end_ahead(Offset(2), Ok(batch_of(2, 9))).is_none());
        assert!(!fetch.take_ahead(Offset(2)), "somebody reads elsewhere");
        let mut fetch = reading_ahead();
        fetch.drop_read();
        assert!(fetch.end_ahead(Offset(2), Ok(batch_of(2, 9))).is_none());
        assert!(!fetch.take_ahead(Offset(2)), "nobody is there to take it");
        let mut fetch = reading_ahead();
        assert!(fetch.end_ahead(Offset(2), Err(Error::Full)).is_none());
        assert_eq!(fetch.ahead_from(), Some(Offset(2)), "it may be tried again");
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

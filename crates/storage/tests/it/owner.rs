//! Who runs the topics in these tests, as a broker would, and writes down what happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::progress::Attempt;
use domain::{Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, Timestamp, TopicId};
use futures::FutureExt;
use parking_lot::Mutex;
use storage::{
    Append, Checkpoint, Commit, Error, Keep, Kind, Need, Position, Receipt, Result, Trimmed,
    Urgency,
};

use crate::bed::Running;
use crate::history::{History, ones, record};

pub(crate) struct Owner {
    pub(crate) engine: Running,
    pub(crate) history: Arc<History>,
    pub(crate) topics: Vec<Topic>,
    pub(crate) subscriptions: Vec<Subscription>,
    /// Makes every message different, and time pass.
    messages: u64,
    /// What was refused or failed, in order.
    pub(crate) errors: Vec<Error>,
}

#[derive(Clone)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) first: Offset,
    pub(crate) next: Offset,
}

#[derive(Clone)]
pub(crate) struct Subscription {
    pub(crate) id: SubscriptionId,
    pub(crate) topic: usize,
    /// Shared with chores, which look at it when they need it.
    progress: Arc<Mutex<Progress>>,
}

impl Subscription {
    pub(crate) fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }
}

/// A commit whose answer is not known yet.
pub(crate) struct Pending {
    step: usize,
    topics: Vec<(usize, u64)>,
    /// Progress before the commit, to go back to if it is refused.
    before: Vec<(usize, Progress)>,
    urgency: Urgency,
    receipt: Receipt,
}

const FIRST: Offset = Offset(1_000_000);

impl Owner {
    pub(crate) fn new(engine: Running) -> Self {
        let history = Arc::new(History::default());
        let (topics, subscriptions, errors) = (Vec::new(), Vec::new(), Vec::new());
        Self { engine, history, topics, subscriptions, messages: 0, errors }
    }

    /// Defines and begins a topic.
    pub(crate) async fn create_topic(&mut self, name: &str) -> Result<usize> {
        let entry = self.engine.catalogue.put(Kind::Topic, name, Bytes::new(), None).await?;
        let id = TopicId(entry.id);
        let claim = self.engine.log.begin(id, FIRST).await?;
        self.history.topic(id, FIRST);
        self.topics.push(Topic { id, first: FIRST, next: claim.next });
        Ok(self.topics.len() - 1)
    }

    /// Defines a subscription at the end of a topic.
    pub(crate) async fn subscribe(&mut self, name: &str, topic: usize) -> Result<usize> {
        let entry = self.engine.catalogue.put(Kind::Subscription, name, Bytes::new(), None).await?;
        let id = SubscriptionId(entry.id);
        let progress = Progress::starting_at(self.topics[topic].next);
        self.history.subscription(id, self.topics[topic].id, progress.clone());
        let progress = Arc::new(Mutex::new(progress));
        self.subscriptions.push(Subscription { id, topic, progress });
        Ok(self.subscriptions.len() - 1)
    }

    /// Goes on with an engine that was opened anew; says so if it does not know all it should.
    pub(crate) async fn go_on_with(&mut self, engine: Running) -> Result<(), String> {
        self.engine = engine;
        self.history.find_fault(&self.engine, self.history.mark()).await?;
        for topic in &mut self.topics {
            let claim = self.engine.log.begin(topic.id, topic.first).await;
            topic.next = claim.map_err(|error| error.to_string())?.next;
        }
        Ok(())
    }

    fn append(&mut self, topic: usize, sizes: &[usize]) -> Append {
        let mut records = Vec::new();
        for size in sizes {
            self.messages += 1;
            records.push(record(self.messages, *size));
        }
        let topic = &mut self.topics[topic];
        let first = topic.next;
        topic.next = first.plus(records.len() as u64);
        Append { topic: topic.id, first, records }
    }

    /// Queues a commit of appends by topic and changes by subscription.
    ///
    /// The subscriptions stay locked until it is queued: whoever sees the change can rely on its
    /// being in front of whatever is queued later (LOG-2).
    pub(crate) fn queue(
        &mut self,
        appends: &[(usize, &[usize])],
        changes: Vec<(usize, ProgressChange)>,
        urgency: Urgency,
    ) -> Pending {
        let topics = appends.iter().map(|(topic, sizes)| (*topic, sizes.len() as u64)).collect();
        let appends = appends.iter().map(|(topic, sizes)| self.append(*topic, sizes)).collect();
        let mut commit = Commit { appends, progress: Vec::new(), urgency };
        let (mut before, mut locked) = (Vec::new(), Vec::new());
        for (place, change) in changes {
            let subscription = &self.subscriptions[place];
            let mut progress = subscription.progress.lock();
            before.push((place, progress.clone()));
            progress.apply(&change);
            locked.push(progress);
            commit.progress.push((subscription.id, change));
        }
        let step = self.history.sent(&commit);
        Pending { step, topics, before, urgency, receipt: self.engine.log.commit(commit) }
    }

    /// Waits for the answer and writes it down.
    pub(crate) async fn settle(&mut self, pending: Pending) -> Result<Position> {
        let answer = pending.receipt.await;
        match &answer {
            Ok(_) if pending.urgency == Urgency::Durable => self.history.answered(pending.step),
            Ok(_) => {}
            Err(error) => {
                self.errors.push(error.clone());
                if !matches!(error, Error::Indeterminate(_)) {
                    self.history.refused(pending.step);
                    for (topic, count) in pending.topics {
                        self.topics[topic].next.0 -= count;
                    }
                    for (subscription, progress) in pending.before {
                        *self.subscriptions[subscription].progress.lock() = progress;
                    }
                }
            }
        }
        answer
    }

    pub(crate) async fn publish(&mut self, topic: usize, sizes: &[usize]) -> Result<Position> {
        let pending = self.queue(&[(topic, sizes)], Vec::new(), Urgency::Durable);
        self.settle(pending).await
    }

    pub(crate) async fn change_progress(
        &mut self,
        subscription: usize,
        change: ProgressChange,
        urgency: Urgency,
    ) -> Result<Position> {
        let pending = self.queue(&[], vec![(subscription, change)], urgency);
        self.settle(pending).await
    }

    /// Acks the unacked records of a subscription that stand at these places.
    pub(crate) async fn ack(
        &mut self,
        subscription: usize,
        places: &[usize],
        urgency: Urgency,
    ) -> Result<Position> {
        let settled = ProgressChange::Settled(ones(&self.unacked_at(subscription, places)));
        self.change_progress(subscription, settled, urgency).await
    }

    pub(crate) async fn try_first(&mut self, subscription: usize, count: u32) -> Result<Position> {
        let offsets = self.unacked_at(subscription, &[0]);
        let attempt = Attempt { count, due: Timestamp(7) };
        let tried = offsets.into_iter().map(|offset| (offset, attempt)).collect();
        self.change_progress(subscription, ProgressChange::Attempts(tried), Urgency::Ride).await
    }

    /// Moves the first unacked record of a subscription to another topic, in one commit.
    pub(crate) async fn dead_letter(&mut self, subscription: usize, to: usize) -> Result<Position> {
        let settled = ProgressChange::Settled(ones(&self.unacked_at(subscription, &[0])));
        let changes = vec![(subscription, settled)];
        let pending = self.queue(&[(to, &[90])], changes, Urgency::Durable);
        self.settle(pending).await
    }

    /// Seeks to the end.
    pub(crate) async fn seek_to_end(&mut self, subscription: usize) -> Result<Position> {
        let end = self.topics[self.subscriptions[subscription].topic].next;
        let target = ProgressChange::Replaced(Box::new(Progress::starting_at(end)));
        self.change_progress(subscription, target, Urgency::Durable).await
    }

    /// The unacked offsets of a subscription that stand at these places.
    pub(crate) fn unacked_at(&self, subscription: usize, places: &[usize]) -> Vec<Offset> {
        let subscription = &self.subscriptions[subscription];
        let progress = subscription.progress.lock();
        let to = self.topics[subscription.topic].next;
        let range = OffsetRange { from: progress.cursor(), to };
        let ranges = progress.unacked_in(range);
        let unacked: Vec<_> =
            ranges.iter().flat_map(|range| range.from.0..range.to.0).map(Offset).collect();
        places.iter().filter_map(|place| unacked.get(*place)).copied().collect()
    }

    pub(crate) async fn define(&mut self, name: &str) -> Result<()> {
        let defined = self.engine.catalogue.put(Kind::Schema, name, Bytes::new(), None).await;
        match defined {
            Ok(_) => self.history.defined(name),
            Err(ref error) => self.errors.push(error.clone()),
        }
        defined.map(drop)
    }

    /// Saves all progress.
    pub(crate) async fn checkpoint(&mut self) -> Result<()> {
        let saved = self.checkpoint_chore().await;
        saved.inspect_err(|error| self.errors.push(error.clone()))
    }

    /// Trims what no subscription needs, by what this owner knows, durable or not.
    pub(crate) async fn trim(&mut self) -> Result<Trimmed> {
        let trimmed = self.trim_chore().await;
        trimmed.inspect_err(|error| self.errors.push(error.clone()))
    }

    /// A checkpoint as of now, to be run beside other things.
    ///
    /// The position is taken before the progress, which therefore contains all frames up to it;
    /// the barrier makes durable what the progress contains beyond it.
    pub(crate) fn checkpoint_chore(&self) -> storage::Future<Result<()>> {
        let position = self.engine.log.position();
        let progress = self.subscriptions.iter().map(|one| (one.id, one.progress())).collect();
        let checkpoint = Checkpoint { position, progress, forgotten: Vec::new(), clock: None };
        let engine = self.engine.clone();
        let barrier = engine.log.commit(Commit::barrier());
        async move {
            barrier.await?;
            engine.progress.checkpoint(checkpoint).await
        }
        .boxed()
    }

    /// A trim to be run beside other things.
    pub(crate) fn trim_chore(&self) -> storage::Future<Result<Trimmed>> {
        let mut needs = Unacked::default();
        for subscription in &self.subscriptions {
            let topic = self.topics[subscription.topic].id;
            needs.0.entry(topic).or_default().push(Arc::clone(&subscription.progress));
        }
        self.engine.log.trim(Arc::new(needs))
    }
}

/// Needs what some subscription has not acked at the moment it is asked.
#[derive(Default)]
pub(crate) struct Unacked(BTreeMap<TopicId, Vec<Arc<Mutex<Progress>>>>);

impl Unacked {
    /// Needs what one of these has not acked of one topic.
    pub(crate) fn by(topic: TopicId, readers: Vec<Progress>) -> Self {
        let readers = readers.into_iter().map(|reader| Arc::new(Mutex::new(reader))).collect();
        Self(BTreeMap::from([(topic, readers)]))
    }
}

impl Keep for Unacked {
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Need {
        let readers = self.0.get(&topic).map_or(&[][..], Vec::as_slice);
        let unacked = |reader: &Arc<Mutex<Progress>>| reader.lock().unacked_in(range);
        let mut all: Vec<_> = readers.iter().flat_map(unacked).collect();
        all.sort_unstable_by_key(|range| range.from);
        let mut needed: Vec<OffsetRange> = Vec::new();
        for range in all {
            match needed.last_mut() {
                Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
                _ => needed.push(range),
            }
        }
        Need::Only(needed)
    }
}

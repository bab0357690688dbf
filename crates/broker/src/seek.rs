//! Moving a subscription within its topic: back, forward, or to a snapshot; and where a new one
//! starts. It gets back what retention keeps for it, and nothing else.

use std::sync::Arc;

use domain::kept::{Kept, OwnAcked};
use domain::subscription::Start;
use domain::{Invalid, Offset, Progress, SnapshotName, SubscriptionName, Timestamp};

use crate::error::Result;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::subscription::Subscription;
use crate::topic::{Hold, Topic};

/// Where a subscription should continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// At the first message published at this time or later: everything before counts as acked. Of
    /// what it has acked from there on, it gets again what its topic, a snapshot, or
    /// `retain_acked_messages` keeps. A time in the future acks everything there is.
    Time(Timestamp),
    /// As it was when this snapshot was taken. It must belong to the same topic.
    Snapshot(SnapshotName),
}

/// What a topic keeps now, whoever has acked it.
struct KeptNow {
    by_topic: Option<Offset>,
    by_snapshots: Vec<Arc<Hold>>,
}

impl KeptNow {
    /// Calls `use_it` with this and what a subscription keeps on its own.
    fn with<T>(&self, by_itself: Option<OwnAcked<'_>>, use_it: impl FnOnce(&Kept<'_>) -> T) -> T {
        let snapshots: Vec<&Progress> =
            self.by_snapshots.iter().map(|one| one.progress()).collect();
        use_it(&Kept { by_topic: self.by_topic, by_itself, by_snapshots: &snapshots })
    }
}

/// Moves subscriptions.
pub(crate) struct Seeker {
    registry: Arc<Registry>,
    push: Arc<Scheduler>,
}

impl Seeker {
    pub(crate) fn new(registry: Arc<Registry>, push: Arc<Scheduler>) -> Self {
        Self { registry, push }
    }

    /// Moves a subscription to another point. Durable when it returns; ack ids issued before no
    /// longer count.
    pub(crate) async fn seek(&self, name: &SubscriptionName, target: SeekTarget) -> Result<()> {
        let subscription = self.registry.subscription(name)?;
        subscription.topic().runtime().check_serving()?;
        let receipt = match target {
            SeekTarget::Time(time) => self.seek_to(&subscription, time).await?,
            SeekTarget::Snapshot(name) => {
                let progress = self.progress_of(&subscription, &name)?;
                subscription.seek(|_, _, _| progress)?
            }
        };
        self.push.look_at(&subscription);
        receipt.await?;
        Ok(())
    }

    async fn seek_to(
        &self,
        subscription: &Arc<Subscription>,
        time: Timestamp,
    ) -> Result<storage::Receipt> {
        let topic = subscription.topic();
        let Runtime { log, guard, .. } = &**topic.runtime();
        // Only visible offsets are ever named: they are durable.
        let to = log.offset_at(topic.id(), time).await?;
        let kept = self.kept_now(topic).await?;
        let own_since = guard.retention_now().minus(subscription.settings().message_retention);
        let own_from = log.offset_at(topic.id(), own_since).await?.max(subscription.first());
        subscription.seek(|current, retains, gone| {
            let by_itself = retains.then_some(OwnAcked { from: own_from, gone });
            kept.with(by_itself, |kept| kept.sought(current, to))
        })
    }

    async fn kept_now(&self, topic: &Topic) -> Result<KeptNow> {
        let Runtime { log, guard, .. } = &**topic.runtime();
        let by_topic = match topic.keeps_since(guard.retention_now()) {
            Some(since) => Some(log.offset_at(topic.id(), since).await?),
            None => None,
        };
        Ok(KeptNow { by_topic, by_snapshots: topic.holds() })
    }

    /// Where a new subscription on `topic` starts.
    pub(crate) async fn progress_from(&self, start: Start, topic: &Topic) -> Result<Progress> {
        let log = topic.log();
        let end = log.end(topic.id());
        let to = match start {
            Start::Latest => end,
            Start::Earliest => topic.first().min(end),
            Start::Time(time) => log.offset_at(topic.id(), time).await?.min(end),
            Start::Offset(offset) if offset <= end => offset,
            Start::Offset(offset) => {
                let problem =
                    format!("offset {offset} is past the end of the topic, which is {end}");
                return Err(Invalid::new("postrider.start", problem).into());
            }
        };
        let kept = self.kept_now(topic).await?;
        Ok(kept.with(None, |kept| kept.sought(&Progress::starting_at(end), to)))
    }

    fn progress_of(&self, subscription: &Subscription, name: &SnapshotName) -> Result<Progress> {
        let snapshot = self.registry.snapshot(name)?;
        if snapshot.topic().id() == subscription.topic().id() {
            return Ok(snapshot.progress().clone());
        }
        let (theirs, ours) = (snapshot.topic().name(), subscription.topic().name());
        let what = if theirs == ours { "an earlier topic with that name" } else { "topic" };
        let problem = format!("belongs to {what} {theirs}, but the subscription to topic {ours}");
        Err(Invalid::new("snapshot", problem).into())
    }
}

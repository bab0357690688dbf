//! Sending a subscription elsewhere in its topic: back, forward, or to a snapshot.

use domain::{Invalid, Progress, SnapshotName, SubscriptionName, Timestamp};

use crate::broker::Broker;
use crate::error::Result;
use crate::subscription::Subscription;

/// Where a subscription is to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// At the first message published at this time or later: everything before counts as acked,
    /// everything from there on that is still kept is delivered again. A time to come acks all
    /// that is there.
    Time(Timestamp),
    /// As it was when this snapshot was taken. It must be one of the same topic.
    Snapshot(SnapshotName),
}

impl Broker {
    /// Sends a subscription elsewhere. Durable when it returns; ack ids given out before count
    /// no more.
    pub async fn seek(&self, name: &SubscriptionName, target: SeekTarget) -> Result<()> {
        self.runtime.check_serving()?;
        let subscription = self.subscription(name)?;
        let progress = match target {
            SeekTarget::Time(time) => self.progress_at(&subscription, time).await?,
            SeekTarget::Snapshot(name) => self.progress_of(&subscription, &name)?,
        };
        let receipt = subscription.seek(progress)?;
        self.push.look_at(&subscription);
        receipt.await?;
        Ok(())
    }

    /// Only visible offsets are ever named: they are durable.
    async fn progress_at(&self, subscription: &Subscription, time: Timestamp) -> Result<Progress> {
        let topic = subscription.topic().id();
        Ok(Progress::starting_at(self.runtime.log.offset_at(topic, time).await?))
    }

    fn progress_of(&self, subscription: &Subscription, name: &SnapshotName) -> Result<Progress> {
        let snapshot = self.snapshot(name)?;
        if snapshot.topic().id() == subscription.topic().id() {
            return Ok(snapshot.progress().clone());
        }
        let (theirs, ours) = (snapshot.topic().name(), subscription.topic().name());
        let what = if theirs == ours { "an earlier topic of the name" } else { "topic" };
        let problem = format!("is of {what} {theirs}, and the subscription of topic {ours}");
        Err(Invalid::new("snapshot", problem).into())
    }
}

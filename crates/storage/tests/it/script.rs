//! A short life of a store in which everything happens that touches the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::{Offset, ProgressChange, TopicId};
use storage::{Error, Listener, Result, Urgency};
use tokio::sync::Notify;

use crate::history::ones;
use crate::owner::Owner;

/// Three topics, four subscriptions: the fourth never acks, so its records must be moved.
pub(crate) async fn set_up(owner: &mut Owner) -> Result<()> {
    for name in ["orders", "mails", "dead"] {
        let topic = owner.create_topic(name).await?;
        owner.subscribe(name, topic).await?;
    }
    owner.subscribe("archive", 1).await?;
    Ok(())
}

/// One round: publishes, acks of every kind, a dead letter, a definition, a checkpoint, a trim.
/// Errors are noted by the owner and otherwise ignored: life goes on as far as it can.
pub(crate) async fn round(owner: &mut Owner, number: usize) {
    publish_some(owner, number).await;
    ack_some(owner, number).await;
    drop(owner.define(&format!("schema {number}")).await);
    drop(owner.publish(1, &[4_000, 9_000]).await);
    drop(owner.checkpoint().await);
    drop(owner.ack(1, &[0, 1], Urgency::Ride).await);
    drop(owner.trim().await);
    drop(owner.publish(2, &[17; 3]).await);
}

async fn publish_some(owner: &mut Owner, number: usize) {
    drop(owner.publish(0, &[300, 1_200, 40]).await);
    drop(owner.publish(1, &[5_000 + number]).await);
    // Queued together: they share groups.
    let mut queued = Vec::new();
    for size in [10, 2_000, 30] {
        queued.push(owner.queue(&[(0, &[size, size])], Vec::new(), Urgency::Durable));
        let both: &[(usize, &[usize])] = &[(1, &[size]), (2, &[size + 1])];
        queued.push(owner.queue(both, Vec::new(), Urgency::Durable));
    }
    for pending in queued {
        drop(owner.settle(pending).await);
    }
    drop(owner.publish(0, &[3_500; 6]).await);
}

async fn ack_some(owner: &mut Owner, number: usize) {
    drop(owner.ack(0, &[0, 2, 5], Urgency::Ride).await);
    drop(owner.ack(1, &[1], Urgency::Ride).await);
    drop(owner.try_first(0, 1 + u32::try_from(number).unwrap_or(0)).await);
    drop(owner.ack(0, &[0, 1, 2, 3], Urgency::Durable).await);
    drop(owner.dead_letter(0, 2).await);
    drop(owner.ack(2, &[0, 1, 2], Urgency::Ride).await);
    if number % 2 == 1 {
        drop(owner.seek_to_end(0).await);
    }
}

/// Settles everything of a subscription's topic, so that nothing of it is needed.
pub(crate) async fn ack_all(owner: &mut Owner, subscription: usize) -> Result<()> {
    let topic = &owner.topics[owner.subscriptions[subscription].topic];
    let all: Vec<_> = (topic.first.0..topic.next.0).map(Offset).collect();
    let settled = ProgressChange::Settled(ones(&all));
    owner.change_progress(subscription, settled, Urgency::Durable).await.map(drop)
}

/// Hears what an engine tells.
#[derive(Default)]
pub(crate) struct Ears {
    failed: AtomicUsize,
    pressed: AtomicUsize,
    failure: Notify,
    ends: parking_lot::Mutex<BTreeMap<TopicId, Offset>>,
    heard: Notify,
}

impl Ears {
    pub(crate) fn on(owner: &Owner) -> Arc<Self> {
        let ears = Arc::new(Self::default());
        owner.engine.listen(Arc::clone(&ears) as Arc<dyn Listener>);
        ears
    }

    pub(crate) fn times_failed(&self) -> usize {
        self.failed.load(Ordering::SeqCst)
    }

    pub(crate) fn times_pressed(&self) -> usize {
        self.pressed.load(Ordering::SeqCst)
    }

    /// Whether this is the end that was told last.
    pub(crate) fn has_heard_of(&self, topic: TopicId, end: Offset) -> bool {
        self.ends.lock().get(&topic) == Some(&end)
    }

    /// Waits until this is the end that was told last, which comes after the answer.
    pub(crate) async fn hears_of(&self, topic: TopicId, end: Offset) {
        let told = async {
            while !self.has_heard_of(topic, end) {
                self.heard.notified().await;
            }
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(30), told).await;
        assert!(told.is_ok(), "told {:?} instead of {end}", self.ends.lock().get(&topic));
    }

    /// Waits until the log is said to have failed.
    pub(crate) async fn wait_for_failure(&self) {
        let told = self.failure.notified();
        let told = tokio::time::timeout(std::time::Duration::from_secs(10), told).await;
        assert!(told.is_ok(), "nobody told that the log has failed");
        self.failure.notify_one();
    }
}

impl Listener for Ears {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        self.ends.lock().extend(ends.iter().copied());
        self.heard.notify_one();
    }

    fn pressed(&self) {
        self.pressed.fetch_add(1, Ordering::SeqCst);
    }

    fn stalled(&self, _: bool) {}

    fn failed(&self, _: &Error) {
        self.failed.fetch_add(1, Ordering::SeqCst);
        self.failure.notify_one();
    }
}

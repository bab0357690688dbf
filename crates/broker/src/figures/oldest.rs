//! When the oldest record that is not acked was published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Offset, Timestamp};
use storage::ReadLimit;

use crate::broker::Broker;
use crate::subscription::Subscription;

/// Reads from disk for one look at the figures, at most.
const READS_MAX: usize = 64;

/// The record at a subscription's cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oldest {
    /// The cursor for which it was found.
    pub(crate) cursor: Offset,
    pub(crate) publish_time: Timestamp,
    /// Bytes of its body.
    pub(crate) bytes: u64,
}

/// One record from the cursor on.
pub(crate) const ONE: ReadLimit = ReadLimit { records: 1, bytes: 0 };

/// Looks on disk for those that memory does not know. Each time others come first, so that all
/// have their turn.
pub(super) async fn refresh(broker: &Broker) {
    let all = broker.all_subscriptions();
    if all.is_empty() {
        return;
    }
    let runtime = &broker.runtime;
    let start = runtime.oldest_turn.load(Ordering::Relaxed) % all.len();
    let (before, from) = all.split_at(start);
    let mut reads = 0;
    for (passed, subscription) in from.iter().chain(before).enumerate() {
        let Some(cursor) = subscription.oldest_unknown() else { continue };
        read(broker, subscription, cursor).await;
        reads += 1;
        if reads == READS_MAX {
            runtime.oldest_turn.store(start + passed + 1, Ordering::Relaxed);
            return;
        }
    }
}

async fn read(broker: &Broker, subscription: &Arc<Subscription>, cursor: Offset) {
    let topic = subscription.topic().id();
    // What cannot be read is an error for whoever consumes it, and no figure here.
    let Ok(batch) = broker.runtime.log.read(topic, cursor, ONE).await else { return };
    if let Some(record) = batch.records.first() {
        let bytes = record.body.len() as u64;
        subscription.set_oldest(Oldest { cursor, publish_time: record.publish_time, bytes });
    }
}

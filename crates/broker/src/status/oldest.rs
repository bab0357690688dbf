//! Looks up when the oldest records that are not acked were published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::Offset;

use super::Observer;
use crate::figures::{ONE, Oldest};
use crate::subscription::Subscription;

/// Reads from disk for one look at the figures, at most.
const READS_MAX: usize = 64;

impl Observer {
    /// Looks up how old the oldest records are of which that is not known: a bounded number of
    /// reads from disk, on threads of their own. Each time others come first, so that all have
    /// their turn.
    pub(crate) async fn refresh_figures(&self) {
        let all = self.registry.all_subscriptions();
        if all.is_empty() {
            return;
        }
        let start = self.oldest_turn.load(Ordering::Relaxed) % all.len();
        let (before, from) = all.split_at(start);
        let mut reads = 0;
        for (passed, subscription) in from.iter().chain(before).enumerate() {
            let Some(cursor) = subscription.oldest_unknown() else { continue };
            self.read(subscription, cursor).await;
            reads += 1;
            if reads == READS_MAX {
                self.oldest_turn.store(start + passed + 1, Ordering::Relaxed);
                return;
            }
        }
    }

    async fn read(&self, subscription: &Arc<Subscription>, cursor: Offset) {
        let topic = subscription.topic();
        // What cannot be read is an error for whoever consumes it, and no figure here.
        let Ok(batch) = topic.log().read(topic.id(), cursor, ONE).await else { return };
        if let Some(record) = batch.records.first() {
            let bytes = record.body.len() as u64;
            subscription.set_oldest(Oldest { cursor, publish_time: record.publish_time, bytes });
        }
    }
}

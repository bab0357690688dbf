//! Tells which records are still needed, so that the log may drop the others (LOG-7).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{Offset, OffsetRange, Timestamp, TopicId};
use storage::{Keep, MessageLog};

use crate::error::Result;
use crate::ranges::union;
use crate::subscription::Readers;

/// The topics as of one trim, with the offsets where each retention begins.
pub(crate) struct Retention {
    topics: HashMap<TopicId, Retained>,
}

struct Retained {
    readers: Arc<Readers>,
    /// For each retention in use on the topic: the first offset it covers.
    retained_from: HashMap<Duration, Offset>,
}

impl Retention {
    /// Looks up where every retention of `topics` begins at `now`, the time that retention uses.
    pub(crate) async fn prepare(
        log: &dyn MessageLog,
        topics: Vec<Arc<Readers>>,
        now: Timestamp,
    ) -> Result<Self> {
        let mut retained = HashMap::with_capacity(topics.len());
        for readers in topics {
            let id = readers.topic().id();
            let mut retained_from = HashMap::new();
            for retention in retentions(&readers) {
                let from = log.offset_at(id, now.minus(retention)).await?;
                retained_from.insert(retention, from);
            }
            retained.insert(id, Retained { readers, retained_from });
        }
        Ok(Self { topics: retained })
    }
}

fn retentions(readers: &Readers) -> Vec<Duration> {
    let subscriptions = readers.subscriptions();
    let mut all: Vec<_> = subscriptions
        .iter()
        .map(|subscription| subscription.settings().message_retention)
        .collect();
    all.extend(readers.topic().retention());
    all.sort_unstable();
    all.dedup();
    all
}

impl Keep for Retention {
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Vec<OffsetRange> {
        let Some(retained) = self.topics.get(&topic) else { return Vec::new() };
        let mut needed = Vec::new();
        // Twice, because one may start to need a record just when another stops: a snapshot is
        // taken and the message acked, or a subscription seeks to a snapshot that is then deleted.
        // Asked once and in the wrong order, neither would claim it.
        for _ in 0..2 {
            retained.collect_needed(range, &mut needed);
        }
        union(needed)
    }
}

impl Retained {
    fn collect_needed(&self, range: OffsetRange, needed: &mut Vec<OffsetRange>) {
        // A retention that was set after this trim started keeps everything.
        let from = |retention| self.retained_from.get(&retention).copied().unwrap_or_default();
        if let Some(retention) = self.readers.topic().retention() {
            needed.push(OffsetRange { from: from(retention).max(range.from), to: range.to });
        }
        for subscription in self.readers.subscriptions() {
            let retained_from = from(subscription.settings().message_retention);
            needed.extend(subscription.needed(range, retained_from));
        }
        for hold in self.readers.topic().holds() {
            needed.extend(hold.progress().unacked_in(range));
        }
    }
}

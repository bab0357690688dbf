//! Tells which records are still needed, so that the log may drop the others (LOG-7).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{Offset, OffsetRange, Timestamp, TopicId};
use storage::{Keep, MessageLog, Need};

use crate::error::Result;
use crate::ranges::union;
use crate::subscription::Readers;

/// The topics as of one trim, with the offsets where each retention begins.
pub(crate) struct Retention {
    topics: HashMap<TopicId, Retained>,
    /// Every topic up to this one is in `topics`, or gone.
    last_known: Option<TopicId>,
}

struct Retained {
    readers: Arc<Readers>,
    /// For each retention in use on the topic: the first offset it covers.
    retained_from: HashMap<Duration, Offset>,
}

impl Retention {
    /// Looks up where every retention of `topics` begins at `now`, the time that retention uses.
    /// These are all topics there are with an id up to `ended` or to the greatest of theirs.
    pub(crate) async fn prepare(
        log: &dyn MessageLog,
        topics: Vec<Arc<Readers>>,
        ended: Option<TopicId>,
        now: Timestamp,
    ) -> Result<Self> {
        let retentions: Vec<_> = topics.iter().map(|readers| retentions(readers)).collect();
        let of_one = |(readers, retentions): (&Arc<Readers>, &Vec<Duration>)| {
            let id = readers.topic().id();
            retentions.iter().map(|retention| (id, now.minus(*retention))).collect::<Vec<_>>()
        };
        let times = topics.iter().zip(&retentions).flat_map(of_one).collect();
        let mut offsets = log.offsets_at(times).await?.into_iter();
        let last_known = topics.iter().map(|readers| readers.topic().id()).max();
        let mut retained = HashMap::with_capacity(topics.len());
        for (readers, retentions) in topics.into_iter().zip(retentions) {
            let retained_from = retentions.into_iter().zip(offsets.by_ref()).collect();
            retained.insert(readers.topic().id(), Retained { readers, retained_from });
        }
        Ok(Self { topics: retained, last_known: last_known.max(ended) })
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
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Need {
        let Some(retained) = self.topics.get(&topic) else {
            let is_gone = self.last_known.is_some_and(|last| topic <= last);
            return if is_gone { Need::Gone } else { Need::Unknown };
        };
        let mut needed = Vec::new();
        // Twice, because one may start to need a record just when another stops: a snapshot is
        // taken and the message acked, or a subscription seeks to a snapshot that is then deleted.
        // Asked once and in the wrong order, neither would claim it.
        for _ in 0..2 {
            retained.collect_needed(range, &mut needed);
        }
        Need::Only(union(needed))
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

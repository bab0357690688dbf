//! Counts the dead letters that wait for someone, by subscription: reads the dead letter topics.

use std::sync::Arc;
use std::time::Duration;

use domain::letter;
use domain::{OffsetRange, ShardId, SubscriptionName, Timestamp};
use storage::ReadLimit;
use tokio::sync::Notify;

use crate::error::Result;
use crate::ranges::union;
use crate::registry::Registry;
use crate::runtime::{LogAccess, Runtime};
use crate::source::read_some;
use crate::subscription::Readers;
use crate::topic::Topic;

/// How often to check which letters are past their retention.
const LOOK_EVERY: Duration = Duration::from_secs(600);

const READ_LIMIT: ReadLimit = ReadLimit { records: 1_000, bytes: 4 << 20 };

/// Reads dead letter topics.
pub(crate) struct Counter {
    shard: ShardId,
    access: LogAccess,
    registry: Arc<Registry>,
    new_letters: Arc<Notify>,
}

impl Counter {
    /// Reads those of one shard.
    pub(crate) fn new(runtime: &Runtime, registry: Arc<Registry>) -> Self {
        let (access, new_letters) = (LogAccess::new(runtime), Arc::clone(&runtime.new_letters));
        Self { shard: runtime.shard, access, registry, new_letters }
    }

    /// Reads on whenever there is something new, forever.
    pub(crate) async fn run(self) {
        let clock = &self.access.clock;
        let mut look_at = clock.now();
        loop {
            let is_look = clock.now() >= look_at;
            if is_look {
                look_at = clock.now().plus(LOOK_EVERY);
            }
            for readers in self.registry.readers_in(self.shard) {
                let topic = readers.topic();
                if topic.is_dead_letter()
                    && (topic.letters().take_news() || is_look)
                    && let Err(error) = self.read_on(topic, is_look).await
                {
                    let topic = topic.name();
                    tracing::warn!(%topic, %error, "dead letters could not be counted");
                }
            }
            tokio::select! {
                biased;
                () = self.new_letters.notified() => {}
                () = clock.sleep_until(look_at) => {}
            }
        }
    }

    async fn read_on(&self, topic: &Topic, is_look: bool) -> Result<()> {
        let log = &*self.access.log;
        let letters = topic.letters();
        let known = letters.read();
        let kept_from = match known {
            Some(read) if !is_look => read.from,
            _ => log.offset_at(topic.id(), Timestamp(0)).await?,
        };
        let mut at = known.map_or(kept_from, |read| read.to.max(kept_from));
        let is_known = |name: &SubscriptionName| self.registry.has_subscription(name);
        if is_look {
            letters.drop_below(kept_from, is_known);
        }
        loop {
            let batch = read_some(log, topic.id(), at, READ_LIMIT).await?;
            if batch.covered.is_empty() {
                return Ok(());
            }
            let sources = batch.records.iter().map(|record| {
                let name = letter::subscription(&record.body).filter(is_known);
                name.map(|name| (name, record.offset))
            });
            let sources: Vec<_> = sources.flatten().collect();
            at = batch.covered.to;
            letters.note_read(sources, OffsetRange { from: kept_from, to: at });
        }
    }
}

/// How many dead letters of a subscription nobody has handled: they are in its dead letter topic,
/// were neither replayed nor deleted, and someone subscribed to that topic has not acked them, or
/// nobody is subscribed to it. Zero for one without a dead letter policy.
///
/// A letter counts shortly after it arrives; after a start it may take a while until all do.
pub(crate) fn letters_waiting(registry: &Registry, name: &SubscriptionName) -> u64 {
    let Ok(subscription) = registry.subscription(name) else { return 0 };
    let settings = subscription.settings();
    let Some(policy) = &settings.dead_letter_policy else { return 0 };
    let Ok(readers) = registry.readers(&policy.topic) else { return 0 };
    let letters = readers.topic().letters();
    let Some(read) = letters.read_for(name) else { return 0 };
    letters.count(name, open_letters(&readers, read))
}

/// The parts of `range` whose letters a subscription has not acked, or that come before every
/// subscription's start.
fn open_letters(readers: &Readers, range: OffsetRange) -> Vec<OffsetRange> {
    let readers = readers.subscriptions();
    let Some(first) = readers.iter().map(|reader| reader.first()).min() else {
        return vec![range];
    };
    let mut open = vec![OffsetRange { from: range.from, to: first.min(range.to) }];
    for reader in readers {
        let from = range.from.max(reader.first());
        open.extend(reader.unsettled_in(OffsetRange { from, to: range.to }));
    }
    union(open)
}

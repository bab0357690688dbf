//! Reads what comes to dead letter topics, and knows whose letters wait for somebody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::letter;
use domain::{Offset, OffsetRange, Progress, SubscriptionName, Timestamp};
use storage::ReadLimit;

use super::{Desk, no_marks};
use crate::broker::Broker;
use crate::error::Result;
use crate::ranges::union;
use crate::source::read_some;
use crate::topic::Topic;

/// This often it is looked which letters are past their retention.
const LOOK_EVERY: Duration = Duration::from_secs(600);

const READ_LIMIT: ReadLimit = ReadLimit { records: 1_000, bytes: 4 << 20 };

/// Whose letters there are. Names of subscriptions that do not exist are not in it.
#[derive(Default)]
pub(super) struct Index {
    /// What was read.
    read: Option<OffsetRange>,
    /// Each subscription's letters, as what is acked from the first that is kept on.
    by_subscription: BTreeMap<SubscriptionName, Progress>,
}

impl Index {
    fn note(&mut self, name: SubscriptionName, offset: Offset) {
        let letters = self.by_subscription.entry(name).or_insert_with(no_marks);
        letters.ack(OffsetRange::one(offset));
    }

    /// Forgets what lies below `from`, which is kept no longer, and who is not known any more.
    fn drop_below(&mut self, from: Offset, is_known: impl Fn(&SubscriptionName) -> bool) {
        if let Some(read) = &mut self.read {
            read.from = read.from.max(from);
        }
        self.by_subscription.retain(|name, _| is_known(name));
        for letters in self.by_subscription.values_mut() {
            letters.ack(OffsetRange { from: Offset(0), to: from });
        }
    }
}

/// Reads on whenever there is something new, for ever.
pub(crate) async fn run(broker: Arc<Broker>) {
    let runtime = Arc::clone(&broker.runtime);
    let mut look_at = runtime.clock.now();
    loop {
        let is_look = runtime.clock.now() >= look_at;
        if is_look {
            look_at = runtime.clock.now().plus(LOOK_EVERY);
        }
        for topic in broker.all_topics().into_iter().filter(|topic| topic.is_dead_letter()) {
            if (topic.desk().take_news() || is_look)
                && let Err(error) = read_on(&broker, &topic, is_look).await
            {
                tracing::warn!(topic = %topic.name(), %error, "dead letters could not be counted");
            }
        }
        tokio::select! {
            () = runtime.letters.notified() => {}
            () = runtime.clock.sleep_until(look_at) => {}
        }
    }
}

async fn read_on(broker: &Broker, topic: &Topic, is_look: bool) -> Result<()> {
    let log = &*broker.runtime.log;
    let desk = topic.desk();
    let known = desk.state.lock().index.read;
    let kept_from = match known {
        Some(read) if !is_look => read.from,
        _ => log.offset_at(topic.id(), Timestamp(0)).await?,
    };
    let mut at = known.map_or(kept_from, |read| read.to.max(kept_from));
    let is_known = |name: &SubscriptionName| broker.subscription(name).is_ok();
    if is_look {
        desk.state.lock().index.drop_below(kept_from, is_known);
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
        let mut state = desk.state.lock();
        sources.into_iter().for_each(|(name, offset)| state.index.note(name, offset));
        state.index.read = Some(OffsetRange { from: kept_from, to: at });
    }
}

impl Broker {
    /// How many dead letters of a subscription nobody has dealt with: they lie in its dead letter
    /// topic, were neither replayed nor deleted, and somebody subscribed to that topic has not
    /// acked them, or nobody is subscribed to it. Zero for one without a dead letter policy.
    ///
    /// A letter counts a moment after it came; after a start it may take a while until all do.
    pub fn dead_letters_waiting(&self, name: &SubscriptionName) -> u64 {
        let Ok(subscription) = self.subscription(name) else { return 0 };
        let settings = subscription.settings();
        let Some(policy) = &settings.dead_letter_policy else { return 0 };
        self.topic(&policy.topic).map_or(0, |topic| topic.letters_waiting(name))
    }
}

impl Topic {
    fn letters_waiting(&self, name: &SubscriptionName) -> u64 {
        let Some(read) = self.desk().read_for(name) else { return 0 };
        let open = self.open_letters(read);
        self.desk().count(name, open)
    }

    /// The parts of `range` whose letters somebody subscribed has not acked, or that lie before
    /// everybody's first.
    fn open_letters(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let readers = self.subscriptions();
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
}

impl Desk {
    /// What was read, if a letter of `name` was in it.
    fn read_for(&self, name: &SubscriptionName) -> Option<OffsetRange> {
        let state = self.state.lock();
        state.index.by_subscription.get(name)?;
        state.index.read
    }

    /// How many letters of `name` in these ranges were neither replayed nor deleted.
    fn count(&self, name: &SubscriptionName, ranges: Vec<OffsetRange>) -> u64 {
        let state = self.state.lock();
        let Some(letters) = state.index.by_subscription.get(name) else { return 0 };
        let unmarked = ranges.into_iter().flat_map(|range| state.unmarked_in(range));
        unmarked.map(|range| members(letters, range)).sum()
    }
}

/// How many offsets of `range` are in `set`.
fn members(set: &Progress, range: OffsetRange) -> u64 {
    let others: u64 = set.unacked_in(range).into_iter().map(OffsetRange::len).sum();
    range.len() - others
}

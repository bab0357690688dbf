//! The history of attempts in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::SubscriptionId;
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;

use crate::attempts::{Head, surplus};
use crate::{
    Attempt, AttemptHistory, AttemptPage, AttemptQuery, Future, NumberedAttempt, Result, Unsettled,
};

pub(super) struct History {
    kept: Mutex<Attempts>,
    bytes_max: usize,
}

#[derive(Default)]
struct Attempts {
    /// In the order in which they came.
    by_age: BTreeMap<u64, (SubscriptionId, u64)>,
    of_subscription: BTreeMap<SubscriptionId, BTreeMap<u64, Held>>,
    /// How many there ever were.
    count: u64,
    bytes: usize,
}

struct Held {
    attempt: Attempt,
    age: u64,
}

impl History {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), bytes_max }
    }
}

impl Attempts {
    fn insert(&mut self, number: u64, attempt: Attempt) {
        let subscription = attempt.subscription;
        self.remove(subscription, number);
        self.count += 1;
        self.bytes += attempt.memory_bytes();
        self.by_age.insert(self.count, (subscription, number));
        let held = Held { attempt, age: self.count };
        self.of_subscription.entry(subscription).or_default().insert(number, held);
    }

    fn remove(&mut self, subscription: SubscriptionId, number: u64) {
        let Some(numbers) = self.of_subscription.get_mut(&subscription) else { return };
        let Some(held) = numbers.remove(&number) else { return };
        if numbers.is_empty() {
            self.of_subscription.remove(&subscription);
        }
        self.by_age.remove(&held.age);
        self.bytes -= held.attempt.memory_bytes();
    }

    /// The attempts of `subscription`, newest first.
    fn newest(
        &self,
        subscription: SubscriptionId,
        before: Option<u64>,
    ) -> impl Iterator<Item = (u64, &Attempt)> {
        let end = before.unwrap_or(u64::MAX);
        let numbers = self.of_subscription.get(&subscription).map(|numbers| numbers.range(..end));
        let numbers = numbers.into_iter().flatten().rev();
        numbers.map(|(&number, held)| (number, &held.attempt))
    }

    fn prune(&mut self, subscription: SubscriptionId, unsettled: &dyn Unsettled) {
        let heads = self.newest(subscription, None).map(|(number, attempt)| Head {
            number,
            offset: attempt.offset,
            is_failure: attempt.is_failure(),
        });
        let gone = surplus(heads.collect(), |offsets| unsettled.unsettled(subscription, offsets));
        gone.into_iter().for_each(|number| self.remove(subscription, number));
    }

    /// Drops the oldest until the rest takes at most `bytes_max` bytes.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some((_, &(subscription, number))) = self.by_age.first_key_value()
        {
            self.remove(subscription, number);
        }
    }
}

impl AttemptHistory for History {
    fn last(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<Vec<u64>>> {
        let kept = self.kept.lock();
        let last = |subscription| {
            let numbers = kept.of_subscription.get(subscription);
            numbers.and_then(BTreeMap::last_key_value).map_or(0, |(&number, _)| number)
        };
        ready(Ok(subscriptions.iter().map(last).collect())).boxed()
    }

    fn append(
        &self,
        attempts: Vec<NumberedAttempt>,
        unsettled: Arc<dyn Unsettled>,
    ) -> Future<Result<()>> {
        let mut kept = self.kept.lock();
        let mut changed = BTreeSet::new();
        for NumberedAttempt { number, attempt } in attempts {
            changed.insert(attempt.subscription);
            kept.insert(number, attempt);
        }
        for subscription in changed {
            kept.prune(subscription, &*unsettled);
        }
        kept.shrink(self.bytes_max);
        ready(Ok(())).boxed()
    }

    fn list(
        &self,
        subscription: SubscriptionId,
        query: AttemptQuery,
    ) -> Future<Result<AttemptPage>> {
        let kept = self.kept.lock();
        let is_asked_for = |attempt: &Attempt| {
            query.class.as_ref().is_none_or(|class| attempt.class == *class)
                && query.offset.is_none_or(|offset| attempt.offset == offset)
        };
        let found = kept
            .newest(subscription, query.before)
            .filter(|(_, attempt)| is_asked_for(attempt))
            .take(query.limit.saturating_add(1))
            .map(|(number, attempt)| NumberedAttempt { number, attempt: attempt.clone() });
        let page = AttemptPage::of(found.collect(), query.limit);
        ready(Ok(page)).boxed()
    }

    fn forget(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<()>> {
        let mut kept = self.kept.lock();
        for subscription in subscriptions {
            let numbers: Vec<u64> =
                kept.newest(subscription, None).map(|(number, _)| number).collect();
            numbers.into_iter().for_each(|number| kept.remove(subscription, number));
        }
        ready(Ok(())).boxed()
    }
}

//! The history of attempts in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::SubscriptionId;
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;

use crate::attempts::{Head, surplus};
use crate::{
    Attempt, AttemptHistory, AttemptPage, AttemptQuery, Future, KnownAttempts, NumberedAttempt,
    Result, Unsettled,
};

pub(super) struct History {
    kept: Mutex<Attempts>,
    bytes_max: usize,
}

#[derive(Default)]
struct Attempts {
    by_number: BTreeMap<u64, Attempt>,
    of_subscription: BTreeMap<SubscriptionId, BTreeSet<u64>>,
    bytes: usize,
}

impl History {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), bytes_max }
    }
}

impl Attempts {
    fn insert(&mut self, number: u64, attempt: Attempt) {
        self.remove(number);
        self.bytes += attempt.memory_bytes();
        self.of_subscription.entry(attempt.subscription).or_default().insert(number);
        self.by_number.insert(number, attempt);
    }

    fn remove(&mut self, number: u64) {
        let Some(attempt) = self.by_number.remove(&number) else { return };
        self.bytes -= attempt.memory_bytes();
        if let Some(numbers) = self.of_subscription.get_mut(&attempt.subscription) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.of_subscription.remove(&attempt.subscription);
            }
        }
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
        numbers.filter_map(|&number| Some((number, self.by_number.get(&number)?)))
    }

    fn prune(&mut self, subscription: SubscriptionId, unsettled: &dyn Unsettled) {
        let heads = self.newest(subscription, None).map(|(number, attempt)| Head {
            number,
            offset: attempt.offset,
            is_failure: attempt.is_failure(),
        });
        let gone = surplus(heads.collect(), |offsets| unsettled.unsettled(subscription, offsets));
        gone.into_iter().for_each(|number| self.remove(number));
    }

    /// Drops the oldest until the rest takes at most `bytes_max` bytes.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some((&oldest, _)) = self.by_number.first_key_value()
        {
            self.remove(oldest);
        }
    }
}

impl AttemptHistory for History {
    fn known(&self) -> Future<Result<KnownAttempts>> {
        let kept = self.kept.lock();
        let last = kept.by_number.last_key_value().map_or(0, |(&number, _)| number);
        let subscriptions = kept.of_subscription.keys().copied().collect();
        ready(Ok(KnownAttempts { last, subscriptions })).boxed()
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
            let numbers = kept.of_subscription.remove(&subscription).unwrap_or_default();
            numbers.into_iter().for_each(|number| kept.remove(number));
        }
        ready(Ok(())).boxed()
    }
}

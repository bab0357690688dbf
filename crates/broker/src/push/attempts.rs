//! The history of attempts: recorded as they are made, saved with the progress.
//!
//! ```text
//!   record ─► unsaved, per subscription ──(each progress_flush, or someone asks)──► storage
//! ```

mod unsaved;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use domain::delivery::Failure;
use domain::push::Class;
use domain::text::shortened;
use domain::{Invalid, Offset, SubscriptionId, Timestamp};
use parking_lot::Mutex;
use storage::{Attempt, AttemptHistory, AttemptPage, AttemptQuery, NumberedAttempt, Unsettled};
use tokio::sync::Notify;

use self::unsaved::{Numbers, Shard};
use crate::error::Result;
use crate::subscription::Subscription;

/// Maximum bytes kept of an answer, and of an error.
const TEXT_BYTES_MAX: usize = 1_024;

/// Maximum bytes of unsaved attempts; one more per subscription may be added.
const UNSAVED_BYTES_MAX: usize = 16 << 20;

/// Number of locks that the subscriptions share.
const SHARDS: usize = 16;

/// The outcomes of attempts, unsaved and saved.
pub(crate) struct Attempts {
    history: Arc<dyn AttemptHistory>,
    numbers: Numbers,
    unsaved: [Mutex<Shard>; SHARDS],
    /// Bytes of all shards together.
    bytes: AtomicUsize,
    /// Subscriptions that are gone; the history has to forget them too.
    forgotten: Mutex<Vec<SubscriptionId>>,
    /// Held while attempts are on their way from here to the history, so that a concurrent caller
    /// does not miss them.
    saving: tokio::sync::Mutex<()>,
    /// There is something to save.
    pub(crate) wake: Notify,
}

impl Attempts {
    /// Numbers are assigned from `now` on, in microseconds, unless the history is ahead of that.
    pub(crate) fn new(history: Arc<dyn AttemptHistory>, now: Timestamp) -> Self {
        Self {
            history,
            numbers: Numbers::from(now.0),
            unsaved: Default::default(),
            bytes: AtomicUsize::new(0),
            forgotten: Mutex::default(),
            saving: tokio::sync::Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Subscriptions are taken up: their numbers continue above those in the history.
    pub(crate) async fn take_up(&self, subscriptions: Vec<SubscriptionId>) {
        match self.history.last(subscriptions).await {
            Ok(last) => self.numbers.raise_above(last.into_iter().max().unwrap_or(0)),
            Err(error) => tracing::warn!(%error, "the history of attempts cannot be read"),
        }
    }

    /// Notes an attempt.
    #[cfg(test)]
    pub(crate) fn record(&self, attempt: Attempt) {
        self.record_all(attempt.subscription, [attempt]);
    }

    /// Records attempts of one subscription; only the beginning of answers and errors is kept. They
    /// can be listed at once, and are lost if the server crashes before the next flush.
    pub(crate) fn record_all(
        &self,
        subscription: SubscriptionId,
        attempts: impl IntoIterator<Item = Attempt>,
    ) {
        let mut shard = self.shard(subscription).lock();
        let is_first = shard.is_empty();
        for mut attempt in attempts {
            shorten(&mut attempt);
            // Numbered under the lock, so that each subscription's are in order.
            let numbered = NumberedAttempt { number: self.numbers.next(), attempt };
            shard.add(numbered, &self.bytes, UNSAVED_BYTES_MAX);
        }
        drop(shard);
        if is_first {
            self.wake.notify_one();
        }
    }

    /// Drops the attempts of a subscription that is gone; the history follows at the next flush.
    pub(crate) fn forget(&self, subscription: SubscriptionId) {
        drop(self.take(subscription));
        self.forgotten.lock().push(subscription);
        self.wake.notify_one();
    }

    /// The attempts to push messages of a subscription, newest first: the last 1,000, and the
    /// latest failure of each unsettled message.
    pub(crate) async fn page(
        &self,
        subscription: &Arc<Subscription>,
        query: AttemptQuery,
    ) -> Result<AttemptPage> {
        if let Some(class) = &query.class
            && Class::parse(class).is_none()
        {
            let known: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
            let problem = format!("{class:?} is not one of {}", known.join(", "));
            return Err(Invalid::new("class", problem).into());
        }
        Ok(self.list(subscription, query).await?)
    }

    /// Saves the unsaved attempts of subscriptions that are `living`. Progress does not depend on
    /// it.
    pub(crate) async fn save_all(&self, living: BTreeMap<SubscriptionId, Arc<Subscription>>) {
        if let Err(error) = self.flush(Living(living)).await {
            tracing::warn!(%error, "could not save the history of attempts");
        }
    }

    /// Saves everything. What cannot be saved is kept for the next time, within the limits.
    async fn flush(&self, living: Living) -> Result<(), storage::Error> {
        let _saving = self.saving.lock().await;
        let mut attempts = Vec::new();
        for shard in &self.unsaved {
            attempts.extend(shard.lock().take_all(&self.bytes));
        }
        // Some attempts may have been on their way when their subscription was deleted.
        attempts.retain(|numbered| living.0.contains_key(&numbered.attempt.subscription));
        attempts.sort_unstable_by_key(|numbered| numbered.number);
        self.save(attempts, living).await?;
        let forgotten = std::mem::take(&mut *self.forgotten.lock());
        if forgotten.is_empty() {
            return Ok(());
        }
        let done = self.history.forget(forgotten.clone()).await;
        if done.is_err() {
            self.forgotten.lock().extend(forgotten);
        }
        done
    }

    /// The attempts of a subscription, newest first. They are saved first, so that pages stay
    /// stable whatever is recorded meanwhile.
    async fn list(
        &self,
        subscription: &Arc<Subscription>,
        query: AttemptQuery,
    ) -> Result<AttemptPage, storage::Error> {
        let id = subscription.id();
        let saving = self.saving.lock().await;
        let living = Living(BTreeMap::from([(id, Arc::clone(subscription))]));
        self.save(self.take(id), living).await?;
        drop(saving);
        self.history.list(id, query).await
    }

    /// How the last attempt to push a message failed, if still known.
    pub(crate) async fn last_failure(
        &self,
        subscription: &Arc<Subscription>,
        offset: Offset,
    ) -> Option<Failure> {
        let query = AttemptQuery { offset: Some(offset), limit: 1, ..AttemptQuery::default() };
        let page = self.list(subscription, query).await;
        let page = page.inspect_err(|error| {
            tracing::warn!(%error, "the history of attempts cannot be read");
        });
        let last = page.ok()?.attempts.into_iter().next()?.attempt;
        let class = Class::parse(&last.class).filter(|class| *class != Class::Ok)?;
        Some(Failure { status: last.status, message: last.error, ..Failure::of(class.as_str()) })
    }

    async fn save(
        &self,
        attempts: Vec<NumberedAttempt>,
        living: Living,
    ) -> Result<(), storage::Error> {
        if attempts.is_empty() {
            return Ok(());
        }
        // They are cheap to clone: the texts in them are shared.
        let done = self.history.append(attempts.clone(), Arc::new(living)).await;
        if done.is_err() {
            self.put_back(attempts);
        }
        done
    }

    fn take(&self, subscription: SubscriptionId) -> Vec<NumberedAttempt> {
        self.shard(subscription).lock().take(subscription, &self.bytes)
    }

    /// Puts attempts back in front of those recorded since.
    fn put_back(&self, attempts: Vec<NumberedAttempt>) {
        let mut by_subscription: BTreeMap<SubscriptionId, Vec<NumberedAttempt>> = BTreeMap::new();
        for numbered in attempts {
            by_subscription.entry(numbered.attempt.subscription).or_default().push(numbered);
        }
        for (subscription, older) in by_subscription {
            let mut shard = self.shard(subscription).lock();
            let newer = shard.take(subscription, &self.bytes);
            for numbered in older.into_iter().chain(newer) {
                shard.add(numbered, &self.bytes, UNSAVED_BYTES_MAX);
            }
        }
        self.wake.notify_one();
    }

    fn shard(&self, subscription: SubscriptionId) -> &Mutex<Shard> {
        let [first, ..] = &self.unsaved;
        let place = usize::try_from(subscription.0 % SHARDS as u64).unwrap_or_default();
        self.unsaved.get(place).unwrap_or(first)
    }
}

/// Truncates the texts, and copies the answer: a slice would keep all of it in memory.
fn shorten(attempt: &mut Attempt) {
    let response = &attempt.response;
    if !response.is_empty() {
        let kept = &response[..response.len().min(TEXT_BYTES_MAX)];
        attempt.response = bytes::Bytes::copy_from_slice(kept);
    }
    if let Some(error) = &attempt.error
        && error.len() > TEXT_BYTES_MAX
    {
        attempt.error = Some(shortened(error, TEXT_BYTES_MAX).into());
    }
}

/// The existing subscriptions, which know what is settled.
struct Living(BTreeMap<SubscriptionId, Arc<Subscription>>);

impl Unsettled for Living {
    fn unsettled(&self, subscription: SubscriptionId, offsets: &[Offset]) -> Vec<Offset> {
        let found = self.0.get(&subscription);
        found.map(|subscription| subscription.unsettled(offsets)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

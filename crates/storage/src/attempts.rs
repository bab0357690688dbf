//! `AttemptHistory`: the outcome of each attempt to push a message.

mod bounds;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Offset, SubscriptionId, Timestamp};

pub(crate) use bounds::{Head, surplus};

use crate::{Future, Result};

/// How many of a subscription's latest attempts are kept, whatever their outcome.
pub const RECENT_MAX: usize = 1_000;

/// How many older failures of a subscription are kept: the latest one of each unsettled message.
pub const FAILURES_MAX: usize = 10_000;

/// Default size limit of the whole history, in bytes.
pub const HISTORY_BYTES_DEFAULT: u64 = 256 << 20;

/// The class of an attempt that succeeded; every other class is a failure.
pub const CLASS_OK: &str = "ok";

/// One attempt to push a message, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The subscription that made the attempt.
    pub subscription: SubscriptionId,
    /// The message.
    pub offset: Offset,
    /// Which attempt of this message it was, counted from 1.
    pub attempt: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took, to the microsecond.
    pub duration: Duration,
    /// The address that was connected to, if it got that far.
    pub address: Option<SocketAddr>,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// The outcome as one word; `CLASS_OK` if it succeeded.
    pub class: Cow<'static, str>,
    /// What went wrong, in words.
    pub error: Option<Arc<str>>,
    /// The beginning of the answer's body.
    pub response: Bytes,
}

impl Attempt {
    /// Whether the attempt failed, so the message has to be retried.
    pub fn is_failure(&self) -> bool {
        self.class != CLASS_OK
    }

    /// Approximate memory use, including itself.
    pub fn memory_bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.len());
        size_of::<Self>() + error + self.response.len()
    }
}

/// An attempt and its position in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedAttempt {
    /// Unique within its subscription, greater than that of every earlier attempt there.
    pub number: u64,
    /// The attempt.
    pub attempt: Attempt,
}

/// Which attempts of a subscription to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptQuery {
    /// Only those of this class.
    pub class: Option<String>,
    /// Only those of this message.
    pub offset: Option<Offset>,
    /// Only those with a lower number: where the previous page ended.
    pub before: Option<u64>,
    /// Maximum number to return.
    pub limit: usize,
}

/// Attempts, newest first, and where to continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptPage {
    /// The attempts.
    pub attempts: Vec<NumberedAttempt>,
    /// Pass this as `before` for the next page; `None` = this was the last.
    pub next: Option<u64>,
}

/// Tells which messages are settled, so that their failures need not be kept.
pub trait Unsettled: Send + Sync {
    /// Those of `offsets` that are not settled; none for an unknown subscription.
    fn unsettled(&self, subscription: SubscriptionId, offsets: &[Offset]) -> Vec<Offset>;
}

/// The attempts to push messages, for people who want to know what happens to them.
///
/// Nothing depends on it: the last appends before a power cut may be lost, and a damaged history is
/// set aside and replaced by a new one. For each subscription it keeps the latest `RECENT_MAX`
/// attempts and, beyond them, the latest failure of each unsettled message up to `FAILURES_MAX`; in
/// total as many bytes as the engine was opened with. The oldest go first. Attempts of a
/// subscription whose definition is gone are dropped by `forget`, or by the engine itself the next
/// time it is opened.
pub trait AttemptHistory: Send + Sync {
    /// The greatest number of each subscription, in their order; 0 for one without attempts.
    fn last(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<Vec<u64>>>;

    /// Adds attempts, in any order, then drops whatever exceeds the limits. An attempt of the same
    /// subscription and number is replaced. `unsettled` is asked only about the subscriptions of
    /// `attempts`; it is called from the engine's own thread and may take locks, but not wait.
    fn append(
        &self,
        attempts: Vec<NumberedAttempt>,
        unsettled: Arc<dyn Unsettled>,
    ) -> Future<Result<()>>;

    /// The attempts of `subscription` that match `query`, newest first. Attempts added between two
    /// pages do not shift the second page.
    fn list(
        &self,
        subscription: SubscriptionId,
        query: AttemptQuery,
    ) -> Future<Result<AttemptPage>>;

    /// Drops all attempts of `subscriptions`.
    fn forget(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<()>>;
}

impl AttemptPage {
    /// A page of `limit` attempts from those found, which include one extra if there are more.
    pub(crate) fn of(mut attempts: Vec<NumberedAttempt>, limit: usize) -> Self {
        let has_more = attempts.len() > limit;
        attempts.truncate(limit);
        let next = attempts.last().filter(|_| has_more).map(|last| last.number);
        Self { attempts, next }
    }
}

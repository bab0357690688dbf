//! One line in the log for each delivery that ended: what was settled, what failed and is retried,
//! what was dead-lettered or dropped.
//!
//! ```text
//!   failed, under the subscription's lock ─► gate (so many a second) ─► queue ─► chore ─► stderr
//!   settled, only if anyone listens ─────────────────────────────────────────────────►
//! ```
//!
//! Nobody waits for the terminal while holding a lock. A line contains neither a message's data nor
//! what an endpoint answered, nor an endpoint's user, password or query.

mod gate;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use domain::delivery::Failure;
use domain::text::shortened;
use domain::{Moment, Offset, SubscriptionName, Timestamp, TopicName};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use gate::LineLimit;

use crate::options::LogOptions;

/// Maximum number of lines waiting to be written; the rest are only counted.
const WAITING_MAX: usize = 10_000;
/// After this time, one line reports how many were omitted.
const COUNTED_AFTER: Duration = Duration::from_secs(1);
/// Maximum bytes of an error's text in a line.
const ERROR_BYTES_MAX: usize = 1_024;

/// The outcome of a delivery, in the words of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// Acked.
    Applied,
    /// Acked again, although already settled.
    Duplicate,
    /// The id no longer counted, and nothing happened.
    StaleIgnored,
    /// Given up until an operator decides: its lane is halted.
    Poison,
    /// Failed, and is retried.
    Retry,
    /// Dead-lettered.
    DeadLettered,
    /// Dropped.
    Dropped,
}

impl DeliveryOutcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::StaleIgnored => "stale_ignored",
            Self::Poison => "poison",
            Self::Retry => "retry",
            Self::DeadLettered => "dead_lettered",
            Self::Dropped => "dropped",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Applied => "delivered",
            Self::Duplicate => "acked again",
            Self::StaleIgnored => "late, ignored",
            Self::Poison => "delivery failed, the lane is halted",
            Self::Retry => "delivery failed, will retry",
            Self::DeadLettered => "message dead-lettered",
            Self::Dropped => "message dropped: out of attempts and no dead letter topic",
        }
    }
}

/// One delivery, as it is logged.
#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    pub(crate) subscription: SubscriptionName,
    pub(crate) topic: TopicName,
    pub(crate) offset: Offset,
    /// `None` = no longer known.
    pub(crate) publish_time: Option<Timestamp>,
    pub(crate) attempt: Option<u32>,
    pub(crate) outcome: DeliveryOutcome,
    /// The status of an endpoint's answer.
    pub(crate) http_status: Option<u16>,
    /// What a pulling consumer did.
    pub(crate) ack_action: Option<&'static str>,
    pub(crate) failure: Option<Failure>,
}

impl LogLine {
    /// Why it failed, in our own words: an endpoint's answer may contain what it was sent.
    fn error(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        if let Some(status) = failure.status {
            let reason = http::StatusCode::from_u16(status).ok();
            let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
            return Some(format!("HTTP {status} {reason}").trim_end().to_owned());
        }
        match (&failure.message, failure.class) {
            (Some(message), _) => Some(shortened(message, ERROR_BYTES_MAX).into_owned()),
            (None, "nack") => Some("the consumer gave it back".to_owned()),
            (None, "expired") => Some("the ack deadline passed".to_owned()),
            (None, _) => None,
        }
    }
}

/// What goes into the log.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A delivery.
    Delivery(LogLine),
    /// A FIFO subscription, and what blocks it.
    Fifo(Blocking),
    /// How many failed deliveries of a subscription were not logged.
    Unsaid(SubscriptionName, u64),
}

/// What blocks a FIFO subscription.
#[derive(Clone, Debug)]
pub(crate) struct Blocking {
    pub(crate) subscription: SubscriptionName,
    pub(crate) offset: Offset,
    /// Deliveries of it that failed.
    pub(crate) failed: u32,
    pub(crate) attempts_max: Option<u32>,
    pub(crate) news: News,
}

/// What happened to a FIFO subscription that is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Blocked,
    StillBlocked(Duration),
    Unblocked(Duration),
}

/// Entries waiting to be written.
pub(crate) struct DeliveryLog {
    options: LogOptions,
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    /// Subscriptions with omitted lines.
    unsaid: Vec<Arc<LineLimit>>,
    /// When the omitted ones are reported.
    count_at: Option<Moment>,
}

impl DeliveryLog {
    pub(crate) fn new(options: LogOptions) -> Self {
        Self { options, waiting: Mutex::default(), added: Notify::new() }
    }

    /// Queues an entry about the subscription of `limit`, unless there were too many.
    pub(crate) fn add(&self, limit: &Arc<LineLimit>, now: Moment, entry: Entry) {
        let mut gate = limit.gate();
        let may_pass = gate.passes(now, self.options.failures_per_second);
        let mut waiting = self.waiting.lock();
        if may_pass && waiting.entries.len() < WAITING_MAX {
            waiting.entries.push_back(entry);
        } else if gate.leave_out() {
            waiting.unsaid.push(Arc::clone(limit));
            waiting.count_at.get_or_insert_with(|| now.plus(COUNTED_AFTER));
        } else {
            return;
        }
        drop((gate, waiting));
        self.added.notify_one();
    }

    /// Whether lines about successes are wanted. Costs next to nothing if they are not.
    pub(crate) fn tells_success() -> bool {
        tracing::enabled!(target: "delivery", tracing::Level::DEBUG)
    }

    /// Writes a line about a success, at once. Must not be called under a lock.
    pub(crate) fn tell(&self, line: &LogLine) {
        self.write(&Entry::Delivery(line.clone()));
    }

    /// Writes entries as they come, forever.
    pub(crate) async fn run(&self, clock: &dyn Clock) {
        loop {
            let added = self.added.notified();
            let count_at = self.write_waiting();
            match count_at {
                None => added.await,
                Some(at) => {
                    // The count first: there may be lines without end.
                    tokio::select! {
                        biased;
                        () = clock.sleep_until(at) => self.count_unsaid(),
                        () = added => {}
                    }
                }
            }
        }
    }

    /// Writes everything that is waiting, including counts of omitted lines.
    pub(crate) fn flush(&self) {
        self.write_waiting();
        self.count_unsaid();
    }

    /// Returns when the omitted lines have to be reported.
    fn write_waiting(&self) -> Option<Moment> {
        loop {
            let (entries, count_at) = {
                let mut waiting = self.waiting.lock();
                (std::mem::take(&mut waiting.entries), waiting.count_at)
            };
            if entries.is_empty() {
                return count_at;
            }
            entries.iter().for_each(|entry| self.write(entry));
        }
    }

    fn count_unsaid(&self) {
        let unsaid = {
            let mut waiting = self.waiting.lock();
            waiting.count_at = None;
            std::mem::take(&mut waiting.unsaid)
        };
        for limit in unsaid {
            let count = limit.gate().take_left_out();
            self.write(&Entry::Unsaid(limit.subscription().clone(), count));
        }
    }

    fn write(&self, entry: &Entry) {
        match entry {
            Entry::Delivery(line) => self.write_line(line),
            Entry::Fifo(blocking) => write_blocking(blocking),
            Entry::Unsaid(subscription, count) => tracing::error!(
                target: "delivery",
                subscription = %subscription,
                count,
                "more failed deliveries, not logged individually"
            ),
        }
    }

    fn write_line(&self, line: &LogLine) {
        let is_well = matches!(
            line.outcome,
            DeliveryOutcome::Applied | DeliveryOutcome::Duplicate | DeliveryOutcome::StaleIgnored
        );
        let LogOptions { service, env, version, .. } = &self.options;
        let published = line.publish_time.map(Timestamp::rfc3339_micros);
        let error = line.error();
        // The macro fixes the level of each call site, so there are two with the same fields.
        macro_rules! write_at {
            ($level:ident) => {
                tracing::$level!(
                    target: "delivery",
                    service = &**service,
                    env = &**env,
                    version = &**version,
                    subscription = %line.subscription,
                    topic = %line.topic,
                    messageId = %line.offset,
                    publishTime = published.as_deref(),
                    deliveryAttempt = line.attempt,
                    outcome = line.outcome.as_str(),
                    http_status = line.http_status,
                    ack_action = line.ack_action,
                    error_type = line.failure.as_ref().map(|failure| failure.class),
                    error_code = line.failure.as_ref().and_then(|failure| failure.status),
                    error = error.as_deref(),
                    retryable = line.outcome == DeliveryOutcome::Retry,
                    "{}",
                    line.outcome.text()
                )
            };
        }
        if is_well {
            write_at!(debug);
        } else {
            write_at!(error);
        }
    }
}

/// In the words of the source that requested these lines.
fn write_blocking(blocking: &Blocking) {
    let Blocking { subscription, offset, failed, attempts_max, news } = blocking;
    let max = attempts_max.map_or_else(|| "unlimited".to_owned(), |max| max.to_string());
    macro_rules! write_at {
        ($level:ident, $($text:tt)*) => {
            tracing::$level!(
                target: "delivery",
                subscription = %subscription,
                messageId = %offset,
                deliveryAttempt = failed,
                $($text)*
            )
        };
    }
    match news {
        News::Blocked => write_at!(
            info,
            "[FIFO] Subscription {subscription} blocked - waiting for request attempt {offset} to \
             complete"
        ),
        News::StillBlocked(time) => write_at!(
            warn,
            "[FIFO] Subscription {subscription} blocked for {}s - current attempt on retry \
             {failed}/{max}",
            time.as_secs()
        ),
        News::Unblocked(time) => write_at!(
            info,
            "[FIFO] Subscription {subscription} unblocked after {}s",
            time.as_secs()
        ),
    }
}

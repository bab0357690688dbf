//! Consumers that take leases: a stream for as long as it is open, a pull for the duration of its
//! call.

mod transforming;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use clock::Clock;
use domain::delivery::{ConsumerId, Flow, Lease};
use domain::limits;
use futures::future::BoxFuture;
use storage::ReadLimit;

use crate::error::Result;
use crate::subscription::{Ask, Step, Subscription};
use crate::transform::Functions;
use transforming::Transforming;

/// Maximum number of records in one response of a stream.
const STREAM_RECORDS_MAX: usize = 1_000;

/// Maximum number of records per disk read when filters and lanes leave nothing of the previous
/// read. Otherwise no more is read than may be leased.
const FETCH_RECORDS_MAX: usize = 1_000;
/// By what factor the reads grow then.
const FETCH_GROWTH: usize = 4;

/// How long to wait before leasing again what no transform lets through, where no policy says.
const STUCK_WAIT: Duration = Duration::from_secs(1);

/// A consumer of one subscription. Dropping it leaves its leases until their deadlines.
pub struct Consumer {
    leasing: Leasing,
    id: ConsumerId,
    want: Want,
}

impl Consumer {
    pub(crate) fn new(
        subscription: Arc<Subscription>,
        flow: Flow,
        ack_deadline: Option<Duration>,
        records_max: usize,
    ) -> Result<Self> {
        let id = subscription.open_consumer(flow)?;
        let bytes_max = limits::PULL_BYTES_MAX;
        let fetch_records = records_max;
        let want = Want {
            records_max,
            bytes_max,
            ack_deadline,
            fetch_records,
            fetch_bytes: limits::PULL_BYTES_MAX,
            ..Want::default()
        };
        Ok(Self { leasing: Leasing::new(subscription), id, want })
    }

    /// The deadline of leases from now on.
    pub fn set_ack_deadline(&mut self, deadline: Duration) {
        self.want.ack_deadline = Some(deadline);
    }

    /// The next leases, at least one; pending while there is nothing to lease or the consumer holds
    /// as much as it may.
    pub fn poll_lease(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Lease>>> {
        self.leasing.poll_lease(self.id, &self.want, context)
    }

    /// The next leases, or none if there is nothing to lease now. Waits for the disk, but not for
    /// new records.
    fn poll_lease_now(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Lease>>> {
        match self.poll_lease(context) {
            Poll::Pending if self.leasing.is_idle => Poll::Ready(Ok(Vec::new())),
            other => other,
        }
    }

    /// What is on its way through transforms, or nothing.
    fn poll_transformed(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Lease>>> {
        match &mut self.leasing.transforming {
            Some(transforming) => transforming.poll(context).map_ok(|passed| passed.leases),
            None => Poll::Ready(Ok(Vec::new())),
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.leasing.subscription.close_consumer(self.id);
    }
}

/// How much to lease at a time.
#[derive(Default)]
pub(crate) struct Want {
    pub(crate) records_max: usize,
    /// A single record may be larger.
    pub(crate) bytes_max: usize,
    /// The subscription's own if `None`.
    pub(crate) ack_deadline: Option<Duration>,
    /// Records per disk read, if one is necessary.
    pub(crate) fetch_records: usize,
    /// Bytes to read then: they stay in memory until all of it is delivered.
    pub(crate) fetch_bytes: usize,
    /// Whether the leases are for push.
    pub(crate) is_push: bool,
    /// Whether records that were never delivered go before failed ones.
    pub(crate) prefers_fresh: bool,
    /// Whether to keep what was read while the consumer waits: it will continue in a moment.
    pub(crate) keeps_read: bool,
}

/// Leases of records as they are stored, and what they go through before they are delivered.
struct Stored {
    leases: Vec<Lease>,
    functions: Option<Arc<Functions>>,
}

/// Takes leases for one consumer after another, and reads from disk what is not in memory.
pub(crate) struct Leasing {
    subscription: Arc<Subscription>,
    /// By what factor to increase disk reads: little was left of the previous one.
    fetch_growth: usize,
    /// Which consumer was told to wait.
    waiting: Option<ConsumerId>,
    /// There was nothing to lease the last time it looked.
    is_idle: bool,
    /// A disk read for it is in progress.
    is_reading: bool,
    /// It has read something from disk, which may still be there.
    has_read: bool,
    /// What was leased and goes through transforms.
    transforming: Option<Box<Transforming>>,
    /// Nothing is leased before it ends.
    stuck: Option<BoxFuture<'static, ()>>,
}

impl Leasing {
    pub(crate) fn new(subscription: Arc<Subscription>) -> Self {
        Self {
            subscription,
            fetch_growth: 1,
            waiting: None,
            is_idle: false,
            is_reading: false,
            has_read: false,
            transforming: None,
            stuck: None,
        }
    }

    /// The next leases of `consumer`, at least one. While this is pending the same consumer must
    /// ask again.
    pub(crate) fn poll_lease(
        &mut self,
        consumer: ConsumerId,
        want: &Want,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<Lease>>> {
        loop {
            if let Some(transforming) = &mut self.transforming {
                // What is on its way through is as good as being read.
                (self.is_idle, self.is_reading) = (false, true);
                let passed = ready!(transforming.poll(context));
                self.transforming = None;
                let passed = passed?;
                if !passed.leases.is_empty() {
                    return Poll::Ready(Ok(passed.leases));
                }
                self.stuck = passed.is_stuck.then(|| self.subscription.sleep_for(STUCK_WAIT));
            }
            if let Some(stuck) = &mut self.stuck {
                (self.is_idle, self.is_reading) = (true, false);
                ready!(stuck.as_mut().poll(context));
                self.stuck = None;
            }
            let Stored { leases, functions } = ready!(self.poll_stored(consumer, want, context))?;
            let Some(functions) = functions else { return Poll::Ready(Ok(leases)) };
            let subscription = Arc::clone(&self.subscription);
            let started = Transforming::start(subscription, functions, leases, want.ack_deadline);
            self.transforming = Some(Box::new(started?));
        }
    }

    /// The next leases before they go through anything.
    fn poll_stored(
        &mut self,
        consumer: ConsumerId,
        want: &Want,
        context: &mut Context<'_>,
    ) -> Poll<Result<Stored>> {
        (self.is_idle, self.is_reading) = (false, false);
        let mut ask = Ask {
            consumer,
            records_max: want.records_max,
            bytes_max: want.bytes_max,
            ack_deadline: want.ack_deadline,
            has_waited: self.waiting.take().is_some(),
            is_push: want.is_push,
            prefers_fresh: want.prefers_fresh,
            keeps_read: want.keeps_read,
            fetch: self.fetch_limit(want),
            waker: context.waker(),
        };
        let mut leases = Vec::new();
        let step = self.subscription.lease(&mut ask, &mut leases)?;
        self.waiting = Some(consumer);
        match step {
            Step::Leased(functions) => {
                (self.fetch_growth, self.waiting) = (1, None);
                return Poll::Ready(Ok(Stored { leases, functions }));
            }
            Step::Wait => self.is_idle = true,
            Step::WaitForFetch { is_own } => self.is_reading = is_own,
            Step::Yield => context.waker().wake_by_ref(),
            Step::Fetch => {
                (self.is_reading, self.has_read) = (true, true);
                self.fetch_growth = self.fetch_growth.saturating_mul(FETCH_GROWTH);
            }
        }
        Poll::Pending
    }

    /// The consumer that asks next is already in the queue, and leaves it.
    pub(crate) fn leave_line(&mut self, consumer: ConsumerId) {
        self.waiting = Some(consumer);
    }

    /// Whether a disk read for it is in progress.
    pub(crate) fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Whether something is leased for it and goes through transforms.
    pub(crate) fn is_transforming(&self) -> bool {
        self.transforming.is_some()
    }

    /// Drops what was read and not delivered, and gives up its turn to read.
    pub(crate) fn let_go(&mut self) {
        self.transforming = None;
        if std::mem::take(&mut self.has_read) {
            self.is_reading = false;
            self.subscription.let_go_fetch(self.waiting);
        }
    }

    /// How much to read from disk, if necessary.
    fn fetch_limit(&self, want: &Want) -> ReadLimit {
        let growth = self.fetch_growth;
        let grown = |least: usize, most: usize| least.max(least.saturating_mul(growth).min(most));
        ReadLimit {
            records: grown(want.fetch_records, FETCH_RECORDS_MAX),
            bytes: grown(want.fetch_bytes, limits::PULL_BYTES_MAX),
        }
    }
}

/// Opens a stream on `subscription`.
pub(crate) fn stream(
    subscription: Arc<Subscription>,
    flow: Flow,
    ack_deadline: Duration,
) -> Result<Consumer> {
    Consumer::new(subscription, flow, Some(ack_deadline), STREAM_RECORDS_MAX)
}

/// Leases up to `records_max` records, waiting up to `wait` for the first; empty if none came.
pub(crate) async fn pull(
    subscription: Arc<Subscription>,
    clock: &dyn Clock,
    records_max: usize,
    wait: Duration,
) -> Result<Vec<Lease>> {
    let records_max = records_max.min(limits::PULL_MESSAGES_MAX);
    let mut consumer = Consumer::new(subscription, Flow::default(), None, records_max)?;
    let leases = poll_fn(|context| consumer.poll_lease_now(context)).await?;
    if !leases.is_empty() || wait.is_zero() {
        return Ok(leases);
    }
    let until = clock.now().plus(wait);
    tokio::select! {
        biased;
        leases = poll_fn(|context| consumer.poll_lease(context)) => return leases,
        () = clock.sleep_until(until) => {}
    }
    // What is on its way through transforms would go through them again with the next pull.
    poll_fn(|context| consumer.poll_transformed(context)).await
}

//! Whoever takes leases: a stream for as long as it is open, a pull for the time of its call.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clock::Clock;
use domain::delivery::{ConsumerId, Flow, Lease};
use domain::limits;
use storage::ReadLimit;

use crate::error::Result;
use crate::subscription::{Ask, Step, Subscription};

/// Most records handed out in one response of a stream.
const STREAM_RECORDS_MAX: usize = 1_000;

/// Records read from disk at a time, at most, where filters and lanes leave nothing of what was
/// read before. Otherwise no more is read than may be leased.
const FETCH_RECORDS_MAX: usize = 1_000;
/// How many times more are read then.
const FETCH_GROWTH: usize = 4;

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

    /// The next leases, at least one; pending while there is nothing to lease or the consumer
    /// already holds all it may.
    pub fn poll_lease(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Lease>>> {
        self.leasing.poll_lease(self.id, &self.want, context)
    }

    /// The next leases, or none if there is nothing to lease now. Waits for the disk, but not for
    /// records to come.
    fn poll_lease_now(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Lease>>> {
        match self.poll_lease(context) {
            Poll::Pending if self.leasing.is_idle => Poll::Ready(Ok(Vec::new())),
            other => other,
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
    /// One record may be larger.
    pub(crate) bytes_max: usize,
    /// The subscription's own if there is none.
    pub(crate) ack_deadline: Option<Duration>,
    /// Records to read from disk at a time, where that is necessary.
    pub(crate) fetch_records: usize,
    /// Bytes to read then: what is read is held in memory until all of it is handed out.
    pub(crate) fetch_bytes: usize,
    /// Whether what is leased is pushed.
    pub(crate) is_push: bool,
    /// Whether records that were never delivered go before those that failed.
    pub(crate) prefers_fresh: bool,
    /// Whether what was read is kept while the consumer waits: it will go on in a moment.
    pub(crate) keeps_read: bool,
}

/// Takes leases for one consumer after the other, and reads what is not in memory for them.
pub(crate) struct Leasing {
    subscription: Arc<Subscription>,
    /// How many times more to read from disk: little was left of what was read before.
    fetch_growth: usize,
    /// Who was told to wait.
    waiting: Option<ConsumerId>,
    /// There was nothing to lease when it looked last.
    is_idle: bool,
    /// What it wants is being read from disk, for it.
    is_reading: bool,
    /// It had something read from disk, which may be there still.
    has_read: bool,
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
        if matches!(step, Step::Leased) {
            self.fetch_growth = 1;
            return Poll::Ready(Ok(leases));
        }
        self.waiting = Some(consumer);
        match step {
            Step::Leased => {}
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

    /// The consumer that asks next stands in line already, and leaves it.
    pub(crate) fn leave_line(&mut self, consumer: ConsumerId) {
        self.waiting = Some(consumer);
    }

    /// Whether what it wants is being read from disk, for it.
    pub(crate) fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Drops what was read and not handed out, and gives up the turn to read.
    pub(crate) fn let_go(&mut self) {
        if std::mem::take(&mut self.has_read) {
            self.is_reading = false;
            self.subscription.let_go_fetch(self.waiting);
        }
    }

    /// How much to read from disk, if that is necessary.
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

/// Leases up to `records_max` records, waiting up to `wait` for the first; none if none came.
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
        leases = poll_fn(|context| consumer.poll_lease(context)) => leases,
        () = clock.sleep_until(until) => Ok(Vec::new()),
    }
}

//! How long a request may take. The time the endpoint needs and the time we make it wait are
//! separate: one is its own doing, the other is ours.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use futures::FutureExt;

/// The longest wait for a permit, whatever the timeout: with the longest timeout on top it still
/// ends before the lease of what is sent.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The remaining time of a request.
pub(super) struct Allowance<'a> {
    clock: &'a dyn Clock,
    timeout: Duration,
    deadline: Moment,
    wait_left: Duration,
}

impl<'a> Allowance<'a> {
    /// `timeout` for the endpoint, which ends at `deadline`, and the same again for waiting.
    pub(super) fn new(clock: &'a dyn Clock, timeout: Duration, deadline: Moment) -> Self {
        Self { clock, timeout, deadline, wait_left: timeout.min(WAIT_MAX) }
    }

    /// The whole of the endpoint's time.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// When the endpoint's time is over, if there is no more waiting.
    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Runs work on the endpoint's time; `None` = the time was over.
    pub(super) async fn spend<F: Future>(&self, work: F) -> Option<F::Output> {
        within(self.clock, self.deadline, work).await
    }

    /// Waits because of our own limits, which moves the deadline; `None` = for too long.
    pub(super) async fn wait<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let started = self.clock.now();
        let output = within(self.clock, started.plus(self.wait_left), work).await;
        let waited = self.clock.now().since(started);
        self.wait_left = self.wait_left.saturating_sub(waited);
        self.deadline = self.deadline.plus(waited);
        output
    }
}

/// Runs work until then; `None` = it was not done in time. Work that need not wait creates no
/// timer.
pub(super) async fn within<F: Future>(
    clock: &dyn Clock,
    until: Moment,
    work: F,
) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(until));
        timer.poll_unpin(context).map(|()| None)
    })
    .await
}

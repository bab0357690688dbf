//! Where the time comes from. The only place that asks the machine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::{Moment, Timestamp};
use futures::future::BoxFuture;

/// The clocks of a server. Tests put their own in.
pub trait Clock: Send + Sync {
    /// The monotonic clock, for leases and timers.
    fn now(&self) -> Moment;

    /// The wall clock, for what is stored.
    fn wall(&self) -> Timestamp;

    /// Resolves when `now` has reached `moment`.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Clocks whose `Moment(0)` is now.
    #[expect(clippy::disallowed_methods, reason = "the clock's one home")]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::default().plus(self.started.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "the clock's one home")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().plus(since)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let at = self.started + Duration::from_micros(moment.0);
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

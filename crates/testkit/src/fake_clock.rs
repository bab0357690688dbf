//! A clock in the test's hand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use domain::{Moment, Timestamp, Uptime};
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Its wall clock begins in January 2027.
const WALL_START: u64 = 1_800_000_000_000_000;

/// A clock that stands still until the test moves it, and knows until when others sleep. Its wall
/// clock can be set, and the machine it belongs to can sleep and start anew.
pub struct FakeClock {
    now: watch::Sender<u64>,
    /// What the wall clock shows beyond the monotonic one.
    wall: AtomicU64,
    /// How long the machine has slept: it is up then, and the monotonic clock stands.
    slept: AtomicU64,
    /// Which life of the machine this is.
    boot: AtomicU64,
    /// How many sleeps have begun that last until a moment to come.
    sleeps: watch::Sender<BTreeMap<Moment, usize>>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeClock {
    /// A clock whose `Moment(0)` is now.
    pub fn new() -> Self {
        Self {
            now: watch::Sender::new(0),
            wall: AtomicU64::new(WALL_START),
            slept: AtomicU64::new(0),
            boot: AtomicU64::new(1),
            sleeps: watch::Sender::default(),
        }
    }

    /// Time passes.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += micros(by));
        // What is over is no sleep any more, and would only pile up.
        let now = self.now();
        self.sleeps.send_modify(|sleeps| sleeps.retain(|until, _| *until > now));
    }

    /// Sets the wall clock forward; no time passes.
    pub fn set_forward(&self, by: Duration) {
        self.wall.fetch_add(micros(by), Ordering::SeqCst);
    }

    /// Sets the wall clock back; no time passes.
    pub fn set_back(&self, by: Duration) {
        self.wall.fetch_sub(micros(by), Ordering::SeqCst);
    }

    /// The machine sleeps for so long: the monotonic clock stands still meanwhile.
    pub fn suspend(&self, by: Duration) {
        self.slept.fetch_add(micros(by), Ordering::SeqCst);
        self.set_forward(by);
    }

    /// The machine starts anew: how long it was off, it does not know.
    pub fn reboot(&self) {
        self.boot.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until someone sleeps for `by` from now on.
    pub async fn is_slept_for(&self, by: Duration) {
        self.slept(by, |count| count > 0).await;
    }

    /// Waits until exactly so many sleeps for `by` from now on have begun.
    pub async fn is_slept_for_times(&self, by: Duration, times: usize) {
        self.slept(by, |count| count == times).await;
    }

    async fn slept(&self, by: Duration, is_enough: impl Fn(usize) -> bool) {
        let until = self.now().plus(by);
        let count = |sleeps: &BTreeMap<Moment, usize>| sleeps.get(&until).copied();
        let mut sleeps = self.sleeps.subscribe();
        let waited = sleeps.wait_for(|sleeps| is_enough(count(sleeps).unwrap_or(0))).await;
        assert!(waited.is_ok(), "a clock that is asked is there");
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Moment {
        Moment(*self.now.borrow())
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::SeqCst) + *self.now.borrow())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        self.sleeps.send_modify(|sleeps| *sleeps.entry(moment).or_default() += 1);
        Box::pin(async move {
            now.wait_for(|now| *now >= moment.0).await.map(drop).unwrap_or_default();
        })
    }

    fn uptime(&self) -> Option<Uptime> {
        let time = self.now().plus(Duration::from_micros(self.slept.load(Ordering::SeqCst)));
        Some(Uptime { boot: self.boot.load(Ordering::SeqCst), time })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_sleep_lasts_until_the_test_says_so() {
        let clock = FakeClock::new();
        let mut sleep = clock.sleep_until(clock.now().plus(HOUR));
        assert!(clock.is_slept_for(HOUR).now_or_never().is_some());
        assert!((&mut sleep).now_or_never().is_none());
        clock.advance(HOUR);
        assert!(sleep.now_or_never().is_some());
        assert!(clock.sleeps.borrow().is_empty());
    }

    #[test]
    fn each_clock_moves_on_its_own() {
        let clock = FakeClock::new();
        let all = |clock: &FakeClock| (clock.now(), clock.wall(), clock.uptime().unwrap());
        let (now, wall, up) = all(&clock);
        clock.set_forward(HOUR);
        assert_eq!(all(&clock), (now, wall.plus(HOUR), up));
        clock.set_back(HOUR);
        clock.suspend(HOUR);
        let longer = Uptime { time: up.time.plus(HOUR), ..up };
        assert_eq!(all(&clock), (now, wall.plus(HOUR), longer));
        clock.advance(HOUR);
        clock.reboot();
        let another = Uptime { boot: up.boot + 1, time: up.time.plus(2 * HOUR) };
        assert_eq!(all(&clock), (now.plus(HOUR), wall.plus(2 * HOUR), another));
    }
}

//! Where the time comes from. The only place that asks the machine.

pub mod tasks;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::{Moment, Timestamp, Uptime};
use futures::future::BoxFuture;

/// The clocks of a server. Tests use their own.
pub trait Clock: Send + Sync {
    /// The monotonic clock, for leases and timers.
    fn now(&self) -> Moment;

    /// The wall clock, for anything that is stored.
    fn wall(&self) -> Timestamp;

    /// Resolves when `now` has reached `moment`.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// How long the machine has been up, including sleep; `None` = unknown. Asked only when the
    /// wall clock seems to have jumped, and occasionally otherwise.
    fn uptime(&self) -> Option<Uptime> {
        None
    }
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

    /// `now` stands still while a Linux machine sleeps; this does not.
    fn uptime(&self) -> Option<Uptime> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        parse_uptime(&boot, &uptime)
    }
}

/// Parses what Linux reports: a random name for this boot, and the uptime in seconds.
fn parse_uptime(boot: &str, uptime: &str) -> Option<Uptime> {
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let boot = u64::from_str_radix(&digits, 16).ok()?.max(1);
    let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Uptime { boot, time: Moment::default().plus(time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_of_its_life_is_read() {
        let read = parse_uptime("0a1b2c3d-0000-4000-8000-000000000000\n", "12.34 45.60\n");
        let time = Moment(12_340_000);
        assert_eq!(read, Some(Uptime { boot: 0x0a1b_2c3d_0000_4000, time }));
        assert_eq!(parse_uptime("", "12.34 45.60"), None);
        assert_eq!(parse_uptime("0a1b2c3d-0000", "soon"), None);
        assert_eq!(parse_uptime("0a1b2c3d-0000", "-1"), None);
    }

    #[test]
    fn this_machine_knows_how_long_it_has_been_up() {
        if cfg!(target_os = "linux") {
            let (clock, before) = (SystemClock::start(), SystemClock::start().uptime().unwrap());
            let after = clock.uptime().unwrap();
            assert_eq!(after.boot, before.boot);
            assert!(after.time >= before.time);
        }
    }
}

//! A pause for an endpoint that fails, and one probe at its end.
//!
//! ```text
//!            too many failures            the pause is over
//!   Closed ────────────────────► Open ────────────────────► HalfOpen (one probe is out)
//!     ▲                            ▲        it failed            │
//!     │                            └─────────────────────────────┤
//!     └──────────────────────────────────────────────────────────┘ it succeeded
//! ```

use domain::limits::{PACE_MAX, PACE_MIN};
use domain::push::Health;
use domain::{Moment, RetryPolicy};

/// The pauses: doubling between two bounds.
const PAUSES: RetryPolicy = RetryPolicy { min: PACE_MIN, max: PACE_MAX };

/// Total weight of consecutive failures that opens a breaker.
const OPENS_AT: u32 = 60;

/// A single failure to reach the endpoint opens the breaker, as do three in a row if it is down,
/// and twenty refusals, because a few bad messages must not hold up the good ones.
fn weight(health: Health) -> u32 {
    match health {
        Health::Unreachable => OPENS_AT,
        Health::Down => OPENS_AT / 3,
        Health::Working => OPENS_AT / 20,
    }
}

/// Whether a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Go,
    /// It may, as the only one: its outcome decides for the others.
    Probe,
    /// Not before this moment.
    WaitUntil(Moment),
    /// Not before the outcome of the probe is known.
    ProbeOut,
}

/// An endpoint's breaker.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    state: State,
    /// The total weight of the failures since the last success.
    weight: u32,
    /// How many pauses there have been since the last success.
    pauses: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open(Moment),
    HalfOpen,
}

impl Breaker {
    /// A closed breaker.
    pub(crate) fn new() -> Self {
        Self { state: State::Closed, weight: 0, pauses: 0 }
    }

    /// Whether a request may go now. After `Probe` the caller sends one and reports its outcome:
    /// `on_success`, `on_failure` or `on_cancelled`.
    pub(crate) fn admits(&mut self, now: Moment) -> Admission {
        let admission = self.admission(now);
        if admission == Admission::Probe {
            self.state = State::HalfOpen;
        }
        admission
    }

    /// What `admits` would return; changes nothing.
    pub(crate) fn admission(&self, now: Moment) -> Admission {
        match self.state {
            State::Closed => Admission::Go,
            State::HalfOpen => Admission::ProbeOut,
            State::Open(until) if now < until => Admission::WaitUntil(until),
            State::Open(_) => Admission::Probe,
        }
    }

    /// Whether requests go freely.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// A request succeeded, probe or not: the endpoint works. Returns true if it did not before.
    pub(crate) fn on_success(&mut self) -> bool {
        let is_recovered = !self.is_closed();
        *self = Self::new();
        is_recovered
    }

    /// A request failed. One that was sent before the breaker opened and fails while it is open
    /// changes nothing. `seed` decides the jitter added to a pause, up to a tenth of it.
    pub(crate) fn on_failure(&mut self, now: Moment, health: Health, seed: u64) {
        self.weight = self.weight.saturating_add(weight(health));
        if matches!((self.state, health), (State::HalfOpen, Health::Working)) {
            // It answers, so the problem is the message.
            (self.state, self.weight) = (State::Closed, weight(health));
            return;
        }
        let opens = match self.state {
            State::Closed => self.weight >= OPENS_AT,
            State::HalfOpen => true,
            State::Open(_) => false,
        };
        if opens {
            self.pauses = self.pauses.saturating_add(1);
            self.state = State::Open(now.plus(PAUSES.backoff(self.pauses, seed)));
        }
    }

    /// The probe was cut off before it had an outcome: the next request is the probe.
    pub(crate) fn on_cancelled(&mut self) {
        if matches!(self.state, State::HalfOpen) {
            self.state = State::Open(Moment::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    const T0: Moment = Moment(1_000_000_000);

    fn pause(breaker: &mut Breaker, now: Moment) -> Duration {
        match breaker.admits(now) {
            Admission::WaitUntil(until) => until.since(now),
            other => panic!("{other:?}"),
        }
    }

    fn opens_after(health: Health) -> u32 {
        let mut breaker = Breaker::new();
        (1..)
            .find(|_| {
                breaker.on_failure(T0, health, 1);
                !breaker.is_closed()
            })
            .unwrap()
    }

    #[test]
    fn it_opens_sooner_the_surer_it_is_that_nothing_works() {
        assert_eq!(opens_after(Health::Unreachable), 1);
        assert_eq!(opens_after(Health::Down), 3);
        assert_eq!(opens_after(Health::Working), 20);
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let mut breaker = Breaker::new();
        for _ in 0..10 {
            breaker.on_failure(T0, Health::Down, 1);
            breaker.on_failure(T0, Health::Down, 1);
            assert!(!breaker.on_success());
        }
        assert_eq!(breaker.admits(T0), Admission::Go);
    }

    #[test]
    fn pauses_double_from_100_ms_to_60_s_with_up_to_a_tenth_added() {
        let (mut breaker, mut now) = (Breaker::new(), T0);
        breaker.on_failure(now, Health::Unreachable, 7);
        for expected_ms in [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200]
            .into_iter()
            .chain([60_000; 30])
        {
            let expected = Duration::from_millis(expected_ms);
            let pause = pause(&mut breaker, now);
            assert!(pause >= expected && pause <= expected + expected / 10, "{pause:?}");
            now = now.plus(pause);
            assert_eq!(breaker.admits(now), Admission::Probe);
            breaker.on_failure(now, Health::Down, now.0);
        }
    }

    #[test]
    fn half_open_lets_one_probe_out_and_its_success_closes() {
        let mut breaker = Breaker::new();
        breaker.on_failure(T0, Health::Unreachable, 1);
        let later = T0.plus(Duration::from_secs(1));
        assert_eq!(breaker.admits(later), Admission::Probe);
        assert_eq!(breaker.admits(later), Admission::ProbeOut);
        assert!(breaker.on_success());
        assert_eq!(breaker.admits(later), Admission::Go);
        breaker.on_failure(later, Health::Unreachable, 1);
        assert!(pause(&mut breaker, later) <= Duration::from_millis(110));
    }

    #[test]
    fn failures_of_what_was_sent_before_do_not_lengthen_the_pause() {
        let mut breaker = Breaker::new();
        breaker.on_failure(T0, Health::Unreachable, 1);
        let before = pause(&mut breaker, T0);
        for _ in 0..100 {
            breaker.on_failure(T0, Health::Unreachable, 1);
        }
        assert_eq!(pause(&mut breaker, T0), before);
    }

    #[test]
    fn a_probe_that_was_cut_off_makes_room_for_the_next() {
        let mut breaker = Breaker::new();
        breaker.on_failure(T0, Health::Unreachable, 1);
        breaker.on_cancelled();
        assert!(pause(&mut breaker, T0) >= Duration::from_millis(100));
        let later = T0.plus(Duration::from_secs(1));
        assert_eq!(breaker.admits(later), Admission::Probe);
        breaker.on_cancelled();
        assert_eq!(breaker.admits(later), Admission::Probe);
    }

    #[test]
    fn a_probe_that_is_refused_shows_that_the_endpoint_is_there() {
        let mut breaker = Breaker::new();
        breaker.on_failure(T0, Health::Unreachable, 0);
        let later = T0.plus(Duration::from_secs(1));
        assert_eq!(breaker.admits(later), Admission::Probe);
        breaker.on_failure(later, Health::Working, 0);
        assert_eq!(breaker.admits(later), Admission::Go);
    }

    proptest! {
        #[test]
        fn no_breaker_stays_shut_for_ever(
            events in proptest::collection::vec((0..6_u8, 0..100_000_u64), 0..300),
        ) {
            let (mut breaker, mut now) = (Breaker::new(), T0);
            for (event, wait_ms) in events {
                now = now.plus(Duration::from_millis(wait_ms));
                match event {
                    0 => breaker.on_failure(now, Health::Unreachable, wait_ms),
                    1 => breaker.on_failure(now, Health::Working, wait_ms),
                    2 => {
                        breaker.on_success();
                    }
                    3 => breaker.on_cancelled(),
                    _ => {
                        breaker.admits(now);
                    }
                }
            }
            breaker.on_cancelled();
            if let Admission::WaitUntil(until) = breaker.admits(now) {
                prop_assert!(until.since(now) <= Duration::from_secs(66));
                prop_assert_eq!(breaker.admits(until), Admission::Probe);
            }
            breaker.on_success();
            prop_assert_eq!(breaker.admits(now), Admission::Go);
        }
    }
}

//! How many requests an endpoint is sent at a time.
//!
//! ```text
//! limit   slow start: +1 a success   ╱╲      then +10 a second, or far less while answers take
//!                                            longer than at best: the requests only queue
//!   │                              ╱    ╲ halved          ___----
//!   │                            ╱        ╲_______-----╱
//!   4 ─────────────────────────╱
//! ```

use std::time::Duration;

use domain::Moment;

/// Requests at a time for an unknown endpoint.
const START: usize = 4;
/// Maximum requests at a time.
const MAX: u64 = 3_000;
/// Up to here a window grows by one with each success, whatever happened before.
const THRESHOLD_MIN: u64 = 32;
/// Growth stops while answers take longer than this.
const LATENCY_MAX: Duration = Duration::from_secs(1);
/// Above that it grows by one in this time, or per round trip if that takes longer: if answers are
/// fast, more at a time gains nothing.
const GROWTH_TIME: Duration = Duration::from_millis(100);
/// Answers that take longer than both twice the best and this are queued behind other requests of
/// ours.
const QUEUES_FROM: Duration = Duration::from_millis(2);
/// In this many round trips a window then grows by one.
const QUEUED_ROUNDS: u64 = 8;
/// Failures within this time count as one round trip, if the endpoint never answered or answers
/// faster.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(10);

/// One in fixed point: limits and shares are counted in parts of it.
const ONE: u64 = 1 << 20;
/// Growth stops while a smaller share than this is acked.
const ACKED_MIN: u64 = ONE / 100 * 99;
/// Each answer moves the smoothed share of acks by one part in this many.
const ACKED_PARTS: u64 = 128;
/// Each answer moves the smoothed latency by one part in this many.
const LATENCY_PARTS: u32 = 8;

/// An endpoint's window: how many requests it may have at a time, learned from how it answers.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// In parts of `ONE`.
    limit: u64,
    /// Below it growth is by one per success, above it by one per round trip.
    threshold: u64,
    /// The limit before the current run of failures.
    before: Option<u64>,
    latency: Option<Duration>,
    /// The shortest time an answer took since the window was last reduced.
    best: Option<Duration>,
    /// The smoothed share of acks, in parts of `ONE`.
    acked: u64,
    halved_at: Option<Moment>,
    round: Round,
}

/// About one round trip: as many successes as the limit was when it started.
#[derive(Clone, Copy, Debug)]
struct Round {
    limit: usize,
    left: usize,
    /// Most requests that were in flight in it. Answers come in bursts, so the number at one answer
    /// says little.
    in_flight: usize,
}

impl Round {
    fn begin(limit: usize) -> Self {
        Self { limit, left: limit, in_flight: 0 }
    }

    fn is_window_used(&self) -> bool {
        self.in_flight.saturating_mul(4) >= self.limit.saturating_mul(3)
    }
}

impl Window {
    /// The window of an unknown endpoint.
    pub(crate) fn new() -> Self {
        Self {
            limit: START as u64 * ONE,
            threshold: THRESHOLD_MIN * ONE,
            before: None,
            latency: None,
            best: None,
            acked: ONE,
            halved_at: None,
            round: Round::begin(START),
        }
    }

    /// How many requests may be in flight at a time; at least one.
    pub(crate) fn limit(&self) -> usize {
        usize::try_from(self.limit / ONE).unwrap_or(usize::MAX)
    }

    /// A request was acked after `latency`, as one of `in_flight`. A window that was not nearly
    /// used up does not grow: we learned nothing about more than was in flight.
    pub(crate) fn on_success(&mut self, latency: Duration, in_flight: usize) {
        self.before = None;
        self.acked += (ONE - self.acked).div_ceil(ACKED_PARTS);
        let smoothed = self.latency.unwrap_or(latency);
        let kept = smoothed / LATENCY_PARTS * (LATENCY_PARTS - 1);
        self.latency = Some(kept + latency / LATENCY_PARTS);
        self.round.in_flight = self.round.in_flight.max(in_flight);
        self.best = Some(self.best.map_or(latency, |best| best.min(latency)));
        if self.round.is_window_used() && self.may_grow() {
            let by = match self.limit {
                limit if self.queues() => ONE * ONE / limit / QUEUED_ROUNDS,
                limit if limit < self.threshold => ONE,
                limit => self.share_of_growth_time() * ONE / limit,
            };
            self.limit = (self.limit + by).min(MAX * ONE);
        }
        self.round.left = self.round.left.saturating_sub(1);
        if self.round.left == 0 {
            self.round = Round::begin(self.limit());
        }
    }

    /// A request failed: halves the window, unless that already happened within this round trip.
    pub(crate) fn on_failure(&mut self, now: Moment) {
        self.acked -= self.acked / ACKED_PARTS;
        let round_trip = self.latency.unwrap_or_default().max(ROUND_TRIP_MIN);
        if self.halved_at.is_some_and(|at| now.since(at) < round_trip) {
            return;
        }
        self.halved_at = Some(now);
        self.shrink_to(self.limit / 2);
    }

    /// The endpoint asked to be sent nothing: afterwards it is sent one request at a time.
    pub(crate) fn on_retry_after(&mut self) {
        self.shrink_to(ONE);
    }

    /// An endpoint that was down answers again: it gets half of what it could take before. The
    /// failures since then say nothing about now, so they no longer limit growth.
    pub(crate) fn on_recovered(&mut self) {
        let half = self.before.take().unwrap_or_default() / 2;
        self.limit = self.limit.max(half);
        self.acked = ONE;
        self.round = Round::begin(self.limit());
    }

    /// How much of `GROWTH_TIME` a round trip takes, in parts of `ONE`.
    fn share_of_growth_time(&self) -> u64 {
        let round_trip = self.latency.unwrap_or_default().min(GROWTH_TIME);
        let share = u128::from(ONE) * round_trip.as_micros() / GROWTH_TIME.as_micros();
        u64::try_from(share).unwrap_or(ONE)
    }

    /// Whether the requests in flight delay each other: more of them would only wait longer.
    fn queues(&self) -> bool {
        let best = self.best.unwrap_or_default();
        self.latency.is_some_and(|latency| latency > best * 2 + QUEUES_FROM)
    }

    fn may_grow(&self) -> bool {
        self.acked >= ACKED_MIN && self.latency.is_none_or(|latency| latency <= LATENCY_MAX)
    }

    fn shrink_to(&mut self, limit: u64) {
        self.before.get_or_insert(self.limit);
        self.best = None;
        self.threshold = (self.limit / 2).max(THRESHOLD_MIN * ONE);
        self.limit = limit.max(ONE);
        self.round = Round::begin(self.limit());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUICK: Duration = Duration::from_millis(5);

    /// `rounds` full windows, whose answers all come before the next is sent.
    fn succeed(window: &mut Window, latency: Duration, rounds: usize) {
        for _ in 0..rounds {
            for in_flight in (1..=window.limit()).rev() {
                window.on_success(latency, in_flight);
            }
        }
    }

    fn ms(ms: u64) -> Moment {
        Moment(ms * 1_000)
    }

    #[test]
    fn a_window_starts_at_four_doubles_up_to_32_and_then_grows_by_ten_a_second() {
        let mut window = Window::new();
        assert_eq!(window.limit(), 4);
        succeed(&mut window, QUICK, 1);
        assert_eq!(window.limit(), 8);
        succeed(&mut window, QUICK, 2);
        assert_eq!(window.limit(), 32);
        succeed(&mut window, QUICK, 200);
        assert!((38..=43).contains(&window.limit()), "{}", window.limit());
        succeed(&mut window, Duration::from_millis(10), 100);
        assert!((45..=54).contains(&window.limit()), "{}", window.limit());
    }

    #[test]
    fn a_window_has_an_end() {
        let mut window = Window::new();
        succeed(&mut window, Duration::from_millis(200), 3_100);
        assert_eq!(window.limit(), 3_000);
    }

    #[test]
    fn it_hardly_grows_while_requests_only_queue_at_the_endpoint() {
        let mut window = Window::new();
        succeed(&mut window, QUICK, 5);
        // 200 ms where 5 ms were enough.
        succeed(&mut window, 40 * QUICK, 1);
        let from = window.limit();
        succeed(&mut window, 40 * QUICK, 80);
        assert!((from + 8..=from + 12).contains(&window.limit()), "{from} {}", window.limit());
    }

    #[test]
    fn after_a_failure_it_grows_by_one_a_round_trip() {
        let mut window = Window::new();
        window.limit = 256 * ONE;
        window.on_failure(ms(100));
        assert_eq!(window.limit(), 128);
        succeed(&mut window, 20 * QUICK, 11);
        assert!((136..=140).contains(&window.limit()), "{}", window.limit());
    }

    #[test]
    fn it_is_halved_once_a_round_trip_and_never_below_one() {
        let mut window = Window::new();
        window.on_success(Duration::from_millis(200), 1);
        succeed(&mut window, Duration::from_millis(200), 1);
        let before = window.limit();
        window.on_failure(ms(1_000));
        window.on_failure(ms(1_001));
        window.on_failure(ms(1_199));
        assert_eq!(window.limit(), before / 2);
        window.on_failure(ms(1_201));
        assert_eq!(window.limit(), before / 4);
        for at in 2..20 {
            window.on_failure(ms(at * 1_000));
        }
        assert_eq!(window.limit(), 1);
    }

    #[test]
    fn it_does_not_grow_while_answers_take_longer_than_a_second() {
        let mut window = Window::new();
        succeed(&mut window, Duration::from_millis(1_001), 20);
        assert_eq!(window.limit(), 4);
        succeed(&mut window, QUICK, 20);
        assert!(window.limit() > 4);
    }

    #[test]
    fn it_does_not_grow_while_fewer_than_99_of_100_are_acked() {
        let mut window = Window::new();
        for round in 0..1_000_u64 {
            window.on_failure(ms(round));
            for _ in 0..50 {
                window.on_success(QUICK, 3_000);
            }
        }
        assert_eq!(window.limit(), 1);
        for _ in 0..1_000 {
            window.on_success(QUICK, 3_000);
        }
        assert!(window.limit() > 30);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut window = Window::new();
        for _ in 0..1_000 {
            window.on_success(QUICK, 1);
        }
        assert_eq!(window.limit(), 4);
    }

    #[test]
    fn an_endpoint_that_recovers_gets_half_of_what_it_had() {
        let mut window = Window::new();
        window.limit = 128 * ONE;
        for at in 1..10 {
            window.on_failure(ms(at * 1_000));
        }
        assert_eq!(window.limit(), 1);
        window.on_recovered();
        assert_eq!(window.limit(), 64);
        succeed(&mut window, 20 * QUICK, 4);
        assert!((66..=68).contains(&window.limit()), "{}", window.limit());
    }

    #[test]
    fn recovering_never_shrinks_a_window() {
        let mut window = Window::new();
        window.on_failure(ms(0));
        window.on_recovered();
        assert_eq!(window.limit(), 2);
        window.on_recovered();
        assert_eq!(window.limit(), 2);
    }

    #[test]
    fn retry_after_leaves_one_request_at_a_time() {
        let mut window = Window::new();
        window.limit = 128 * ONE;
        window.on_retry_after();
        assert_eq!(window.limit(), 1);
        window.on_recovered();
        assert_eq!(window.limit(), 64);
    }

    proptest! {
        #[test]
        fn whatever_happens_the_limit_stays_in_bounds(
            events in proptest::collection::vec((0..4_u8, 0..3_000_u64, 0..4_000_usize), 0..500),
        ) {
            let (mut window, mut now) = (Window::new(), Moment(0));
            for (event, latency_ms, in_flight) in events {
                let latency = Duration::from_millis(latency_ms);
                now = now.plus(latency);
                match event {
                    0 => window.on_failure(now),
                    1 => window.on_retry_after(),
                    2 => window.on_recovered(),
                    _ => window.on_success(latency, in_flight),
                }
                prop_assert!((1..=3_000).contains(&window.limit()));
            }
        }
    }
}

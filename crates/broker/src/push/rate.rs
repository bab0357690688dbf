//! A fixed limit on requests per second.

use domain::Moment;

/// What one request costs; a second refills `per_second` times as much.
const COST: u128 = 1_000_000;

/// A token bucket that holds a tenth of a second's requests.
///
/// It stores one number, the time at which it is full again, in `per_second` parts of a
/// microsecond: nothing is rounded, so it does not drift.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    per_second: u128,
    /// How far ahead `full_at` may be while a request is still available.
    slack: u128,
    full_at: u128,
}

impl Rate {
    /// A full bucket. Zero requests per second counts as one.
    pub(crate) fn new(per_second: u32) -> Self {
        let burst = u128::from((per_second / 10).max(1));
        Self { per_second: u128::from(per_second.max(1)), slack: (burst - 1) * COST, full_at: 0 }
    }

    /// Takes one request, or returns when there will be one.
    pub(crate) fn take(&mut self, now: Moment) -> Result<(), Moment> {
        let now = u128::from(now.0) * self.per_second;
        if self.full_at > now + self.slack {
            let at = (self.full_at - self.slack).div_ceil(self.per_second);
            return Err(Moment(u64::try_from(at).unwrap_or(u64::MAX)));
        }
        self.full_at = self.full_at.max(now) + COST;
        Ok(())
    }

    /// Puts back a request that was taken and not sent.
    pub(crate) fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(COST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_a_second_for_a_day_are_exactly_that() {
        let (mut rate, mut now, mut sent) = (Rate::new(3), Moment(0), 0_u64);
        let day = 24 * 3_600;
        while now.0 < day * 1_000_000 {
            match rate.take(now) {
                Ok(()) => sent += 1,
                Err(at) => now = at,
            }
        }
        assert_eq!(sent, 3 * day);
    }

    #[test]
    fn a_burst_is_a_tenth_of_a_second() {
        for (per_second, burst) in [(1, 1), (9, 1), (10, 1), (100, 10), (100_000, 10_000)] {
            let (mut rate, now) = (Rate::new(per_second), Moment(5_000_000));
            let taken = (0..).take_while(|_| rate.take(now).is_ok()).count();
            assert_eq!(taken, burst);
            let at = rate.take(now).unwrap_err();
            assert_eq!(at.0 - now.0, 1_000_000_u64.div_ceil(u64::from(per_second)));
            assert_eq!(rate.take(at), Ok(()));
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut rate = Rate::new(1);
        rate.take(Moment(0)).unwrap();
        assert_eq!(rate.take(Moment(0)), Err(Moment(1_000_000)));
        rate.give_back();
        assert_eq!(rate.take(Moment(0)), Ok(()));
        rate.give_back();
        rate.give_back();
        assert_eq!(rate.take(Moment(0)), Ok(()));
        assert!(rate.take(Moment(0)).is_err(), "giving back twice fills the bucket, not more");
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_has_more_than_the_burst_and_the_rate(
            per_second in 1..5_000_u32,
            steps in proptest::collection::vec(0..50_000_u64, 1..300),
        ) {
            let (mut rate, mut now, mut sent) = (Rate::new(per_second), 0, Vec::new());
            for step in steps {
                now += step;
                if rate.take(Moment(now)).is_ok() {
                    sent.push(now);
                }
            }
            let burst = u64::from((per_second / 10).max(1));
            for (first, &from) in sent.iter().enumerate() {
                for (last, &to) in sent.iter().enumerate().skip(first) {
                    let allowed = burst + (to - from) * u64::from(per_second) / 1_000_000;
                    prop_assert!((last - first) as u64 <= allowed);
                }
            }
        }
    }
}

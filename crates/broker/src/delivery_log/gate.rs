//! How many lines per second one subscription may have.

use domain::{Moment, SubscriptionName};
use parking_lot::{Mutex, MutexGuard};

const SECOND_US: u64 = 1_000_000;

/// A subscription, and how many lines it may have.
pub(crate) struct LineLimit {
    subscription: SubscriptionName,
    gate: Mutex<Gate>,
}

impl LineLimit {
    pub(crate) fn new(subscription: SubscriptionName) -> Self {
        Self { subscription, gate: Mutex::default() }
    }

    pub(super) fn subscription(&self) -> &SubscriptionName {
        &self.subscription
    }

    pub(super) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock()
    }
}

/// Lets this many through per second, and counts the rest.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The second being counted.
    second: u64,
    passed: u32,
    left_out: u64,
}

impl Gate {
    /// Whether one more may pass now.
    pub(super) fn passes(&mut self, now: Moment, per_second: u32) -> bool {
        let second = now.0 / SECOND_US;
        if second != self.second {
            (self.second, self.passed) = (second, 0);
        }
        let may_pass = self.passed < per_second;
        self.passed += u32::from(may_pass);
        may_pass
    }

    /// Counts one that did not pass; returns whether it is the first since the last report.
    pub(super) fn leave_out(&mut self) -> bool {
        self.left_out += 1;
        self.left_out == 1
    }

    /// How many did not pass since the last call.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_lets_so_many_through_and_the_rest_are_counted_once() {
        let mut gate = Gate::default();
        let passed = (0..5).filter(|_| gate.passes(Moment(10), 2)).count();
        assert_eq!(passed, 2);
        assert!(gate.leave_out() && !gate.leave_out());
        assert_eq!((gate.take_left_out(), gate.take_left_out()), (2, 0));
        assert!(gate.passes(Moment(SECOND_US), 2), "a new second");
        assert!(!gate.passes(Moment(2 * SECOND_US), 0), "none at all may be wanted");
    }
}

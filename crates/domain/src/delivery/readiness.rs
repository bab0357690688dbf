//! Whether a record may be delivered now: the single rule about backoffs and attempts.
//!
//! ```text
//!   a delivery fails ─► Failure ─► attempts, backoff (journaled) ─► Readiness
//!                                                                    │
//!                    Ready ─► leased again ◄── its time comes ◄── BackingOff
//!                    Exhausted ─► its owner forwards or drops it
//!                    Halted ─► its lane waits for an operator
//! ```
//!
//! `Standing` stores the answer for a record without a lane, `Hold` for a whole lane; `LeaseStatus`
//! is the outcome of a call of `lease`.

use std::time::Duration;

use super::{Delivery, Settings};
use crate::offset::Offset;
use crate::policy::Poison;
use crate::time::{Moment, Now, Timestamp};

/// The longest a record waits, whatever the wall clock says: it may have been set back since.
const BACKOFF_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a record may be delivered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It may.
    Ready,
    /// Not before this moment.
    BackingOff(Moment),
    /// It has used up its attempts, this many, and goes to its owner.
    Exhausted(u32),
    /// It has used up its attempts, and its lane waits for an operator.
    Halted,
}

/// What the rule needs to know about a record.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// How many deliveries of it have failed.
    failed: u32,
    /// When the next delivery may happen.
    due: Timestamp,
    /// It may be tried once more although it has used up its attempts.
    is_spared: bool,
    is_in_lane: bool,
}

impl Settings {
    fn readiness(&self, now: Now, tried: Tried) -> Readiness {
        let Tried { failed, due, is_spared, is_in_lane } = tried;
        if failed > 0 && self.attempts_max.is_some_and(|max| failed >= max) && !is_spared {
            let halts = is_in_lane && self.poison == Poison::Halt;
            return if halts { Readiness::Halted } else { Readiness::Exhausted(failed) };
        }
        if due > now.wall {
            let wait = due.since(now.wall).min(BACKOFF_MAX);
            return Readiness::BackingOff(now.moment.plus(wait));
        }
        Readiness::Ready
    }
}

impl Delivery {
    /// Whether a record with this many failures, as far as memory knows, may be delivered now.
    pub(super) fn readiness(
        &self,
        now: Now,
        offset: Offset,
        failed: u32,
        is_spared: bool,
        is_in_lane: bool,
    ) -> Readiness {
        let known = self.progress.attempt(offset);
        let (failed, due) = known
            .map_or((failed, Timestamp(0)), |attempt| (attempt.count.max(failed), attempt.due));
        self.settings.readiness(now, Tried { failed, due, is_spared, is_in_lane })
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness::{BackingOff, Exhausted, Halted, Ready};
    use super::*;

    const NOW: Now = Now { moment: Moment(5_000_000), wall: Timestamp(900_000_000) };

    fn tried(failed: u32, due: u64) -> Tried {
        Tried { failed, due: Timestamp(due), is_spared: false, is_in_lane: false }
    }

    fn settings(attempts_max: Option<u32>, poison: Poison) -> Settings {
        Settings { attempts_max, poison, ..Settings::plain(Duration::from_secs(10)) }
    }

    #[test]
    fn attempts_and_backoff_decide_whether_a_record_may_go() {
        let (past, at, soon) = (899_000_000, 900_000_000, 900_000_300);
        let later = BackingOff(Moment(5_000_300));
        for (attempts_max, failed, due, expected) in [
            (None, 0, 0, Ready),
            (None, 1_000, past, Ready),
            (None, 1, at, Ready),
            (None, 1, soon, later),
            (Some(5), 0, 0, Ready),
            (Some(5), 4, past, Ready),
            (Some(5), 4, soon, later),
            (Some(5), 5, past, Exhausted(5)),
            (Some(5), 5, soon, Exhausted(5)),
            (Some(5), 9, past, Exhausted(9)),
            // A record that never failed is never given up.
            (Some(0), 0, 0, Ready),
            (Some(0), 1, 0, Exhausted(1)),
        ] {
            let settings = settings(attempts_max, Poison::Skip);
            let found = settings.readiness(NOW, tried(failed, due));
            assert_eq!(found, expected, "{failed} of {attempts_max:?}, due at {due}");
        }
    }

    #[test]
    fn only_a_lane_that_halts_for_poison_is_halted_by_an_exhausted_record() {
        for (poison, is_in_lane, expected) in [
            (Poison::Skip, false, Exhausted(5)),
            (Poison::Skip, true, Exhausted(5)),
            (Poison::Halt, false, Exhausted(5)),
            (Poison::Halt, true, Halted),
        ] {
            let tried = Tried { is_in_lane, ..tried(5, 0) };
            assert_eq!(settings(Some(5), poison).readiness(NOW, tried), expected);
        }
    }

    #[test]
    fn a_record_that_is_spared_waits_for_its_backoff_only() {
        for poison in [Poison::Skip, Poison::Halt] {
            let spared = |due| Tried { is_spared: true, is_in_lane: true, ..tried(5, due) };
            let settings = settings(Some(5), poison);
            assert_eq!(settings.readiness(NOW, spared(0)), Ready);
            let later = BackingOff(Moment(5_000_300));
            assert_eq!(settings.readiness(NOW, spared(900_000_300)), later);
        }
    }

    #[test]
    fn a_wall_clock_that_was_set_back_holds_nothing_up_for_longer_than_a_day() {
        let found = settings(None, Poison::Skip).readiness(NOW, tried(1, u64::MAX));
        assert_eq!(found, BackingOff(Moment(5_000_000 + 86_400_000_000)));
    }
}

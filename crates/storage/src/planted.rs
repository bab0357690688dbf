//! Faults that tests plant, to see that the simulation finds them.
//!
//! Without the feature `planted`, which only tests turn on, none can be planted and every question
//! for one is answered `false` when the program is compiled.

/// Something done wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A shared engine lets an older owner's progress through: only appends are fenced.
    NoFenceOnAcks,
    /// The broker answers calls without looking whether its lease is still good.
    NoLeaseCheck,
    /// A topic that the broker does not know counts as gone when the log is trimmed.
    TrimOfUnknown,
    /// The courier does not note at the target what it has taken there.
    CourierWithoutMark,
    /// An engine answers a commit before it is durable.
    AnswerBeforeSync,
    /// A checkpoint says that it holds more of the log than it does.
    CheckpointAhead,
    /// Those who wait for messages are sometimes not woken when there are some.
    MissedWake,
}

impl Fault {
    /// Every one of them.
    pub const ALL: [Self; 7] = [
        Self::NoFenceOnAcks,
        Self::NoLeaseCheck,
        Self::TrimOfUnknown,
        Self::CourierWithoutMark,
        Self::AnswerBeforeSync,
        Self::CheckpointAhead,
        Self::MissedWake,
    ];
}

/// The faults that are planted; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    #[cfg(any(test, feature = "planted"))]
    bits: u8,
}

#[cfg(any(test, feature = "planted"))]
impl Planted {
    /// Only this one.
    pub const fn only(fault: Fault) -> Self {
        Self { bits: 1 << fault as u8 }
    }

    /// Whether it is among them.
    pub const fn has(self, fault: Fault) -> bool {
        self.bits & (1 << fault as u8) != 0
    }
}

#[cfg(not(any(test, feature = "planted")))]
impl Planted {
    /// Whether it is among them: never, in a program that is not under test.
    #[inline(always)]
    pub const fn has(self, _: Fault) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_planted_is_there() {
        for planted in Fault::ALL {
            for asked in Fault::ALL {
                assert_eq!(Planted::only(planted).has(asked), planted == asked);
                assert!(!Planted::default().has(asked));
            }
        }
    }
}

//! An object that is being filled, and when it is complete.

use super::ObjectLimits;
use crate::limits::OBJECT_BYTES_MAX;
use crate::time::Moment;

/// What an object has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    limits: ObjectLimits,
    since: Moment,
    messages: u64,
    bytes: u64,
}

impl Filling {
    /// An object that gets its first message now.
    pub fn begin(limits: ObjectLimits, now: Moment) -> Self {
        Self { limits, since: now, messages: 0, bytes: 0 }
    }

    /// Whether a message that makes the object so long still goes into it. The first always does.
    pub fn takes(&self, bytes: u64) -> bool {
        self.messages == 0 || (!self.is_full() && bytes <= self.bytes_max())
    }

    /// A message went into it, which is so long now.
    pub fn note(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes = bytes;
    }

    /// How many messages it has.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// How many more messages it takes.
    pub fn messages_left(&self) -> u64 {
        self.limits.messages.map_or(u64::MAX, |max| max.saturating_sub(self.messages))
    }

    /// How many more bytes it takes.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_max().saturating_sub(self.bytes)
    }

    /// Whether it takes no further message, however short.
    pub fn is_full(&self) -> bool {
        self.messages_left() == 0 || self.bytes_left() == 0
    }

    /// When it is complete, however little it has.
    pub fn until(&self) -> Moment {
        self.since.plus(self.limits.duration)
    }

    fn bytes_max(&self) -> u64 {
        self.limits.bytes.unwrap_or(OBJECT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn filling(bytes: Option<u64>, messages: Option<u64>) -> Filling {
        let limits = ObjectLimits { bytes, messages, ..ObjectLimits::default() };
        Filling::begin(limits, Moment(7))
    }

    #[test]
    fn an_object_is_complete_when_it_has_its_messages() {
        let mut object = filling(None, Some(2));
        assert!(object.takes(10));
        object.note(10);
        assert!(object.takes(20) && !object.is_full());
        object.note(20);
        assert!(object.is_full() && !object.takes(21));
        assert_eq!((object.messages(), object.messages_left()), (2, 0));
    }

    #[test]
    fn no_object_is_longer_than_asked_for_unless_one_message_is() {
        let mut object = filling(Some(1_000), None);
        assert!(object.takes(5_000), "it must go somewhere");
        object.note(400);
        assert!(object.takes(1_000) && !object.takes(1_001));
        assert_eq!(object.bytes_left(), 600);
        object.note(1_000);
        assert!(object.is_full());
        let mut large = filling(Some(1_000), None);
        large.note(5_000);
        assert!(large.is_full());
    }

    #[test]
    fn an_object_waits_for_so_long_and_no_longer() {
        let object = filling(None, None);
        assert_eq!(object.until(), Moment(7).plus(Duration::from_secs(300)));
        assert_eq!(object.bytes_left(), 10 << 30);
        assert!(!object.is_full());
    }
}

//! Positions in a topic's log, and the record at such a position.

use std::fmt;

use bytes::Bytes;

use crate::time::Timestamp;

/// A record's position in its topic's log. Dense within a topic, never used twice for a topic name.
///
/// The message id clients see is this number in decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// The offset `by` positions later.
    #[must_use]
    pub fn plus(self, by: u64) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// The offset after this one.
    #[must_use]
    pub fn next(self) -> Self {
        self.plus(1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offsets `from ≤ o < to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetRange {
    /// First offset in the range.
    pub from: Offset,
    /// First offset after the range.
    pub to: Offset,
}

impl OffsetRange {
    /// The range of one offset.
    pub fn one(offset: Offset) -> Self {
        Self { from: offset, to: offset.next() }
    }

    /// How many offsets are in the range.
    pub fn len(self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }

    /// Whether the range is empty.
    pub fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// Whether `offset` is in the range.
    pub fn contains(self, offset: Offset) -> bool {
        self.from <= offset && offset < self.to
    }
}

/// One life of a topic. A topic that is deleted and recreated under its name gets another id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u64);

/// One life of a subscription, like `TopicId`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// The number that fences older owners of a shard: each owner has a greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A message at an offset in a topic's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub offset: Offset,
    /// When the server received it; never decreases within a topic.
    pub publish_time: Timestamp,
    /// The only subscription it is meant for (a replay); `None` = all of them.
    pub addressee: Option<SubscriptionId>,
    /// The message in the layout of `message::encode`: what consumers are sent, byte for byte.
    pub body: Bytes,
}

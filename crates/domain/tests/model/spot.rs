//! One offset as the naive model knows it, and the ids given out for it.

use std::collections::BTreeMap;

use domain::delivery::AckId;
use domain::progress::Attempt;
use domain::{Moment, SubscriptionId, Timestamp};

pub(crate) type Attributes = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Record,
    Gap,
    Damaged,
}

/// Whether a record that is not settled was acked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ack {
    No,
    /// It settles when all before it in its lane do.
    Provisional,
    /// The same, with an id of an earlier epoch, and perhaps before the record was read again.
    Early,
    /// As `Early`, but one before it in its lane came back since: it may come back too.
    Loose,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    /// The number of the lease in `Naive::given`.
    pub(crate) lease: usize,
    pub(crate) consumer: usize,
    pub(crate) deadline: Moment,
}

/// One offset.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) kind: Kind,
    pub(crate) key: usize,
    pub(crate) attributes: Attributes,
    pub(crate) bytes: u64,
    pub(crate) published: Timestamp,
    pub(crate) addressee: Option<SubscriptionId>,
    /// By the settings now.
    pub(crate) lane: Option<usize>,
    pub(crate) settled: bool,
    pub(crate) ack: Ack,
    pub(crate) held: Option<Held>,
    /// Deliveries that failed, as far as they are remembered.
    pub(crate) failed: u32,
    /// What is journaled of them.
    pub(crate) noted: Option<Attempt>,
    /// It may be tried once more although it is exhausted.
    pub(crate) is_spared: bool,
    /// An operator gave it up.
    pub(crate) is_skipped: bool,
    /// It was leased since the last restart, seek or change of order, so that it surely was read.
    pub(crate) is_known: bool,
}

impl Spot {
    pub(crate) fn new(
        kind: Kind,
        key: usize,
        attributes: Attributes,
        published: Timestamp,
    ) -> Self {
        Self {
            kind,
            key,
            attributes,
            bytes: 0,
            published,
            addressee: None,
            lane: None,
            settled: false,
            ack: Ack::No,
            held: None,
            failed: 0,
            noted: None,
            is_spared: false,
            is_skipped: false,
            is_known: false,
        }
    }

    /// Neither settled nor out, though it may be gone.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.settled && self.held.is_none()
    }

    /// Neither settled nor out: it waits, for whatever it is.
    pub(crate) fn waits(&self) -> bool {
        self.is_unsettled() && self.kind != Kind::Gap
    }

    /// Nothing is remembered but what is journaled.
    pub(crate) fn forget(&mut self) {
        self.ack = Ack::No;
        self.held = None;
        self.forget_tries();
    }

    pub(crate) fn forget_tries(&mut self) {
        self.failed = self.noted.map_or(0, |attempt| attempt.count);
        self.is_spared = false;
        self.is_skipped = false;
        self.is_known = false;
    }
}

/// An ack id that was given out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) id: AckId,
    pub(crate) offset: usize,
    pub(crate) epoch: u64,
    /// How often the order had changed by then.
    pub(crate) regime: u32,
    /// A seek came after it.
    pub(crate) is_void: bool,
    /// Its record came back since. In a lane that makes it void, as long as anybody remembers.
    pub(crate) has_come_back: bool,
    /// It settled its record with exactly-once.
    pub(crate) is_confirmed: bool,
}

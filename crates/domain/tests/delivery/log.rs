//! A topic's log for tests: records, gaps and damage, and a part that must be fetched first.

use bytes::Bytes;
use domain::delivery::{Read, Source};
use domain::{Offset, OffsetRange, Record, SubscriptionId, Timestamp};

/// What stands at one offset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Record { bytes: usize, addressee: Option<SubscriptionId> },
    Gap,
    Damaged,
}

/// Offsets from 0 on.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) places: Vec<Place>,
    /// What lies below is elsewhere, except what was fetched.
    pub(crate) memory_from: Offset,
    pub(crate) fetched: Option<OffsetRange>,
}

impl Log {
    pub(crate) fn end(&self) -> Offset {
        Offset(self.places.len() as u64)
    }

    pub(crate) fn place(&self, offset: Offset) -> &Place {
        self.places.get(index(offset)).expect("the offset lies in the log")
    }

    pub(crate) fn set(&mut self, offset: Offset, place: Place) {
        *self.places.get_mut(index(offset)).expect("the offset lies in the log") = place;
    }

    /// Whether `offset` can be read without fetching.
    pub(crate) fn is_at_hand(&self, offset: Offset) -> bool {
        offset >= self.memory_from || self.fetched.is_some_and(|range| range.contains(offset))
    }
}

impl Source for Log {
    fn read(&mut self, from: Offset, records_max: usize, bytes_max: usize) -> Read {
        if from >= self.end() {
            return Read::AtEnd;
        }
        let (mut records, mut damaged, mut bytes_left) = (Vec::new(), Vec::new(), bytes_max);
        let mut to = from;
        while to < self.end() && self.is_at_hand(to) {
            match self.place(to) {
                Place::Gap => {}
                Place::Damaged => damaged.push(to),
                &Place::Record { bytes, addressee } => {
                    let fits = records.len() < records_max && bytes <= bytes_left;
                    if !records.is_empty() && !fits {
                        break;
                    }
                    bytes_left = bytes_left.saturating_sub(bytes);
                    records.push(record(to, bytes, addressee));
                }
            }
            to = to.next();
        }
        if to == from {
            return Read::Elsewhere;
        }
        Read::Records { covered: OffsetRange { from, to }, records, damaged }
    }
}

fn record(offset: Offset, bytes: usize, addressee: Option<SubscriptionId>) -> Record {
    let body = Bytes::from(vec![b'x'; bytes]);
    Record { offset, publish_time: Timestamp(offset.0), addressee, body }
}

fn index(offset: Offset) -> usize {
    usize::try_from(offset.0).expect("test logs are short")
}

//! A topic's log for tests: records, gaps and damage, and a part that must be fetched first.

use bytes::Bytes;
use domain::delivery::{Read, Source};
use domain::{Message, Offset, OffsetRange, Record, SubscriptionId, Timestamp, message};

/// What stands at one offset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    Record(Record),
    Gap,
    Damaged,
}

/// Offsets from 0 on.
pub(crate) struct Log {
    pub(crate) places: Vec<Place>,
    /// What lies below is elsewhere, except what was fetched.
    pub(crate) memory_from: Offset,
    pub(crate) fetched: Option<OffsetRange>,
    /// Most offsets covered by one read, so that stretches end where nobody expects it.
    pub(crate) read_max: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self { places: Vec::new(), memory_from: Offset(0), fetched: None, read_max: u64::MAX }
    }
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

    /// Appends a record; returns its offset.
    pub(crate) fn publish(
        &mut self,
        body: Bytes,
        publish_time: Timestamp,
        addressee: Option<SubscriptionId>,
    ) -> Offset {
        let offset = self.end();
        self.places.push(Place::Record(Record { offset, publish_time, addressee, body }));
        offset
    }

    /// The body that `message` has when it is published next.
    pub(crate) fn encode(&self, message: &Message, publish_time: Timestamp) -> Bytes {
        let mut body = Vec::new();
        message::encode(message, self.end(), publish_time, &mut body);
        body.into()
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
        let end = self.end().min(from.plus(self.read_max));
        while to < end && self.is_at_hand(to) {
            match self.place(to) {
                Place::Gap => {}
                Place::Damaged => damaged.push(to),
                Place::Record(record) => {
                    let bytes = record.body.len();
                    let fits = records.len() < records_max && bytes <= bytes_left;
                    if !records.is_empty() && !fits {
                        break;
                    }
                    bytes_left = bytes_left.saturating_sub(bytes);
                    records.push(record.clone());
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

fn index(offset: Offset) -> usize {
    usize::try_from(offset.0).expect("test logs are short")
}

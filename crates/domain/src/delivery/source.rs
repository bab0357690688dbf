//! Where records come from, what a consumer asks for, and what it gets.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::{AckId, ConsumerId};
use crate::offset::{Offset, OffsetRange, Record};
use crate::time::Timestamp;

/// The visible part of a topic's log, as far as it can be read without waiting.
pub trait Source {
    /// Reads from `from` on, in offset order: at most `records_max` records of together at most
    /// `bytes_max` bytes, but at least one record if there is any, however large it is.
    fn read(&mut self, from: Offset, records_max: usize, bytes_max: usize) -> Read;
}

/// What a `Source` has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Some of the log.
    Records {
        /// What was looked at; starts where it was asked for and is not empty. An offset inside
        /// that is in neither list is a gap.
        covered: OffsetRange,
        /// The records inside, ascending.
        records: Vec<Record>,
        /// The offsets inside whose records cannot be read, ascending.
        damaged: Vec<Offset>,
    },
    /// Nothing is visible from there on.
    AtEnd,
    /// There are records from there on, but they must be fetched first.
    Elsewhere,
}

/// What a consumer asks for.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// Who asks. One that is closed is given nothing.
    pub consumer: ConsumerId,
    /// Most records to lease.
    pub records_max: usize,
    /// Most bytes to lease; one record may exceed them if it goes alone.
    pub bytes_max: usize,
    /// How long the leases last.
    pub ack_deadline: Duration,
    /// Records published before are past their retention: they are settled, not leased.
    pub retained_since: Timestamp,
    /// Most records that may be known and wait, at most `INDEXED_MAX`.
    pub indexed_max: usize,
    /// Most records that may be leased or wait: with so many, no fresh ones are read.
    pub remembered_max: usize,
    /// Whether a record that was never delivered goes before those that failed.
    pub prefers_fresh: bool,
}

/// One record handed to one consumer until its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What the consumer sends back.
    pub ack_id: AckId,
    /// Which delivery of the record this is, counted from 1.
    pub attempt: u32,
    /// What is delivered.
    pub record: Record,
    /// The body that the log has, where a transform changed what is delivered.
    pub stored: Option<Box<Bytes>>,
}

impl Lease {
    /// The record as the log has it.
    pub fn stored_record(&self) -> Cow<'_, Record> {
        match &self.stored {
            None => Cow::Borrowed(&self.record),
            Some(body) => {
                let body = Bytes::clone(body);
                Cow::Owned(Record { body, ..self.record.clone() })
            }
        }
    }
}

/// Why no more was leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// The request is used up, or enough was looked at for one call: there may be more now.
    More,
    /// There is nothing more for this consumer until records become visible or come back.
    Drained,
    /// The consumer holds all it may, or the subscription `OUTSTANDING_MAX`: there is nothing
    /// more for it until it is among the freed.
    Full,
    /// The next records are elsewhere: fetch from this offset on and ask again.
    Wanted(Offset),
}

//! The bytes of frames and records, the same in every engine that has a log of groups. All numbers
//! are little-endian.
//!
//! ```text
//! group   | the engine's own header | body | zeros |
//! body    | frame | frame | …
//! append  | 1 | zeros 3 | length 4 | topic 8 | first offset 8 | count 4 | record | record | …
//! change  | 2 | zeros 3 | length 4 | subscription 8 | change of progress |
//! record  | length 4 | crc 4 | offset 8 | publish time 8 | flags 1 | (addressee 8) | message |
//! ```
//!
//! A record's checksum covers its length and is seeded with its topic and a secret of the store, so
//! that data made to look like a record is not mistaken for one while scanning past damage. Records
//! are copied out of the log unchanged.
#![warn(clippy::indexing_slicing)]

use bytes::{BufMut, BytesMut};
use domain::{Offset, SubscriptionId, Timestamp, TopicId, message};

use crate::NewRecord;

/// Size of an append frame's header.
pub(crate) const APPEND_HEADER: usize = 28;
/// Size of a progress frame's header.
pub(crate) const CHANGE_HEADER: usize = 16;
/// Size of a record's header without an addressee.
pub(crate) const RECORD_HEADER: usize = 25;

const APPEND: u8 = 1;
const CHANGE: u8 = 2;
const ADDRESSED: u8 = 1;

/// Converts a size to `usize`; one that does not fit fails any bounds check.
pub(crate) fn to_usize(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// A length that is stored in 32 bits; sizes are bounded far below that.
pub(crate) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The number at `at`; `None` if the bytes end before it does.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

/// The number at `at`; `None` if the bytes end before it does.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

/// Writes `value` at `at`, if there is room for it.
pub(crate) fn put_at(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// One frame of a group's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'body> {
    Append(AppendFrame<'body>),
    Change { subscription: SubscriptionId, change: &'body [u8] },
}

/// Records at the end of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendFrame<'body> {
    pub topic: TopicId,
    pub first: Offset,
    pub count: u32,
    pub records: &'body [u8],
}

impl AppendFrame<'_> {
    /// The offset after the last record.
    pub(crate) fn end(&self) -> Offset {
        self.first.plus(u64::from(self.count))
    }
}

/// Reserves space for the header of an append frame, to be filled in by `finish_append`.
pub(crate) fn begin_append(out: &mut BytesMut) {
    out.put_bytes(0, APPEND_HEADER);
}

/// Fills in the header of the append frame that is all of `frame`.
pub(crate) fn finish_append(frame: &mut [u8], topic: TopicId, first: Offset, count: u32) {
    let length = to_u32(frame.len() - APPEND_HEADER);
    put_at(frame, 0, &[APPEND, 0, 0, 0]);
    put_at(frame, 4, &length.to_le_bytes());
    put_at(frame, 8, &topic.0.to_le_bytes());
    put_at(frame, 16, &first.0.to_le_bytes());
    put_at(frame, 24, &count.to_le_bytes());
}

/// Appends a progress frame.
pub(crate) fn put_change(out: &mut BytesMut, subscription: SubscriptionId, change: &[u8]) {
    out.put_slice(&[CHANGE, 0, 0, 0]);
    out.put_u32_le(to_u32(change.len()));
    out.put_u64_le(subscription.0);
    out.put_slice(change);
}

/// The frame at the start of `bytes` and its length; `None` if it is incomplete or not a frame.
pub(crate) fn frame_at(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (kind, id) = (*bytes.first()?, u64_at(bytes, 8)?);
    let length = to_usize(u32_at(bytes, 4)?);
    match kind {
        APPEND => {
            let end = APPEND_HEADER.checked_add(length)?;
            let frame = AppendFrame {
                topic: TopicId(id),
                first: Offset(u64_at(bytes, 16)?),
                count: u32_at(bytes, 24)?,
                records: bytes.get(APPEND_HEADER..end)?,
            };
            Some((Frame::Append(frame), end))
        }
        CHANGE => {
            let end = CHANGE_HEADER.checked_add(length)?;
            let change = bytes.get(CHANGE_HEADER..end)?;
            Some((Frame::Change { subscription: SubscriptionId(id), change }, end))
        }
        _ => None,
    }
}

/// The frames of a group's body with their positions; `None` for bytes that are not a frame.
pub(crate) fn frames(body: &[u8]) -> impl Iterator<Item = (usize, Option<(Frame<'_>, usize)>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = body.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at;
        let frame = frame_at(rest);
        at = frame.as_ref().map_or(body.len(), |(_, bytes)| start + bytes);
        Some((start, frame))
    })
}

/// The header of the append frame at the start of `bytes`, even if its records are truncated:
/// topic, first offset, count and the bytes of its records. The inner `None` means another kind of
/// frame, with its length.
pub(crate) fn append_head_at(bytes: &[u8]) -> Option<(Option<AppendFrame<'_>>, usize)> {
    let length = to_usize(u32_at(bytes, 4)?);
    match *bytes.first()? {
        APPEND => {
            let end = APPEND_HEADER.checked_add(length)?;
            let frame = AppendFrame {
                topic: TopicId(u64_at(bytes, 8)?),
                first: Offset(u64_at(bytes, 16)?),
                count: u32_at(bytes, 24)?,
                records: bytes.get(APPEND_HEADER..end.min(bytes.len()))?,
            };
            Some((Some(frame), end))
        }
        CHANGE => Some((None, CHANGE_HEADER.checked_add(length)?)),
        _ => None,
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    /// Length of the record, including this header.
    pub length: usize,
    pub offset: Offset,
    pub publish_time: Timestamp,
    pub addressee: Option<SubscriptionId>,
    /// Where the message starts.
    pub body_at: usize,
}

impl RecordHead {
    /// Decodes the header at the start of `bytes`, without checking the checksum. `None` if the
    /// header is incomplete or invalid; the message after it may be truncated.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let length = to_usize(u32_at(bytes, 0)?);
        let flags = *bytes.get(RECORD_HEADER - 1)?;
        let (addressee, body_at) = match flags {
            0 => (None, RECORD_HEADER),
            ADDRESSED => (Some(SubscriptionId(u64_at(bytes, RECORD_HEADER)?)), RECORD_HEADER + 8),
            _ => return None,
        };
        (length >= body_at).then_some(Self {
            length,
            offset: Offset(u64_at(bytes, 8)?),
            publish_time: Timestamp(u64_at(bytes, 16)?),
            addressee,
            body_at,
        })
    }
}

/// The seed of the checksums of a topic's records in a store with that secret.
pub(crate) fn record_seed(topic: TopicId, secret: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&secret.to_le_bytes()), &topic.0.to_le_bytes())
}

fn record_crc(record: &[u8], seed: u32) -> u32 {
    let length = record.get(..4).unwrap_or_default();
    let rest = record.get(8..).unwrap_or_default();
    crc32c::crc32c_append(crc32c::crc32c_append(seed, length), rest)
}

/// Whether the checksum of `record`, cut to its length, is valid.
pub(crate) fn record_holds(record: &[u8], seed: u32) -> bool {
    u32_at(record, 4) == Some(record_crc(record, seed))
}

/// Appends a record: the only copy made of a message.
pub(crate) fn put_record(out: &mut BytesMut, seed: u32, offset: Offset, record: &NewRecord) {
    let start = out.len();
    out.put_u64_le(0);
    out.put_u64_le(offset.0);
    out.put_u64_le(record.publish_time.0);
    match record.addressee {
        None => out.put_u8(0),
        Some(subscription) => {
            out.put_u8(ADDRESSED);
            out.put_u64_le(subscription.0);
        }
    }
    message::encode(&record.message, offset, record.publish_time, out);
    let record = out.get_mut(start..).unwrap_or_default();
    let length = to_u32(record.len());
    put_at(record, 0, &length.to_le_bytes());
    let crc = record_crc(record, seed);
    put_at(record, 4, &crc.to_le_bytes());
}

/// A placeholder in a segment for a record whose bytes are lost: its checksum is never valid, so a
/// reader knows that a record was there.
pub(crate) fn lost_record(seed: u32, offset: Offset, publish_time: Timestamp) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_HEADER);
    record.put_u32_le(to_u32(RECORD_HEADER));
    record.put_u32_le(0);
    record.put_u64_le(offset.0);
    record.put_u64_le(publish_time.0);
    record.put_u8(0);
    let crc = !record_crc(&record, seed);
    put_at(&mut record, 4, &crc.to_le_bytes());
    record
}

/// An upper bound on what `put_record` appends.
pub(crate) fn record_bytes_max(record: &NewRecord) -> usize {
    RECORD_HEADER + 8 + message::encoded_len_max(&record.message)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
#[path = "format_tests.rs"]
mod tests;

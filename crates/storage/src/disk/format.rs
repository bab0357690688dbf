//! The byte layout of the write-ahead log and of topic segments. All numbers are little-endian.
//!
//! ```text
//! file    | header block | group | group | …                    each on a 4 KiB boundary
//! header  | magic 8 | crc 4 | format 4 | sequence 8 | salt 8 | first group 8 | length 8 | zeros |
//! group   | magic 4 | crc of header 4 | number 8 | body length 4 | crc of body 4 | zeros 8 |
//!         | body | zeros |
//! body    | frame | frame | …
//! append  | 1 | zeros 3 | length 4 | topic 8 | first offset 8 | count 4 | record | record | …
//! change  | 2 | zeros 3 | length 4 | subscription 8 | change of progress |
//! record  | length 4 | crc 4 | offset 8 | publish time 8 | flags 1 | (addressee 8) | message |
//! ```
//!
//! The two checksums of a group are seeded with the two halves of its file's salt, so that
//! leftovers from an earlier life of the file, or a publisher's data that looks like a group, are
//! never mistaken for one. The body's checksum also covers the zeros after it: any flipped bit of a
//! group shows. A record's checksum covers its length and is seeded with its topic and a secret of
//! the store, so that data made to look like a record is not mistaken for one while scanning past
//! damage. Records are copied to topic segments unchanged.
//!
//! At a frame boundary the first byte tells what follows: 1 and 2 a frame, 0 the zeros up to the
//! next 4 KiB boundary, `P` (the magic) a group header. So a reader can start at any frame.
#![warn(clippy::indexing_slicing)]

use bytes::{BufMut, BytesMut};
use domain::{Offset, SubscriptionId, Timestamp, TopicId, message};

use crate::NewRecord;

/// Groups and the file header start on multiples of this.
pub(super) const BLOCK: usize = 4096;
/// `BLOCK`, for positions in files.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The newest log file format this version reads, and the one it writes.
pub(super) const FORMAT: u32 = 1;
/// Size of a group's header.
pub(super) const GROUP_HEADER: usize = 32;
/// Size of an append frame's header.
pub(super) const APPEND_HEADER: usize = 28;
/// Size of a progress frame's header.
pub(super) const CHANGE_HEADER: usize = 16;
/// Size of a record's header without an addressee.
pub(super) const RECORD_HEADER: usize = 25;

const FILE_MAGIC: [u8; 8] = *b"PRWAL\0\r\n";
const FILE_CRC: usize = 8;
const GROUP_MAGIC: [u8; 4] = *b"PGRP";
/// The first byte of a group header, at a frame boundary.
pub(super) const GROUP_MARK: u8 = b'P';
/// The first byte of the zeros after a group's body.
pub(super) const PADDING_MARK: u8 = 0;
const APPEND: u8 = 1;
const CHANGE: u8 = 2;
const ADDRESSED: u8 = 1;

/// Converts a size to `usize`; one that does not fit fails any bounds check.
pub(super) fn to_usize(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// A length that is stored in 32 bits; sizes are bounded far below that.
pub(super) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// `length` rounded up to whole blocks.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(BLOCK)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn put_at(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// The contents of the first block of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub sequence: u64,
    pub salt: u64,
    /// The number its first group has, or will have.
    pub first_group: u64,
    /// Length of the file in bytes, including this block.
    pub length: u64,
}

/// Why a header block is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Damaged,
    Format(u32),
}

impl FileHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.put_slice(&FILE_MAGIC);
        block.put_u32_le(0);
        block.put_u32_le(FORMAT);
        for value in [self.sequence, self.salt, self.first_group, self.length] {
            block.put_u64_le(value);
        }
        block.resize(BLOCK, 0);
        let crc = crc32c::crc32c(&block);
        put_at(&mut block, FILE_CRC, &crc.to_le_bytes());
        block
    }

    pub(super) fn decode(block: &[u8; BLOCK]) -> Result<Self, HeaderFault> {
        let mut unsealed = *block;
        put_at(&mut unsealed, FILE_CRC, &[0; 4]);
        if !block.starts_with(&FILE_MAGIC)
            || u32_at(block, FILE_CRC) != Some(crc32c::crc32c(&unsealed))
        {
            return Err(HeaderFault::Damaged);
        }
        let field = |at| u64_at(block, at).ok_or(HeaderFault::Damaged);
        match u32_at(block, 12) {
            Some(FORMAT) => Ok(Self {
                sequence: field(16)?,
                salt: field(24)?,
                first_group: field(32)?,
                length: field(40)?,
            }),
            found => Err(HeaderFault::Format(found.unwrap_or(0))),
        }
    }
}

/// The seeds of a group's two checksums: header and body.
fn seeds(salt: u64) -> (u32, u32) {
    let high = u32::try_from(salt >> 32).unwrap_or(0);
    let low = u32::try_from(salt & u64::from(u32::MAX)).unwrap_or(0);
    (low, high)
}

/// A group's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    pub number: u64,
    /// Bytes of frames, without the zeros after them.
    pub body_length: u32,
    body_crc: u32,
}

impl GroupHeader {
    /// Decodes a header; `None` if it was not written in this life of the file.
    pub(super) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let header: &[u8; GROUP_HEADER] = bytes.first_chunk()?;
        if !header.starts_with(&GROUP_MAGIC) {
            return None;
        }
        let crc = crc32c::crc32c_append(seeds(salt).0, header.get(8..)?);
        (u32_at(header, 4)? == crc).then_some(())?;
        Some(Self {
            number: u64_at(header, 8)?,
            body_length: u32_at(header, 16)?,
            body_crc: u32_at(header, 20)?,
        })
    }

    /// Bytes of the whole group on disk.
    pub(super) fn group_bytes(&self) -> usize {
        padded(GROUP_HEADER + to_usize(self.body_length))
    }

    /// Whether `group`, including header and zeros, holds the body this header was written with.
    pub(super) fn holds(&self, group: &[u8], salt: u64) -> bool {
        let body = group.get(GROUP_HEADER..).unwrap_or_default();
        crc32c::crc32c_append(seeds(salt).1, body) == self.body_crc
    }
}

/// The frames of a group that this process wrote itself, without checking the checksums.
pub(super) fn body_of(group: &[u8]) -> Option<&[u8]> {
    let length = to_usize(u32_at(group, 16)?);
    group.get(GROUP_HEADER..GROUP_HEADER.checked_add(length)?)
}

/// Fills in the header of a padded group.
pub(super) fn finish_group(group: &mut [u8], number: u64, body_length: u32, salt: u64) {
    let (header_seed, body_seed) = seeds(salt);
    let body_crc = crc32c::crc32c_append(body_seed, group.get(GROUP_HEADER..).unwrap_or_default());
    put_at(group, 0, &GROUP_MAGIC);
    put_at(group, 8, &number.to_le_bytes());
    put_at(group, 16, &body_length.to_le_bytes());
    put_at(group, 20, &body_crc.to_le_bytes());
    put_at(group, 24, &[0; 8]);
    let covered = group.get(8..GROUP_HEADER).unwrap_or_default();
    let header_crc = crc32c::crc32c_append(header_seed, covered);
    put_at(group, 4, &header_crc.to_le_bytes());
}

/// One frame of a group's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'body> {
    Append(AppendFrame<'body>),
    Change { subscription: SubscriptionId, change: &'body [u8] },
}

/// Records at the end of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppendFrame<'body> {
    pub topic: TopicId,
    pub first: Offset,
    pub count: u32,
    pub records: &'body [u8],
}

impl AppendFrame<'_> {
    /// The offset after the last record.
    pub(super) fn end(&self) -> Offset {
        self.first.plus(u64::from(self.count))
    }
}

/// Reserves space for the header of an append frame, to be filled in by `finish_append`.
pub(super) fn begin_append(out: &mut BytesMut) {
    out.put_bytes(0, APPEND_HEADER);
}

/// Fills in the header of the append frame that is all of `frame`.
pub(super) fn finish_append(frame: &mut [u8], topic: TopicId, first: Offset, count: u32) {
    let length = to_u32(frame.len() - APPEND_HEADER);
    put_at(frame, 0, &[APPEND, 0, 0, 0]);
    put_at(frame, 4, &length.to_le_bytes());
    put_at(frame, 8, &topic.0.to_le_bytes());
    put_at(frame, 16, &first.0.to_le_bytes());
    put_at(frame, 24, &count.to_le_bytes());
}

/// Appends a progress frame.
pub(super) fn put_change(out: &mut BytesMut, subscription: SubscriptionId, change: &[u8]) {
    out.put_slice(&[CHANGE, 0, 0, 0]);
    out.put_u32_le(to_u32(change.len()));
    out.put_u64_le(subscription.0);
    out.put_slice(change);
}

/// The frame at the start of `bytes` and its length; `None` if it is incomplete or not a frame.
pub(super) fn frame_at(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
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

/// The header of the append frame at the start of `bytes`, even if its records are truncated:
/// topic, first offset, count and the bytes of its records. The inner `None` means another kind of
/// frame, with its length.
pub(super) fn append_head_at(bytes: &[u8]) -> Option<(Option<AppendFrame<'_>>, usize)> {
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
pub(super) struct RecordHead {
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
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
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
pub(super) fn record_seed(topic: TopicId, secret: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&secret.to_le_bytes()), &topic.0.to_le_bytes())
}

fn record_crc(record: &[u8], seed: u32) -> u32 {
    let length = record.get(..4).unwrap_or_default();
    let rest = record.get(8..).unwrap_or_default();
    crc32c::crc32c_append(crc32c::crc32c_append(seed, length), rest)
}

/// Whether the checksum of `record`, cut to its length, is valid.
pub(super) fn record_holds(record: &[u8], seed: u32) -> bool {
    u32_at(record, 4) == Some(record_crc(record, seed))
}

/// Appends a record: the only copy made of a message.
pub(super) fn put_record(out: &mut BytesMut, seed: u32, offset: Offset, record: &NewRecord) {
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
pub(super) fn lost_record(seed: u32, offset: Offset, publish_time: Timestamp) -> Vec<u8> {
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
pub(super) fn record_bytes_max(record: &NewRecord) -> usize {
    RECORD_HEADER + 8 + message::encoded_len_max(&record.message)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
#[path = "format_tests.rs"]
mod tests;

//! The bytes of the write-ahead log and of topic segments. All numbers are little-endian.
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
//! The two checksums of a group are seeded with the two halves of its file's salt, so that what
//! an earlier life of the file left behind, or a publisher's data that looks like a group, is
//! never taken for one. The checksum of the body covers the zeros behind it, too: any flipped bit
//! of a group shows. A record's checksum is seeded with its topic and a secret of the store, so
//! that data made to look like a record is not taken for one where a damaged record is searched,
//! and covers its length. Records are copied to topic segments as they are.
//!
//! At a frame boundary the first byte tells what follows: 1 and 2 a frame, 0 the zeros up to the
//! next 4 KiB boundary, `P` (the magic) a group header. So a reader can start at any frame.
#![warn(clippy::indexing_slicing)]

use bytes::{BufMut, BytesMut};
use domain::{Offset, SubscriptionId, Timestamp, TopicId, message};

use crate::NewRecord;

/// Groups and the file header start on multiples of this.
pub(super) const BLOCK: usize = 4096;
/// `BLOCK`, for places in files.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The newest format of log files this version reads; it writes this one.
pub(super) const FORMAT: u32 = 1;
/// Bytes of a group before its body.
pub(super) const GROUP_HEADER: usize = 32;
/// Bytes of an append frame before its records.
pub(super) const APPEND_HEADER: usize = 28;
/// Bytes of a progress frame before the change.
pub(super) const CHANGE_HEADER: usize = 16;
/// Bytes of a record without addressee before its message.
pub(super) const RECORD_HEADER: usize = 25;

const FILE_MAGIC: [u8; 8] = *b"PRWAL\0\r\n";
const FILE_CRC: usize = 8;
const GROUP_MAGIC: [u8; 4] = *b"PGRP";
/// The first byte of a group header, met at a frame boundary.
pub(super) const GROUP_MARK: u8 = b'P';
/// The first byte of the zeros behind a group's body.
pub(super) const PADDING_MARK: u8 = 0;
const APPEND: u8 = 1;
const CHANGE: u8 = 2;
const ADDRESSED: u8 = 1;

/// A number of bytes as this machine counts them; a size it cannot hold fails any bound check.
pub(super) fn to_usize(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

/// A length that is kept in 32 bits; sizes are bounded far below that.
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

/// What the first block of a log file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub sequence: u64,
    pub salt: u64,
    /// The number its first group has, or will have.
    pub first_group: u64,
    /// Bytes of the file, this block included.
    pub length: u64,
}

/// Why a header block is refused.
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

/// The seeds of a group's two checksums: of its header, of its body.
fn seeds(salt: u64) -> (u32, u32) {
    let high = u32::try_from(salt >> 32).unwrap_or(0);
    let low = u32::try_from(salt & u64::from(u32::MAX)).unwrap_or(0);
    (low, high)
}

/// What a group says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    pub number: u64,
    /// Bytes of frames, without the zeros behind them.
    pub body_length: u32,
    body_crc: u32,
}

impl GroupHeader {
    /// Reads a header; `None` if it was not written in this life of the file.
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

    /// Whether `group`, header and zeros included, holds the body this header was written with.
    pub(super) fn holds(&self, group: &[u8], salt: u64) -> bool {
        let body = group.get(GROUP_HEADER..).unwrap_or_default();
        crc32c::crc32c_append(seeds(salt).1, body) == self.body_crc
    }
}

/// The frames of a group that this process wrote itself, without looking at its checksums.
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
    /// The offset behind the last record.
    pub(super) fn end(&self) -> Offset {
        self.first.plus(u64::from(self.count))
    }
}

/// Leaves room for the header of an append frame, to be filled by `finish_append`.
pub(super) fn begin_append(out: &mut BytesMut) {
    out.put_bytes(0, APPEND_HEADER);
}

/// Fills in the header of the append frame that `frame` starts with and ends at its end.
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

/// The frame at the start of `bytes` and the bytes it takes; `None` if it is not whole or is none.
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

/// The header of the append frame at the start of `bytes`, though its records may be cut off:
/// topic, first offset, count and the bytes of its records. `None` inside for another frame,
/// with its length.
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

/// What stands in front of a record's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    /// Bytes of the record, this head included.
    pub length: usize,
    pub offset: Offset,
    pub publish_time: Timestamp,
    pub addressee: Option<SubscriptionId>,
    /// Where the message starts.
    pub body_at: usize,
}

impl RecordHead {
    /// Reads the head at the start of `bytes`, without looking at the checksum. `None` if the head
    /// is not whole or says nonsense; the message behind it may be cut off.
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

/// Whether `record`, cut to its length, holds its checksum.
pub(super) fn record_holds(record: &[u8], seed: u32) -> bool {
    u32_at(record, 4) == Some(record_crc(record, seed))
}

/// Appends a record: the one copy of a message.
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

/// What stands in a segment for a record whose bytes are lost: it never holds its checksum, so
/// that whoever reads it knows that a record was there.
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

/// An upper bound of what `put_record` appends.
pub(super) fn record_bytes_max(record: &NewRecord) -> usize {
    RECORD_HEADER + 8 + message::encoded_len_max(&record.message)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
#[path = "format_tests.rs"]
mod tests;

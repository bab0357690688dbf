//! The byte layout of the write-ahead log and of topic segments. All numbers are little-endian.
//!
//! ```text
//! file    | header block | group | group | …                    each on a 4 KiB boundary
//! header  | magic 8 | crc 4 | format 4 | sequence 8 | salt 8 | first group 8 | length 8 | zeros |
//! group   | magic 4 | crc of header 4 | number 8 | body length 4 | crc of body 4 | zeros 8 |
//!         | body | zeros |
//! ```
//!
//! The two checksums of a group are seeded with the two halves of its file's salt, so that
//! leftovers from an earlier life of the file, or a publisher's data that looks like a group, are
//! never mistaken for one. The body's checksum also covers the zeros after it: any flipped bit of a
//! group shows. What is in a body, and in a topic segment, is in `front::format`.
//!
//! At a frame boundary the first byte tells what follows: 1 and 2 a frame, 0 the zeros up to the
//! next 4 KiB boundary, `P` (the magic) a group header. So a reader can start at any frame.
#![warn(clippy::indexing_slicing)]

use bytes::BufMut;

pub(super) use crate::front::format::*;

/// Groups and the file header start on multiples of this.
pub(super) const BLOCK: usize = 4096;
/// `BLOCK`, for positions in files.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The newest log file format this version reads, and the one it writes.
pub(super) const FORMAT: u32 = 1;
/// Size of a group's header.
pub(super) const GROUP_HEADER: usize = 32;

const FILE_MAGIC: [u8; 8] = *b"PRWAL\0\r\n";
const FILE_CRC: usize = 8;
const GROUP_MAGIC: [u8; 4] = *b"PGRP";
/// The first byte of a group header, at a frame boundary.
pub(super) const GROUP_MARK: u8 = b'P';
/// The first byte of the zeros after a group's body.
pub(super) const PADDING_MARK: u8 = 0;

/// `length` rounded up to whole blocks.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(BLOCK)
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

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
#[path = "format_tests.rs"]
mod tests;

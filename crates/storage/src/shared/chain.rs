//! The bytes of a chunk, and the chain that shows a hole.
//!
//! ```text
//! chunk  | magic 4 | checksum 4 | number 8 | epoch 8 | checksum of the one before 4 | length 4 |
//!        | frame | frame | …
//! ```
//!
//! Little-endian. The checksum covers everything after it, and is seeded with the shard. Frames are
//! those of the front.
#![warn(clippy::indexing_slicing)]

use bytes::Bytes;
use domain::{Epoch, ShardId};

use crate::front::format::{put_at, to_u32, to_usize, u32_at, u64_at};
use crate::{Error, Result};

/// Size of a chunk's header.
pub(super) const HEADER: usize = 32;
const MAGIC: [u8; 4] = *b"PCH1";

/// How far a chain goes: the number of its last chunk, and that chunk's checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub number: u64,
    pub checksum: u32,
}

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHead {
    pub number: u64,
    pub epoch: Epoch,
    before: u32,
    checksum: u32,
}

fn seed(shard: ShardId) -> u32 {
    crc32c::crc32c(&shard.0.to_le_bytes())
}

fn checksum(shard: ShardId, chunk: &[u8]) -> u32 {
    crc32c::crc32c_append(seed(shard), chunk.get(8..).unwrap_or_default())
}

/// Fills in the header of `chunk`, which follows `before`; returns how far the chain goes then.
pub(super) fn seal(shard: ShardId, epoch: Epoch, before: Link, chunk: &mut [u8]) -> Link {
    let number = before.number + 1;
    let length = to_u32(chunk.len().saturating_sub(HEADER));
    put_at(chunk, 0, &MAGIC);
    put_at(chunk, 8, &number.to_le_bytes());
    put_at(chunk, 16, &epoch.0.to_le_bytes());
    put_at(chunk, 24, &before.checksum.to_le_bytes());
    put_at(chunk, 28, &length.to_le_bytes());
    let checksum = checksum(shard, chunk);
    put_at(chunk, 4, &checksum.to_le_bytes());
    Link { number, checksum }
}

/// The header of `chunk`; `None` if its bytes are not those that were written.
pub(super) fn open(shard: ShardId, chunk: &[u8]) -> Option<ChunkHead> {
    let written = u32_at(chunk, 4)?;
    let length = chunk.len().checked_sub(HEADER)?;
    let whole = chunk.starts_with(&MAGIC)
        && to_usize(u32_at(chunk, 28)?) == length
        && written == checksum(shard, chunk);
    whole.then_some(ChunkHead {
        number: u64_at(chunk, 8)?,
        epoch: Epoch(u64_at(chunk, 16)?),
        before: u32_at(chunk, 24)?,
        checksum: written,
    })
}

/// The frames of a chunk, whatever its checksum says.
pub(super) fn body(chunk: &Bytes) -> Bytes {
    if chunk.len() < HEADER { Bytes::new() } else { chunk.slice(HEADER..) }
}

/// Checks that `chunk` continues the chain; returns how far it goes with it.
pub(super) fn follow(shard: ShardId, before: Link, number: u64, chunk: &[u8]) -> Result<Link> {
    let wrong = |what| Err(corrupt(shard, before.number + 1, what));
    if number != before.number + 1 {
        return wrong("the chunk is missing");
    }
    let Some(head) = open(shard, chunk) else {
        return wrong("its bytes are not those that were written");
    };
    if head.number != number {
        return wrong("another chunk is in its place");
    }
    if head.before != before.checksum {
        return wrong("the chunk before it is not the one that was written");
    }
    Ok(Link { number, checksum: head.checksum })
}

/// Chunk `number` of `shard` is not as it was written.
pub(super) fn corrupt(shard: ShardId, number: u64, what: &'static str) -> Error {
    Error::corrupt(format!("chunk {number} of shard {}", shard.0), what)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn chain(bodies: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut link = Link::default();
        let chunk = |body: &&[u8]| {
            let mut chunk = vec![0; HEADER];
            chunk.extend_from_slice(body);
            link = seal(SHARD, Epoch(7), link, &mut chunk);
            chunk
        };
        bodies.iter().map(chunk).collect()
    }

    fn place(result: Result<Link>) -> String {
        match result {
            Err(Error::Corrupt { place, .. }) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_chain_is_followed_from_its_beginning() {
        let mut link = Link::default();
        for (number, chunk) in (1..).zip(chain(&[b"one", b"", b"three"])) {
            link = follow(SHARD, link, number, &chunk).unwrap();
            assert_eq!(link.number, number);
            assert_eq!(open(SHARD, &chunk).unwrap().epoch, Epoch(7));
        }
    }

    #[test]
    fn a_hole_is_told_with_its_place() {
        let chunks = chain(&[b"one", b"two", b"three"]);
        let first = follow(SHARD, Link::default(), 1, &chunks[0]).unwrap();
        assert_eq!(place(follow(SHARD, first, 3, &chunks[2])), "chunk 2 of shard 3");
        assert_eq!(place(follow(SHARD, first, 2, &chunks[2])), "chunk 2 of shard 3");
    }

    #[test]
    fn another_chunk_of_that_number_breaks_the_chain() {
        let (one, other) = (chain(&[b"one", b"two"]), chain(&[b"eno", b"two"]));
        let first = follow(SHARD, Link::default(), 1, &one[0]).unwrap();
        assert_eq!(place(follow(SHARD, first, 2, &other[1])), "chunk 2 of shard 3");
    }

    #[test]
    fn every_flipped_bit_shows() {
        let chunk = chain(&[b"some bytes"]).remove(0);
        for bit in 0..chunk.len() * 8 {
            let mut flipped = chunk.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(SHARD, &flipped), None, "bit {bit}");
        }
        assert_eq!(open(ShardId(4), &chunk), None);
        assert_eq!(open(SHARD, &chunk[..chunk.len() - 1]), None);
    }
}

//! Reusable aligned memory for reading blocks past the page cache.
//!
//! A backlog is read a part at a time, and most parts are soon done with. Newly allocated memory
//! has to be zeroed each time, which took a twelfth of the time to read through a filter.
#![warn(clippy::indexing_slicing)]

use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::format::{BLOCK, BLOCK_BYTES, to_usize};
use super::seam::File;

/// Maximum number of pieces kept for reuse.
const SPARE_MAX: usize = 4;
/// The size of a piece. Anything longer, or that would leave half of it empty, gets its own memory.
const PIECE_BYTES: usize = (1 << 20) + (128 << 10);

/// Pieces that are no longer in use.
#[derive(Default)]
pub(super) struct BlocksMemory {
    spare: Mutex<Vec<Vec<u8>>>,
}

/// A piece that returns to the pool when its last reader drops it.
struct Piece {
    bytes: Vec<u8>,
    home: Weak<BlocksMemory>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut spare = home.spare.lock();
        if spare.len() < SPARE_MAX && self.bytes.len() == PIECE_BYTES {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl BlocksMemory {
    /// Reads the whole blocks around the wanted bytes, into block-aligned memory.
    pub(super) fn read(
        self: &Arc<Self>,
        file: &dyn File,
        at: u64,
        length: usize,
    ) -> io::Result<Bytes> {
        let before = to_usize(at % BLOCK_BYTES);
        let whole = (before + length).next_multiple_of(BLOCK);
        let mut piece = self.piece(whole + BLOCK);
        let start = piece.bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        let blocks = piece.bytes.get_mut(start..start + whole).unwrap_or_default();
        file.read_at(blocks, at - before as u64)?;
        let wanted = start + before;
        Ok(Bytes::from_owner(piece).slice(wanted..wanted + length))
    }

    fn piece(self: &Arc<Self>, bytes: usize) -> Piece {
        let home = Arc::downgrade(self);
        if !(PIECE_BYTES / 2..=PIECE_BYTES).contains(&bytes) {
            return Piece { bytes: vec![0; bytes], home };
        }
        let spare = self.spare.lock().pop();
        Piece { bytes: spare.unwrap_or_else(|| vec![0; PIECE_BYTES]), home }
    }
}

#[cfg(test)]
mod tests {
    use super::super::real::RealDisk;
    use super::super::seam::Disk;
    use super::*;

    const LENGTH: usize = PIECE_BYTES / 2;

    /// A file in which every four bytes hold their own position.
    fn file(length: usize) -> (tempfile::TempDir, Arc<dyn File>) {
        let folder = tempfile::tempdir().unwrap();
        let file = RealDisk::new(folder.path()).create("topics/1").unwrap();
        file.write_at(&places(0, length), 0).unwrap();
        (folder, file)
    }

    fn places(at: u32, length: usize) -> Vec<u8> {
        (at..).step_by(4).flat_map(u32::to_le_bytes).take(length).collect()
    }

    #[test]
    fn memory_is_used_again_once_nobody_reads_in_it_and_no_more_is_kept_than_the_bound() {
        let (_folder, file) = file(2 * PIECE_BYTES);
        let memory = Arc::new(BlocksMemory::default());
        let read = |at: u32| memory.read(file.as_ref(), at.into(), LENGTH).unwrap();
        let first = read(100);
        assert!(first == places(100, LENGTH));
        let kept = first.slice(5..9);
        drop(first);
        assert!(memory.spare.lock().is_empty(), "a slice of it is still read");
        let address = kept.as_ptr().addr();
        drop(kept);
        assert_eq!(memory.spare.lock().len(), 1);
        let second = read(5_000);
        assert!(second == places(5_000, LENGTH), "nothing of the first is in it");
        assert!(second.as_ptr().addr().abs_diff(address) < PIECE_BYTES, "the same memory");
        let many: Vec<Bytes> = (0..SPARE_MAX + 2).map(|_| read(0)).collect();
        drop((second, many));
        assert_eq!(memory.spare.lock().len(), SPARE_MAX);
    }

    #[test]
    fn short_and_long_parts_get_memory_of_their_own() {
        let (_folder, file) = file(3 * PIECE_BYTES);
        let memory = Arc::new(BlocksMemory::default());
        for length in [1, 4 * BLOCK, 2 * PIECE_BYTES] {
            let read = memory.read(file.as_ref(), 0, length).unwrap();
            assert!(read == places(0, length));
            drop(read);
            assert!(memory.spare.lock().is_empty(), "{length}");
        }
    }
}

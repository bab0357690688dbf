//! Appends to a file in whole blocks from aligned memory, so that it can bypass the page cache.
//!
//! ```text
//! file    | block | block | block |        written, in whole blocks
//! buffer                  | block | rest   the last one again, if it was not full
//! ```
//!
//! A block that was not full is written again with what follows, its first bytes unchanged: torn
//! anywhere, it still holds what was there.

use std::io;
use std::sync::Arc;

use super::format::{BLOCK, BLOCK_BYTES, to_usize};
use super::seam::File;
use super::write_behind::{Write, WriteBehind};

/// How much is buffered before it is written: enough to keep the disk busy, and little enough that
/// the system's allocator does not hold on to much of it between two moves.
const GATHERED_MAX: usize = 1 << 20;

/// The end of a growing file.
pub(super) struct Blocks {
    file: Arc<dyn File>,
    /// `gathered` bytes from `start` on are block-aligned.
    memory: Vec<u8>,
    start: usize,
    /// How many bytes to buffer before writing.
    gathered: usize,
    /// Bytes in the buffer.
    filled: usize,
    /// How many of them are already in the file.
    written: usize,
    /// Where the buffer begins in the file.
    base: u64,
}

impl Blocks {
    /// Continues after `length` bytes. `file` is written to, `reader` may be read. `expected` is
    /// roughly how many bytes will come: many files with little data each take little memory.
    pub(super) fn new(
        file: Arc<dyn File>,
        reader: &dyn File,
        length: u64,
        expected: usize,
    ) -> io::Result<Self> {
        let gathered = expected.saturating_add(BLOCK).clamp(BLOCK, GATHERED_MAX);
        let gathered = gathered.next_multiple_of(BLOCK);
        let memory = vec![0; gathered + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        let filled = to_usize(length % BLOCK_BYTES);
        let base = length - filled as u64;
        let mut blocks = Self { file, memory, start, gathered, filled, written: filled, base };
        if filled > 0 {
            reader.read_at(blocks.buffer(0, filled), base)?;
        }
        Ok(blocks)
    }

    /// Buffers `bytes`; calls `write` for whatever has to be written meanwhile.
    pub(super) fn put<E>(
        &mut self,
        mut bytes: &[u8],
        mut write: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.filled == self.gathered {
                write(self)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.gathered - self.filled));
            self.buffer(self.filled, now.len()).copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// How many bytes `write` would write.
    pub(super) fn pending(&self) -> usize {
        if self.filled == self.written { 0 } else { self.filled.next_multiple_of(BLOCK) }
    }

    /// Hands over the buffered bytes, padded with zeros to the end of the block. `behind` decides
    /// when they are written. An error belongs to an earlier write and changes nothing: the call
    /// can be repeated.
    pub(super) fn write(&mut self, behind: &mut WriteBehind) -> io::Result<()> {
        let padded = self.pending();
        if padded == 0 {
            return Ok(());
        }
        // The last block may be rewritten by what follows, so each write waits for the previous
        // one.
        behind.wait()?;
        self.buffer(self.filled, padded - self.filled).fill(0);
        let rest = self.filled % BLOCK;
        let whole = self.filled - rest;
        let mut memory = behind.memory(self.memory.len());
        let mut start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        if let Some(place) = memory.get_mut(start..start + rest) {
            place.copy_from_slice(self.buffer(whole, rest));
        }
        std::mem::swap(&mut self.memory, &mut memory);
        std::mem::swap(&mut self.start, &mut start);
        let (file, at) = (Arc::clone(&self.file), self.base);
        behind.hand_over(Write { file, memory, start, length: padded, at })?;
        self.base += whole as u64;
        self.filled = rest;
        self.written = rest;
        Ok(())
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn buffer(&mut self, at: usize, length: usize) -> &mut [u8] {
        let from = self.start + at;
        self.memory.get_mut(from..from + length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Written(Mutex<Vec<u8>>);

    impl File for Written {
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
            let at = to_usize(at);
            buffer.copy_from_slice(&self.0.lock()[at..at + buffer.len()]);
            Ok(())
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            assert_eq!((at % BLOCK_BYTES, bytes.len() % BLOCK), (0, 0));
            assert_eq!(bytes.as_ptr().align_offset(BLOCK), 0);
            let (at, mut all) = (to_usize(at), self.0.lock());
            let length = all.len().max(at + bytes.len());
            all.resize(length, 0);
            all[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().len() as u64)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_put_in_any_portions_is_what_the_file_holds() {
        let file = Arc::new(Written::default());
        let mut expected = Vec::new();
        let sizes = [1, 4095, 4096, 10, 5000, 3 << 20, 1, 8192, 1 << 20, 77];
        let expected_bytes = [0, usize::MAX, 10_000, 4096];
        let mut behind = WriteBehind::default();
        for (round, sizes) in sizes.chunks(3).enumerate() {
            let dyn_file: Arc<dyn File> = Arc::clone(&file) as _;
            let length = expected.len() as u64;
            let few = expected_bytes[round];
            let mut blocks = Blocks::new(dyn_file, file.as_ref(), length, few).unwrap();
            for (at, size) in sizes.iter().enumerate() {
                let byte = u8::try_from(round * 10 + at + 1).unwrap();
                blocks.put(&vec![byte; *size], |blocks| blocks.write(&mut behind)).unwrap();
                expected.extend(vec![byte; *size]);
                if at % 2 == 0 {
                    blocks.write(&mut behind).unwrap();
                    assert_eq!(blocks.pending(), 0);
                }
            }
            blocks.write(&mut behind).unwrap();
            behind.wait().unwrap();
            assert_eq!(&file.0.lock()[..expected.len()], expected);
        }
    }
}

//! Open segment files, and reading their bytes into memory.
#![warn(clippy::indexing_slicing)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;

use super::format::{RecordHead, record_holds};
use super::read_ahead::ReadAhead;
use super::seam::{Disk, File};

/// Maximum number of segment files kept open; each takes two descriptors.
const OPEN_FILES_MAX: usize = 64;
/// Shorter reads never bypass the page cache: the kernel reads ahead for those.
pub(super) const DIRECT_BYTES_MIN: usize = 256 << 10;
/// How many parts of a backlog are read ahead: one at the disk, one being checked.
const PARTS_AHEAD: usize = 2;

/// Open segment files, a few at a time: there may be more segments than the process may open files.
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    open: Mutex<Vec<(String, Arc<SegmentFile>)>>,
    open_max: usize,
    ahead: Arc<ReadAhead>,
}

impl Files {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Self {
        let open_max = disk.open_files_max().min(OPEN_FILES_MAX);
        Self { disk, open: Mutex::default(), open_max, ahead: Arc::default() }
    }

    pub(super) fn get(&self, name: &str) -> io::Result<Arc<SegmentFile>> {
        let mut open = self.open.lock();
        if let Some(at) = open.iter().position(|(other, _)| other == name) {
            let found = open.remove(at);
            let file = Arc::clone(&found.1);
            open.push(found);
            return Ok(file);
        }
        let direct = Direct {
            file: self.disk.open_for_blocks(name)?,
            read_to: AtomicU64::new(0),
            ahead: Arc::clone(&self.ahead),
        };
        let file = SegmentFile { cached: self.disk.open(name)?, direct: Some(direct) };
        let file = Arc::new(file);
        if open.len() >= self.open_max {
            open.remove(0);
        }
        open.push((name.to_owned(), Arc::clone(&file)));
        Ok(file)
    }

    pub(super) fn forget(&self, name: &str) {
        self.open.lock().retain(|(other, _)| other != name);
    }
}

/// A segment file open for reading.
pub(super) struct SegmentFile {
    /// Goes through the page cache.
    pub cached: Arc<dyn File>,
    direct: Option<Direct>,
}

/// The same file without the page cache, in whole blocks.
struct Direct {
    file: Arc<dyn File>,
    /// The end of what was read this way.
    read_to: AtomicU64,
    ahead: Arc<ReadAhead>,
}

impl SegmentFile {
    /// A file that is read only through the page cache.
    pub(super) fn cached(file: Arc<dyn File>) -> Self {
        Self { cached: file, direct: None }
    }

    /// Reads about `length` bytes from `at` on, where a record starts, and at least `least`; `next`
    /// says how many will be wanted from a position on, 0 = none. Read-ahead is checked with this
    /// seed.
    ///
    /// A backlog is usually read once, from end to end, and then the page cache costs more than the
    /// disk. Anything that is read again is shared by several subscriptions, and does go through
    /// it.
    pub(super) fn read(
        &self,
        at: u64,
        (least, length): (usize, usize),
        seed: u32,
        next: impl Fn(u64) -> usize,
    ) -> io::Result<Window> {
        if let Some(direct) = self.direct.as_ref().filter(|_| length >= DIRECT_BYTES_MIN)
            && let Some(read) = direct.read(at, (least, length))
        {
            match read {
                // The file ends inside a block, or the disk's blocks are larger.
                Err(error) if is_refused(&error) => {}
                Err(error) => return Err(error),
                Ok(window) => {
                    direct.begin(at + window.bytes.len() as u64, seed, next);
                    return Ok(window);
                }
            }
        }
        let mut bytes = vec![0; length];
        self.cached.read_at(&mut bytes, at)?;
        Ok(Window { bytes: bytes.into(), checked: 0 })
    }
}

/// Bytes of a segment starting at a record.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub bytes: Bytes,
    /// How many of them are whole records with valid checksums.
    pub checked: usize,
}

impl Window {
    /// Checks the records at the beginning of `bytes`, up to the first damaged or truncated one.
    pub(super) fn check(bytes: Bytes, seed: u32) -> Self {
        let mut checked = 0;
        while let Some(rest) = bytes.get(checked..)
            && let Some(head) = RecordHead::decode(rest)
            && rest.get(..head.length).is_some_and(|record| record_holds(record, seed))
        {
            checked += head.length;
        }
        Self { bytes, checked }
    }

    /// Skips this many bytes.
    pub(super) fn advance(&mut self, length: usize) {
        self.bytes.advance(length);
        self.checked = self.checked.saturating_sub(length);
    }
}

impl Direct {
    /// `None` if it was read before and no read-ahead of enough of it has started.
    fn read(&self, at: u64, (least, length): (usize, usize)) -> Option<io::Result<Window>> {
        if let Some(begun) = self.ahead.take(&self.file, at) {
            // It was started for another reader, who may have needed less.
            let is_enough = |window: &Window| window.bytes.len() >= least;
            return Some(begun).filter(|begun| begun.as_ref().is_ok_and(is_enough));
        }
        let end = at + length as u64;
        let is_new = self.read_to.fetch_max(end, Ordering::Relaxed) < end;
        is_new.then(|| {
            let bytes = self.ahead.memory.read(self.file.as_ref(), at, length)?;
            Ok(Window { bytes, checked: 0 })
        })
    }

    /// Starts reading what follows, so that the disk and another core are busy while the previous
    /// part is processed.
    fn begin(&self, mut at: u64, seed: u32, next: impl Fn(u64) -> usize) {
        for _ in 0..PARTS_AHEAD {
            if let Some(end) = self.ahead.end_of(&self.file, at) {
                at = end;
                continue;
            }
            let length = next(at);
            let end = at + length as u64;
            let is_new =
                length >= DIRECT_BYTES_MIN && self.read_to.fetch_max(end, Ordering::Relaxed) < end;
            if !is_new {
                return;
            }
            self.ahead.begin(&self.file, at, length, seed);
            at = end;
        }
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::super::format::{BLOCK, to_usize};
    use super::*;

    const MIB: usize = 1 << 20;

    /// Bytes that count up, and how they were read: where, how many, and whether in aligned memory.
    #[derive(Default)]
    struct Counting {
        length: usize,
        reads: Mutex<Vec<(u64, usize, bool)>>,
    }

    impl File for Counting {
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
            let is_aligned = buffer.as_ptr().align_offset(BLOCK) == 0;
            self.reads.lock().push((at, buffer.len(), is_aligned));
            if to_usize(at) + buffer.len() > self.length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (byte, place) in buffer.iter_mut().zip(at..) {
                *byte = byte_at(place);
            }
            Ok(())
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.length as u64)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn byte_at(place: u64) -> u8 {
        u8::try_from(place % 251).unwrap()
    }

    fn is_right(bytes: &[u8], at: u64) -> bool {
        bytes.iter().zip(at..).all(|(byte, place)| *byte == byte_at(place))
    }

    struct Opened {
        cached: Arc<Counting>,
        direct: Arc<Counting>,
        file: SegmentFile,
    }

    fn open(length: usize) -> Opened {
        let counting = || Arc::new(Counting { length, reads: Mutex::default() });
        let (cached, direct) = (counting(), counting());
        let file = SegmentFile {
            cached: Arc::clone(&cached) as _,
            direct: Some(Direct {
                file: Arc::clone(&direct) as _,
                read_to: AtomicU64::new(0),
                ahead: Arc::default(),
            }),
        };
        Opened { cached, direct, file }
    }

    fn reads(file: &Counting) -> Vec<(u64, usize, bool)> {
        std::mem::take(&mut file.reads.lock())
    }

    #[test]
    fn what_is_read_first_passes_the_cache_by_and_what_is_read_again_does_not() {
        let opened = open(4 * MIB);
        let bytes = opened.file.read(5_000, (1, MIB), 0, |_| 0).unwrap().bytes;
        assert!(bytes.len() == MIB && is_right(&bytes, 5_000));
        assert_eq!(reads(&opened.direct), [(4_096, MIB + BLOCK, true)]);
        assert!(reads(&opened.cached).is_empty());
        let again = opened.file.read(5_000, (1, MIB), 0, |_| 0).unwrap().bytes;
        assert_eq!(again, bytes);
        assert!(reads(&opened.direct).is_empty());
        assert_eq!(reads(&opened.cached).len(), 1);
    }

    #[test]
    fn a_short_read_goes_through_the_cache() {
        let opened = open(4 * MIB);
        let bytes = opened.file.read(5_000, (1, DIRECT_BYTES_MIN - 1), 0, |_| 0).unwrap().bytes;
        assert!(is_right(&bytes, 5_000));
        assert!(reads(&opened.direct).is_empty());
    }

    #[test]
    fn a_file_that_ends_inside_a_block_is_read_all_the_same() {
        let opened = open(MIB + 100);
        let bytes = opened.file.read(200, (1, MIB - 100), 0, |_| 0).unwrap().bytes;
        assert!(bytes.len() == MIB - 100 && is_right(&bytes, 200));
        assert_eq!(reads(&opened.cached).len(), 1);
    }

    #[tokio::test]
    async fn what_follows_is_read_once_and_handed_out_to_who_goes_on() {
        let opened = open(4 * MIB);
        let file = Arc::new(opened.file);
        for at in [0, MIB] {
            let file = Arc::clone(&file);
            let read = move || file.read(at as u64, (1, MIB), 0, |_| MIB).unwrap().bytes;
            let bytes = tokio::task::spawn_blocking(read).await.unwrap();
            assert!(bytes.len() == MIB && is_right(&bytes, at as u64));
        }
        let mut places: Vec<_> = reads(&opened.direct).iter().map(|read| read.0).collect();
        let cached = reads(&opened.cached).len();
        // The third may not have had its turn yet, and the second may not have either when it was
        // wanted.
        places.retain(|at| *at < 2 * MIB as u64);
        assert_eq!(places.len() + cached, 2, "{places:?}");
    }

    #[tokio::test]
    async fn what_was_begun_does_not_count_where_more_is_needed() {
        let opened = open(4 * MIB);
        let file = Arc::new(opened.file);
        let ahead = Arc::clone(&file.direct.as_ref().unwrap().ahead);
        let first = Arc::clone(&file);
        let begin = move || first.read(0, (1, MIB), 0, |_| DIRECT_BYTES_MIN).unwrap().bytes;
        tokio::task::spawn_blocking(begin).await.unwrap();
        ahead.settle().await;
        let least = DIRECT_BYTES_MIN + 1;
        let bytes = file.read(MIB as u64, (least, least), 0, |_| 0).unwrap().bytes;
        assert!(bytes.len() == least && is_right(&bytes, MIB as u64));
    }
}

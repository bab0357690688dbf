//! The files of the write-ahead log: which are live, how a new one is started, how groups are
//! written.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::descriptors::is_scarce;
use super::format::{BLOCK_BYTES, FileHeader, finish_group};
use super::preallocator::{FreeFile, Preallocator};
use super::seam::{Disk, File};
use super::topic::Places;
use crate::front::Sealed;

/// The folder of live log files.
pub(super) const FOLDER: &str = "wal";
/// The folder of damaged log files, which nothing reads anymore.
pub(super) const DAMAGED_FOLDER: &str = "damaged";
/// The folder of files waiting to become log files.
pub(super) const FREE_FOLDER: &str = "free";

/// The name of log file `sequence`.
pub(super) fn file_name(sequence: u64) -> String {
    format!("{FOLDER}/{sequence:020}")
}

/// A live log file.
pub(super) struct WalFile {
    pub header: FileHeader,
    pub file: Arc<dyn File>,
    retired: AtomicBool,
}

impl WalFile {
    pub(super) fn new(header: FileHeader, file: Arc<dyn File>) -> Self {
        Self { header, file, retired: AtomicBool::new(false) }
    }

    pub(super) fn name(&self) -> String {
        file_name(self.header.sequence)
    }

    /// Whether its bytes may have been overwritten: anything read before this returns true is good,
    /// since a file is marked before it is reused.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }
}

/// The live files, oldest first; the last one is being written.
#[derive(Default)]
pub(super) struct Wal {
    files: RwLock<BTreeMap<u64, Arc<WalFile>>>,
    /// Bytes of all files except the last.
    filled_bytes: AtomicU64,
    /// Bytes written to the last file.
    active_bytes: AtomicU64,
}

impl Wal {
    pub(super) fn new(files: Vec<Arc<WalFile>>, active_bytes: u64) -> Self {
        let filled = files.iter().rev().skip(1).map(|file| file.header.length).sum();
        let files = files.into_iter().map(|file| (file.header.sequence, file)).collect();
        Self {
            files: RwLock::new(files),
            filled_bytes: AtomicU64::new(filled),
            active_bytes: AtomicU64::new(active_bytes),
        }
    }

    /// How much of its limit the log uses.
    pub(super) fn bytes(&self) -> u64 {
        self.filled_bytes.load(Ordering::Relaxed) + self.active_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<Arc<WalFile>> {
        self.files.read().get(&sequence).cloned()
    }

    /// The file that is being written.
    pub(super) fn newest(&self) -> Option<Arc<WalFile>> {
        self.files.read().values().next_back().cloned()
    }

    /// The oldest file and the number of its last group; `None` if it is being written.
    pub(super) fn oldest_filled(&self) -> Option<(Arc<WalFile>, u64)> {
        let files = self.files.read();
        let mut files = files.values();
        let (oldest, next) = (files.next()?, files.next()?);
        Some((Arc::clone(oldest), next.header.first_group.saturating_sub(1)))
    }

    /// Removes the oldest file, before its bytes may change.
    pub(super) fn retire(&self, file: &WalFile) {
        self.files.write().remove(&file.header.sequence);
        file.retired.store(true, Ordering::SeqCst);
        self.filled_bytes.fetch_sub(file.header.length, Ordering::Relaxed);
    }

    /// The live files, and how far the last one is written, in whole groups.
    pub(super) fn written(&self) -> (Vec<Arc<WalFile>>, u64) {
        // Locked together: a new file is started under the same lock.
        let files = self.files.read();
        (files.values().cloned().collect(), self.active_bytes.load(Ordering::Acquire))
    }

    fn push(&self, file: Arc<WalFile>, filled: &WalFile) {
        let mut files = self.files.write();
        self.filled_bytes.fetch_add(filled.header.length, Ordering::Relaxed);
        self.active_bytes.store(BLOCK_BYTES, Ordering::Release);
        files.insert(file.header.sequence, file);
    }
}

/// Why a group is not durable.
#[derive(Debug)]
pub(super) enum WriteFault {
    /// Nothing of it was written.
    NotWritten(io::Error),
    /// Some of it may be on disk.
    Unknown(io::Error),
    /// It waits for space, or for a file descriptor. Only in a simulation: elsewhere the write
    /// itself waits.
    NotYet,
}

/// Where a group was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub number: u64,
    pub sequence: u64,
    pub at: u64,
    /// Whether a file was filled and the next one started.
    pub rolled: bool,
}

/// Writes groups to the end of the log. There is only one.
pub(super) struct Writer {
    pub disk: Arc<dyn Disk>,
    pub wal: Arc<Wal>,
    pub preallocator: Arc<Preallocator>,
    /// The file that is being written.
    pub active: Arc<WalFile>,
    /// Where the next group goes.
    pub at: u64,
    /// The number of the last group.
    pub number: u64,
    /// Whether groups are synced.
    pub syncs: bool,
    /// What the salts of new files are drawn from; `None` = the system.
    pub seed: Option<u64>,
    /// Whether the file after the active one was requested.
    pub asked: bool,
}

impl Writer {
    /// Writes and syncs `group`. After an `Err`, other than `NotYet`, nothing more may be written.
    pub(super) fn write(&mut self, group: &mut Sealed<Places>) -> Result<Written, WriteFault> {
        let length = group.bytes.len() as u64;
        let rolled = self.at + length > self.active.header.length;
        if rolled {
            self.roll(length).map_err(|error| self.fault(error, WriteFault::NotWritten))?;
        }
        let number = self.number + 1;
        finish_group(&mut group.bytes, number, group.body_length, self.active.header.salt);
        let write = || self.active.file.write_at(&group.bytes, self.at);
        self.patiently(length, &write).map_err(|error| self.fault(error, WriteFault::Unknown))?;
        if self.syncs {
            self.active.file.sync().map_err(WriteFault::Unknown)?;
        }
        let written =
            Written { number, sequence: self.active.header.sequence, at: self.at, rolled };
        self.number = number;
        self.at += length;
        self.wal.active_bytes.store(self.at, Ordering::Release);
        if !self.asked && self.at > self.active.header.length / 16 {
            self.asked = true;
            self.preallocator.want_file();
        }
        Ok(written)
    }

    fn fault(&self, error: io::Error, fault: fn(io::Error) -> WriteFault) -> WriteFault {
        let passes = is_full(&error) || is_scarce(&error);
        if passes && self.preallocator.never_waits() { WriteFault::NotYet } else { fault(error) }
    }

    /// An operation that finds no space, or no file descriptor, has lost nothing: it is retried,
    /// using the reserve or once there is one again.
    fn patiently(&self, bytes: u64, act: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let mut spending = None;
        loop {
            match act() {
                Err(error) if is_full(&error) => {
                    spending.get_or_insert_with(|| self.preallocator.spend());
                    self.preallocator.wait_for_space(bytes).map_err(|()| error)?;
                }
                Err(error) if is_scarce(&error) => {
                    self.preallocator.wait_a_moment().map_err(|()| error)?;
                }
                other => return other,
            }
        }
    }

    fn roll(&mut self, group_bytes: u64) -> io::Result<()> {
        if !self.syncs {
            // SQLite relies on everything in a file that is not the last.
            self.active.file.sync()?;
        }
        let free = self.preallocator.take_file(BLOCK_BYTES + group_bytes)?;
        let sequence = self.active.header.sequence + 1;
        let patiently = |act: &dyn Fn() -> io::Result<()>| self.patiently(BLOCK_BYTES, act);
        let disk = self.disk.as_ref();
        let salt = salt(self.seed, sequence);
        let begun = begin(disk, &free, (sequence, salt), self.number + 1, patiently);
        let next = match begun {
            Ok(file) => Arc::new(file),
            Err(error) => {
                self.preallocator.give_back(free);
                return Err(error);
            }
        };
        self.wal.push(Arc::clone(&next), &self.active);
        self.active = next;
        self.at = BLOCK_BYTES;
        self.asked = false;
        Ok(())
    }
}

/// Makes `free` the log file `sequence` with that salt; `patiently` retries what finds no space or
/// descriptor. The file gets its name only when its header is durable, so a damaged header under
/// that name is never the result of a crash.
pub(super) fn begin(
    disk: &dyn Disk,
    free: &FreeFile,
    (sequence, salt): (u64, u64),
    first_group: u64,
    patiently: impl Fn(&dyn Fn() -> io::Result<()>) -> io::Result<()>,
) -> io::Result<WalFile> {
    let header = FileHeader { sequence, salt, first_group, length: free.length };
    patiently(&|| free.file.write_at(&header.encode(), 0))?;
    free.file.sync()?;
    patiently(&|| disk.rename(&free.name, &file_name(sequence)))?;
    patiently(&|| disk.sync_folder(FOLDER))?;
    patiently(&|| disk.sync_folder(FREE_FOLDER))?;
    Ok(WalFile::new(header, Arc::clone(&free.file)))
}

/// An unpredictable number; with a seed, the same for each `place`.
pub(super) fn salt(seed: Option<u64>, place: u64) -> u64 {
    let Some(seed) = seed else { return RandomState::new().build_hasher().finish() };
    let mixed = (seed ^ place.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

/// Whether the disk, or our quota on it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts_differ_unless_they_are_drawn_from_a_seed() {
        assert_ne!(salt(None, 1), salt(None, 1));
        assert_eq!(salt(Some(7), 1), salt(Some(7), 1));
        assert_ne!(salt(Some(7), 1), salt(Some(7), 2));
        assert_ne!(salt(Some(7), 1), salt(Some(8), 1));
    }

    #[test]
    fn names_sort_like_numbers() {
        assert!(file_name(9) < file_name(10));
        assert_eq!(file_name(7), "wal/00000000000000000007");
    }
}

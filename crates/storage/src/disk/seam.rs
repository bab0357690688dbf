//! The seam through which the disk engine accesses log and segment files.
//!
//! Tests plug in a simulated disk that fails the n-th call, tears a write or drops everything that
//! was not synced. SQLite manages its own files and is trusted to be atomic.

use std::io;
use std::sync::Arc;

/// A folder of files. Names are relative and may have one folder part: `wal/0000000000000001`.
pub trait Disk: Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates a file, or truncates an existing one, and creates its folder if necessary. The name
    /// is durable only after `sync_folder`.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing whole 4 KiB blocks from block-aligned memory,
    /// bypassing the page cache if possible: for large data that is not needed again soon.
    fn open_for_blocks(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

    /// Renames, replacing any file at `to`. Durable only after `sync_folder`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable only after `sync_folder`.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of the files in `folder` (without the folder part), sorted; empty if it is
    /// missing.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes the names in `folder`, and the folder's own name, durable.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// How many files a chore may have open at a time: a share of the process's limit.
    fn open_files_max(&self) -> usize {
        64
    }
}

/// An open file. Reads and writes name their position, so threads can share it.
pub trait File: Send + Sync {
    /// Fills `buffer` from `at`; `UnexpectedEof` if the file is shorter.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `at`, growing the file if necessary. Durable only after `sync`.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes everything written so far durable. After an error nothing about the file's unsynced
    /// content may be assumed.
    fn sync(&self) -> io::Result<()>;

    /// The file's length.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates the file to `length`, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Reserves space up to `length`, so that writes below it cannot run out of space. The file
    /// grows to `length`; new bytes read as zeros.
    fn allocate(&self, length: u64) -> io::Result<()>;
}

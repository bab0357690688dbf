//! Scans the groups of a log file in big sequential reads.
#![warn(clippy::indexing_slicing)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::format::{
    BLOCK, BLOCK_BYTES, FileHeader, GROUP_HEADER, GroupHeader, HeaderFault, to_usize,
};
use super::seam::Disk;
use super::wal::{FOLDER, WalFile, file_name};
use crate::{Error, Result};

/// Bytes read at a time.
const WINDOW_BYTES: u64 = 1 << 20;

/// Between a file and a position in it.
const AT_BYTE: &str = " at byte ";

/// `what` is damaged at byte `offset` of `file`.
pub(super) fn corrupt(file: impl AsRef<Path>, offset: u64, what: &'static str) -> Error {
    let file = file.as_ref().display();
    Error::corrupt(format!("{file}{AT_BYTE}{offset}"), what)
}

/// The file and the position that `corrupt` named.
pub(super) fn place_of(place: &str) -> (&Path, u64) {
    let parts = place.rsplit_once(AT_BYTE);
    let parts = parts.and_then(|(file, offset)| Some((file, offset.parse().ok()?)));
    let (file, offset) = parts.unwrap_or((place, 0));
    (Path::new(file), offset)
}

/// A disk failure where nothing was written.
pub(super) fn unavailable(error: io::Error) -> Error {
    Error::Unavailable(Arc::new(error))
}

/// The numbers of the log files on `disk`, ascending; a name that is not a number is corruption.
pub(super) fn sequences(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = disk.list(FOLDER).map_err(unavailable)?;
    let mut sequences = Vec::with_capacity(names.len());
    for name in names {
        let path = format!("{FOLDER}/{name}");
        match name.parse() {
            Ok(sequence) if file_name(sequence) == path => sequences.push(sequence),
            _ => return Err(corrupt(path, 0, "not a log file")),
        }
    }
    Ok(sequences)
}

/// Opens log file `sequence` and checks its header.
pub(super) fn open_file(disk: &dyn Disk, sequence: u64) -> Result<WalFile> {
    let name = file_name(sequence);
    let file = disk.open(&name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => corrupt(&name, 0, "a log file is missing"),
        _ => unavailable(error),
    })?;
    let mut block = [0; BLOCK];
    file.read_at(&mut block, 0).map_err(|error| at_end(&name, 0, error))?;
    let header = FileHeader::decode(&block).map_err(|fault| match fault {
        HeaderFault::Damaged => corrupt(&name, 0, "the header of the log file is damaged"),
        HeaderFault::Format(found) => Error::Format { found, known: super::format::FORMAT },
    })?;
    if header.sequence != sequence {
        return Err(corrupt(&name, 0, "the header belongs to another log file"));
    }
    let length = file.len().map_err(unavailable)?;
    if length < header.length {
        return Err(corrupt(&name, length, "the log file is cut off"));
    }
    Ok(WalFile::new(header, file))
}

/// A file that ends too early is corrupt; any other failure is the disk's.
pub(super) fn at_end(name: &str, at: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => corrupt(name, at, "the file is cut off"),
        _ => unavailable(error),
    }
}

/// A valid group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'window> {
    pub number: u64,
    /// Where in the file it starts.
    pub at: u64,
    /// The frames.
    pub body: &'window [u8],
    /// The whole group, as on disk.
    pub bytes: &'window [u8],
}

/// Reads groups of one file.
pub(super) struct Scanner<'file> {
    file: &'file WalFile,
    /// Only grows: bytes about to be overwritten by a read need no zeroing first.
    window: Vec<u8>,
    /// Bytes of the file in the window, and where they start.
    window_bytes: usize,
    window_at: u64,
}

impl<'file> Scanner<'file> {
    pub(super) fn new(file: &'file WalFile) -> Self {
        Self { file, window: Vec::new(), window_bytes: 0, window_at: 0 }
    }

    /// The group at `at`, if there is a whole one whose number `accepts` allows.
    pub(super) fn group(
        &mut self,
        at: u64,
        accepts: impl FnOnce(u64) -> bool,
    ) -> Result<Option<Group<'_>>> {
        let salt = self.file.header.salt;
        if at + BLOCK_BYTES > self.file.header.length {
            return Ok(None);
        }
        let header = GroupHeader::decode(self.bytes(at, BLOCK)?, salt);
        let Some(header) = header.filter(|header| accepts(header.number)) else { return Ok(None) };
        let length = header.group_bytes();
        if at + length as u64 > self.file.header.length {
            return Ok(None);
        }
        let bytes = self.bytes(at, length)?;
        let end = GROUP_HEADER + to_usize(header.body_length);
        let Some(body) = bytes.get(GROUP_HEADER..end) else { return Ok(None) };
        let group = Group { number: header.number, at, body, bytes };
        Ok(header.holds(bytes, salt).then_some(group))
    }

    /// The size of a torn group at `at`: its header is complete, the rest is not.
    pub(super) fn torn_bytes(&mut self, at: u64, number: u64) -> Result<Option<u64>> {
        if at + BLOCK_BYTES > self.file.header.length {
            return Ok(None);
        }
        let salt = self.file.header.salt;
        let header = GroupHeader::decode(self.bytes(at, BLOCK)?, salt);
        let header = header.filter(|header| header.number == number);
        Ok(header.map(|header| header.group_bytes() as u64))
    }

    /// The first valid group with a number above `last` that starts on any boundary after `at`:
    /// where, and its number.
    pub(super) fn later_group(&mut self, at: u64, last: u64) -> Result<Option<(u64, u64)>> {
        // Every group takes a block, so a number higher than this cannot be in this file.
        let highest = last + self.file.header.length / BLOCK_BYTES + 1;
        let mut place = at + BLOCK_BYTES;
        while place + BLOCK_BYTES <= self.file.header.length {
            let group = self.group(place, |number| number > last && number <= highest)?;
            if let Some(number) = group.map(|group| group.number) {
                return Ok(Some((place, number)));
            }
            place += BLOCK_BYTES;
        }
        Ok(None)
    }

    /// The bytes of the file from `at` on.
    pub(super) fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8]> {
        let held_to = self.window_at + self.window_bytes as u64;
        if at < self.window_at || at + length as u64 > held_to {
            self.fill(at, length)?;
        }
        let start = to_usize(at - self.window_at);
        let bytes = self.window.get(start..start + length);
        bytes.ok_or_else(|| corrupt(self.file.name(), at, "the file is cut off"))
    }

    /// Reads at least `length` bytes from `at` into the window.
    fn fill(&mut self, at: u64, length: usize) -> Result<()> {
        let rest = self.file.header.length - at;
        let bytes = to_usize(rest.min(WINDOW_BYTES.max(length as u64)));
        if self.window.len() < bytes {
            self.window.resize(bytes, 0);
        }
        (self.window_bytes, self.window_at) = (0, at);
        let read = self.file.file.read_at(self.window.get_mut(..bytes).unwrap_or_default(), at);
        read.map_err(|error| at_end(&self.file.name(), at, error))?;
        self.window_bytes = bytes;
        Ok(())
    }
}

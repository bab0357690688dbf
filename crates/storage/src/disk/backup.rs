//! Copies a store while it is in use.
//!
//! A copy is what a power cut would have left at one moment, and is opened as such. SQLite and
//! segments name only what is already in the log (LOG-1), so SQLite is copied first and the log
//! last. In between nothing may be moved, dropped or reused; most of the bytes are copied before
//! that.
#![warn(clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::format::{BLOCK_BYTES, to_usize};
use super::private::{FILE_MODE, FOLDER_MODE};
use super::real::RealDisk;
use super::scan::unavailable;
use super::seam::Disk;
use super::segments::{self, Segment};
use super::store::Shared;
use super::{DATABASE, attempts, wal};
use crate::{Error, Result};

/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Number of files in the copy.
    pub files: u64,
    /// Total bytes of these files.
    pub bytes: u64,
}

/// Copies the store to the folder `to`, which must not exist; it appears once the copy is complete
/// and durable. Any of `others` that exist are copied next to it.
pub(super) fn backup(shared: &Shared, to: &Path, others: &[PathBuf]) -> Result<Backup> {
    if to.exists() {
        let problem = format!("{} exists already", to.display());
        return Err(unavailable(io::Error::new(io::ErrorKind::AlreadyExists, problem)));
    }
    let unfinished = unfinished(to);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unavailable(error)),
        _ => {}
    }
    let copied = copy(shared, &unfinished, others).and_then(|backup| {
        finish(&unfinished, to).map_err(unavailable)?;
        Ok(backup)
    });
    if copied.is_err()
        && let Err(error) = fs::remove_dir_all(&unfinished)
    {
        tracing::warn!(folder = %unfinished.display(), %error, "cannot remove half a backup");
    }
    copied
}

/// The name of an incomplete copy.
pub(super) fn unfinished(to: &Path) -> PathBuf {
    let mut name = OsString::from(to);
    name.push(".unfinished");
    name.into()
}

fn finish(unfinished: &Path, to: &Path) -> io::Result<()> {
    fs::File::open(unfinished)?.sync_all()?;
    fs::rename(unfinished, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn copy(shared: &Shared, folder: &Path, others: &[PathBuf]) -> Result<Backup> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(unavailable)?;
    let mut copy = Copy { shared, to: RealDisk::new(folder), segments: BTreeMap::new() };
    copy_others(others, folder).map_err(unavailable)?;
    shared.attempts.copy_to(&folder.join(attempts::FILE))?;
    copy.segments(MayBeGone::Yes)?;
    {
        let _nothing_moves = shared.trimming.lock();
        shared.front.check_open()?;
        shared.database.copy_to(&folder.join(DATABASE))?;
        let current = copy.segments(MayBeGone::No)?;
        copy.drop_others(&current)?;
        copy.log()?;
    }
    for name in [segments::FOLDER, wal::FOLDER] {
        copy.to.sync_folder(name).map_err(unavailable)?;
    }
    copy.sum(folder).map_err(unavailable)
}

fn copy_others(others: &[PathBuf], folder: &Path) -> io::Result<()> {
    for other in others {
        let Some(name) = other.file_name() else { continue };
        let to = folder.join(name);
        match fs::copy(other, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) => {
                fs::set_permissions(&to, fs::Permissions::from_mode(FILE_MODE))?;
                fs::File::open(&to)?.sync_all()?;
            }
        }
    }
    Ok(())
}

/// Whether a segment that was listed may have been dropped by the time it is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MayBeGone {
    Yes,
    No,
}

/// A copy in progress.
struct Copy<'a> {
    shared: &'a Shared,
    to: RealDisk,
    /// How much of each segment is copied.
    segments: BTreeMap<String, u64>,
}

impl Copy<'_> {
    /// Copies whatever is not yet copied of the current segments, and returns their names.
    fn segments(&mut self, may_be_gone: MayBeGone) -> Result<Vec<String>> {
        let mut current = Vec::new();
        for topic in self.shared.front.topics.all() {
            let segments = topic.state().own.segments.clone();
            for segment in segments {
                match self.segment(&segment) {
                    Err(error) if may_be_gone == MayBeGone::Yes && is_gone(&error) => {}
                    Err(error) => return Err(error),
                    Ok(()) => current.push(segment.file.clone()),
                }
            }
        }
        Ok(current)
    }

    fn segment(&mut self, segment: &Segment) -> Result<()> {
        let copied = self.segments.get(&segment.file).copied();
        if copied == Some(segment.length) {
            return Ok(());
        }
        // A segment is written in whole blocks.
        let whole = segment.length.next_multiple_of(BLOCK_BYTES);
        self.file(&segment.file, (copied.unwrap_or(0), segment.length), whole)?;
        self.segments.insert(segment.file.clone(), segment.length);
        Ok(())
    }

    /// Removes copies of segments that no longer exist.
    fn drop_others(&mut self, current: &[String]) -> Result<()> {
        for name in current {
            self.segments.remove(name);
        }
        for name in std::mem::take(&mut self.segments).into_keys() {
            self.to.remove(&name).map_err(unavailable)?;
        }
        Ok(())
    }

    /// Copies the log up to its last complete group: of a group still being written we might see
    /// only parts, and a later part before an earlier one.
    fn log(&mut self) -> Result<()> {
        let (files, end) = self.shared.wal.written();
        for (at, file) in files.iter().enumerate() {
            let is_last = at + 1 == files.len();
            let length = file.header.length;
            self.file(&file.name(), (0, if is_last { end } else { length }), length)?;
        }
        Ok(())
    }

    /// Copies the bytes in `range` of a file and makes the copy `length` long.
    fn file(&mut self, name: &str, range: (u64, u64), length: u64) -> Result<()> {
        let (mut at, end) = range;
        let copied = (|| {
            let from = self.shared.disk.open(name)?;
            let to = if at == 0 { self.to.create(name)? } else { self.to.open(name)? };
            let mut piece = vec![0; PIECE_BYTES.min(to_usize(end - at))];
            while at < end {
                // Whoever closes the store waits for this.
                if self.shared.front.check_open().is_err() {
                    return Err(io::Error::other("the store was closed"));
                }
                let bytes = to_usize(end - at).min(piece.len());
                let piece = piece.get_mut(..bytes).unwrap_or_default();
                from.read_at(piece, at)?;
                to.write_at(piece, at)?;
                at += bytes as u64;
            }
            to.set_len(length)?;
            to.sync()
        })();
        copied.map_err(unavailable)
    }

    /// Counts the files at the end.
    fn sum(&self, folder: &Path) -> io::Result<Backup> {
        let mut sum = Backup::default();
        for part in ["", segments::FOLDER, wal::FOLDER] {
            for name in self.to.list(part)? {
                sum.files += 1;
                sum.bytes += fs::metadata(folder.join(part).join(name))?.len();
            }
        }
        Ok(sum)
    }
}

/// Whether a trim has dropped the file.
fn is_gone(error: &Error) -> bool {
    let Error::Unavailable(cause) = error else { return false };
    let cause = cause.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

//! A data folder is private to its owner: it contains messages, signing secrets and keys.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{segments, wal};

/// The mode of files.
pub(super) const FILE_MODE: u32 = 0o600;
/// The mode of folders.
pub(super) const FOLDER_MODE: u32 = 0o700;
/// What others may do with a file.
const OTHERS: u32 = 0o077;
/// Maximum number of names in one warning.
const NAMED_MAX: usize = 10;

/// Removes other users' permissions on the folder and its files, and logs which modes were changed.
/// The process may not be the owner: then it logs that.
pub(super) fn repair(folder: &Path) {
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    for path in paths(folder) {
        match close(&path) {
            Ok(false) => {}
            Ok(true) => changed.push(path),
            Err(error) => failed.push((path, error)),
        }
    }
    if let Some(named) = name(&changed) {
        tracing::warn!(
            changed = changed.len(),
            "other users of this machine could read what is in the data folder; they no longer \
             can: {named}"
        );
    }
    if let Some((path, error)) = failed.first() {
        tracing::error!(path = %path.display(), %error, others = failed.len() - 1,
            "other users of this machine may read this, and that cannot be changed");
    }
}

/// Creates an empty file that only its owner can access, if there is none.
pub(super) fn touch(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(FILE_MODE).open(path).map(drop)
}

/// The folder, its direct contents, and the contents of the log and segment folders.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut paths = vec![folder.to_owned()];
    let inside = ["", wal::FOLDER, wal::FREE_FOLDER, wal::DAMAGED_FOLDER, segments::FOLDER];
    for part in inside {
        let within = folder.join(part);
        if !part.is_empty() {
            paths.push(within.clone());
        }
        let files = fs::read_dir(&within).into_iter().flatten().flatten();
        let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        paths.extend(files.map(|entry| entry.path()));
    }
    paths
}

/// Returns whether the mode had to be changed.
fn close(path: &Path) -> io::Result<bool> {
    let mode = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?.permissions().mode(),
    };
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS))?;
    Ok(true)
}

/// The first few of them, as text.
fn name(paths: &[PathBuf]) -> Option<String> {
    let shown: Vec<_> =
        paths.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = paths.len().saturating_sub(shown.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!paths.is_empty()).then(|| format!("{}{rest}", shown.join(", ")))
}

//! Existing backups: listing and removing them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use domain::Timestamp;

use super::DATABASE;
use super::backup::unfinished;
use super::scan::unavailable;
use crate::{Error, Result};

/// The maximum folder depth of a store, with some to spare.
const DEPTH_MAX: u32 = 8;

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBackup {
    /// The name of its folder.
    pub name: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Number of files.
    pub files: u64,
    /// Total bytes of these files.
    pub bytes: u64,
}

/// The complete backups below `folder`, oldest first. Nothing else in there is listed.
pub fn backups(folder: &Path) -> Result<Vec<KeptBackup>> {
    let listing = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| unavailable(super::real::about(folder, error)))?,
    };
    let mut found = Vec::new();
    for item in listing {
        let path = item.map_err(unavailable)?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && is_backup(&path)
        {
            // One that is being removed meanwhile no longer counts.
            found.extend(look(name, &path).ok());
        }
    }
    found.sort_by(|one, other| (one.made_at, &one.name).cmp(&(other.made_at, &other.name)));
    Ok(found)
}

/// Removes the backup in the folder `backup`; `NotFound` if there is none. If that is interrupted,
/// the rest has the name of an incomplete backup, and never looks like a complete one.
pub fn remove_backup(backup: &Path) -> Result<()> {
    if !is_backup(backup) {
        return Err(Error::NotFound);
    }
    let half = unfinished(backup);
    match fs::remove_dir_all(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unavailable(error)),
        _ => {}
    }
    fs::rename(backup, &half).map_err(unavailable)?;
    fs::remove_dir_all(&half).map_err(unavailable)
}

/// A real folder with a store in it, not a link to one.
fn is_backup(path: &Path) -> bool {
    let is_half = path.extension().is_some_and(|extension| extension == "unfinished");
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_folder && !is_half && path.join(DATABASE).is_file()
}

fn look(name: &str, path: &PathBuf) -> io::Result<KeptBackup> {
    let since = fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    let mut kept =
        KeptBackup { name: name.to_owned(), made_at: Timestamp(micros), files: 0, bytes: 0 };
    count(path, DEPTH_MAX, &mut kept)?;
    Ok(kept)
}

fn count(folder: &Path, depth: u32, kept: &mut KeptBackup) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let item = item?;
        let kind = item.file_type()?;
        if kind.is_file() {
            kept.files += 1;
            kept.bytes += item.metadata()?.len();
        } else if kind.is_dir() && depth > 0 {
            count(&item.path(), depth - 1, kept)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(folder: &Path, name: &str) {
        fs::create_dir_all(folder.join(name).join("wal")).unwrap();
        fs::write(folder.join(name).join(DATABASE), "database").unwrap();
        fs::write(folder.join(name).join("wal/1"), "log").unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        backups(folder).unwrap().into_iter().map(|kept| kept.name).collect()
    }

    #[test]
    fn only_whole_backups_are_listed_and_removed() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path();
        assert!(names(&folder.join("missing")).is_empty());
        make(folder, "whole");
        make(folder, "half.unfinished");
        fs::create_dir(folder.join("foreign")).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        std::os::unix::fs::symlink(folder.join("whole"), folder.join("link")).unwrap();
        let kept = backups(folder).unwrap();
        assert_eq!(names(folder), ["whole"]);
        assert_eq!((kept[0].files, kept[0].bytes), (2, 11));
        for other in ["foreign", "file", "link", "half.unfinished", "missing"] {
            let refused = remove_backup(&folder.join(other));
            assert!(matches!(refused, Err(Error::NotFound)), "{other}");
        }
        assert!(folder.join("foreign").exists() && folder.join("link").exists());
        make(folder, "whole.unfinished");
        remove_backup(&folder.join("whole")).unwrap();
        assert!(names(folder).is_empty());
        assert!(!folder.join("whole.unfinished").exists());
    }
}

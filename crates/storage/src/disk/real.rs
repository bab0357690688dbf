//! The disk of this machine, and the lock that keeps a second process out of the folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;

use super::descriptors::{self, Descriptors};
use super::private::{FILE_MODE, FOLDER_MODE};
use super::seam::{Disk, File};
use crate::{Error, Result};

/// The file whose lock marks the folder as in use.
const LOCK: &str = "lock";

/// Files below one folder of the real file system.
#[derive(Debug)]
pub(super) struct RealDisk {
    root: PathBuf,
    /// Folders whose own names are known to be durable.
    known: Mutex<BTreeSet<String>>,
    descriptors: Descriptors,
    open_files_max: usize,
}

impl RealDisk {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            known: Mutex::default(),
            descriptors: Descriptors::new(),
            open_files_max: descriptors::open_files_max(),
        }
    }

    fn open_with(&self, options: &fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
        self.descriptors.patiently(|| options.open(path)).map_err(|error| about(path, error))
    }

    fn sync_names(&self, folder: &Path) -> io::Result<()> {
        self.descriptors.patiently(|| fs::File::open(folder))?.sync_all()
    }
}

/// Creates the folder of a file, accessible only to its owner.
fn make_folder(of: &Path) -> io::Result<()> {
    let Some(folder) = of.parent() else { return Ok(()) };
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        let file = self.open_with(options.read(true).write(true), &self.root.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.root.join(name);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let file = match self.open_with(&options, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&path)?;
                self.open_with(&options, &path)
            }
            other => other,
        };
        Ok(Arc::new(RealFile(file?)))
    }

    fn open_for_blocks(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
        let mut options = fs::OpenOptions::new();
        let path = self.root.join(name);
        let options = options.read(true).write(true).custom_flags(direct);
        match self.open_with(options, &path) {
            Ok(file) => Ok(Arc::new(RealFile(file))),
            // Not every file system supports it.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.open(name),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.root.join(to);
        match fs::rename(self.root.join(from), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&to)?;
                fs::rename(self.root.join(from), &to)
            }
            other => other,
        }
        .map_err(|error| about(&to, error))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.root.join(name);
        fs::remove_file(&path).map_err(|error| about(&path, error))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let path = self.root.join(folder);
        let listing = match self.descriptors.patiently(|| fs::read_dir(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| about(&path, error))?,
        };
        let mut names = Vec::new();
        for item in listing {
            let item = item?;
            if item.file_type()?.is_file() {
                names.extend(item.file_name().into_string());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        match self.sync_names(&self.root.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        let mut known = self.known.lock();
        if !known.contains(folder) {
            self.sync_names(&self.root)?;
            known.insert(folder.to_owned());
        }
        Ok(())
    }

    fn open_files_max(&self) -> usize {
        self.open_files_max
    }
}

/// Adds the path if someone has to fix permissions or paths. Other errors stay unchanged: callers
/// decide what to do based on them.
pub(super) fn about(path: &Path, error: io::Error) -> io::Error {
    use io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem | NotADirectory | IsADirectory => {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        }
        _ => error,
    }
}

#[derive(Debug)]
struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // Some file systems cannot reserve space; zero-filling does it there, but takes longer.
            Err(Errno::OPNOTSUPP) if self.len()? < length => self.set_len(length),
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// The lock on a data folder, held until dropped. The system releases it when a process dies.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: fs::File,
}

impl FolderLock {
    /// Creates the folder if necessary and locks it; `InUse` if someone else has it. A new folder
    /// is accessible only to its owner: it holds messages and signing secrets.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let io = |error: io::Error| Error::Unavailable(Arc::new(about(&path, error)));
        let made = fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        made.map_err(|error| Error::Unavailable(Arc::new(about(folder, error))))?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(&path).map_err(io)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(Error::InUse(folder.display().to_string())),
            Err(error) => Err(io(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_lock_on_a_folder_is_refused_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        assert!(matches!(FolderLock::take(folder.path()), Err(Error::InUse(_))));
        drop(first);
        FolderLock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_that_is_made_is_for_its_owner_alone() {
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        let outer = tempfile::tempdir().unwrap();
        let made = outer.path().join("data");
        drop(FolderLock::take(&made).unwrap());
        assert_eq!(mode(&made), 0o700);
        assert_eq!(mode(&made.join(LOCK)), 0o600);
        let disk = RealDisk::new(&made);
        disk.create("wal/1").unwrap();
        disk.create("free/2").unwrap();
        disk.rename("free/2", "damaged/2").unwrap();
        for (name, expected) in [("wal", 0o700), ("damaged", 0o700), ("wal/1", 0o600)] {
            assert_eq!(mode(&made.join(name)), expected, "{name}");
        }
    }

    #[test]
    fn where_something_is_not_permitted_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        // A file in place of a folder: unlike missing permissions it stops root too.
        let below = file.join("data");
        let told = FolderLock::take(&below).unwrap_err().to_string();
        assert!(told.contains(&below.display().to_string()), "{told}");
        let disk = RealDisk::new(&file);
        for error in [
            disk.open("wal/1").err().unwrap(),
            disk.create("wal/1").err().unwrap(),
            disk.open_for_blocks("wal/1").err().unwrap(),
            disk.remove("wal/1").unwrap_err(),
        ] {
            let path = file.join("wal/1").display().to_string();
            assert!(error.to_string().contains(&path), "{error}");
        }
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(about(&file, denied).kind(), io::ErrorKind::PermissionDenied);
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(about(&file, full).raw_os_error(), Some(28), "it is decided by that");
    }

    #[test]
    fn files_are_made_renamed_listed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(folder.path());
        assert!(disk.list("wal").unwrap().is_empty());
        let file = disk.create("free/1").unwrap();
        file.allocate(8192).unwrap();
        file.write_at(b"hello", 4096).unwrap();
        disk.rename("free/1", "wal/2").unwrap();
        disk.sync_folder("wal").unwrap();
        let mut read = [0; 5];
        disk.open("wal/2").unwrap().read_at(&mut read, 4096).unwrap();
        assert_eq!(&read, b"hello");
        assert_eq!(disk.list("wal").unwrap(), ["2"]);
        let past_end = file.read_at(&mut read, 8190).unwrap_err();
        assert_eq!(past_end.kind(), io::ErrorKind::UnexpectedEof);
        disk.remove("wal/2").unwrap();
        assert!(disk.list("wal").unwrap().is_empty());
    }
}

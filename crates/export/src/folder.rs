//! A folder as a bucket: a file is written beside the others, synced, and only then renamed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::{Error, Kind};

/// The folder, inside of each bucket's, of files that are being written: they must be on the same
/// file system to be renamed. No object's name begins like this.
const PARTS: &str = ".postrider-parts";
/// How their names end.
const ENDING: &str = "part";

/// A file that is being written. Dropping it removes it.
pub(crate) struct FolderUpload {
    /// Locked, so that another server that starts does not take it for left over.
    file: Option<File>,
    part: PathBuf,
    bucket: PathBuf,
    name: String,
    is_complete: bool,
}

/// Whether the bucket is there.
pub(crate) async fn check(bucket: PathBuf) -> Result<(), Error> {
    blocking(move || check_now(&bucket)).await
}

fn check_now(bucket: &Path) -> Result<(), Error> {
    match fs::metadata(bucket) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::new(Kind::Missing, format!("{} is no folder", bucket.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = format!("there is no folder {}", bucket.display());
            Err(Error::new(Kind::Missing, why))
        }
        Err(error) => Err(named(bucket, error)),
    }
}

impl FolderUpload {
    /// Begins a file that will be `name`; `unique` is in no other name.
    pub(crate) async fn begin(bucket: PathBuf, name: String, unique: &str) -> Result<Self, Error> {
        let part = bucket.join(PARTS).join(format!("{unique}.{ENDING}"));
        blocking(move || {
            check_now(&bucket)?;
            let parts = bucket.join(PARTS);
            match fs::create_dir(&parts) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(&parts, error));
                }
                _ => {}
            }
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).open(&part);
            let file = file.map_err(|error| named(&part, error))?;
            // Where a file system has no locks, files are at worst taken for left over.
            drop(file.try_lock());
            Ok(Self { file: Some(file), part, bucket, name, is_complete: false })
        })
        .await
    }

    /// Writes what comes next.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        let part = self.part.clone();
        let Some(mut file) = self.file.take() else { return Err(lost(&part)) };
        let file = blocking(move || match file.write_all(&bytes) {
            Ok(()) => Ok(file),
            Err(error) => Err(named(&part, error)),
        });
        self.file = Some(file.await?);
        Ok(())
    }

    /// Makes it an object: whole, on stable storage, under its final name.
    pub(crate) async fn complete(mut self) -> Result<(), Error> {
        blocking(move || {
            let Some(file) = self.file.take() else { return Err(lost(&self.part)) };
            file.sync_all().map_err(|error| named(&self.part, error))?;
            let target = self.bucket.join(&self.name);
            let folder = target.parent().unwrap_or(&self.bucket).to_owned();
            // Another deletes the bucket: it is not made again.
            check_now(&self.bucket)?;
            fs::create_dir_all(&folder).map_err(|error| named(&folder, error))?;
            fs::rename(&self.part, &target).map_err(|error| named(&target, error))?;
            self.is_complete = true;
            sync_up_to(&folder, &self.bucket)
        })
        .await
    }
}

impl Drop for FolderUpload {
    fn drop(&mut self) {
        if !self.is_complete {
            // What cannot be removed now is when the server starts again.
            drop(fs::remove_file(&self.part));
        }
    }
}

/// Makes the names in `folder`, and those of folders on the way to it, durable.
fn sync_up_to(folder: &Path, bucket: &Path) -> Result<(), Error> {
    for folder in folder.ancestors() {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| named(folder, error))?;
        if folder == bucket {
            break;
        }
    }
    Ok(())
}

/// Removes what a server that was killed has left of unfinished files; returns how many there
/// were.
pub(crate) async fn sweep(folder: PathBuf) -> Result<usize, Error> {
    blocking(move || {
        let mut removed = 0;
        let buckets = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            buckets => buckets.map_err(|error| named(&folder, error))?,
        };
        for bucket in buckets.flatten() {
            let Ok(parts) = fs::read_dir(bucket.path().join(PARTS)) else { continue };
            for part in parts.flatten().map(|part| part.path()) {
                if part.extension().is_some_and(|ending| ending == ENDING) && is_left_over(&part) {
                    fs::remove_file(&part).map_err(|error| named(&part, error))?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    })
    .await
}

/// Whether no server is writing the file.
fn is_left_over(part: &Path) -> bool {
    let Ok(file) = File::open(part) else { return false };
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn lost(part: &Path) -> Error {
    Error::new(Kind::Unavailable, format!("{} failed before", part.display()))
}

/// The error with the path it is about.
fn named(path: &Path, error: io::Error) -> Error {
    let kind = Error::from(io::Error::from(error.kind())).kind;
    Error::new(kind, format!("{}: {error}", path.display()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::new(Kind::Unavailable, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let bucket = folder.path().join("shop");
        fs::create_dir(&bucket).unwrap();
        (folder, bucket)
    }

    async fn begin(bucket: &Path, name: &str) -> FolderUpload {
        FolderUpload::begin(bucket.to_owned(), name.to_owned(), "1").await.unwrap()
    }

    fn parts(bucket: &Path) -> usize {
        fs::read_dir(bucket.join(PARTS)).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn a_file_is_there_when_it_is_whole_and_not_before() {
        let (_folder, bucket) = bucket();
        let mut upload = begin(&bucket, "2027/01/orders.txt").await;
        upload.write(Bytes::from_static(b"one\n")).await.unwrap();
        upload.write(Bytes::from_static(b"two\n")).await.unwrap();
        assert!(!bucket.join("2027").exists());
        upload.complete().await.unwrap();
        assert_eq!(fs::read(bucket.join("2027/01/orders.txt")).unwrap(), b"one\ntwo\n");
        assert_eq!(parts(&bucket), 0);
    }

    #[tokio::test]
    async fn what_is_dropped_leaves_nothing() {
        let (_folder, bucket) = bucket();
        let mut upload = begin(&bucket, "a").await;
        upload.write(Bytes::from_static(b"one")).await.unwrap();
        assert_eq!(parts(&bucket), 1);
        drop(upload);
        assert_eq!(parts(&bucket), 0);
        assert!(!bucket.join("a").exists());
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_swept_and_what_is_being_written_is_not() {
        let (folder, bucket) = bucket();
        let open = begin(&bucket, "a").await;
        fs::write(bucket.join(PARTS).join("old.part"), b"half").unwrap();
        fs::write(bucket.join(PARTS).join("other"), b"not ours").unwrap();
        assert_eq!(sweep(folder.path().to_owned()).await.unwrap(), 1);
        assert_eq!(parts(&bucket), 2);
        open.complete().await.unwrap();
        assert!(bucket.join("a").exists());
        assert_eq!(sweep(folder.path().join("none")).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_bucket_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("shop");
        let error = check(missing.clone()).await.unwrap_err();
        assert_eq!(error.kind, Kind::Missing);
        assert!(error.to_string().contains("there is no folder"), "{error}");
        assert!(FolderUpload::begin(missing, "a".to_owned(), "1").await.is_err());
    }
}

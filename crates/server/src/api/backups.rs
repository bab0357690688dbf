//! Copies of the store, made while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::Invalid;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Code;

use super::Api;
use crate::engine::{self, Copied, Copier, KeptBackup};
use crate::status::{Refusal, Result};

/// The longest name of a backup.
const NAME_BYTES_MAX: usize = 100;

/// Who makes backups, one at a time.
pub(crate) struct Backups {
    copier: Copier,
    /// They are made below it.
    folder: PathBuf,
    /// Files of the data folder that are not the engine's, and belong to a backup.
    others: Vec<PathBuf>,
    one_at_a_time: Arc<Mutex<()>>,
}

/// A backup that was made.
#[derive(Debug)]
pub(crate) struct Backup {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) copied: Copied,
    pub(crate) duration: Duration,
}

impl Backups {
    pub(crate) fn new(copier: Copier, folder: PathBuf, others: Vec<PathBuf>) -> Self {
        // Whoever asks stands elsewhere, and wants to know the whole path.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self { copier, folder, others, one_at_a_time: Arc::default() }
    }

    fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        Arc::clone(&self.one_at_a_time).try_lock_owned().map_err(|_| {
            let problem = "another backup is in progress; try again when it is done";
            Refusal::new(Code::Aborted, problem)
        })
    }
}

impl Api {
    /// The same, with a store that can be copied.
    pub(crate) fn with_backups(self, backups: Option<Backups>) -> Self {
        Self { backups: backups.map(Arc::new), ..self }
    }

    /// Copies the store to a new folder of that name. Goes on to its end though the caller goes
    /// away; until then no other is begun.
    pub(crate) async fn backup(&self, name: &str) -> Result<Backup> {
        let backups = self.the_backups()?;
        let (begun, name) = (self.now(), checked(name)?);
        let turn = backups.turn()?;
        let folder = backups.folder.join(name);
        if folder.exists() {
            let problem = format!("backup {name} already exists; choose another name");
            return Err(Refusal::new(Code::AlreadyExists, problem));
        }
        let copied = self.copy(backups, name, folder.clone(), turn).await?;
        Ok(Backup { name: name.to_owned(), folder, copied, duration: self.now().since(begun) })
    }

    /// The backups there are, the oldest first, and the folder they lie in.
    pub(crate) async fn list_backups(&self) -> Result<(PathBuf, Vec<KeptBackup>)> {
        let folder = self.the_backups()?.folder.clone();
        let looked = folder.clone();
        let found = blocking(move || engine::backups(&looked)).await?;
        Ok((folder, found))
    }

    /// Deletes a backup, for good. None is made or deleted meanwhile.
    pub(crate) async fn delete_backup(&self, name: &str) -> Result<()> {
        let backups = self.the_backups()?;
        let folder = backups.folder.join(checked(name)?);
        let turn = backups.turn()?;
        let (broker, peer) = (Arc::clone(&self.broker), broker::asking_peer());
        let resource = format!("backups/{name}");
        let removed = blocking(move || {
            let removed = engine::remove_backup(&folder);
            if removed.is_ok() {
                broker.audit_of(peer, "delete backup", resource, None);
            }
            drop(turn);
            match removed {
                Err(storage::Error::NotFound) => Ok(false),
                other => other.map(|()| true),
            }
        });
        match removed.await? {
            true => Ok(()),
            false => Err(Refusal::new(Code::NotFound, format!("backup {name} not found"))),
        }
    }

    fn the_backups(&self) -> Result<&Backups> {
        self.backups.as_deref().ok_or_else(|| {
            let problem = "this server has nothing on disk to copy; use engine = \"disk\"";
            Refusal::new(Code::FailedPrecondition, problem)
        })
    }

    async fn copy(
        &self,
        backups: &Backups,
        name: &str,
        to: PathBuf,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Copied> {
        let (copier, others) = (backups.copier.clone(), backups.others.clone());
        let (broker, peer) = (Arc::clone(&self.broker), broker::asking_peer());
        let resource = format!("backups/{name}");
        let copying = blocking(move || {
            let copied = copier.copy(&to, &others);
            // Here and not with the caller, who may go away before.
            if copied.is_ok() {
                let details = Some(format!("to {}", to.display()));
                broker.audit_of(peer, "backup", resource, details);
            }
            drop(turn);
            copied
        });
        copying.await
    }
}

/// Does something with files where that holds up nobody; to its end, though the caller goes away.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> storage::Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| broker::Error::Storage(error).into()),
        Err(error) => Err(Refusal::new(Code::Internal, error.to_string())),
    }
}

/// A name that is one plain part of a path.
fn checked(name: &str) -> Result<&str, Invalid> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || name.starts_with('.')
        || !name.chars().all(is_plain)
    {
        let problem = format!(
            "expected 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.', not '.' first"
        );
        return Err(Invalid::new("name", problem));
    }
    if name.ends_with(".unfinished") {
        return Err(Invalid::new("name", "\".unfinished\" is reserved for incomplete backups"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_plain_part_of_a_path() {
        for good in ["a", "before-1.2", "2026-11-15T18-43-26Z", "x_y"] {
            assert_eq!(checked(good), Ok(good));
        }
        for bad in
            ["", "../x", "a/b", ".", "..", ".x", "a b", "ü", "x.unfinished", &"x".repeat(101)]
        {
            assert_eq!(checked(bad).unwrap_err().field, "name", "{bad}");
        }
    }
}

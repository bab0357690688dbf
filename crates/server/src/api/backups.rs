//! Copies of the store, made while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::Invalid;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Code;

use super::Api;
use crate::engine::{Copied, Copier};
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
        Self { copier, folder, others, one_at_a_time: Arc::default() }
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
        let Some(backups) = &self.backups else {
            let problem = "this server keeps nothing on disk that could be copied; \
                           engine = \"disk\" does";
            return Err(Refusal::new(Code::FailedPrecondition, problem));
        };
        let (begun, name) = (self.now(), checked(name)?);
        let Ok(turn) = Arc::clone(&backups.one_at_a_time).try_lock_owned() else {
            let problem = "another backup is being made; try again when it is done";
            return Err(Refusal::new(Code::Aborted, problem));
        };
        let folder = backups.folder.join(name);
        if folder.exists() {
            let problem = format!("backup {name} exists already; choose another name");
            return Err(Refusal::new(Code::AlreadyExists, problem));
        }
        let copied = self.copy(backups, name, folder.clone(), turn).await?;
        Ok(Backup { name: name.to_owned(), folder, copied, duration: self.now().since(begun) })
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
        let copying = tokio::task::spawn_blocking(move || {
            let copied = copier.copy(&to, &others);
            // Here and not with the caller, who may go away before.
            if copied.is_ok() {
                let details = Some(format!("to {}", to.display()));
                broker.audit_of(peer, "backup", resource, details);
            }
            drop(turn);
            copied
        });
        match copying.await {
            Ok(copied) => copied.map_err(|error| broker::Error::Storage(error).into()),
            Err(error) => Err(Refusal::new(Code::Internal, error.to_string())),
        }
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
        return Err(Invalid::new("name", "\".unfinished\" is how half a backup is called"));
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

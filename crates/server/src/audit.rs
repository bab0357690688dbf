//! The record of what operators did by hand: a file in the data folder, beside the log.
//!
//! One line of JSON for each act, appended. A file that has grown to its bound becomes the old
//! one, instead of the one before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use broker::{Audit, AuditAct, AuditLog};
use parking_lot::Mutex;
use serde_json::{Value, json};
use wire::protobuf;

/// The file in the data folder.
pub(crate) const NAME: &str = "audit.jsonl";

/// The file before it.
pub(crate) const OLD_NAME: &str = "audit.1.jsonl";

/// A file of this size is replaced by a new one.
const BYTES_MAX: u64 = 16 << 20;

/// Writes each act to the file and to the log.
pub(crate) struct AuditFile {
    folder: PathBuf,
    bytes_max: u64,
    /// `None` = to be opened with the next act.
    open: Mutex<Option<Open>>,
}

struct Open {
    file: File,
    bytes: u64,
}

impl AuditFile {
    /// The record in `folder`. Nothing is opened before the first act.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), bytes_max: BYTES_MAX, open: Mutex::new(None) }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.bytes >= self.bytes_max) {
            *open = None;
            std::fs::rename(self.folder.join(NAME), self.folder.join(OLD_NAME))?;
        }
        let current = match &mut *open {
            Some(current) => current,
            closed => closed.insert(Open::at(&self.folder.join(NAME))?),
        };
        current.file.write_all(line)?;
        current.bytes += line.len() as u64;
        Ok(())
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl Audit for AuditFile {
    fn record(&self, act: &AuditAct) {
        AuditLog.record(act);
        let micros = i64::try_from(act.at.0).unwrap_or(i64::MAX);
        let resource = match act.resource.split('/').nth(2) {
            Some("topics") => "topic",
            Some("snapshots") => "snapshot",
            Some("schemas") => "schema",
            Some(_) => "subscription",
            None if act.resource.starts_with("backups/") => "backup",
            None => "resource",
        };
        let known = [
            ("at", Some(json!(protobuf::Timestamp::from_unix_micros(micros)))),
            (resource, Some(json!(act.resource))),
            ("act", Some(json!(act.act))),
            ("key", act.key.as_ref().map(|key| json!(key))),
            ("messageId", act.message_id.as_ref().map(|id| json!(id))),
            ("details", act.details.as_ref().map(|details| json!(details))),
            ("peer", act.peer.map(|peer| json!(peer.to_string()))),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let line = Value::Object(known.collect());
        if let Err(error) = self.write(format!("{line}\n").as_bytes()) {
            let folder = self.folder.display();
            tracing::error!(%error, %folder, "cannot write {NAME}; this action is only in the log");
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;
    use tempfile::TempDir;

    use super::*;

    fn act(key: &str) -> AuditAct {
        AuditAct {
            at: Timestamp(1_500_000),
            resource: "projects/p/subscriptions/billing".to_owned(),
            act: "skip",
            key: Some(key.to_owned()),
            message_id: Some("7".to_owned()),
            details: None,
            peer: Some(([127, 0, 0, 1], 4_000).into()),
        }
    }

    fn keys(folder: &TempDir, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(|line| read(line)["key"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_act_is_one_line_of_json() {
        let folder = TempDir::new().unwrap();
        AuditFile::new(folder.path()).record(&act("a\nb"));
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "at": "1970-01-01T00:00:01.500Z",
            "subscription": "projects/p/subscriptions/billing",
            "act": "skip",
            "key": "a\nb",
            "messageId": "7",
            "peer": "127.0.0.1:4000",
        });
        assert_eq!(line, expected);
        assert_eq!(text.lines().count(), 1);
        // After a restart the server continues in the same file.
        AuditFile::new(folder.path()).record(&act("c"));
        assert_eq!(keys(&folder, NAME), ["a\nb", "c"]);
    }

    #[test]
    fn an_act_on_a_topic_names_the_topic() {
        let folder = TempDir::new().unwrap();
        AuditFile::new(folder.path()).record(&AuditAct {
            resource: "projects/p/topics/dead".to_owned(),
            act: "delete dead letters",
            key: None,
            message_id: None,
            details: Some("3 deleted".to_owned()),
            peer: None,
            ..act("")
        });
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "at": "1970-01-01T00:00:01.500Z",
            "topic": "projects/p/topics/dead",
            "act": "delete dead letters",
            "details": "3 deleted",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn an_act_on_the_server_names_what_it_was_on() {
        let folder = TempDir::new().unwrap();
        let resource = "clock".to_owned();
        AuditFile::new(folder.path()).record(&AuditAct { resource, ..act("") });
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["resource"], "clock");
    }

    #[test]
    fn each_kind_of_resource_has_its_name() {
        let folder = TempDir::new().unwrap();
        let audit = AuditFile::new(folder.path());
        for (resource, kind) in [
            ("projects/subscriptions/topics/t", "topic"),
            ("projects/topics/subscriptions/s", "subscription"),
            ("projects/p/snapshots/s", "snapshot"),
            ("projects/p/schemas/s", "schema"),
            ("backups/before", "backup"),
        ] {
            audit.record(&AuditAct { resource: resource.to_owned(), ..act("") });
            let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
            let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            assert_eq!(line[kind], json!(resource));
        }
    }

    #[test]
    fn a_full_file_becomes_the_old_one() {
        let folder = TempDir::new().unwrap();
        let mut audit = AuditFile::new(folder.path());
        audit.bytes_max = 300;
        for n in 0..7 {
            audit.record(&act(&n.to_string()));
        }
        let bytes = |name| std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(bytes(NAME) < 300 + 200 && bytes(OLD_NAME) < 300 + 200);
        let kept = [keys(&folder, OLD_NAME), keys(&folder, NAME)].concat();
        assert_eq!(kept.last().map(String::as_str), Some("6"));
        assert!(kept.is_sorted() && kept.len() < 7, "{kept:?}");
    }
}

//! Audit records: poison that was acked and is kept nowhere else.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::json;

use crate::{Failure, Known, Message, StartError, clock};

/// A file that is only ever appended to, one JSON object a line.
#[derive(Debug)]
pub(crate) struct Audit {
    file: Mutex<File>,
}

impl Audit {
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = opened.map_err(|source| StartError::Audit { path: path.to_owned(), source })?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Appends the message, and is back when the record is on the disk: only then may it be
    /// acked. Blocks for that long, which is seldom: poison is.
    pub(crate) fn append(
        &self,
        message: &Message,
        failure: &Failure,
        known: &Known,
    ) -> io::Result<()> {
        let record = json!({
            "time": clock::text(clock::wall()),
            "subscription": message.subscription.as_deref().or(known.subscription.as_deref()),
            "messageId": message.id,
            "publishTime": message.publish_time.map(clock::text),
            "deliveryAttempt": message.delivery_attempt,
            "orderingKey": message.ordering_key,
            "attributes": message.attributes,
            "data": STANDARD.encode(&message.data),
            "error_type": failure.kind,
            "error_code": failure.code,
            "error": failure.message,
        });
        let mut line = record.to_string();
        line.push('\n');
        let mut file = self.file.lock();
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }
}

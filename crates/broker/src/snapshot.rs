//! Snapshots: what a subscription had acked at one moment, kept so that it can be reset to that.

use std::sync::Arc;

use domain::{Offset, Progress, Timestamp};
use parking_lot::Mutex;
use storage::{Entry, MessageLog, ReadLimit};

use crate::definition::StoredSnapshot;
use crate::error::Result;
use crate::topic::{Hold, Topic};

/// How much is read at a time to find the oldest message.
const READ: ReadLimit = ReadLimit { records: 1_000, bytes: 1 << 20 };

/// One life of a snapshot.
pub struct Snapshot {
    topic: Arc<Topic>,
    created: Timestamp,
    hold: Arc<Hold>,
    stored: Mutex<Stored>,
}

/// Its settings as they are in the catalogue.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) settings: Arc<domain::Snapshot>,
    /// 0 until it is stored.
    pub(crate) id: u64,
    pub(crate) version: u64,
}

impl Snapshot {
    pub(crate) fn new(
        stored: StoredSnapshot,
        topic: Arc<Topic>,
        id: u64,
        version: u64,
    ) -> Arc<Self> {
        let StoredSnapshot { settings, created, progress, .. } = stored;
        Arc::new(Self {
            topic,
            created,
            hold: Arc::new(Hold::new(progress, created)),
            stored: Mutex::new(Stored { settings: Arc::new(settings), id, version }),
        })
    }

    /// The settings as last stored.
    pub fn settings(&self) -> Arc<domain::Snapshot> {
        Arc::clone(&self.stored.lock().settings)
    }

    /// The topic of the subscription it was taken from, existing or deleted.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// When it was taken.
    pub(crate) fn created(&self) -> Timestamp {
        self.created
    }

    /// What was acked when it was taken.
    pub(crate) fn progress(&self) -> &Progress {
        self.hold.progress()
    }

    /// What it keeps in its topic.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Looks for the oldest message it leaves unacked that is not from before `since`, and notes
    /// when that was published. Without one it keeps what came after it was taken.
    pub(crate) async fn find_oldest(&self, log: &dyn MessageLog, since: Timestamp) -> Result<()> {
        let mut from = log.offset_at(self.topic.id(), since).await?;
        loop {
            from = self.progress().next_unacked(from);
            let batch = log.read(self.topic.id(), from, READ).await?;
            let is_kept = |offset: Offset| !self.progress().is_acked(offset);
            if let Some(oldest) = batch.records.iter().find(|record| is_kept(record.offset)) {
                self.hold.set_since(oldest.publish_time.min(self.created));
                return Ok(());
            }
            if batch.covered.is_empty() {
                return Ok(());
            }
            from = batch.covered.to;
        }
    }

    /// The settings as last stored, with their version.
    pub(crate) fn versioned(&self) -> Stored {
        self.stored.lock().clone()
    }

    pub(crate) fn set(&self, settings: domain::Snapshot, entry: &Entry) {
        let (id, version) = (entry.id, entry.version);
        *self.stored.lock() = Stored { settings: Arc::new(settings), id, version };
    }

    /// The snapshot with these settings, as it will be stored.
    pub(crate) fn stored_as(&self, settings: domain::Snapshot) -> StoredSnapshot {
        let (topic, created) = (self.topic.id(), self.created);
        StoredSnapshot { settings, topic, created, progress: self.progress().clone() }
    }
}

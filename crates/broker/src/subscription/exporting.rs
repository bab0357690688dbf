//! What an exporter does with its subscription.

use std::sync::Arc;

use domain::Now;
use domain::delivery::{AckId, Effects};
use storage::Urgency;

use super::Subscription;
use super::reporting::told;
use crate::delivery_log::{DeliveryLog, LogLine};
use crate::figures::{ExportFigures, Exported};

/// Acks under one lock: deliveries should not wait for all messages of a large object.
const ACKED_AT_ONCE: usize = 1_000;

impl Subscription {
    /// Acks messages that are in an object now. Goes on while the server stops, until the log is
    /// closed; one that is deleted has nothing to ack.
    pub(crate) fn ack_exported(self: &Arc<Self>, now: Now, ids: &[AckId]) {
        let end = self.runtime.log.end(self.topic.id());
        for ids in ids.chunks(ACKED_AT_ONCE) {
            let mut effects = Effects::default();
            let mut lines = DeliveryLog::tells_success().then(Vec::new);
            let Ok(mut state) = self.lock_living() else { return };
            for id in ids {
                let line = lines.as_ref().map(|_| self.acked_line(&state, id.offset(), "ack"));
                let acked = state.delivery.ack(now.moment, id, end, &mut effects);
                state.counts.note_ack(acked);
                let line = line.map(|line| LogLine { outcome: told(acked), ..line });
                lines.iter_mut().for_each(|lines| lines.extend(line.clone()));
            }
            drop(self.finish(&mut state, effects, Urgency::Ride));
            drop(state);
            lines.iter().flatten().for_each(|line| self.runtime.delivery_log.tell(line));
        }
        self.touch(now.wall);
    }

    /// Whether it cannot read on because the whole server remembers too many records.
    pub(crate) fn is_held_back(&self) -> bool {
        self.state.lock().is_held_back
    }

    /// What was exported of it; made with the first.
    pub(crate) fn exported(&self) -> &Exported {
        self.exported.get_or_init(Box::default)
    }

    /// How exporting goes; `None` = it is not exported, and was not since the start.
    pub fn export_figures(&self) -> Option<ExportFigures> {
        let is_exported = self.settings().cloud_storage.is_some();
        match is_exported {
            true => Some(self.exported().figures()),
            false => self.exported.get().map(|exported| exported.figures()),
        }
    }
}

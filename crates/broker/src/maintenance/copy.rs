//! The first start of a copy: offsets continue above all that the original may have assigned since.

use domain::{Offset, OffsetRange, TopicId};

use super::checkpointer::Checkpointer;
use crate::error::Result;

impl Checkpointer {
    /// Puts a copy into use. The original server kept running, and clients remember the ids it
    /// issued since: none may be issued twice. A topic's offsets start with the time in
    /// microseconds and grow by one, so the current time is above them all.
    pub(crate) async fn take_copy_into_use(&self) -> Result<()> {
        if !self.progress.is_copy() {
            return Ok(());
        }
        tracing::warn!("this store is a copy: message ids continue above the current time");
        // Move the rest of the log out of the way first.
        self.once(true).await?;
        let known = self.guard.mark().wall;
        let floor = Offset(self.access.clock.wall().max(known).0).next();
        let mut topics = self.registry.readers_in(self.shard);
        topics.retain(|readers| !readers.topic().is_deleted());
        let raised: Vec<(TopicId, OffsetRange)> = topics
            .iter()
            .map(|readers| {
                let (id, next) = (readers.topic().id(), readers.topic().next());
                (id, OffsetRange { from: next, to: next.max(floor) })
            })
            .collect();
        let to = raised.iter().map(|(id, gap)| (*id, gap.to)).collect();
        self.progress.raise(to).await?;
        for (readers, (_, gap)) in topics.iter().zip(raised) {
            readers.topic().raise(gap.to);
            // The gap has no records, so nothing can wait there.
            readers.subscriptions().iter().for_each(|subscription| subscription.settle_gap(gap));
        }
        Ok(())
    }
}

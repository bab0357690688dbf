//! The first start of a copy: offsets go on above all that the original may have given out since.

use std::sync::Arc;

use domain::{Offset, OffsetRange, TopicId};

use super::Broker;
use crate::error::Result;
use crate::maintenance::checkpointer;

impl Broker {
    /// Takes a copy into use. The server that it was made of went on, and the ids it gave out
    /// since are remembered by those who were given them: none may come a second time. A topic's
    /// offsets begin with the time in microseconds and grow by one, so that the present time is
    /// above them all.
    pub(super) async fn take_copy_into_use(self: &Arc<Self>) -> Result<()> {
        if !self.engine.progress.is_copy() {
            return Ok(());
        }
        tracing::warn!("this store is a copy: message ids go on above the present time");
        // What is left of the log is moved out of the way first.
        checkpointer::once(self, true).await?;
        let mark = self.runtime.guard.mark(&*self.runtime.clock).wall;
        let floor = Offset(self.runtime.clock.wall().max(mark).0).next();
        let topics = self.living_topics();
        let raised: Vec<(TopicId, OffsetRange)> = topics
            .iter()
            .map(|topic| {
                let next = topic.next();
                (topic.id(), OffsetRange { from: next, to: next.max(floor) })
            })
            .collect();
        let to = raised.iter().map(|(id, gap)| (*id, gap.to)).collect();
        self.engine.progress.raise(to).await?;
        for (topic, (_, gap)) in topics.iter().zip(raised) {
            topic.raise(gap.to);
            // Nothing is there, so nothing waits there.
            topic.subscriptions().iter().for_each(|subscription| subscription.settle_gap(gap));
        }
        Ok(())
    }
}

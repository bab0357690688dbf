//! What a pusher does with its subscription.

use std::sync::Arc;
use std::task::Waker;

use domain::Now;
use domain::delivery::{AckId, ConsumerId, Effects, Flow};
use domain::push::Settlement;
use storage::Urgency;

use super::reporting::told;
use super::{State, Subscription};
use crate::delivery_log::{DeliveryLog, LogLine};
use crate::error::Result;

impl Subscription {
    /// Adds a consumer that stands for one request at a time: a lane that one request holds
    /// something of is closed to all others. Unlike a stream it is no use of the subscription.
    pub(crate) fn open_push_consumer(&self) -> Result<ConsumerId> {
        self.runtime.check_serving()?;
        let mut state = self.lock_attached()?;
        Ok(state.delivery.open_consumer(Flow::default()))
    }

    /// Removes such a consumer, which holds nothing anymore.
    pub(crate) fn close_push_consumer(self: &Arc<Self>, consumer: ConsumerId) {
        self.forget_consumer(&mut self.state.lock(), consumer);
    }

    /// Settles leases, in order. Goes on while the server stops, until the log is closed; one
    /// that is deleted has nothing to settle.
    pub(crate) fn settle_pushed<'failure>(
        self: &Arc<Self>,
        now: Now,
        settled: impl IntoIterator<Item = (AckId, Settlement<'failure>)>,
    ) {
        let end = self.runtime.log.end(self.topic.id());
        let mut effects = Effects::default();
        let mut is_used = false;
        let mut lines = DeliveryLog::tells_success().then(Vec::new);
        let Ok(mut state) = self.lock_living() else { return };
        for (id, settlement) in settled {
            match settlement {
                Settlement::Ack(status) => {
                    is_used = true;
                    let line = lines.as_ref().map(|_| self.line_of_push(&state, &id, status));
                    let acked = state.delivery.ack(now.moment, &id, end, &mut effects);
                    state.counts.note_ack(acked);
                    let line = line.map(|line| LogLine { outcome: told(acked), ..line });
                    lines.iter_mut().for_each(|lines| lines.extend(line.clone()));
                }
                Settlement::Fail(failure) => {
                    state.delivery.nack(now, &id, failure, &mut effects);
                }
                Settlement::GiveBack => {
                    state.delivery.give_back(now, &id, &mut effects);
                }
            }
        }
        drop(self.finish(&mut state, effects, Urgency::Ride));
        drop(state);
        lines.iter().flatten().for_each(|line| self.runtime.delivery_log.tell(line));
        if is_used {
            self.touch(now.wall);
        }
    }

    fn line_of_push(&self, state: &State, id: &AckId, status: u16) -> LogLine {
        let line = self.acked_line(state, id.offset(), "ack");
        LogLine { ack_action: None, http_status: Some(status), ..line }
    }

    /// How many records could be leased now; fewer than `enough` and `consumer` stands in line
    /// for more.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        enough: u64,
        consumer: ConsumerId,
        waker: &Waker,
    ) -> Result<u64> {
        let mut state = self.lock_attached()?;
        state.waiters.answer(consumer);
        let end = self.runtime.log.end(self.topic.id());
        let available = state.delivery.available(end);
        if available < enough {
            state.waiters.wait_for_records(consumer, waker);
            self.become_hungry(&mut state);
        }
        Ok(available)
    }

    /// How often it was sent elsewhere (seek) since the start.
    pub(crate) fn seeks(&self) -> u64 {
        self.state.lock().seeks
    }

    /// Whether it is deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.state.lock().is_deleted
    }
}

//! Acks, nacks and extensions.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{AckId, AckStatus, Effects, ExtendStatus};
use domain::{Invalid, Now, Offset};
use storage::{Commit, Receipt, Urgency};

use super::reporting::told;
use super::{State, Subscription};
use crate::delivery_log::{DeliveryLog, DeliveryOutcome, LogLine};
use crate::error::Result;

/// What became of a call's ack ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckReport {
    /// The places, within the call, of ids that no longer count, ascending. Empty without
    /// exactly-once delivery: there a late id is no error.
    pub stale: Vec<usize>,
}

impl Subscription {
    /// Settles the records that `ids` name.
    ///
    /// Late ids count too; those of records settled already change nothing. An id of another
    /// subscription refuses the whole call before it starts. With exactly-once delivery only ids
    /// of leases that have not ended count, the others are reported; and when this returns, the
    /// acks that are not reported are on stable storage.
    pub async fn acknowledge(self: &Arc<Self>, ids: &[AckId]) -> Result<AckReport> {
        let mut lines = DeliveryLog::tells_success().then(Vec::new);
        let (report, receipt) = self.ack_all(ids, &mut lines)?;
        self.tell_all(lines);
        confirm(receipt).await?;
        Ok(report)
    }

    /// Moves the deadline of the leases that `ids` name to `deadline` from now; zero gives the
    /// records back. Ids of leases that are over are ignored, and reported with exactly-once
    /// delivery.
    pub async fn modify_ack_deadline(
        self: &Arc<Self>,
        ids: &[AckId],
        deadline: Duration,
    ) -> Result<AckReport> {
        let mut lines = DeliveryLog::tells_success().then(Vec::new);
        let (report, receipt) = self.extend_all(ids, deadline, &mut lines)?;
        self.tell_all(lines);
        confirm(receipt).await?;
        Ok(report)
    }

    fn ack_all(
        self: &Arc<Self>,
        ids: &[AckId],
        lines: &mut Option<Vec<LogLine>>,
    ) -> Result<(AckReport, Option<Receipt>)> {
        self.runtime.check_serving()?;
        let now = self.runtime.now();
        self.touch(now.wall);
        let end = self.runtime.log.end(self.topic.id());
        let (mut report, mut effects) = (AckReport::default(), Effects::default());
        let mut state = self.lock_living()?;
        let exactly_once = state.settings.exactly_once;
        self.check_ids(ids, exactly_once)?;
        for (at, id) in ids.iter().enumerate() {
            let status = self.ack_one(&mut state, now, id, end, &mut effects, lines);
            if exactly_once && !counts(status) {
                report.stale.push(at);
            }
        }
        if !exactly_once {
            drop(self.finish(&mut state, effects, Urgency::Ride));
            return Ok((report, None));
        }
        let receipt = self.finish(&mut state, effects, Urgency::Durable);
        // An ack that was repeated may be on its way to the disk still.
        let is_repeated = receipt.is_none() && report.stale.len() < ids.len();
        let barrier = is_repeated.then(|| self.runtime.log.commit(Commit::barrier()));
        Ok((report, receipt.or(barrier)))
    }

    fn ack_one(
        &self,
        state: &mut State,
        now: Now,
        id: &AckId,
        end: Offset,
        effects: &mut Effects,
        lines: &mut Option<Vec<LogLine>>,
    ) -> AckStatus {
        let line = lines.as_ref().map(|_| self.acked_line(state, id.offset(), "ack"));
        let status = state.delivery.ack(now.moment, id, end, effects);
        state.counts.note_ack(status);
        let line = line.map(|line| LogLine { outcome: told(status), ..line });
        lines.iter_mut().for_each(|lines| lines.extend(line.clone()));
        status
    }

    /// Not under the lock: whoever writes may have to wait.
    fn tell_all(&self, lines: Option<Vec<LogLine>>) {
        lines.iter().flatten().for_each(|line| self.runtime.delivery_log.tell(line));
    }

    fn extend_all(
        self: &Arc<Self>,
        ids: &[AckId],
        deadline: Duration,
        lines: &mut Option<Vec<LogLine>>,
    ) -> Result<(AckReport, Option<Receipt>)> {
        self.runtime.check_serving()?;
        let now = self.runtime.now();
        self.touch(now.wall);
        let (mut report, mut effects) = (AckReport::default(), Effects::default());
        let mut state = self.lock_living()?;
        let exactly_once = state.settings.exactly_once;
        self.check_ids(ids, exactly_once)?;
        let mut giver = None;
        for (at, id) in ids.iter().enumerate() {
            if deadline.is_zero() && giver.is_none() {
                giver = state.delivery.holder(id.offset());
            }
            let status = state.delivery.extend(now, id, deadline, &mut effects);
            let is_late = matches!(status, ExtendStatus::Stale | ExtendStatus::Foreign);
            if exactly_once && is_late {
                report.stale.push(at);
            }
            if let Some(lines) = lines.as_mut().filter(|_| is_late && deadline.is_zero()) {
                let line = self.acked_line(&state, id.offset(), "nack");
                lines.push(LogLine { outcome: DeliveryOutcome::StaleIgnored, ..line });
            }
        }
        let urgency = if exactly_once { Urgency::Durable } else { Urgency::Ride };
        let receipt = self.finish_given_back(&mut state, effects, urgency, giver);
        Ok((report, receipt.filter(|_| exactly_once)))
    }

    /// With exactly-once delivery an id of another subscription is one that does not count.
    fn check_ids(&self, ids: &[AckId], exactly_once: bool) -> Result<()> {
        match ids.iter().position(|id| id.subscription() != self.id) {
            Some(at) if !exactly_once => Err(Invalid::new(
                format!("ack_ids[{at}]"),
                format!("was not issued by subscription {}", self.name),
            )
            .into()),
            _ => Ok(()),
        }
    }
}

fn counts(status: AckStatus) -> bool {
    match status {
        AckStatus::Settled | AckStatus::Provisional | AckStatus::AlreadySettled => true,
        AckStatus::Stale | AckStatus::Foreign | AckStatus::Beyond => false,
    }
}

/// Waits until what the receipt stands for is durable.
pub(super) async fn confirm(receipt: Option<Receipt>) -> Result<()> {
    match receipt {
        Some(receipt) => Ok(receipt.await.map(drop)?),
        None => Ok(()),
    }
}

//! What a request on a stream says about leases, and doing it.

use std::sync::Arc;
use std::time::Duration;

use broker::Subscription;
use domain::Invalid;
use domain::delivery::AckId;
use domain::subscription::lease_deadline;
use futures::future::join_all;
use wire::pubsub::streaming_pull_response::{
    AcknowledgeConfirmation, ModifyAckDeadlineConfirmation,
};
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use crate::api::{GivenIds, ack_ids, check_ack_bytes};
use crate::status::Result;

const ACKS: &str = "ack_ids";
const DEADLINES: &str = "modify_deadline_ack_ids";

/// Whether a request says anything about leases.
pub(super) fn is_about_leases(request: &StreamingPullRequest) -> bool {
    !request.ack_ids.is_empty()
        || !request.modify_deadline_ack_ids.is_empty()
        || !request.modify_deadline_seconds.is_empty()
}

/// Whether a request gives anything back.
pub(super) fn gives_back(request: &StreamingPullRequest) -> bool {
    request.modify_deadline_seconds.contains(&0)
}

/// Does what a request says. Nobody is told what became of it.
pub(super) async fn settle(
    subscription: &Arc<Subscription>,
    request: &StreamingPullRequest,
) -> Result<()> {
    if !request.ack_ids.is_empty() {
        let mut ids = ack_ids(ACKS, &request.ack_ids)?;
        keep_own(subscription, &mut ids);
        subscription.acknowledge(&ids).await?;
    }
    let runs = runs(request)?;
    if runs.is_empty() {
        return Ok(());
    }
    let ids = ack_ids(DEADLINES, &request.modify_deadline_ack_ids)?;
    let mut rest = ids.as_slice();
    for (count, deadline) in runs {
        let (same, others) = rest.split_at(count.min(rest.len()));
        rest = others;
        let mut same = same.to_vec();
        keep_own(subscription, &mut same);
        subscription.modify_ack_deadline(&same, deadline).await?;
    }
    Ok(())
}

/// Drops ids of another life of the subscription: a client that reconnects after it was deleted
/// and made again still sends them, and must not lose its stream for it.
fn keep_own(subscription: &Subscription, ids: &mut Vec<AckId>) {
    ids.retain(|id| id.subscription() == subscription.id());
}

/// Does what a request says on an exactly-once subscription, and tells what became of each id
/// once that is durable. All of it has been begun when it was polled once.
pub(super) async fn confirm(
    subscription: Arc<Subscription>,
    request: StreamingPullRequest,
) -> Result<StreamingPullResponse> {
    let (acks, deadlines) = futures::join!(
        confirm_acks(&subscription, &request),
        confirm_deadlines(&subscription, &request),
    );
    Ok(StreamingPullResponse {
        acknowledge_confirmation: acks?,
        modify_ack_deadline_confirmation: deadlines?,
        ..StreamingPullResponse::default()
    })
}

async fn confirm_acks(
    subscription: &Arc<Subscription>,
    request: &StreamingPullRequest,
) -> Result<Option<AcknowledgeConfirmation>> {
    if request.ack_ids.is_empty() {
        return Ok(None);
    }
    check_ack_bytes(ACKS, &request.ack_ids)?;
    let given = GivenIds::sorted(subscription, &request.ack_ids);
    let report = subscription.acknowledge(&given.ids).await?;
    let (ack_ids, invalid_ack_ids) = given.outcome(&report);
    Ok(Some(AcknowledgeConfirmation { ack_ids, invalid_ack_ids, ..Default::default() }))
}

async fn confirm_deadlines(
    subscription: &Arc<Subscription>,
    request: &StreamingPullRequest,
) -> Result<Option<ModifyAckDeadlineConfirmation>> {
    let runs = runs(request)?;
    if runs.is_empty() {
        return Ok(None);
    }
    check_ack_bytes(DEADLINES, &request.modify_deadline_ack_ids)?;
    let mut rest = request.modify_deadline_ack_ids.as_slice();
    let changes = runs.into_iter().map(|(count, deadline)| {
        let (same, others) = rest.split_at(count.min(rest.len()));
        rest = others;
        let given = GivenIds::sorted(subscription, same);
        async move {
            let report = subscription.modify_ack_deadline(&given.ids, deadline).await?;
            Ok::<_, broker::Error>(given.outcome(&report))
        }
    });
    let mut confirmation = ModifyAckDeadlineConfirmation::default();
    for outcome in join_all(changes).await {
        let (done, void) = outcome?;
        confirmation.ack_ids.extend(done);
        confirmation.invalid_ack_ids.extend(void);
    }
    Ok(Some(confirmation))
}

/// The deadlines of a request, neighbours with the same one in one go: clients send them so.
fn runs(request: &StreamingPullRequest) -> Result<Vec<(usize, Duration)>, Invalid> {
    let (ids, deadlines) = (&request.modify_deadline_ack_ids, &request.modify_deadline_seconds);
    if ids.len() != deadlines.len() {
        let problem = format!("{} deadlines for {} ids in {DEADLINES}", deadlines.len(), ids.len());
        return Err(Invalid::new("modify_deadline_seconds", problem));
    }
    let mut at = 0;
    let mut runs = Vec::new();
    for run in deadlines.chunk_by(|a, b| a == b) {
        let seconds = run.first().copied().unwrap_or_default();
        let deadline = lease_deadline(&format!("modify_deadline_seconds[{at}]"), seconds)?;
        at += run.len();
        runs.push((run.len(), deadline));
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(deadlines: &[i32]) -> StreamingPullRequest {
        StreamingPullRequest {
            modify_deadline_ack_ids: vec!["id".to_owned(); deadlines.len()],
            modify_deadline_seconds: deadlines.to_vec(),
            ..StreamingPullRequest::default()
        }
    }

    #[test]
    fn neighbours_with_the_same_deadline_go_together() {
        let seconds = Duration::from_secs;
        let found = runs(&request(&[10, 10, 0, 10])).unwrap();
        assert_eq!(found, [(2, seconds(10)), (1, seconds(0)), (1, seconds(10))]);
        assert_eq!(runs(&request(&[])), Ok(Vec::new()));
        let error = runs(&request(&[10, 10, 601])).unwrap_err();
        assert_eq!(error.field, "modify_deadline_seconds[2]");
        let uneven = StreamingPullRequest {
            modify_deadline_seconds: vec![10],
            ..StreamingPullRequest::default()
        };
        assert_eq!(runs(&uneven).unwrap_err().field, "modify_deadline_seconds");
    }
}

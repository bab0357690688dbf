//! Leases: pulled, acked, given back, extended.

use std::time::Duration;

use domain::delivery::AckId;
use domain::limits::{ACK_REQUEST_BYTES_MAX, PULL_MESSAGES_MAX, PULL_MESSAGES_MIN};
use domain::{Invalid, SubscriptionName, subscription};
use wire::protobuf::Empty;
use wire::pubsub;

use super::Api;
use crate::convert;
use crate::status::Result;

impl Api {
    pub(crate) async fn pull(&self, request: &pubsub::PullRequest) -> Result<pubsub::PullResponse> {
        let name = SubscriptionName::parse("subscription", &request.subscription)?;
        let records_max = match usize::try_from(request.max_messages) {
            Ok(count) if count > 0 => count.min(PULL_MESSAGES_MAX),
            _ => {
                let problem =
                    format!("{}, at least {PULL_MESSAGES_MIN} is needed", request.max_messages);
                return Err(Invalid::new("max_messages", problem).into());
            }
        };
        let wait = if request.return_immediately { Duration::ZERO } else { self.pull_wait };
        let leases = self.broker.pull(&name, records_max, wait).await?;
        let received_messages = leases.into_iter().map(convert::lease_to_wire).collect();
        Ok(pubsub::PullResponse { received_messages })
    }

    pub(crate) fn acknowledge(&self, request: &pubsub::AcknowledgeRequest) -> Result<Empty> {
        let subscription = self.subscription(&request.subscription)?;
        let ids = given_ack_ids(&request.ack_ids)?;
        subscription.acknowledge(&ids)?;
        Ok(Empty {})
    }

    pub(crate) fn modify_ack_deadline(
        &self,
        request: &pubsub::ModifyAckDeadlineRequest,
    ) -> Result<Empty> {
        let subscription = self.subscription(&request.subscription)?;
        let deadline = request.ack_deadline_seconds;
        let deadline = subscription::lease_deadline("ack_deadline_seconds", deadline)?;
        let ids = given_ack_ids(&request.ack_ids)?;
        subscription.modify_ack_deadline(&ids, deadline)?;
        Ok(Empty {})
    }
}

/// The ids of a call that is about nothing else.
fn given_ack_ids(texts: &[String]) -> Result<Vec<AckId>> {
    if texts.is_empty() {
        return Err(Invalid::new("ack_ids", "none given").into());
    }
    Ok(ack_ids("ack_ids", texts)?)
}

/// Reads ack ids; `field` is the request's field that holds them.
pub(crate) fn ack_ids(field: &str, texts: &[String]) -> Result<Vec<AckId>, Invalid> {
    let bytes: usize = texts.iter().map(String::len).sum();
    if bytes > ACK_REQUEST_BYTES_MAX {
        let problem = format!("{bytes} bytes, at most {ACK_REQUEST_BYTES_MAX} in one request");
        return Err(Invalid::new(field, problem));
    }
    let parsed = texts.iter().enumerate().map(|(at, text)| {
        AckId::parse(text)
            .map_err(|_| Invalid::new(format!("{field}[{at}]"), "not an ack id that we gave out"))
    });
    parsed.collect()
}

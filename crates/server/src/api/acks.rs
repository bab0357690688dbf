//! Leases: pulled, acked, given back, extended.

use std::time::Duration;

use broker::{AckReport, Subscription};
use domain::delivery::AckId;
use domain::limits::{ACK_REQUEST_BYTES_MAX, PULL_MESSAGES_MAX, PULL_MESSAGES_MIN};
use domain::{Invalid, SubscriptionName, subscription};
use wire::protobuf::Empty;
use wire::pubsub;

use super::Api;
use crate::convert;
use crate::status::{Refusal, Result};

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
        let subscription = self.broker.subscription(&name)?;
        let wait = if request.return_immediately { Duration::ZERO } else { self.pull_wait };
        let leases = self.broker.pull(&name, records_max, wait).await?;
        let shows_attempt = subscription.settings().dead_letter_policy.is_some();
        let to_wire = |lease| convert::lease_to_wire(lease, shows_attempt);
        Ok(pubsub::PullResponse { received_messages: leases.into_iter().map(to_wire).collect() })
    }

    pub(crate) async fn acknowledge(&self, request: &pubsub::AcknowledgeRequest) -> Result<Empty> {
        let subscription = self.subscription(&request.subscription)?;
        let given = given_ids(&subscription, &request.ack_ids)?;
        let report = subscription.acknowledge(&given.ids).await?;
        given.answer(&report)
    }

    pub(crate) async fn modify_ack_deadline(
        &self,
        request: &pubsub::ModifyAckDeadlineRequest,
    ) -> Result<Empty> {
        let subscription = self.subscription(&request.subscription)?;
        let deadline = request.ack_deadline_seconds;
        let deadline = subscription::lease_deadline("ack_deadline_seconds", deadline)?;
        let given = given_ids(&subscription, &request.ack_ids)?;
        let report = subscription.modify_ack_deadline(&given.ids, deadline).await?;
        given.answer(&report)
    }
}

/// The ids of a call that is about nothing else.
fn given_ids(subscription: &Subscription, texts: &[String]) -> Result<GivenIds> {
    if texts.is_empty() {
        return Err(Invalid::new("ack_ids", "none given").into());
    }
    if subscription.settings().exactly_once {
        check_ack_bytes("ack_ids", texts)?;
        return Ok(GivenIds::sorted(subscription, texts));
    }
    Ok(GivenIds { ids: ack_ids("ack_ids", texts)?, void: Vec::new() })
}

/// Ack ids as a client gave them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenIds {
    /// Those that may count.
    pub(crate) ids: Vec<AckId>,
    /// Those that cannot, in their text.
    pub(crate) void: Vec<String>,
}

impl GivenIds {
    /// Sorts out what is malformed or of another subscription. On an exactly-once subscription that
    /// is a separate outcome, and the other ids in the request still count.
    pub(crate) fn sorted(subscription: &Subscription, texts: &[String]) -> Self {
        let mut given = Self { ids: Vec::with_capacity(texts.len()), void: Vec::new() };
        for text in texts {
            match AckId::parse(text) {
                Ok(id) if id.subscription() == subscription.id() => given.ids.push(id),
                _ => given.void.push(text.clone()),
            }
        }
        given
    }

    /// The ids that counted and those that did not, in their text.
    pub(crate) fn outcome(mut self, report: &AckReport) -> (Vec<String>, Vec<String>) {
        let mut done = Vec::with_capacity(self.ids.len());
        let mut stale = report.stale.iter().copied().peekable();
        for (at, id) in self.ids.iter().enumerate() {
            match stale.next_if_eq(&at) {
                None => done.push(id.to_string()),
                Some(_) => self.void.push(id.to_string()),
            }
        }
        (done, self.void)
    }

    fn answer(self, report: &AckReport) -> Result<Empty> {
        if self.void.is_empty() && report.stale.is_empty() {
            return Ok(Empty {});
        }
        Err(Refusal::ack_ids_void(self.outcome(report).1))
    }
}

/// Reads ack ids that must all be well-formed; `field` is the request's field that holds them.
pub(crate) fn ack_ids(field: &str, texts: &[String]) -> Result<Vec<AckId>, Invalid> {
    check_ack_bytes(field, texts)?;
    let parsed = texts.iter().enumerate().map(|(at, text)| {
        AckId::parse(text).map_err(|_| {
            Invalid::new(
                format!("{field}[{at}]"),
                "not an ack id issued by this \
                server",
            )
        })
    });
    parsed.collect()
}

/// Checks the length of a request's ids all together.
pub(crate) fn check_ack_bytes(field: &str, texts: &[String]) -> Result<(), Invalid> {
    let bytes: usize = texts.iter().map(String::len).sum();
    if bytes > ACK_REQUEST_BYTES_MAX {
        let problem = format!("{bytes} bytes, at most {ACK_REQUEST_BYTES_MAX} in one request");
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

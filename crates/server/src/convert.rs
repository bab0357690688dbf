//! Between Google's definitions on the wire and the words of `domain`.
//!
//! A field that is not built is refused by name unless it has its default value: nothing a client
//! asks for is silently dropped.

mod schema;
mod snapshot;
mod subscription;
#[cfg(test)]
mod tests;
mod topic;
mod wanted;

use domain::delivery::Lease;
use domain::{Invalid, Message, Timestamp};
use wire::protobuf;
use wire::pubsub;

pub(crate) use schema::{View, definition_from_wire, encoding_from_wire, schema_to_wire};
pub(crate) use snapshot::{snapshot_change, snapshot_to_wire};
pub(crate) use subscription::{
    secret_set, subscription_to_wire, with_spare_secret, without_states,
};
pub(crate) use topic::{topic_to_wire, with_known_words};
pub(crate) use wanted::Wanted;

use crate::status::{Refusal, Result};

/// A message to be published. What only the server sets is ignored, as Google does.
pub(crate) fn message_from_wire(wire: pubsub::PubsubMessage) -> Message {
    Message { data: wire.data, attributes: wire.attributes, ordering_key: wire.ordering_key }
}

/// A lease as the consumer sees it. Google shows the attempt only where a dead letter policy
/// counts attempts.
pub(crate) fn lease_to_wire(lease: Lease, shows_attempt: bool) -> wire::ReceivedMessage {
    let mut ack_id = String::with_capacity(ACK_ID_BYTES);
    lease.ack_id.write_to(&mut ack_id);
    let attempt = if shows_attempt { lease.attempt } else { 0 };
    let delivery_attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
    wire::ReceivedMessage { ack_id, message: lease.record.body, delivery_attempt }
}

/// A time that a client gave. Before 1970 is as long ago as any other time that is.
pub(crate) fn timestamp(field: &str, wire: protobuf::Timestamp) -> Result<Timestamp, Invalid> {
    let micros = wire.unix_micros().map_err(|_| Invalid::new(field, "not a valid time"))?;
    Ok(Timestamp(u64::try_from(micros).unwrap_or(0)))
}

/// A time that a client wrote as RFC 3339 has it.
pub(crate) fn time(field: &str, text: &str) -> Result<Timestamp, Invalid> {
    let read = serde_json::from_value(serde_json::Value::String(text.to_owned()));
    let wire = read.map_err(|_| {
        let problem = format!("{text:?} is not a time such as 2026-01-31T08:30:00Z");
        Invalid::new(field, problem)
    })?;
    timestamp(field, wire)
}

/// A stored message as Google shows it.
pub(crate) fn message_to_wire(body: &bytes::Bytes) -> Result<pubsub::PubsubMessage> {
    let received = wire::ReceivedMessage { message: body.clone(), ..Default::default() };
    received
        .decode_message()
        .map_err(|error| Refusal::new(tonic::Code::DataLoss, error.to_string()))
}

/// Room for an ack id's text.
const ACK_ID_BYTES: usize = 48;

fn refuse(field: &str, is_given: bool) -> Result<()> {
    if is_given { Err(Refusal::field_not_built(field)) } else { Ok(()) }
}

/// An update must say what it changes.
fn needed(paths: &[String]) -> Result<&[String]> {
    if paths.is_empty() {
        return Err(Invalid::new("update_mask", "must name at least one field").into());
    }
    Ok(paths)
}

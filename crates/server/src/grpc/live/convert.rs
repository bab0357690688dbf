//! Frames, registrations and outcomes between the wire and the broker.

use broker::{Change, LiveEvent, LiveFrame, LiveMatch, LiveRegistered};
use domain::filter::Clause;
use domain::live::{Refusal, Request};
use tonic::Status;
use wire::live::{self, Frame, Registration, frame, outcome};
use wire::protobuf;

use crate::convert::message_to_wire;

/// A frame as it is sent.
pub(super) fn frame(frame: &LiveFrame) -> Result<Frame, Status> {
    let kind = match &frame.event {
        LiveEvent::Message(found) => frame::Kind::Message(message(found)?),
        LiveEvent::Heartbeat => frame::Kind::Heartbeat(live::Heartbeat {}),
        LiveEvent::Expired(ids) => frame::Kind::Expired(live::Expired {
            subscription_ids: ids.iter().map(str::to_owned).collect(),
            reason: "ttl_expired".to_owned(),
        }),
        LiveEvent::Resync(lost) => {
            frame::Kind::Resync(live::Resync { reason: lost.as_str().to_owned() })
        }
        LiveEvent::Register => frame::Kind::Register(live::Register {}),
    };
    Ok(Frame { sequence: frame.sequence, kind: Some(kind) })
}

fn message(found: &LiveMatch) -> Result<live::Match, Status> {
    let changes = found.changes.iter().flatten().map(|change| match change {
        Change::Enter => live::Change::Enter.into(),
        Change::Update => live::Change::Update.into(),
        Change::Leave => live::Change::Leave.into(),
    });
    Ok(live::Match {
        topic: found.message.topic.to_string(),
        offset: found.message.offset().0,
        message: Some(message_to_wire(found.message.body())?),
        subscription_ids: found.ids.iter().map(str::to_owned).collect(),
        changes: changes.collect(),
    })
}

/// A registration as it was asked for. What is empty was not given.
pub(super) fn registration(one: Registration) -> Request {
    let clause =
        |clause: live::Clause| Clause { field: clause.field, op: clause.op, value: clause.value };
    Request {
        gateway: one.gateway_id,
        subscription: one.subscription_id,
        tenant: one.tenant,
        collection: one.collection,
        filters: one.filters.into_iter().map(clause).collect(),
        filter: Some(one.filter).filter(|filter| !filter.is_empty()),
        ttl_s: Some(one.ttl).filter(|ttl| *ttl != 0),
    }
}

/// A registration that was accepted.
pub(super) fn registered(answer: &LiveRegistered) -> outcome::Kind {
    let offsets = answer.effective.iter().map(|(topic, offset)| (topic.to_string(), offset.0));
    outcome::Kind::Registered(live::Registered {
        renewed: answer.renewed,
        created_at: Some(time(answer.created)),
        expires_at: Some(time(answer.expires)),
        bloom_filter_version: answer.interest_version,
        indexed: answer.indexed,
        effective_offsets: offsets.collect(),
    })
}

/// A heartbeat that counted.
pub(super) fn renewed(expires: domain::Timestamp) -> outcome::Kind {
    outcome::Kind::Renewed(live::Renewed { expires_at: Some(time(expires)) })
}

/// A removal.
pub(super) fn deleted(existed: bool) -> outcome::Kind {
    outcome::Kind::Deleted(live::Deleted { existed })
}

/// A refusal.
pub(super) fn fault(refusal: &Refusal) -> outcome::Kind {
    outcome::Kind::Fault(live::Fault {
        code: refusal.code().to_owned(),
        message: refusal.to_string(),
        field: refusal.field().unwrap_or_default().to_owned(),
    })
}

fn time(time: domain::Timestamp) -> protobuf::Timestamp {
    protobuf::Timestamp::from_unix_micros(i64::try_from(time.0).unwrap_or(i64::MAX))
}

//! Answers and frames as JSON.

use broker::{LiveEvent, LiveFrame, LiveIds, LiveMatch, LiveRegistered, LiveView, Lost};
use domain::filter::Clause;
use domain::live::Counts;
use domain::{Filter, Offset, Timestamp};
use serde_json::{Map, Value, json};

use crate::rest::show_time;

/// How many there are, in the words of the design that live subscriptions come from.
pub(super) fn counts(counts: &Counts) -> Value {
    json!({"total": counts.total, "active": counts.active, "expired": counts.expired})
}

/// A registration that was accepted.
pub(super) fn registered(id: &str, answer: &LiveRegistered, warning: Option<&str>) -> Value {
    let offsets = answer.effective.iter();
    let by_topic: Map<String, Value> =
        offsets.clone().map(|(topic, offset)| (topic.to_string(), decimal(*offset))).collect();
    let greatest = offsets.map(|(_, offset)| *offset).max().unwrap_or_default();
    let mut shown = json!({
        "subscriptionId": id,
        "createdAt": show_time(answer.created),
        "expiresAt": show_time(answer.expires),
        "bloomFilterVersion": answer.interest_version,
        "effectiveOffset": decimal(greatest),
        "effectiveOffsets": by_topic,
        "indexed": answer.indexed,
    });
    if let Some(warning) = warning {
        shown["warning"] = json!(warning);
    }
    shown
}

/// A heartbeat that counted.
pub(super) fn renewed(id: &str, expires: Timestamp) -> Value {
    json!({"subscriptionId": id, "expiresAt": show_time(expires)})
}

/// What is known about a subscription.
pub(super) fn view(live: &LiveView) -> Value {
    let LiveView { view, filter } = live;
    let mut shown = json!({
        "subscriptionId": view.id,
        "gatewayId": &*view.gateway,
        "tenant": &*view.scope.tenant,
        "collection": &*view.scope.collection,
        "ttl": view.ttl.as_secs(),
        "state": if view.active { "active" } else { "registered" },
        "createdAt": show_time(view.created),
        "expiresAt": show_time(view.expires),
        "indexed": view.indexed,
    });
    match (filter, view.listed) {
        (None, _) => shown["filters"] = json!([]),
        (Some(text), true) => match clauses(text) {
            Some(clauses) => shown["filters"] = Value::Array(clauses),
            None => shown["filter"] = json!(text),
        },
        (Some(text), false) => shown["filter"] = json!(text),
    }
    shown
}

/// The list form of a filter; `None` = it has none.
fn clauses(text: &str) -> Option<Vec<Value>> {
    let filter = Filter::parse_cel("filter", text).ok()?;
    let show = |clause: Clause| {
        let value: Value = serde_json::from_str(&clause.value).ok()?;
        Some(json!({"field": clause.field, "op": clause.op, "value": value}))
    };
    filter.clauses()?.into_iter().map(show).collect()
}

/// As message ids are: a number that JavaScript need not hold.
fn decimal(offset: Offset) -> Value {
    Value::String(offset.to_string())
}

/// Appends a frame.
pub(super) fn put_frame(out: &mut Vec<u8>, frame: &LiveFrame) {
    let sequence = frame.sequence;
    match &frame.event {
        LiveEvent::Message(found) => put_message(out, sequence, found),
        LiveEvent::Heartbeat => put(out, &json!({"type": "heartbeat", "sequence": sequence})),
        LiveEvent::Register => put(out, &json!({"type": "register", "sequence": sequence})),
        LiveEvent::Resync(lost) => put_resync(out, sequence, *lost),
        LiveEvent::Expired(ids) => {
            let begin = r#"{"type":"expired","reason":"ttl_expired","sequence":"#;
            out.extend_from_slice(begin.as_bytes());
            out.extend_from_slice(format!(r#"{sequence},"subscriptionIds":"#).as_bytes());
            put_ids(out, ids);
            out.push(b'}');
        }
    }
}

fn put_resync(out: &mut Vec<u8>, sequence: u64, lost: Lost) {
    put(out, &json!({"type": "resync", "sequence": sequence, "reason": lost.as_str()}));
}

fn put_message(out: &mut Vec<u8>, sequence: u64, found: &LiveMatch) {
    let Ok(message) = found.message.json() else {
        // The log has checked it, and the matcher has read it.
        tracing::error!(topic = %found.message.topic, "a matched message cannot be shown");
        return put_resync(out, sequence, Lost::NotRetained);
    };
    let (offset, topic) = (found.message.offset(), json!(found.message.topic.as_str()));
    let numbers = format!(r#"{{"type":"message","sequence":{sequence},"offset":"{offset}","#);
    out.extend_from_slice(numbers.as_bytes());
    out.extend_from_slice(format!(r#""topic":{topic},"message":"#).as_bytes());
    out.extend_from_slice(message);
    out.extend_from_slice(br#","subscriptionIds":"#);
    put_ids(out, &found.ids);
    if let Some(changes) = &found.changes {
        out.extend_from_slice(br#","changes":"#);
        let pairs = found.ids.iter().zip(changes.iter());
        let pairs = pairs.map(|(id, change)| format!(r#""{id}":"{}""#, change.as_str()));
        put_joined(out, b'{', pairs, b'}');
    }
    out.push(b'}');
}

/// Ids have letters, digits, `_` and `-`: nothing in them needs an escape.
fn put_ids(out: &mut Vec<u8>, ids: &LiveIds) {
    put_joined(out, b'[', ids.iter().map(|id| format!(r#""{id}""#)), b']');
}

fn put_joined(out: &mut Vec<u8>, open: u8, parts: impl Iterator<Item = String>, close: u8) {
    out.push(open);
    for (at, part) in parts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(close);
}

fn put(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
}

//! `GET /v1/projects/{project}/figures`: what topics and subscriptions do, as JSON.

use std::time::Duration;

use broker::{SubscriptionFigures, TopicFigures};
use serde_json::{Map, Value, json};
use wire::rest::route;

use super::postrider::show_time;
use super::{Reply, Rest, no_route, obstacles, to_json};
use crate::status::Result;

/// The answer if the path is that of figures.
pub(super) fn find(rest: &Rest, verb: &str, path: &str) -> Result<Option<Reply>> {
    let Some(project) = path.strip_suffix("/figures").filter(|_| verb == "GET") else {
        return Ok(None);
    };
    // A project has no path of its own with Google; its topics have one.
    let found = route("GET", &format!("{project}/topics")).map_err(|none| no_route(none, path))?;
    if found.method.call != "ListTopics" {
        return Ok(None);
    }
    let api = &rest.0.api;
    let (subscriptions, topics) = api.figures(&found.value)?;
    let body = json!({
        "time": show_time(api.now()),
        "subscriptions": subscriptions.iter().map(show_subscription).collect::<Vec<Value>>(),
        "topics": topics.iter().map(show_topic).collect::<Vec<Value>>(),
    });
    Ok(Some(Reply::Json(to_json(&body)?)))
}

fn show_topic(topic: &TopicFigures) -> Value {
    json!({"name": topic.name.as_str(), "messages": topic.messages, "bytes": topic.bytes})
}

/// One subscription; what is not known of it is left out.
fn show_subscription(one: &SubscriptionFigures) -> Value {
    let attempts = one.attempts.iter().filter(|(_, count)| *count > 0);
    let attempts: Map<String, Value> =
        attempts.map(|(class, count)| ((*class).to_owned(), json!(count))).collect();
    let fields = [
        ("name", Some(json!(one.name.as_str()))),
        ("topic", one.topic.as_ref().map(|topic| json!(topic.as_str()))),
        ("push", Some(json!(one.is_push))),
        ("backlogMessages", Some(json!(one.backlog_messages))),
        ("backlogBytes", Some(json!(one.backlog_bytes))),
        ("oldestUnackedSeconds", one.oldest_unacked_age.map(seconds)),
        ("outstanding", Some(json!(one.outstanding))),
        ("deliveries", Some(json!(one.deliveries))),
        ("acks", Some(json!(one.acks))),
        ("nacks", Some(json!(one.nacks))),
        ("expiries", Some(json!(one.expiries))),
        ("attempts", (!attempts.is_empty()).then_some(Value::Object(attempts))),
        ("pushWindow", one.push_window.map(|window| json!(window))),
        ("export", one.export.as_ref().map(show_export)),
        ("deadLetters", Some(json!(one.dead_letters))),
        ("dropped", Some(json!(one.dropped))),
        ("delivery", Some(obstacles::show(&one.obstacles))),
        ("laneBlockedSeconds", one.lane_blocked_for.map(seconds)),
        ("deadLettersWaiting", Some(json!(one.dead_letters_waiting))),
        ("fifo", one.fifo.as_ref().map(show_fifo)),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}

fn show_export(export: &broker::ExportFigures) -> Value {
    let mut shown = json!({
        "state": export.state.as_str(),
        "objects": export.objects,
        "messages": export.messages,
        "bytes": export.bytes,
        "failures": export.failures,
    });
    if let Some(error) = &export.error {
        shown["error"] = json!(error);
    }
    shown
}

fn show_fifo(fifo: &broker::FifoFigures) -> Value {
    let mut shown = json!({"waiting": fifo.queue_depth});
    if let Some(blocked) = fifo.blocked_for {
        shown["blockedSeconds"] = seconds(blocked);
        shown["attempts"] = json!(fifo.current_retry_count);
    }
    shown
}

/// Seconds, to the millisecond.
pub(super) fn seconds(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 1_000.0).round() / 1_000.0)
}

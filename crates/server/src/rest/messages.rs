//! `/v1/{topic}/messages` and `/v1/{subscription}/messages`: looking without taking.

use broker::Peeked;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::postrider::show_time;
use super::{known, number, obstacles};
use crate::api::{Api, PeekMessages};
use crate::convert;
use crate::status::Result;

pub(super) async fn peek(api: &Api, request: Value) -> Result<Value> {
    let page = api.peek(&Request::read(request)?).await?;
    let messages: Result<Vec<Value>> = page.messages.iter().map(show).collect();
    Ok(known([
        ("messages", Some(json!(messages?))),
        ("delivery", page.obstacles.as_ref().map(obstacles::show)),
        (
            "nextPageToken",
            Some(page.next_page_token).filter(|token| !token.is_empty()).map(Value::String),
        ),
    ]))
}

/// What the query says, all of it text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Request {
    resource: String,
    from: String,
    time: String,
    filter: String,
    #[serde(alias = "page_size")]
    page_size: String,
    #[serde(alias = "page_token")]
    page_token: String,
    wait: String,
}

impl Request {
    fn read(request: Value) -> Result<PeekMessages> {
        let read: Self = from_value(request)?;
        Ok(PeekMessages {
            page_size: number("page_size", &read.page_size)?,
            resource: read.resource,
            from: read.from,
            time: read.time,
            filter: read.filter,
            page_token: read.page_token,
            wait: read.wait,
        })
    }
}

/// One message. How it stands is known only of a subscription's.
fn show(peeked: &Peeked) -> Result<Value> {
    let message = convert::message_to_wire(&peeked.record.body)?;
    Ok(known([
        ("offset", Some(json!(peeked.record.offset.to_string()))),
        ("state", peeked.view.map(|view| json!(view.state.as_str()))),
        ("attempt", peeked.view.map(|view| json!(view.attempts))),
        ("nextAttemptAt", peeked.view.and_then(|view| view.next_attempt_at).map(show_time)),
        ("message", Some(json!(message))),
    ]))
}

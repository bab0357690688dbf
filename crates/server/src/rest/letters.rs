//! `/v1/{topic}/deadLetters`, `/v1/{subscription}/deadLetters` and `/v1/{project}/replays`.

use broker::{FoundLetter, Replay};
use domain::TopicName;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::postrider::show_time;
use super::{known, number};
use crate::api::{Api, CriteriaText, ListLetters, ReplayLetters, Selected};
use crate::convert;
use crate::status::{Refusal, Result};

/// Makes the call and returns the answer.
pub(super) async fn call(api: &Api, call: &str, request: Value) -> Result<Value> {
    match call {
        "ListDeadLetters" => list(api, request).await,
        "GetDeadLetter" => {
            let (topic, letter) = api.get_letter(&NameRequest::read(request)?).await?;
            show(&topic, &letter)
        }
        "ReplayDeadLetters" => {
            let replay = api.replay_letters(&ActRequest::read(request)?).await?;
            Ok(show_replay(&replay))
        }
        "DeleteDeadLetters" => delete(api, request).await,
        "ListReplays" => {
            let replays = api.list_replays(&ProjectRequest::read(request)?)?;
            let shown: Vec<Value> = replays.iter().map(show_replay).collect();
            Ok(json!({ "replays": shown }))
        }
        "GetReplay" => Ok(show_replay(&api.get_replay(&NameRequest::read(request)?)?)),
        "CancelReplay" => Ok(show_replay(&api.cancel_replay(&NameRequest::read(request)?).await?)),
        other => Err(Refusal::no_such_call("postrider", other)),
    }
}

async fn list(api: &Api, request: Value) -> Result<Value> {
    let page = api.list_letters(&ListRequest::read(request)?).await?;
    let letters: Result<Vec<Value>> =
        page.letters.iter().map(|letter| show(&page.topic, letter)).collect();
    let token = Some(page.next_page_token).filter(|token| !token.is_empty());
    Ok(known([("deadLetters", Some(json!(letters?))), ("nextPageToken", token.map(Value::String))]))
}

async fn delete(api: &Api, request: Value) -> Result<Value> {
    let request: DeleteRequest = from_value(request)?;
    let DeleteRequest { message_ids, filter, class, since, until, all, .. } = request;
    let criteria = CriteriaText { filter, class, since, until };
    let selected = Selected { message_ids, criteria, all };
    let DeleteRequest { resource, state, confirm, .. } = request;
    let deleted = api.delete_letters(&resource, &selected, &state, confirm).await?;
    Ok(json!({ "deleted": deleted }))
}

/// What the query says, all of it text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListRequest {
    resource: String,
    filter: String,
    class: String,
    since: String,
    until: String,
    state: String,
    #[serde(alias = "page_size")]
    page_size: String,
    #[serde(alias = "page_token")]
    page_token: String,
}

impl ListRequest {
    fn read(request: Value) -> Result<ListLetters> {
        let read: Self = from_value(request)?;
        let Self { resource, filter, class, since, until, state, page_size, page_token } = read;
        Ok(ListLetters {
            resource,
            criteria: CriteriaText { filter, class, since, until },
            state,
            page_size: number("page_size", &page_size)?,
            page_token,
        })
    }
}

/// What a body says of the letters that something is done with, and what is done.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ActRequest {
    resource: String,
    message_ids: Vec<String>,
    filter: String,
    class: String,
    since: String,
    until: String,
    all: bool,
    to: String,
    per_second: i64,
    again: bool,
}

impl ActRequest {
    fn read(request: Value) -> Result<ReplayLetters> {
        let read: Self = from_value(request)?;
        let Self { resource, message_ids, filter, class, since, until, all, .. } = read;
        let criteria = CriteriaText { filter, class, since, until };
        let selected = Selected { message_ids, criteria, all };
        let Self { to, per_second, again, .. } = read;
        Ok(ReplayLetters { resource, selected, to, per_second, again })
    }
}

/// The same for letters that are to be deleted.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DeleteRequest {
    resource: String,
    message_ids: Vec<String>,
    filter: String,
    class: String,
    since: String,
    until: String,
    all: bool,
    state: String,
    confirm: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NameRequest {
    name: String,
}

impl NameRequest {
    fn read(request: Value) -> Result<String> {
        Ok(from_value::<Self>(request)?.name)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProjectRequest {
    project: String,
}

impl ProjectRequest {
    fn read(request: Value) -> Result<String> {
        Ok(from_value::<Self>(request)?.project)
    }
}

/// One letter; what it does not say is left out.
fn show(topic: &TopicName, found: &FoundLetter) -> Result<Value> {
    let FoundLetter { record, letter, state } = found;
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    Ok(known([
        ("messageId", Some(json!(record.offset.to_string()))),
        ("publishTime", Some(show_time(record.publish_time))),
        ("topic", Some(json!(topic.as_str()))),
        ("originalSubscription", letter.subscription.as_ref().map(|name| json!(name.as_str()))),
        ("originalMessageId", text(&letter.message_id)),
        ("failureReason", text(&letter.reason)),
        ("attempts", letter.attempts.map(|attempts| json!(attempts))),
        ("errorClass", text(&letter.class)),
        ("lastError", text(&letter.last_error)),
        ("lastStatus", letter.last_status.map(|status| json!(status))),
        ("state", Some(json!(state.as_str()))),
        ("message", Some(json!(convert::message_to_wire(&record.body)?))),
    ]))
}

fn show_replay(replay: &Replay) -> Value {
    known([
        ("name", Some(json!(replay.name))),
        ("topic", Some(json!(replay.topic.as_str()))),
        ("subscription", replay.subscription.as_ref().map(|name| json!(name.as_str()))),
        ("state", Some(json!(replay.state.as_str()))),
        ("total", Some(json!(replay.total))),
        ("replayed", Some(json!(replay.replayed))),
        ("skipped", Some(json!(replay.skipped))),
        ("failed", Some(json!(replay.failed))),
        ("perSecond", Some(json!(replay.per_second))),
        ("to", Some(json!(replay.to.as_str()))),
        ("again", Some(json!(replay.again))),
        ("createTime", Some(show_time(replay.create_time))),
        ("updateTime", Some(show_time(replay.update_time))),
        ("error", replay.error.as_ref().map(|error| json!(error))),
    ])
}

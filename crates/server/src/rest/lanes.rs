//! `/v1/{subscription}/lanes`: the lanes of a subscription, and what an operator does with them.

use domain::Invalid;
use domain::delivery::LaneView;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::json::from_value;

use super::postrider::show_time;
use super::{number, obstacles};
use crate::api::{Api, LanesPage, ListLanes};
use crate::status::Result;

pub(super) async fn list(api: &Api, request: Value) -> Result<Value> {
    Ok(show(&api.list_lanes(&ListRequest::read(request)?).await?))
}

pub(super) async fn release(api: &Api, request: Value) -> Result<Value> {
    let (subscription, key) = ActRequest::read(request)?;
    api.release_lane(&subscription, &key).await?;
    Ok(json!({}))
}

pub(super) async fn skip(api: &Api, request: Value) -> Result<Value> {
    let (subscription, key) = ActRequest::read(request)?;
    api.skip_lane(&subscription, &key).await?;
    Ok(json!({}))
}

/// What the query says, all of it text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListRequest {
    subscription: String,
    state: String,
    page_size: String,
    page_token: String,
}

impl ListRequest {
    fn read(request: Value) -> Result<ListLanes> {
        let read: Self = from_value(request)?;
        let is_blocked_only = match read.state.as_str() {
            "" => false,
            "blocked" => true,
            _ => return Err(Invalid::new("state", "only blocked is supported").into()),
        };
        let page_size = number("page_size", &read.page_size)?;
        let (subscription, page_token) = (read.subscription, read.page_token);
        Ok(ListLanes { subscription, is_blocked_only, page_size, page_token })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ActRequest {
    subscription: String,
    key: Option<String>,
}

impl ActRequest {
    fn read(request: Value) -> Result<(String, String)> {
        let read: Self = from_value(request)?;
        match read.key {
            Some(key) => Ok((read.subscription, key)),
            None => {
                let problem = r#"must be given; "" is the one lane of a FIFO subscription"#;
                Err(Invalid::new("key", problem).into())
            }
        }
    }
}

fn show(page: &LanesPage) -> Value {
    let lanes: Vec<Value> = page.lanes.iter().map(|lane| show_lane(lane, page)).collect();
    let delivery = obstacles::show(&page.obstacles);
    let mut shown = Map::from_iter([
        ("lanes".to_owned(), Value::Array(lanes)),
        ("delivery".to_owned(), delivery),
    ]);
    if !page.next_page_token.is_empty() {
        shown.insert("nextPageToken".to_owned(), page.next_page_token.clone().into());
    }
    Value::Object(shown)
}

/// One lane; what is not known of it is left out.
fn show_lane(lane: &LaneView, page: &LanesPage) -> Value {
    let age = lane.blocked_since.map(|since| page.at.since(since).as_secs());
    let fields = [
        ("key", Some(json!(lane.key))),
        ("state", Some(json!(lane.state.as_str()))),
        ("messageId", lane.next.map(|offset| json!(offset.to_string()))),
        ("attempt", lane.next.map(|_| json!(lane.attempts))),
        ("maxAttempts", page.attempts_max.map(|max| json!(max))),
        ("blockedSince", lane.blocked_since.map(show_time)),
        ("ageSeconds", age.map(|age| json!(age))),
        ("nextAttemptAt", lane.next_attempt_at.map(show_time)),
        ("pendingCount", Some(json!(lane.pending))),
        ("lastClass", lane.last_class.map(|class| json!(class))),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}

#[cfg(test)]
mod tests {
    use domain::delivery::LaneState;
    use domain::{Offset, Timestamp};
    use tonic::Code;

    use super::*;

    fn list(request: Value) -> Result<ListLanes> {
        ListRequest::read(request)
    }

    #[test]
    fn queries_are_read_and_nothing_else_is() {
        let read = list(json!({"state": "blocked", "pageSize": "7", "pageToken": "t"})).unwrap();
        assert!(read.is_blocked_only);
        assert_eq!((read.page_size, read.page_token.as_str()), (7, "t"));
        let read = list(json!({})).unwrap();
        assert!(!read.is_blocked_only);
        assert_eq!(read.page_size, 0);
        for (request, name) in [
            (json!({"stat": "blocked"}), "stat"),
            (json!({"state": "stuck"}), "state"),
            (json!({"pageSize": "many"}), "page_size"),
        ] {
            let refusal = list(request).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument);
            assert!(refusal.to_string().starts_with(&format!("{name}: ")), "{refusal}");
        }
    }

    #[test]
    fn an_act_needs_a_key_and_nothing_else() {
        let read = ActRequest::read(json!({"subscription": "s", "key": ""})).unwrap();
        assert_eq!(read, ("s".to_owned(), String::new()));
        for (request, name) in [
            (json!({"subscription": "s"}), "key"),
            (json!({"key": 7}), "key"),
            (json!({"key": "k", "force": true}), "force"),
        ] {
            let refusal = ActRequest::read(request).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument);
            assert!(refusal.to_string().starts_with(&format!("{name}: ")), "{refusal}");
        }
    }

    #[test]
    fn a_lane_shows_what_is_known_of_it() {
        let lane = LaneView {
            key: "ann".to_owned(),
            state: LaneState::BackingOff,
            next: Some(Offset(7)),
            attempts: 2,
            blocked_since: Some(Timestamp(1_000_000)),
            next_attempt_at: Some(Timestamp(5_500_000)),
            pending: 3,
            last_class: Some("nack"),
        };
        let plain = LaneView {
            key: String::new(),
            state: LaneState::Moving,
            next: None,
            attempts: 0,
            blocked_since: None,
            next_attempt_at: None,
            pending: 0,
            last_class: None,
        };
        let page = LanesPage {
            lanes: vec![lane, plain],
            next_page_token: "t".to_owned(),
            attempts_max: Some(5),
            at: Timestamp(4_900_000),
            obstacles: broker::Obstacles::default(),
        };
        let expected = json!({
            "lanes": [
                {
                    "key": "ann", "state": "backing_off", "messageId": "7", "attempt": 2,
                    "maxAttempts": 5, "blockedSince": "1970-01-01T00:00:01Z", "ageSeconds": 3,
                    "nextAttemptAt": "1970-01-01T00:00:05.500Z", "pendingCount": 3,
                    "lastClass": "nack",
                },
                {"key": "", "state": "moving", "maxAttempts": 5, "pendingCount": 0},
            ],
            "nextPageToken": "t",
            "delivery": {"paused": false, "consumers": 0},
        });
        assert_eq!(show(&page), expected);
    }
}

//! The `postrider` object of a subscription, and the sources' own spellings beside it.

use std::collections::BTreeMap;

use domain::{Invalid, Offset, Start, Timestamp};
use serde_json::{Map, Value, json};
use tonic::Code;
use wire::protobuf;

use crate::convert::{Extras, subscription_to_wire};
use crate::status::{Refusal, Result};

/// Takes what is ours out of a subscription's JSON, so that the rest is Google's. `place` is how
/// field names begin in errors.
pub(super) fn take(place: &str, subscription: &mut Value) -> Result<Extras> {
    let Value::Object(fields) = subscription else { return Ok(Extras::default()) };
    for (name, default) in
        [("fifoMode", false), ("fifo_mode", false), ("isEnabled", true), ("is_enabled", true)]
    {
        take_flag(place, name, default, fields)?;
    }
    match fields.remove("postrider") {
        None | Some(Value::Null) => Ok(Extras::default()),
        Some(Value::Object(object)) => read(&format!("{place}postrider"), object),
        Some(_) => Err(Invalid::new(format!("{place}postrider"), "expected an object").into()),
    }
}

/// A switch that only its default is accepted for.
fn take_flag(
    place: &str,
    name: &str,
    default: bool,
    fields: &mut Map<String, Value>,
) -> Result<()> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Bool(given)) if given == default => Ok(()),
        Some(Value::Bool(_)) => Err(Refusal::field_not_built(format!("{place}{name}"))),
        Some(_) => Err(Invalid::new(format!("{place}{name}"), "expected true or false").into()),
    }
}

fn read(place: &str, mut object: Map<String, Value>) -> Result<Extras> {
    let place = format!("{place}.");
    take_flag(&place, "fifo", false, &mut object)?;
    take_flag(&place, "paused", false, &mut object)?;
    take_text_default(&place, "poison", "skip", &mut object)?;
    take_text_default(&place, "laneBy", "", &mut object)?;
    let mut extras = Extras::default();
    for (name, value) in object {
        let field = format!("{place}{name}");
        match name.as_str() {
            "start" => extras.start = start(&field, &value)?,
            "description" => extras.description = text(&field, value)?,
            "metadata" => extras.metadata = pairs(&field, value)?,
            _ => {
                let shown: String = field.chars().take(100).collect();
                return Err(Invalid::new(shown, "unknown field").into());
            }
        }
    }
    Ok(extras)
}

fn take_text_default(
    place: &str,
    name: &str,
    default: &str,
    fields: &mut Map<String, Value>,
) -> Result<()> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(given)) if given == default => Ok(()),
        Some(Value::String(_)) => Err(Refusal::field_not_built(format!("{place}{name}"))),
        Some(_) => Err(Invalid::new(format!("{place}{name}"), "expected text").into()),
    }
}

fn text(field: &str, value: Value) -> Result<Option<String>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(Invalid::new(field, "expected text")),
    }
}

fn pairs(field: &str, value: Value) -> Result<Option<BTreeMap<String, String>>, Invalid> {
    let wrong = || Invalid::new(field, "expected an object of texts");
    match value {
        Value::Null => Ok(None),
        Value::Object(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                _ => Err(wrong()),
            });
            Ok(Some(pairs.collect::<Result<_, _>>()?))
        }
        _ => Err(wrong()),
    }
}

/// `"latest"`, `"earliest"`, `{"offset": 7}` or `{"time": "2026-01-31T12:00:00Z"}`.
fn start(field: &str, value: &Value) -> Result<Option<Start>, Invalid> {
    let wrong = || {
        let allowed = r#"expected "latest", "earliest", {"offset": …} or {"time": …}"#;
        Invalid::new(field, allowed)
    };
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text == "latest" => Ok(Some(Start::Latest)),
        Value::String(text) if text == "earliest" => Ok(Some(Start::Earliest)),
        Value::Object(object) if object.len() == 1 => {
            let start = match (object.get("offset"), object.get("time")) {
                (Some(offset), None) => start_offset(offset),
                (None, Some(time)) => start_time(time),
                _ => None,
            };
            start.map(Some).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// A number, or its digits as text, as JSON writes large numbers.
fn start_offset(value: &Value) -> Option<Start> {
    let offset = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok()?
        }
        _ => return None,
    };
    Some(Start::Offset(Offset(offset)))
}

fn start_time(value: &Value) -> Option<Start> {
    let time: protobuf::Timestamp = wire::json::from_value(value.clone()).ok()?;
    // Nothing was published before 1970, so an earlier time means the same.
    let micros = u64::try_from(time.unix_micros().ok()?).unwrap_or(0);
    Some(Start::Time(Timestamp(micros)))
}

/// A subscription as REST shows it: Google's fields, and ours as they are in force.
pub(super) fn show(subscription: &broker::Subscription) -> Result<Value> {
    let internal = |error: serde_json::Error| Refusal::new(Code::Internal, error.to_string());
    let mut shown = serde_json::to_value(subscription_to_wire(subscription)).map_err(internal)?;
    let settings = subscription.settings();
    let mut ours = json!({
        "start": show_start(settings.start),
        "fifo": false,
        "paused": false,
        "poison": "skip",
    });
    if let Value::Object(ours) = &mut ours {
        if !settings.description.is_empty() {
            ours.insert("description".to_owned(), settings.description.clone().into());
        }
        if !settings.metadata.is_empty() {
            ours.insert("metadata".to_owned(), json!(settings.metadata));
        }
    }
    if let Value::Object(fields) = &mut shown {
        fields.insert("postrider".to_owned(), ours);
        fields.insert("fifo_mode".to_owned(), Value::Bool(false));
    }
    Ok(shown)
}

fn show_start(start: Start) -> Value {
    match start {
        Start::Latest => json!("latest"),
        Start::Earliest => json!("earliest"),
        Start::Offset(offset) => json!({"offset": offset.to_string()}),
        Start::Time(time) => {
            let micros = i64::try_from(time.0).unwrap_or(i64::MAX);
            json!({"time": protobuf::Timestamp::from_unix_micros(micros)})
        }
    }
}

/// A page of subscriptions; like Google's, without what is empty.
pub(super) fn list(subscriptions: Vec<Value>, next_page_token: String) -> Value {
    let mut page = Map::new();
    if !subscriptions.is_empty() {
        page.insert("subscriptions".to_owned(), Value::Array(subscriptions));
    }
    if !next_page_token.is_empty() {
        page.insert("nextPageToken".to_owned(), Value::String(next_page_token));
    }
    Value::Object(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut subscription: Value) -> Result<Extras> {
        take("", &mut subscription)
    }

    fn refusal(subscription: Value) -> Refusal {
        taken(subscription).unwrap_err()
    }

    #[test]
    fn ours_is_taken_out_and_the_rest_left() {
        let mut subscription = json!({
            "topic": "projects/p/topics/orders",
            "fifo_mode": false,
            "is_enabled": true,
            "postrider": {
                "start": "earliest", "description": "d", "metadata": {"k": "v"},
                "fifo": false, "paused": false, "poison": "skip",
            },
        });
        let extras = take("", &mut subscription).unwrap();
        assert_eq!(extras.start, Some(Start::Earliest));
        assert_eq!(extras.description.as_deref(), Some("d"));
        assert_eq!(extras.metadata.unwrap()["k"], "v");
        assert_eq!(subscription, json!({"topic": "projects/p/topics/orders"}));
        assert_eq!(taken(json!({})).unwrap(), Extras::default());
    }

    #[test]
    fn what_is_shown_can_be_sent_back() {
        for start in [
            Start::Latest,
            Start::Earliest,
            Start::Offset(Offset(u64::MAX)),
            Start::Time(Timestamp(1_726_937_845_123_456)),
        ] {
            let extras = taken(json!({"postrider": {"start": show_start(start)}})).unwrap();
            assert_eq!(extras.start, Some(start));
        }
    }

    #[test]
    fn starts_are_read() {
        for (value, start) in [
            (json!({"offset": 7}), Start::Offset(Offset(7))),
            (json!({"offset": "7"}), Start::Offset(Offset(7))),
            (json!({"time": "1970-01-01T00:00:01.5Z"}), Start::Time(Timestamp(1_500_000))),
            (json!({"time": "1969-01-01T00:00:00Z"}), Start::Time(Timestamp(0))),
        ] {
            let extras = taken(json!({"postrider": {"start": value}})).unwrap();
            assert_eq!(extras.start, Some(start));
        }
        for bad in [
            json!("middle"),
            json!(5),
            json!(true),
            json!([]),
            json!({}),
            json!({"offset": -1}),
            json!({"offset": "x"}),
            json!({"offset": "+1"}),
            json!({"offset": ""}),
            json!({"offset": 1.5}),
            json!({"time": "yesterday"}),
            json!({"place": 1}),
            json!({"offset": 1, "time": "1970-01-01T00:00:00Z"}),
        ] {
            let refusal = refusal(json!({"postrider": {"start": bad}}));
            assert_eq!(refusal.code, Code::InvalidArgument);
            assert!(refusal.to_string().starts_with("postrider.start: "), "{refusal}");
        }
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        for (subscription, field) in [
            (json!({"postrider": 5}), "postrider: "),
            (json!({"postrider": {"strat": 1}}), "postrider.strat: "),
            (json!({"postrider": {"description": 1}}), "postrider.description: "),
            (json!({"postrider": {"metadata": []}}), "postrider.metadata: "),
            (json!({"postrider": {"metadata": {"k": 1}}}), "postrider.metadata: "),
            (json!({"postrider": {"fifo": "no"}}), "postrider.fifo: "),
            (json!({"fifoMode": 1}), "fifoMode: "),
        ] {
            let refusal = refusal(subscription);
            assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
            assert!(refusal.to_string().starts_with(field), "{refusal}");
        }
    }

    #[test]
    fn what_is_not_built_is_said_so() {
        for (subscription, field) in [
            (json!({"fifo_mode": true}), "fifo_mode"),
            (json!({"is_enabled": false}), "is_enabled"),
            (json!({"postrider": {"fifo": true}}), "postrider.fifo"),
            (json!({"postrider": {"paused": true}}), "postrider.paused"),
            (json!({"postrider": {"poison": "halt"}}), "postrider.poison"),
            (json!({"postrider": {"laneBy": "kind"}}), "postrider.laneBy"),
        ] {
            let refusal = refusal(subscription);
            assert_eq!(refusal.code, Code::Unimplemented, "{refusal}");
            assert!(refusal.to_string().starts_with(field), "{refusal}");
        }
    }
}

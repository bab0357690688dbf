//! The `postrider` object of a subscription, and the sources' own spellings beside it.

use std::collections::BTreeMap;

use domain::push::Secret;
use domain::{Invalid, Offset, Poison, Start, Timestamp};
use serde_json::{Map, Value, json};
use tonic::Code;
use wire::protobuf;

use super::push;
use crate::api::Warned;
use crate::convert::{Extras, alerts, subscription_to_wire};
use crate::status::{Refusal, Result};

/// Takes what is ours out of a subscription's JSON, so that the rest is Google's. `place` is how
/// field names begin in errors.
pub(super) fn take(place: &str, subscription: &mut Value) -> Result<Extras, Invalid> {
    let Value::Object(fields) = subscription else { return Ok(Extras::default()) };
    // An answer that is sent back may still hold it; it sets nothing.
    fields.remove("warnings");
    let mut extras = match fields.remove("postrider") {
        None | Some(Value::Null) => Extras::default(),
        Some(Value::Object(object)) => read(&format!("{place}postrider."), object)?,
        Some(_) => return Err(Invalid::new(format!("{place}postrider"), "expected an object")),
    };
    take_push_into(place, fields, &mut extras)?;
    for (name, means) in SPELLINGS {
        let field = format!("{place}{name}");
        let given = fields.remove(name).map_or(Ok(None), |value| switch(&field, &value))?;
        match means {
            Means::Fifo => agree(&field, &mut extras.fifo, given)?,
            Means::Enabled => agree(&field, &mut extras.paused, given.map(|given| !given))?,
        }
    }
    Ok(extras)
}

/// Takes what is ours out of the push config in a request.
pub(super) fn take_push(place: &str, request: &mut Value) -> Result<Extras, Invalid> {
    let mut extras = Extras::default();
    if let Value::Object(fields) = request {
        take_push_into(place, fields, &mut extras)?;
    }
    Ok(extras)
}

fn take_push_into(
    place: &str,
    fields: &mut Map<String, Value>,
    extras: &mut Extras,
) -> Result<(), Invalid> {
    for name in ["pushConfig", "push_config"] {
        if let Some(config) = fields.get_mut(name) {
            push::take(&format!("{place}{name}."), config, extras)?;
        }
    }
    Ok(())
}

/// What a source's own spelling of a setting means.
#[derive(Clone, Copy)]
enum Means {
    /// `postrider.fifo`.
    Fifo,
    /// The opposite of `postrider.paused`.
    Enabled,
}

const SPELLINGS: [(&str, Means); 4] = [
    ("fifoMode", Means::Fifo),
    ("fifo_mode", Means::Fifo),
    ("isEnabled", Means::Enabled),
    ("is_enabled", Means::Enabled),
];

/// Puts a setting that was given in another spelling where it belongs.
fn agree(field: &str, setting: &mut Option<bool>, given: Option<bool>) -> Result<(), Invalid> {
    match (*setting, given) {
        (Some(before), Some(given)) if before != given => {
            Err(Invalid::new(field, "says another thing than another spelling of the setting"))
        }
        _ => {
            *setting = setting.or(given);
            Ok(())
        }
    }
}

/// Puts the paths of an update mask that are spelled in a source's way into ours. They come in
/// snake case, whatever case they were sent in.
pub(super) fn respell(paths: &mut [String]) {
    for path in paths {
        match path.as_str() {
            "fifo_mode" => "postrider.fifo".clone_into(path),
            "is_enabled" => "postrider.paused".clone_into(path),
            _ => {}
        }
    }
}

fn read(place: &str, object: Map<String, Value>) -> Result<Extras, Invalid> {
    let mut extras = Extras::default();
    for (name, value) in object {
        let field = format!("{place}{name}");
        match name.as_str() {
            "start" => extras.start = start(&field, &value)?,
            "filter" => extras.filter = text(&field, value)?,
            "fifo" => extras.fifo = switch(&field, &value)?,
            "paused" => extras.paused = switch(&field, &value)?,
            "poison" => extras.poison = poison(&field, value)?,
            "laneBy" | "lane_by" => extras.lane_by = text(&field, value)?,
            "maxAttempts" | "max_attempts" => extras.attempts_max = number(&field, &value)?,
            "description" => extras.description = text(&field, value)?,
            "metadata" => extras.metadata = pairs(&field, value)?,
            "alerts" => extras.alerts = Some(alerts::read(&field, value)?),
            "backoff" => extras.backoff = push::or_none(&field, value, push::backoff)?,
            "headers" => extras.headers = pairs(&field, value)?,
            "method" => extras.method = push::method(&field, value)?,
            "signing" => extras.signing = push::signing(&field, value)?,
            "batch" => extras.batch = push::or_none(&field, value, push::batch)?,
            "rateLimit" | "rate_limit" => {
                extras.rate_max = push::or_none(&field, value, push::rate)?;
            }
            _ => return Err(push::unknown(&field)),
        }
    }
    Ok(extras)
}

fn switch(field: &str, value: &Value) -> Result<Option<bool>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(given) => Ok(Some(*given)),
        _ => Err(Invalid::new(field, "expected true or false")),
    }
}

fn poison(field: &str, value: Value) -> Result<Option<Poison>, Invalid> {
    text(field, value)?.map(|text| Poison::parse(field, &text)).transpose()
}

pub(super) fn number(field: &str, value: &Value) -> Result<Option<u32>, Invalid> {
    match value {
        Value::Null => Ok(None),
        _ => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Invalid::new(field, "expected a whole number")),
        },
    }
}

pub(super) fn text(field: &str, value: Value) -> Result<Option<String>, Invalid> {
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

/// A subscription as REST shows it: Google's fields, ours as they are in force, and what goes
/// wrong with it now.
pub(super) fn show(subscription: &broker::Subscription, now: Timestamp) -> Result<Value> {
    show_with(subscription, Vec::new(), None, now)
}

/// The same, with what its owner should know about the settings it was just given.
pub(super) fn show_warned(warned: &Warned, now: Timestamp) -> Result<Value> {
    let Warned { subscription, warnings, secret } = warned;
    show_with(subscription, warnings.clone(), secret.as_ref(), now)
}

/// The answer of a call that shows no subscription.
pub(super) fn show_warnings(warned: &Warned) -> Value {
    match warned.warnings.as_slice() {
        [] => json!({}),
        warnings => json!({"warnings": warnings}),
    }
}

fn show_with(
    subscription: &broker::Subscription,
    mut warnings: Vec<String>,
    secret: Option<&Secret>,
    now: Timestamp,
) -> Result<Value> {
    let internal = |error: serde_json::Error| Refusal::new(Code::Internal, error.to_string());
    let mut shown = serde_json::to_value(subscription_to_wire(subscription)).map_err(internal)?;
    let settings = subscription.settings();
    warnings.extend(subscription.dead_letter_error());
    if let Value::Object(fields) = &mut shown {
        push::show_config(&settings, fields);
        fields.insert("postrider".to_owned(), show_ours(&settings, secret, now));
        fields.insert("fifo_mode".to_owned(), Value::Bool(settings.fifo));
        if !warnings.is_empty() {
            fields.insert("warnings".to_owned(), json!(warnings));
        }
    }
    Ok(shown)
}

/// Settings with a default are always shown, the others where there are any.
fn show_ours(settings: &domain::Subscription, secret: Option<&Secret>, now: Timestamp) -> Value {
    let mut ours = Map::new();
    ours.insert("start".to_owned(), show_start(settings.start));
    if let Some(filter) = settings.filter.as_ref().filter(|filter| filter.is_cel()) {
        ours.insert("filter".to_owned(), filter.text().into());
    }
    ours.insert("fifo".to_owned(), settings.fifo.into());
    ours.insert("paused".to_owned(), settings.paused.into());
    ours.insert("poison".to_owned(), settings.poison.to_string().into());
    if let Some(key) = &settings.lane_by {
        ours.insert("laneBy".to_owned(), key.clone().into());
    }
    if let Some(attempts) = settings.attempts_asked() {
        ours.insert("maxAttempts".to_owned(), attempts.into());
    }
    if !settings.description.is_empty() {
        ours.insert("description".to_owned(), settings.description.clone().into());
    }
    if !settings.metadata.is_empty() {
        ours.insert("metadata".to_owned(), json!(settings.metadata));
    }
    if !settings.alerts.is_empty() {
        ours.insert("alerts".to_owned(), alerts::show(&settings.alerts));
    }
    push::show_ours(settings, secret, now, &mut ours);
    Value::Object(ours)
}

fn show_start(start: Start) -> Value {
    match start {
        Start::Latest => json!("latest"),
        Start::Earliest => json!("earliest"),
        Start::Offset(offset) => json!({"offset": offset.to_string()}),
        Start::Time(time) => json!({"time": show_time(time)}),
    }
}

/// A time as RFC 3339 has it.
pub(crate) fn show_time(time: Timestamp) -> Value {
    let micros = i64::try_from(time.0).unwrap_or(i64::MAX);
    json!(protobuf::Timestamp::from_unix_micros(micros))
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

    fn taken(mut subscription: Value) -> Result<Extras, Invalid> {
        take("", &mut subscription)
    }

    fn field_at_fault(subscription: Value) -> String {
        taken(subscription).unwrap_err().field
    }

    #[test]
    fn ours_is_taken_out_and_the_rest_left() {
        let mut subscription = json!({
            "topic": "projects/p/topics/orders",
            "fifo_mode": true,
            "is_enabled": true,
            "warnings": ["sent back"],
            "postrider": {
                "start": "earliest", "description": "d", "metadata": {"k": "v"},
                "fifo": true, "paused": false, "poison": "halt", "laneBy": "kind",
                "maxAttempts": 7,
            },
        });
        let expected = Extras {
            start: Some(Start::Earliest),
            fifo: Some(true),
            paused: Some(false),
            poison: Some(Poison::Halt),
            lane_by: Some("kind".to_owned()),
            attempts_max: Some(7),
            description: Some("d".to_owned()),
            metadata: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
            ..Extras::default()
        };
        assert_eq!(take("", &mut subscription), Ok(expected));
        assert_eq!(subscription, json!({"topic": "projects/p/topics/orders"}));
        for nothing in [json!({}), json!({"postrider": null, "fifoMode": null})] {
            assert_eq!(taken(nothing), Ok(Extras::default()));
        }
    }

    #[test]
    fn every_spelling_means_its_setting() {
        for (subscription, fifo, paused) in [
            (json!({"fifoMode": true}), Some(true), None),
            (json!({"fifo_mode": false}), Some(false), None),
            (json!({"isEnabled": false}), None, Some(true)),
            (json!({"is_enabled": true}), None, Some(false)),
            (json!({"fifoMode": true, "fifo_mode": true}), Some(true), None),
            (json!({"fifoMode": true, "postrider": {"fifo": true}}), Some(true), None),
            (json!({"is_enabled": false, "postrider": {"paused": true}}), None, Some(true)),
        ] {
            let extras = taken(subscription).unwrap();
            assert_eq!((extras.fifo, extras.paused), (fifo, paused));
        }
    }

    #[test]
    fn spellings_that_disagree_are_refused() {
        for (subscription, field) in [
            (json!({"fifoMode": true, "fifo_mode": false}), "fifo_mode"),
            (json!({"fifoMode": true, "postrider": {"fifo": false}}), "fifoMode"),
            (json!({"is_enabled": true, "postrider": {"paused": true}}), "is_enabled"),
            (json!({"isEnabled": true, "is_enabled": false}), "is_enabled"),
        ] {
            assert_eq!(field_at_fault(subscription), field);
        }
    }

    #[test]
    fn masks_may_use_every_spelling() {
        let mut paths =
            ["labels", "fifo_mode", "is_enabled", "postrider.poison"].map(str::to_owned);
        respell(&mut paths);
        assert_eq!(paths, ["labels", "postrider.fifo", "postrider.paused", "postrider.poison"]);
    }

    #[test]
    fn the_settings_in_force_are_shown_and_can_be_sent_back() {
        let plain = domain::Subscription::new(
            domain::SubscriptionName::parse("name", "projects/p/subscriptions/billing").unwrap(),
            domain::TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
        );
        assert_eq!(
            show_ours(&plain, None, Timestamp(0)),
            json!({"start": "latest", "fifo": false, "paused": false, "poison": "skip"})
        );
        let settings = domain::Subscription {
            paused: true,
            poison: Poison::Halt,
            lane_by: Some("kind".to_owned()),
            attempts_max: Some(7),
            ..plain
        };
        let shown = show_ours(&settings, None, Timestamp(0));
        assert_eq!(shown["laneBy"], json!("kind"));
        let extras = taken(json!({"postrider": shown})).unwrap();
        assert_eq!((extras.paused, extras.poison), (Some(true), Some(Poison::Halt)));
        assert_eq!((extras.lane_by.as_deref(), extras.attempts_max), (Some("kind"), Some(7)));
    }

    #[test]
    fn a_start_that_is_shown_can_be_sent_back() {
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
            assert_eq!(field_at_fault(json!({"postrider": {"start": bad}})), "postrider.start");
        }
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        for (subscription, field) in [
            (json!({"postrider": 5}), "postrider"),
            (json!({"postrider": {"strat": 1}}), "postrider.strat"),
            (json!({"postrider": {"description": 1}}), "postrider.description"),
            (json!({"postrider": {"metadata": []}}), "postrider.metadata"),
            (json!({"postrider": {"metadata": {"k": 1}}}), "postrider.metadata"),
            (json!({"postrider": {"fifo": "no"}}), "postrider.fifo"),
            (json!({"postrider": {"paused": 0}}), "postrider.paused"),
            (json!({"postrider": {"poison": "stop"}}), "postrider.poison"),
            (json!({"postrider": {"poison": true}}), "postrider.poison"),
            (json!({"postrider": {"laneBy": 1}}), "postrider.laneBy"),
            (json!({"postrider": {"maxAttempts": "7"}}), "postrider.maxAttempts"),
            (json!({"postrider": {"maxAttempts": 1.5}}), "postrider.maxAttempts"),
            (json!({"postrider": {"maxAttempts": -1}}), "postrider.maxAttempts"),
            (json!({"postrider": {"maxAttempts": 5_000_000_000_u64}}), "postrider.maxAttempts"),
            (json!({"fifoMode": 1}), "fifoMode"),
            (json!({"is_enabled": "yes"}), "is_enabled"),
        ] {
            assert_eq!(field_at_fault(subscription), field);
        }
        let mut nested = json!({"postrider": {"fifo": 1}});
        let error = take("subscription.", &mut nested).unwrap_err();
        assert_eq!(error.field, "subscription.postrider.fifo");
    }
}

//! What is ours in the JSON of a topic or a subscription: the `postrider` object, fields inside
//! objects of Google's, and the sources' own spellings beside them. The table of settings says
//! which.

use domain::push::Secret;
use domain::setting::{self, Document, Resource, Setting, camel, read, snake};
use domain::subscription::SETTINGS;
use domain::{Invalid, Timestamp, topic};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tonic::Code;
use wire::pubsub;

use crate::api::Warned;
use crate::convert::{subscription_to_wire, topic_to_wire};
use crate::status::{Refusal, Result};

/// Takes what is ours out of a subscription's JSON, so that the rest is Google's. `place` is how
/// field names begin in errors.
pub(super) fn take(place: &str, subscription: &mut Value) -> Result<Document, Invalid> {
    take_with(SETTINGS, place, subscription)
}

/// The same for any resource.
pub(crate) fn take_with<S: Resource>(
    table: &[Setting<S>],
    place: &str,
    resource: &mut Value,
) -> Result<Document, Invalid> {
    let mut ours = Document::default();
    let Value::Object(fields) = resource else { return Ok(ours) };
    // An answer that is sent back may still hold it; it sets nothing.
    fields.remove("warnings");
    match fields.remove("postrider") {
        None | Some(Value::Null) => {}
        Some(Value::Object(object)) => {
            take_object(table, &format!("{place}postrider."), object, &mut ours)?
        }
        Some(_) => return Err(Invalid::new(format!("{place}postrider"), "expected an object")),
    }
    take_added(table, place, fields, &mut ours)?;
    take_spellings(table, place, fields, &mut ours)?;
    Ok(ours)
}

fn take_object<S: Resource>(
    table: &[Setting<S>],
    place: &str,
    object: Map<String, Value>,
    ours: &mut Document,
) -> Result<(), Invalid> {
    for (name, value) in object {
        let field = format!("{place}{name}");
        let path = format!("postrider.{}", snake(&name));
        let Some(setting) = table.iter().find(|setting| setting.path == path) else {
            return Err(read::unknown(&field));
        };
        put(setting, &field, value, ours)?;
    }
    Ok(())
}

/// Takes what is ours out of the push config in a request.
pub(super) fn take_push(place: &str, request: &mut Value) -> Result<Document, Invalid> {
    let mut ours = Document::default();
    if let Value::Object(fields) = request {
        take_added(SETTINGS, place, fields, &mut ours)?;
    }
    Ok(ours)
}

/// Takes what is ours out of Google's objects.
fn take_added<S: Resource>(
    table: &[Setting<S>],
    place: &str,
    fields: &mut Map<String, Value>,
    ours: &mut Document,
) -> Result<(), Invalid> {
    for setting in table.iter().filter(|setting| setting.is_added) {
        let Some((object, name)) = setting.path.split_once('.') else { continue };
        for object in [camel(object), object.to_owned()] {
            let Some(Value::Object(inner)) = fields.get_mut(&object) else { continue };
            for name in [camel(name), name.to_owned()] {
                if let Some(value) = inner.remove(&name) {
                    put(setting, &format!("{place}{object}.{name}"), value, ours)?;
                }
            }
        }
    }
    Ok(())
}

/// The names that the sources have for settings of ours.
fn take_spellings<S: Resource>(
    table: &[Setting<S>],
    place: &str,
    fields: &mut Map<String, Value>,
    ours: &mut Document,
) -> Result<(), Invalid> {
    for setting in table.iter().filter(|setting| setting.is_ours()) {
        for spelling in setting.spellings {
            for name in [camel(spelling.name), spelling.name.to_owned()] {
                let Some(value) = fields.remove(&name) else { continue };
                let value = match value {
                    Value::Bool(given) => Value::Bool(given != spelling.is_opposite),
                    other => other,
                };
                put(setting, &format!("{place}{name}"), value, ours)?;
            }
        }
    }
    Ok(())
}

/// Puts a value where it belongs, if it can be read, and another spelling did not give another.
fn put<S: Resource>(
    setting: &Setting<S>,
    field: &str,
    value: Value,
    ours: &mut Document,
) -> Result<(), Invalid> {
    setting.check_value(field, &value)?;
    match ours.get(setting.path) {
        Some(_) if value.is_null() => Ok(()),
        Some(before) if *before != value => Err(read::disagrees(field)),
        _ => {
            ours.put(setting.path, value);
            Ok(())
        }
    }
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
    let google = serde_json::to_value(subscription_to_wire(subscription)).map_err(internal)?;
    let settings = subscription.settings();
    warnings.extend(subscription.dead_letter_error());
    let waiting = settings.export_warning().filter(|one| !warnings.contains(one));
    warnings.extend(waiting);
    let Value::Object(google) = google else { return Ok(google) };
    let mut shown = Document(google);
    show_ours(SETTINGS, &*settings, &mut shown);
    show_secrets(&settings, secret, now, &mut shown);
    shown.0.insert("fifo_mode".to_owned(), Value::Bool(settings.fifo));
    if !warnings.is_empty() {
        shown.0.insert("warnings".to_owned(), json!(warnings));
    }
    Ok(Value::Object(shown.0))
}

/// A topic as REST shows it: Google's fields in Google's order, and ours as they are in force.
#[derive(Serialize)]
pub(super) struct ShownTopic {
    #[serde(flatten)]
    google: pubsub::Topic,
    #[serde(flatten)]
    ours: Map<String, Value>,
}

impl ShownTopic {
    pub(super) fn of(topic: &broker::Topic) -> Self {
        let mut ours = Document::default();
        show_ours(topic::SETTINGS, &*topic.settings(), &mut ours);
        Self { google: topic_to_wire(topic), ours: ours.0 }
    }

    /// The same, with what its owner should know about the settings it was just given.
    pub(super) fn warned(topic: &broker::Topic, warnings: Vec<String>) -> Self {
        let mut shown = Self::of(topic);
        if !warnings.is_empty() {
            shown.ours.insert("warnings".to_owned(), json!(warnings));
        }
        shown
    }
}

/// A page of topics; like Google's, without what is empty.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopicPage {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) topics: Vec<ShownTopic>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) next_page_token: String,
}

/// Adds the settings that are ours.
pub(crate) fn show_ours<S: Resource>(table: &[Setting<S>], settings: &S, shown: &mut Document) {
    setting::show(table.iter().filter(|setting| setting.is_ours()), settings, shown);
}

/// Adds what there is to tell of secrets. The secret is shown where it was set just now.
fn show_secrets(
    settings: &domain::Subscription,
    secret: Option<&Secret>,
    now: Timestamp,
    shown: &mut Document,
) {
    let until = settings.signing.as_ref().and_then(|signing| signing.previous_valid_until(now));
    if let Some(secret) = secret {
        shown.put("postrider.signing.secret", secret.text().into());
    }
    if let Some(until) = until {
        shown.put("postrider.signing.previous_valid_until", show_time(until));
    }
}

/// A time as RFC 3339 has it.
pub(crate) fn show_time(time: Timestamp) -> Value {
    time.rfc3339().into()
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
mod tests;

//! `push_config`: the form it has in a document, and how it is changed.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::change::Joined;
use super::push_change::{PushRetry, no_endpoint};
use super::pushing::timeout_in_range;
use super::{Change, Subscription};
use crate::error::Invalid;
use crate::policy::RetryPolicy;
use crate::push::{Endpoint, Form as Body, OidcToken, PushConfig};
use crate::setting::read::{disagrees, number, object, pairs, switch, text, unknown, wait};
use crate::setting::{Flag, Form, Part, snake};

/// The attribute of a push config that says which version of Google's API its pushes are of. It is
/// always shown.
pub(super) const VERSION: &str = "x-goog-version";
const VERSION_DEFAULT: &str = "v1";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1beta2"];

/// Checks what the attributes of a push config say about the version.
pub(super) fn check_version(config: &PushConfig) -> Result<(), Invalid> {
    match config.attributes.get(VERSION) {
        Some(given) if !VERSIONS.contains(&given.as_str()) => {
            let field = format!("push_config.attributes[{VERSION:?}]");
            Err(Invalid::new(field, format!("{given:?} is none of {}", VERSIONS.join(", "))))
        }
        _ => Ok(()),
    }
}

/// The parts of `push_config.no_wrapper`.
pub(super) const FORM_PARTS: &[Part] = &[Part::new(
    "write_metadata",
    Form::Switch,
    "Send ids and attributes as headers along with the data",
)
.flag(Flag::new("write-metadata").needs("no-wrapper"))];

/// The parts of `push_config.oidc_token`.
pub(super) const OIDC_PARTS: &[Part] = &[
    Part::new("service_account_email", Form::Text, "Send a token that names this account")
        .flag(Flag::new("oidc-account").value("EMAIL"))
        .title("Token for"),
    Part::new("audience", Form::Text, "The token's audience")
        .flag(Flag::new("oidc-audience").value("AUDIENCE").needs("oidc-account")),
];

/// All of it. An empty config means pull, as none at all does: Java clients always send one.
pub(super) fn set_whole(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    let config = object(field, value)?;
    let get = |name: &str| config.and_then(|config| config.get(name)).unwrap_or(&Value::Null);
    change.joined.push.whole = Some(read_config(field, &get)?);
    if !change.has_ours {
        return Ok(());
    }
    set_timeout(change, &format!("{field}.timeout_seconds"), get("timeoutSeconds"))?;
    match get("retryPolicy") {
        Value::Null => Ok(()),
        retry => set_retry(change, &format!("{field}.retry_policy"), retry),
    }
}

fn read_config<'v>(
    place: &str,
    get: &impl Fn(&str) -> &'v Value,
) -> Result<Option<PushConfig>, Invalid> {
    let attributes = pairs(&format!("{place}.attributes"), get("attributes"))?.unwrap_or_default();
    let oidc = read_oidc(&format!("{place}.oidc_token"), get("oidcToken"))?;
    let form = read_form(&format!("{place}.no_wrapper"), get("noWrapper"))?;
    match read_endpoint(&format!("{place}.push_endpoint"), get("pushEndpoint"))? {
        Some(endpoint) => {
            Ok(Some(PushConfig { attributes, oidc, form, ..PushConfig::new(endpoint) }))
        }
        None if attributes.is_empty() && oidc.is_none() && form == Body::Wrapped => Ok(None),
        None => Err(no_endpoint()),
    }
}

fn read_endpoint(field: &str, value: &Value) -> Result<Option<Endpoint>, Invalid> {
    let text = text(field, value)?.filter(|text| !text.is_empty());
    text.map(|text| Endpoint::parse(field, &text)).transpose()
}

fn read_oidc(field: &str, value: &Value) -> Result<Option<OidcToken>, Invalid> {
    let Some(token) = object(field, value)? else { return Ok(None) };
    let part = |name: &str| {
        let field = format!("{field}.{}", snake(name));
        Ok(text(&field, token.get(name).unwrap_or(&Value::Null))?.unwrap_or_default())
    };
    let (service_account_email, audience) = (part("serviceAccountEmail")?, part("audience")?);
    Ok(Some(OidcToken { service_account_email, audience }))
}

fn read_form(field: &str, value: &Value) -> Result<Body, Invalid> {
    let Some(form) = object(field, value)? else { return Ok(Body::Wrapped) };
    let field = format!("{field}.write_metadata");
    let write = switch(&field, form.get("writeMetadata").unwrap_or(&Value::Null))?;
    Ok(Body::Unwrapped { write_metadata: write.unwrap_or_default() })
}

pub(super) fn set_endpoint(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    change.joined.push.endpoint = Some(read_endpoint(field, value)?);
    Ok(())
}

pub(super) fn set_attributes(
    change: &mut Change,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    change.joined.push.attributes = Some(pairs(field, value)?.unwrap_or_default());
    Ok(())
}

pub(super) fn set_form(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    change.joined.push.form = Some(read_form(field, value)?);
    Ok(())
}

pub(super) fn set_oidc(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    change.joined.push.oidc = Some(read_oidc(field, value)?);
    Ok(())
}

pub(super) fn set_timeout(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    change.joined.push.timeout = Some(seconds(field, value)?);
    Ok(())
}

/// Without an endpoint the label waits for one, so it is checked here.
pub(super) fn join_timeout_label(
    joined: &mut Joined,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    joined.push.labelled_timeout = seconds(field, value)?;
    joined.push.labelled_timeout.map_or(Ok(()), |timeout| timeout_in_range(field, timeout))
}

pub(super) fn set_retry(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    change.joined.push_retry = Some(read_retry(field, value)?);
    Ok(())
}

fn seconds(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    Ok(number(field, value)?.map(|seconds| Duration::from_secs(seconds.into())))
}

/// `{"minimumBackoff": "10s", "maximumBackoff": "600s", "maxAttempts": 5}`, the waits also in
/// seconds.
fn read_retry(place: &str, value: &Value) -> Result<Option<PushRetry>, Invalid> {
    let Some(given) = object(place, value)? else { return Ok(None) };
    let (mut min, mut max, mut attempts) = (None, None, None);
    for (name, value) in given {
        let field = format!("{place}.{name}");
        match snake(name).as_str() {
            "minimum_backoff" => agree(&field, &mut min, wait(&field, value)?)?,
            "min_backoff_seconds" => agree(&field, &mut min, seconds(&field, value)?)?,
            "maximum_backoff" => agree(&field, &mut max, wait(&field, value)?)?,
            "max_backoff_seconds" => agree(&field, &mut max, seconds(&field, value)?)?,
            "max_attempts" => agree(&field, &mut attempts, number(&field, value)?)?,
            _ => return Err(unknown(&field)),
        }
    }
    let default = RetryPolicy::default();
    let policy = RetryPolicy { min: min.unwrap_or(default.min), max: max.unwrap_or(default.max) };
    policy.validate().map_err(|invalid| {
        Invalid::new(format!("push_config.{}", invalid.field), invalid.problem)
    })?;
    Ok(Some(PushRetry { policy, attempts }))
}

/// Takes a value that was given in one more spelling.
fn agree<T: PartialEq>(
    field: &str,
    setting: &mut Option<T>,
    given: Option<T>,
) -> Result<(), Invalid> {
    match (&*setting, given) {
        (Some(before), Some(given)) if *before != given => Err(disagrees(field)),
        (None, given) => {
            *setting = given;
            Ok(())
        }
        (Some(_), _) => Ok(()),
    }
}

/// The config as it is shown; an empty one means pull.
pub(super) fn show_whole(subscription: &Subscription) -> Value {
    let Some(push) = &subscription.push else { return json!({}) };
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("pushEndpoint", push.endpoint.text().into());
    let mut attributes = push.attributes.clone();
    attributes.entry(VERSION.to_owned()).or_insert_with(|| VERSION_DEFAULT.to_owned());
    put("attributes", json!(attributes));
    if let Some(OidcToken { service_account_email, audience }) = &push.oidc {
        let mut token = json!({"serviceAccountEmail": service_account_email});
        if !audience.is_empty()
            && let Some(token) = token.as_object_mut()
        {
            token.insert("audience".to_owned(), audience.clone().into());
        }
        put("oidcToken", token);
    }
    if let Body::Unwrapped { write_metadata } = push.form {
        put("noWrapper", json!({"writeMetadata": write_metadata}));
    }
    if let Some(timeout) = push.timeout {
        put("timeoutSeconds", timeout.as_secs().into());
    }
    Value::Object(shown)
}

/// One field of the config as it is shown.
pub(super) fn show_part(subscription: &Subscription, name: &str) -> Value {
    show_whole(subscription).get(name).cloned().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a panic is a failed test")]
mod tests {
    use super::super::tests::{pairs, pushing, subscription};
    use super::*;
    use crate::setting::Document;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn document(config: Value) -> Document {
        let mut document = Document::default();
        document.put("push_config", config);
        document
    }

    fn made(config: Value) -> Result<Subscription, Invalid> {
        Change::creating(&document(config))?.apply(&subscription())
    }

    fn full() -> Value {
        json!({
            "pushEndpoint": "https://example.com/push",
            "attributes": {"x-goog-version": "v1"},
            "oidcToken": {"serviceAccountEmail": "push@example.com", "audience": "me"},
            "noWrapper": {"writeMetadata": true},
            "timeoutSeconds": 5,
        })
    }

    #[test]
    fn every_field_of_a_push_config_goes_there_and_back() {
        let plain = json!({
            "pushEndpoint": "http://localhost:8080/push",
            "attributes": {"x-goog-version": "v1"},
        });
        for config in [full(), plain, json!({})] {
            assert_eq!(show_whole(&made(config.clone()).unwrap()), config);
        }
        assert_eq!(made(json!({"pubsubWrapper": {}})).unwrap().push, None);
    }

    #[test]
    fn every_spelling_of_a_retry_policy_is_read() {
        let policy = RetryPolicy { min: secs(2), max: secs(20) };
        for retry in [
            json!({"minimumBackoff": "2s", "maximumBackoff": "20s"}),
            json!({"minimum_backoff": "2s", "maximum_backoff": "20s"}),
            json!({"minBackoffSeconds": 2, "maxBackoffSeconds": 20}),
            json!({"min_backoff_seconds": 2, "max_backoff_seconds": 20}),
            json!({"minBackoffSeconds": 2, "minimumBackoff": "2s", "maximumBackoff": "20s"}),
        ] {
            let expected = PushRetry { policy, attempts: None };
            assert_eq!(read_retry("r", &retry), Ok(Some(expected)));
        }
        let torn = json!({"minBackoffSeconds": 1, "minimumBackoff": "2s"});
        assert_eq!(read_retry("r", &torn).unwrap_err().field, "r.minimumBackoff");
        let field = "push_config.retry_policy.minimum_backoff";
        let long = json!({"minBackoffSeconds": 700});
        assert_eq!(read_retry("r", &long).unwrap_err().field, field);
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_by_name() {
        for bad in [
            json!({"pushEndpoint": "localhost:80"}),
            json!({"pushEndpoint": "ftp://h/"}),
            json!({"timeoutSeconds": 5}),
            json!({"attributes": {"a": "b"}}),
        ] {
            assert_eq!(made(bad).unwrap_err().field, "push_config.push_endpoint");
        }
    }

    #[test]
    fn a_way_that_cannot_give_the_timeout_keeps_it() {
        let before = made(full()).unwrap();
        let other = document(json!({"pushEndpoint": "http://h/other"}));
        let timeout = |has_ours| {
            let change = Change::by_mask(&other, has_ours, &["push_config".to_owned()]).unwrap();
            change.apply(&before).unwrap().push.unwrap().timeout
        };
        assert_eq!(timeout(false), Some(secs(5)));
        assert_eq!(timeout(true), None);
    }

    #[test]
    fn each_path_changes_its_part_alone() {
        let before = made(full()).unwrap();
        let push = || before.push.clone().unwrap();
        let after = |path: &str| {
            let change = Change::by_mask(&document(json!({})), false, &[path.to_owned()]);
            change.unwrap().apply(&before).unwrap().push
        };
        assert_eq!(after("push_config"), None);
        assert_eq!(after("push_config.push_endpoint"), None);
        assert_eq!(after("push_config.oidc_token"), Some(PushConfig { oidc: None, ..push() }));
        let wrapped = PushConfig { form: Body::Wrapped, ..push() };
        assert_eq!(after("push_config.no_wrapper"), Some(wrapped.clone()));
        assert_eq!(after("push_config.pubsub_wrapper"), Some(wrapped));
        assert_eq!(after("push_config.attributes"), Some(push()), "the version stays as it was");
    }

    #[test]
    fn a_version_is_always_shown_and_is_one_of_googles() {
        let version = |one: &Subscription| show_part(one, "attributes")[VERSION].clone();
        let plain = made(json!({"pushEndpoint": "http://h/"})).unwrap();
        assert_eq!(version(&plain), "v1");
        assert_eq!(plain.push.as_ref().unwrap().attributes, pairs(&[]));
        let with = |version: &str| {
            made(json!({"pushEndpoint": "http://h/", "attributes": {VERSION: version}}))
        };
        let beta = with("v1beta2").unwrap();
        let moved = document(json!({"pushEndpoint": "http://h/other"}));
        let moved = Change::by_mask(&moved, false, &["push_config".to_owned()]).unwrap();
        assert_eq!(version(&moved.apply(&beta).unwrap()), "v1beta2");
        let field = with("v2").unwrap_err().field;
        assert_eq!(field, r#"push_config.attributes["x-goog-version"]"#);
    }

    #[test]
    fn a_retry_policy_inside_the_push_config_is_the_other_one() {
        let with = |dead_letters: Value, retry: Value| {
            let mut all = document(json!({"pushEndpoint": "http://h/", "retryPolicy": retry}));
            all.put("dead_letter_policy", dead_letters);
            Change::creating(&all)?.apply(&subscription())
        };
        let topic = "projects/p/topics/dead";
        let dead =
            |attempts: u32| json!({"deadLetterTopic": topic, "maxDeliveryAttempts": attempts});
        let plain = with(Value::Null, json!({})).unwrap();
        assert_eq!(plain.retry_policy, Some(RetryPolicy::default()));
        assert_eq!(plain.attempts_max, Some(5));
        assert_eq!(with(dead(9), json!({})).unwrap().attempts_max, Some(9));
        let three = || json!({"maxAttempts": 3});
        assert_eq!(with(dead(0), three()).unwrap().attempts_allowed(), Some(3));
        assert!(with(dead(9), three()).is_err());
        let mut both = document(json!({"pushEndpoint": "http://h/", "retryPolicy": {}}));
        both.put("retry_policy", json!({}));
        let error = Change::creating(&both).unwrap().apply(&pushing()).unwrap_err();
        assert_eq!(error.field, "push_config.retry_policy");
    }
}

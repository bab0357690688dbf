//! Google's envelope, read strictly.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::{Failure, Message, clock};

/// What is told of a broken envelope; the message is as far as it could be read, for the log.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) failure: Failure,
    pub(super) message: Message,
}

/// Reads an envelope:
///
/// ```json
/// {"message": {"data": "aGk=", "attributes": {"k": "v"}, "messageId": "7",
///   "publishTime": "2026-01-31T08:30:00Z", "orderingKey": "o"},
///  "subscription": "projects/p/subscriptions/s", "deliveryAttempt": 2}
/// ```
///
/// Both spellings of Google's names are read. Fields that are not known are not looked at, for
/// Google adds some now and then; those that are must have their types.
pub(super) fn read(body: &[u8]) -> Result<Message, Box<Broken>> {
    let mut message = Message::default();
    match fill(&mut message, body) {
        Ok(()) => Ok(message),
        Err(failure) => Err(Box::new(Broken { failure, message })),
    }
}

/// Fills in what names the message first, so that what comes of it can be told of.
fn fill(message: &mut Message, body: &[u8]) -> Result<(), Failure> {
    let tree = wire::json::parse(body)
        .map_err(|error| broken("InvalidEnvelope", format!("the body is not JSON: {error}")))?;
    let Value::Object(envelope) = tree else {
        return Err(broken(
            "InvalidEnvelope",
            "the body is not a JSON object; batches are not \
                                              supported",
        ));
    };
    message.subscription = text(&envelope, "subscription", "subscription")?.map(Arc::from);
    let inner = match envelope.get("message") {
        Some(Value::Object(inner)) => inner,
        Some(_) => return Err(broken("InvalidEnvelope", "message: not an object")),
        None => return Err(broken("InvalidEnvelope", "message: missing; is this Pub/Sub?")),
    };
    let id = text(inner, "messageId", "message_id")?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| broken("InvalidEnvelope", "message.messageId: missing"))?;
    message.id = id.to_owned();
    message.publish_time = publish_time(inner)?;
    message.delivery_attempt = delivery_attempt(&envelope)?;
    let key = text(inner, "orderingKey", "ordering_key")?;
    message.ordering_key = key.unwrap_or_default().to_owned();
    message.attributes = attributes(inner)?;
    if let Some(data) = text(inner, "data", "data")? {
        let decoded = STANDARD.decode(data);
        let problem = |error| broken("InvalidBase64", format!("message.data: {error}"));
        message.data = decoded.map_err(problem)?.into();
    }
    Ok(())
}

/// Text under either of two names; null counts as absent.
fn text<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    other: &str,
) -> Result<Option<&'a str>, Failure> {
    match object.get(name).or_else(|| object.get(other)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(broken("InvalidEnvelope", format!("{name}: not text"))),
    }
}

fn publish_time(inner: &Map<String, Value>) -> Result<Option<crate::Timestamp>, Failure> {
    let Some(text) = text(inner, "publishTime", "publish_time")? else { return Ok(None) };
    let problem = || broken("InvalidEnvelope", "message.publishTime: not a time of RFC 3339");
    clock::parse(text).map(Some).ok_or_else(problem)
}

fn delivery_attempt(envelope: &Map<String, Value>) -> Result<Option<u32>, Failure> {
    let value = envelope.get("deliveryAttempt").or_else(|| envelope.get("delivery_attempt"));
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let problem = || broken("InvalidEnvelope", "deliveryAttempt: not a number of at least 1");
    number.filter(|number| *number > 0).map(Some).ok_or_else(problem)
}

fn attributes(inner: &Map<String, Value>) -> Result<BTreeMap<String, String>, Failure> {
    let given = match inner.get("attributes") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(broken("InvalidEnvelope", "message.attributes: not an object")),
    };
    let own = |(key, value): (&String, &Value)| match value {
        Value::String(value) => Ok((key.clone(), value.clone())),
        _ => Err(broken("InvalidEnvelope", format!("message.attributes.{key}: not text"))),
    };
    given.iter().map(own).collect()
}

pub(super) fn broken(kind: &str, problem: impl Into<String>) -> Failure {
    Failure::new(kind, problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn envelope() -> Value {
        json!({
            "message": {
                "data": "aGk=",
                "attributes": {"k": "v"},
                "messageId": "7",
                "message_id": "7",
                "publishTime": "2027-01-15T08:00:00Z",
                "orderingKey": "o",
            },
            "subscription": "projects/p/subscriptions/s",
            "deliveryAttempt": 2,
        })
    }

    #[test]
    fn an_envelope_is_read_whole() {
        let message = read(envelope().to_string().as_bytes()).unwrap();
        let expected = Message {
            id: "7".to_owned(),
            data: "hi".into(),
            attributes: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            ordering_key: "o".to_owned(),
            publish_time: Some(crate::Timestamp(1_800_000_000_000_000)),
            delivery_attempt: Some(2),
            subscription: Some("projects/p/subscriptions/s".into()),
        };
        assert_eq!(message, expected);
        let snake = br#"{"message":{"message_id":"7"}}"#;
        assert_eq!(read(snake).unwrap().id, "7");
    }

    #[test]
    fn a_broken_envelope_names_what_is_wrong() {
        for (body, kind, problem) in [
            ("", "InvalidEnvelope", "not JSON"),
            ("{", "InvalidEnvelope", "not JSON"),
            ("7", "InvalidEnvelope", "not a JSON object"),
            ("[]", "InvalidEnvelope", "batches are not supported"),
            ("{}", "InvalidEnvelope", "message: missing"),
            (r#"{"message":7}"#, "InvalidEnvelope", "message: not an object"),
            (r#"{"message":{}}"#, "InvalidEnvelope", "messageId: missing"),
            (r#"{"message":{"messageId":""}}"#, "InvalidEnvelope", "messageId: missing"),
            (r#"{"message":{"messageId":7}}"#, "InvalidEnvelope", "messageId: not text"),
            (r#"{"message":{"messageId":"7","data":"*"}}"#, "InvalidBase64", "message.data"),
            (r#"{"message":{"messageId":"7","data":"aGk"}}"#, "InvalidBase64", "message.data"),
            (r#"{"message":{"messageId":"7","data":5}}"#, "InvalidEnvelope", "data: not text"),
            (r#"{"message":{"messageId":"7","attributes":[]}}"#, "InvalidEnvelope", "attributes"),
            (
                r#"{"message":{"messageId":"7","attributes":{"k":1}}}"#,
                "InvalidEnvelope",
                "message.attributes.k: not text",
            ),
            (
                r#"{"message":{"messageId":"7","publishTime":"now"}}"#,
                "InvalidEnvelope",
                "publishTime",
            ),
            (
                r#"{"message":{"messageId":"7"},"deliveryAttempt":0}"#,
                "InvalidEnvelope",
                "deliveryAttempt",
            ),
            (r#"{"message":{"messageId":"7"},"subscription":1}"#, "InvalidEnvelope", "not text"),
        ] {
            let failure = read(body.as_bytes()).unwrap_err().failure;
            assert_eq!(failure.kind, kind, "{body}");
            assert!(failure.message.contains(problem), "{body}: {}", failure.message);
        }
    }

    #[test]
    fn what_could_be_read_is_told_with_what_is_wrong() {
        let body = r#"{"message":{"messageId":"7","data":"*"},"subscription":"s"}"#;
        let broken = read(body.as_bytes()).unwrap_err();
        assert_eq!(broken.message.id, "7");
        assert_eq!(broken.message.subscription.as_deref(), Some("s"));
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _read = read(&body);
        }

        #[test]
        fn an_envelope_cut_anywhere_is_broken(at in 0_usize..200) {
            let text = envelope().to_string();
            let cut = text.get(..at.min(text.len() - 1)).unwrap_or_default();
            prop_assert!(read(cut.as_bytes()).is_err());
        }
    }
}

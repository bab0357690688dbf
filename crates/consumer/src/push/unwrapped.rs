//! Messages whose data is sent alone, and all else in headers.

use std::sync::Arc;

use bytes::Bytes;
use domain::push::is_reserved_header;
use http::header::{self, HeaderMap, HeaderName};

use super::envelope::broken;
use crate::{Failure, Message, clock};

const MESSAGE_ID: &str = "x-goog-pubsub-message-id";
const SUBSCRIPTION: &str = "x-goog-pubsub-subscription-name";
const PUBLISH_TIME: &str = "x-goog-pubsub-publish-time";
const ORDERING_KEY: &str = "x-goog-pubsub-ordering-key";
const DELIVERY_ATTEMPT: &str = "x-goog-pubsub-delivery-attempt";

/// Headers of the request itself, and those that proxies add: no attributes.
const NOT_ATTRIBUTES: [HeaderName; 8] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::DATE,
    header::FORWARDED,
    header::VIA,
];
const NOT_ATTRIBUTE_PREFIXES: [&str; 2] = ["x-forwarded-", "x-cloud-trace-"];

/// Whether the request says itself that it is one of these.
pub(super) fn is_unwrapped(headers: &HeaderMap) -> bool {
    headers.contains_key(MESSAGE_ID)
}

/// Reads a message. Its attributes are the headers that nobody else sets; names are in small
/// letters, as headers are.
pub(super) fn read(headers: &HeaderMap, body: Bytes) -> Result<Message, Failure> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(id) = text(MESSAGE_ID).filter(|id| !id.is_empty()) else {
        let problem = format!("{MESSAGE_ID}: missing; set writeMetadata on the subscription");
        return Err(broken("InvalidEnvelope", problem));
    };
    let attempt = match text(DELIVERY_ATTEMPT) {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| {
            broken("InvalidEnvelope", format!("{DELIVERY_ATTEMPT}: {text} is not a number"))
        })?),
    };
    Ok(Message {
        id: id.to_owned(),
        data: body,
        attributes: headers
            .iter()
            .filter(|(name, _)| is_attribute(name))
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect(),
        ordering_key: text(ORDERING_KEY).unwrap_or_default().to_owned(),
        publish_time: text(PUBLISH_TIME).and_then(clock::parse),
        delivery_attempt: attempt,
        subscription: text(SUBSCRIPTION).map(Arc::from),
    })
}

fn is_attribute(name: &HeaderName) -> bool {
    let begins = |prefix: &&str| name.as_str().starts_with(prefix);
    !is_reserved_header(name)
        && !NOT_ATTRIBUTES.contains(name)
        && !NOT_ATTRIBUTE_PREFIXES.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_message_is_read_from_headers_and_body() {
        let headers = headers(&[
            ("host", "example.com"),
            ("authorization", "Bearer x"),
            ("x-forwarded-for", "1.2.3.4"),
            ("color", "red"),
            ("x-goog-pubsub-message-id", "7"),
            ("x-goog-pubsub-subscription-name", "projects/p/subscriptions/s"),
            ("x-goog-pubsub-publish-time", "2027-01-15T08:00:00Z"),
            ("x-goog-pubsub-ordering-key", "k"),
            ("x-goog-pubsub-delivery-attempt", "3"),
        ]);
        assert!(is_unwrapped(&headers));
        let message = read(&headers, Bytes::from_static(b"\xff")).unwrap();
        assert_eq!((message.id.as_str(), &message.data[..]), ("7", &b"\xff"[..]));
        assert_eq!(
            message.attributes.into_iter().collect::<Vec<_>>(),
            [("color".to_owned(), "red".to_owned())]
        );
        assert_eq!(message.ordering_key, "k");
        assert_eq!(message.delivery_attempt, Some(3));
        assert_eq!(message.publish_time, clock::parse("2027-01-15T08:00:00Z"));
        assert_eq!(message.subscription.as_deref(), Some("projects/p/subscriptions/s"));
    }

    #[test]
    fn a_message_without_an_id_is_refused_with_the_remedy() {
        let failure = read(&HeaderMap::new(), Bytes::new()).unwrap_err();
        assert!(failure.message.contains("writeMetadata"), "{}", failure.message);
        let odd = headers(&[
            ("x-goog-pubsub-message-id", "7"),
            ("x-goog-pubsub-delivery-attempt", "many"),
        ]);
        assert!(read(&odd, Bytes::new()).unwrap_err().message.contains("many"));
    }
}

//! Headers about a message whose data is sent alone.

use domain::message::{Malformed, Part, parts};
use domain::push::is_attribute_header;
use domain::{Record, SubscriptionName};
use http::{HeaderMap, HeaderName, HeaderValue};

const SUBSCRIPTION: HeaderName = HeaderName::from_static("x-goog-pubsub-subscription-name");
const MESSAGE_ID: HeaderName = HeaderName::from_static("x-goog-pubsub-message-id");
const PUBLISH_TIME: HeaderName = HeaderName::from_static("x-goog-pubsub-publish-time");
const ORDERING_KEY: HeaderName = HeaderName::from_static("x-goog-pubsub-ordering-key");
const DELIVERY_ATTEMPT: HeaderName = HeaderName::from_static("x-goog-pubsub-delivery-attempt");

/// Headers common to all messages of a subscription.
pub(super) struct Metadata {
    subscription: Option<HeaderValue>,
}

impl Metadata {
    pub(super) fn new(subscription: &SubscriptionName) -> Self {
        Self { subscription: HeaderValue::from_str(subscription.as_str()).ok() }
    }

    /// Adds the headers for `record`. Skips attributes that are not valid headers, those that a
    /// receiver would act on (`is_attribute_header`), and those that would replace an existing
    /// header: a publisher must not override what the subscription's owner has set.
    pub(super) fn put(
        &self,
        record: &Record,
        attempt: Option<u32>,
        headers: &mut HeaderMap,
    ) -> Result<(), Malformed> {
        for part in parts(&record.body) {
            match part? {
                Part::Data(_) => {}
                Part::Attribute(key, value) => put_attribute(key, value, headers),
                Part::OrderingKey(key) => {
                    if let Ok(key) = HeaderValue::from_str(key) {
                        headers.insert(ORDERING_KEY, key);
                    }
                }
            }
        }
        if let Some(subscription) = &self.subscription {
            headers.insert(SUBSCRIPTION, subscription.clone());
        }
        headers.insert(MESSAGE_ID, HeaderValue::from(record.offset.0));
        if let Ok(time) = HeaderValue::try_from(record.publish_time.rfc3339_micros()) {
            headers.insert(PUBLISH_TIME, time);
        }
        if let Some(attempt) = attempt {
            headers.insert(DELIVERY_ATTEMPT, HeaderValue::from(attempt));
        }
        Ok(())
    }
}

fn put_attribute(key: &str, value: &str, headers: &mut HeaderMap) {
    if let (Ok(name), Ok(value)) = (key.parse::<HeaderName>(), HeaderValue::from_str(value))
        && is_attribute_header(&name)
        && !headers.contains_key(&name)
    {
        headers.insert(name, value);
    }
}

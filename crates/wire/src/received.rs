//! A message on lease, whose message is kept as it was encoded.

use bytes::Bytes;
use prost::Message;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error, Serialize, SerializeStruct, Serializer};

use crate::json::scalar::Integer;
use crate::pubsub::PubsubMessage;

/// `google.pubsub.v1.ReceivedMessage`: the same bytes on the wire, but `message` stays encoded,
/// so that a record goes from the log to the socket without being decoded and encoded again.
///
/// A message of no bytes is the same as none; a delivered message has at least its id.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ReceivedMessage {
    /// Names the lease; sent back to ack or to move the deadline.
    #[prost(string, tag = "1")]
    pub ack_id: String,
    /// An encoded [`PubsubMessage`].
    #[prost(bytes = "bytes", tag = "2")]
    pub message: Bytes,
    /// The attempt, counted from 1; 0 without a dead letter policy.
    #[prost(int32, tag = "3")]
    pub delivery_attempt: i32,
}

impl ReceivedMessage {
    /// The message, decoded. Its data is a slice of [`ReceivedMessage::message`].
    pub fn decode_message(&self) -> Result<PubsubMessage, prost::DecodeError> {
        PubsubMessage::decode(self.message.clone())
    }
}

impl Serialize for ReceivedMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ack_id = Some(&self.ack_id).filter(|id| !id.is_empty());
        let attempt = Some(self.delivery_attempt).filter(|&attempt| attempt != 0);
        let message = if self.message.is_empty() {
            None
        } else {
            Some(
                self.decode_message()
                    .map_err(|error| S::Error::custom(format_args!("message: {error}")))?,
            )
        };

        let given = [ack_id.is_some(), message.is_some(), attempt.is_some()];
        let len = given.iter().filter(|&&given| given).count();
        let mut fields = serializer.serialize_struct("google.pubsub.v1.ReceivedMessage", len)?;
        if let Some(ack_id) = ack_id {
            fields.serialize_field("ackId", ack_id)?;
        }
        if let Some(message) = message {
            fields.serialize_field("message", &message)?;
        }
        if let Some(attempt) = attempt {
            fields.serialize_field("deliveryAttempt", &attempt)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for ReceivedMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let decoded = Decoded::deserialize(deserializer)?;
        Ok(Self {
            ack_id: decoded.ack_id,
            message: decoded.message.encode_to_vec().into(),
            delivery_attempt: decoded.delivery_attempt.0,
        })
    }
}

/// What JSON says of a [`ReceivedMessage`].
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Decoded {
    #[serde(alias = "ack_id")]
    ack_id: String,
    message: PubsubMessage,
    #[serde(alias = "delivery_attempt")]
    delivery_attempt: Integer<i32>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::json;
    use crate::protobuf::Timestamp;
    use crate::pubsub::{PullResponse, StreamingPullResponse};

    /// The definition as Google has it, to compare bytes with.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Plain {
        #[prost(string, tag = "1")]
        ack_id: String,
        #[prost(message, optional, tag = "2")]
        message: Option<PubsubMessage>,
        #[prost(int32, tag = "3")]
        delivery_attempt: i32,
    }

    const JSON: &str = concat!(
        r#"{"ackId":"a1","message":{"data":"aGk=","attributes":{"k":"v"},"messageId":"7","#,
        r#""publishTime":"1970-01-01T00:00:01Z","orderingKey":"o"},"deliveryAttempt":3}"#
    );

    fn message() -> PubsubMessage {
        PubsubMessage {
            data: Bytes::from_static(b"hi"),
            attributes: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            message_id: "7".to_owned(),
            publish_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            ordering_key: "o".to_owned(),
        }
    }

    fn received() -> ReceivedMessage {
        ReceivedMessage {
            ack_id: "a1".to_owned(),
            message: message().encode_to_vec().into(),
            delivery_attempt: 3,
        }
    }

    #[test]
    fn bytes_are_those_of_the_plain_definition() {
        let plain =
            Plain { ack_id: "a1".to_owned(), message: Some(message()), delivery_attempt: 3 };
        assert_eq!(received().encode_to_vec(), plain.encode_to_vec());
        let decoded = ReceivedMessage::decode(plain.encode_to_vec().as_slice()).unwrap();
        assert_eq!(decoded, received());
        assert_eq!(decoded.decode_message().unwrap(), message());
    }

    #[test]
    fn json_is_that_of_the_plain_definition() {
        assert_eq!(serde_json::to_string(&received()).unwrap(), JSON);
        assert_eq!(json::from_slice::<ReceivedMessage>(JSON.as_bytes()).unwrap(), received());
        assert_eq!(serde_json::to_string(&ReceivedMessage::default()).unwrap(), "{}");
        let nulls = br#"{"ackId":null,"message":null,"deliveryAttempt":null}"#;
        assert_eq!(json::from_slice(nulls), Ok(ReceivedMessage::default()));
    }

    #[test]
    fn responses_that_hold_it_have_json() {
        let pulled = PullResponse { received_messages: vec![received()] };
        let text = format!(r#"{{"receivedMessages":[{JSON}]}}"#);
        assert_eq!(serde_json::to_string(&pulled).unwrap(), text);
        assert_eq!(json::from_slice::<PullResponse>(text.as_bytes()).unwrap(), pulled);

        let streamed =
            StreamingPullResponse { received_messages: vec![received()], ..Default::default() };
        assert_eq!(serde_json::to_string(&streamed).unwrap(), text);
        assert_eq!(json::from_slice::<StreamingPullResponse>(text.as_bytes()).unwrap(), streamed);
    }

    #[test]
    fn json_errors_name_the_field_inside() {
        let text = br#"{"receivedMessages":[{"message":{"data":"*"}}]}"#;
        let error = json::from_slice::<PullResponse>(text).unwrap_err();
        assert_eq!(error.path, "receivedMessages[0].message.data");
    }

    #[test]
    fn a_broken_message_is_an_error_and_not_a_panic() {
        let broken = ReceivedMessage {
            message: Bytes::from_static(&[0x0a, 0xff]),
            ..ReceivedMessage::default()
        };
        assert!(broken.decode_message().is_err());
        assert!(serde_json::to_string(&broken).is_err());
    }
}

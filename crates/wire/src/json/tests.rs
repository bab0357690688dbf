//! The JSON rules of protobuf, seen through the messages of Pub/Sub.

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::protobuf::{Duration, FieldMask, Timestamp};
use crate::pubsub::{
    CloudStorageConfig, ModifyAckDeadlineRequest, PublishRequest, PubsubMessage, PullRequest,
    PushConfig, Schema, Subscription, Topic, UpdateSubscriptionRequest, push_config, schema,
};

fn fault<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
    from_slice::<T>(text.as_bytes()).unwrap_err().to_string()
}

fn data(text: &str) -> Result<Bytes, JsonError> {
    from_value(json!({ "data": text })).map(|message: PubsubMessage| message.data)
}

#[test]
fn a_message_goes_there_and_back() {
    let message = PubsubMessage {
        data: Bytes::from_static(&[0xfb, 0xff, 0xfe]),
        attributes: [("a".to_owned(), "1".to_owned())].into(),
        message_id: "12".to_owned(),
        publish_time: Some(Timestamp { seconds: 1_769_848_200, nanos: 1_000_000 }),
        ordering_key: "k".to_owned(),
    };
    let text = concat!(
        r#"{"data":"+//+","attributes":{"a":"1"},"messageId":"12","#,
        r#""publishTime":"2026-01-31T08:30:00.001Z","orderingKey":"k"}"#
    );
    assert_eq!(to_vec(&message).unwrap(), text.as_bytes());
    assert_eq!(from_slice(text.as_bytes()), Ok(message));
}

#[test]
fn default_values_are_left_out() {
    assert_eq!(to_vec(&Subscription::default()).unwrap(), b"{}");
    assert_eq!(to_vec(&PubsubMessage::default()).unwrap(), b"{}");
    assert_eq!(from_slice(b"{}"), Ok(Subscription::default()));
}

#[test]
fn base64_of_either_alphabet_padded_or_not_is_read() {
    let bytes = Bytes::from_static(&[0xfb, 0xef, 0xff, 0xfe]);
    for text in ["++///g==", "++///g", "--___g==", "--___g"] {
        assert_eq!(data(text), Ok(bytes.clone()), "{text}");
    }
    assert_eq!(data(""), Ok(Bytes::new()));
}

#[test]
fn bad_base64_is_named_with_its_place() {
    for (text, expected) in [
        ("aGk*", "data: invalid base64 at character 4"),
        ("aGk=\n", "data: invalid base64 at character 5"),
        ("+-//", "data: invalid base64 at character 1"),
        ("aGkéé", "data: invalid base64 at character 4"),
        ("aGkxa", "data: invalid base64: wrong length"),
        ("aGk==", "data: invalid base64 at character 4"),
        ("aGl=", "data: invalid base64 at character 3"),
    ] {
        assert_eq!(data(text).unwrap_err().to_string(), expected, "{text:?}");
    }
}

#[test]
fn durations_and_masks_have_their_texts() {
    let update = UpdateSubscriptionRequest {
        subscription: Some(Subscription {
            name: "s".to_owned(),
            message_retention_duration: Some(Duration::from_secs(600)),
            ..Subscription::default()
        }),
        update_mask: Some(FieldMask {
            paths: vec!["labels".to_owned(), "ack_deadline_seconds".to_owned()],
        }),
    };
    let text = concat!(
        r#"{"subscription":{"name":"s","messageRetentionDuration":"600s"},"#,
        r#""updateMask":"labels,ackDeadlineSeconds"}"#
    );
    assert_eq!(to_vec(&update).unwrap(), text.as_bytes());
    assert_eq!(from_slice(text.as_bytes()), Ok(update));
}

#[test]
fn bad_times_are_named_with_an_example() {
    assert_eq!(
        fault::<Topic>(r#"{"messageRetentionDuration":"10m"}"#),
        "messageRetentionDuration: expected a duration such as \"600s\" or \"1.5s\", \
         found \"10m\""
    );
    assert_eq!(
        fault::<PubsubMessage>(r#"{"publishTime":5}"#),
        "publishTime: expected a timestamp such as \"2026-01-31T08:30:00Z\", found the number 5"
    );
}

#[test]
fn enums_are_names_and_numbers_are_read() {
    let schema = Schema { r#type: schema::Type::Avro.into(), ..Schema::default() };
    assert_eq!(to_vec(&schema).unwrap(), br#"{"type":"AVRO"}"#);
    assert_eq!(from_slice(br#"{"type":"AVRO"}"#), Ok(schema.clone()));
    assert_eq!(from_slice(br#"{"type":2}"#), Ok(schema));
    assert_eq!(
        fault::<Schema>(r#"{"type":"XML"}"#),
        "type: unknown value \"XML\", expected one of TYPE_UNSPECIFIED, PROTOCOL_BUFFER, AVRO"
    );
    assert_eq!(
        fault::<Schema>(r#"{"type":7}"#),
        "type: expected one of: [\"TYPE_UNSPECIFIED\", \"PROTOCOL_BUFFER\", \"AVRO\"], \
         found the number 7"
    );
}

#[test]
fn long_integers_are_strings_and_short_ones_numbers() {
    let config = CloudStorageConfig { max_bytes: i64::MAX, ..CloudStorageConfig::default() };
    let text = br#"{"maxBytes":"9223372036854775807"}"#;
    assert_eq!(to_vec(&config).unwrap(), text);
    assert_eq!(from_slice(text), Ok(config.clone()));
    assert_eq!(from_slice(br#"{"maxBytes":9223372036854775807}"#), Ok(config));

    let pull = PullRequest { max_messages: 10, ..PullRequest::default() };
    assert_eq!(to_vec(&pull).unwrap(), br#"{"maxMessages":10}"#);
    for text in ["10", "\"10\"", "10.0", "1e1"] {
        assert_eq!(from_slice(format!(r#"{{"maxMessages":{text}}}"#).as_bytes()), Ok(pull.clone()));
    }
}

#[test]
fn bad_integers_are_named() {
    for (text, found) in [
        ("2147483648", "the number 2147483648"),
        ("-2147483649", "the number -2147483649"),
        ("1.5", "the number 1.5"),
        ("1e300", "the number 1e300"),
        ("99999999999999999999", "the number 1e20"),
        ("\"1x\"", "\"1x\""),
        ("\"\"", "\"\""),
        ("\"+1\"", "\"+1\""),
        ("true", "true"),
        ("[]", "an array"),
        ("{}", "an object"),
    ] {
        let fault = fault::<PullRequest>(&format!(r#"{{"maxMessages":{text}}}"#));
        let expected = format!("maxMessages: expected a whole number of 32 bits, found {found}");
        assert_eq!(fault, expected);
    }
}

#[test]
fn wrong_types_are_named_with_their_path() {
    for (text, expected) in [
        (
            r#"{"messages":[{},{},{"data":5}]}"#,
            "messages[2].data: expected a base64 string, found the number 5",
        ),
        (r#"{"topic":{}}"#, "topic: expected a string, found an object"),
        (r#"{"messages":{}}"#, "messages: expected an array, found an object"),
        (r#"{"messages":["x"]}"#, "messages[0]: expected an object, found \"x\""),
        (r#"{"messages":[null]}"#, "messages[0]: expected an object, found null"),
        (
            r#"{"messages":[{"attributes":{"a b":1}}]}"#,
            r#"messages[0].attributes["a b"]: expected a string, found the number 1"#,
        ),
        (
            r#"{"messages":[{"attributes":{"a":null}}]}"#,
            "messages[0].attributes.a: expected a string, found null",
        ),
        ("[]", "expected an object, found an array"),
        ("null", "expected an object, found null"),
    ] {
        assert_eq!(fault::<PublishRequest>(text), expected);
    }
    assert_eq!(
        fault::<PullRequest>(r#"{"returnImmediately":"yes"}"#),
        "returnImmediately: expected a boolean, found \"yes\""
    );
}

#[test]
fn unknown_fields_are_refused_even_if_null() {
    assert_eq!(fault::<PublishRequest>(r#"{"mesages":[]}"#), "mesages: unknown field");
    assert_eq!(fault::<PublishRequest>(r#"{"mesages":null}"#), "mesages: unknown field");
    assert_eq!(
        fault::<PublishRequest>(r#"{"messages":[{},{"dta":""}]}"#),
        "messages[1].dta: unknown field"
    );
    assert_eq!(
        fault::<PushConfig>(r#"{"pubsubWrapper":{"a":1}}"#),
        "pubsubWrapper.a: unknown field"
    );
}

#[test]
fn both_spellings_of_a_field_are_read() {
    let expected = ModifyAckDeadlineRequest {
        ack_ids: vec!["a".to_owned()],
        ack_deadline_seconds: 5,
        ..Default::default()
    };
    for text in [
        r#"{"ackIds":["a"],"ackDeadlineSeconds":5}"#,
        r#"{"ack_ids":["a"],"ack_deadline_seconds":5}"#,
    ] {
        assert_eq!(from_slice(text.as_bytes()), Ok(expected.clone()));
    }
}

#[test]
fn null_is_absent() {
    let text = br#"{"name":null,"labels":null,"pushConfig":null,"ackDeadlineSeconds":null,
        "retainAckedMessages":null,"messageRetentionDuration":null,"messageTransforms":null,
        "state":null,"ack_deadline_seconds":null}"#;
    assert_eq!(from_slice(text), Ok(Subscription::default()));
    assert_eq!(from_slice(br#"{"data":null}"#), Ok(PubsubMessage::default()));
    assert_eq!(from_slice(br#"{"pubsubWrapper":null}"#), Ok(PushConfig::default()));
}

#[test]
fn fields_given_twice_are_refused() {
    assert_eq!(
        fault::<Topic>(r#"{"name":"a","name":"b"}"#),
        "name: given twice at line 1 column 18"
    );
    assert_eq!(
        fault::<Topic>(r#"{"labels":{"a":"1","a":"1"}}"#),
        "labels.a: given twice at line 1 column 22"
    );
    assert_eq!(
        fault::<Topic>(r#"{"name":null,"name":"b"}"#),
        "name: given twice at line 1 column 19"
    );
    assert_eq!(
        fault::<PullRequest>(r#"{"maxMessages":1,"max_messages":1}"#),
        "maxMessages: given twice, or together with a field that excludes it"
    );
}

#[test]
fn of_fields_that_exclude_each_other_one_is_read() {
    let config: PushConfig = from_slice(br#"{"noWrapper":{"writeMetadata":true}}"#).unwrap();
    let expected = push_config::NoWrapper { write_metadata: true };
    assert_eq!(config.wrapper, Some(push_config::Wrapper::NoWrapper(expected)));
    assert_eq!(
        fault::<PushConfig>(r#"{"noWrapper":{},"pubsubWrapper":{}}"#),
        "pubsubWrapper: given twice, or together with a field that excludes it"
    );
}

#[test]
fn syntax_errors_say_line_and_column() {
    for (text, expected) in [
        ("", "text ends early at line 1 column 0"),
        ("{\n\"messages\": [{\"data\"", "messages[0].data: text ends early at line 2 column 20"),
        (
            "{\n\"messages\": [{\"data\":\"a",
            "messages[0].data: text ends early at line 2 column 23",
        ),
        ("{\"topic\":\"a\"}}", "trailing characters at line 1 column 14"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("{'topic':1}", "key must be a string at line 1 column 2"),
        ("{\"topic\":nil}", "topic: expected ident at line 1 column 11"),
        ("{\"topic\":\"\\ud800\"}", "topic: unexpected end of hex escape at line 1 column 17"),
    ] {
        assert_eq!(fault::<PublishRequest>(text), expected);
    }
    let error = from_slice::<PublishRequest>(b"{\"topic\":\"\xff\"}").unwrap_err();
    assert_eq!(error.path, "topic");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
    for depth in [DEPTH_MAX + 1, 1_000_000] {
        let error = parse(nested(depth).as_bytes()).unwrap_err();
        assert!(error.message.starts_with("nested more than 32 levels deep"), "{error}");
    }
    let deep = serde_json::from_str(&nested(DEPTH_MAX + 1)).unwrap();
    let error = from_value::<crate::protobuf::Value>(deep).unwrap_err();
    assert_eq!(error.message, "nested more than 32 levels deep");
}

#[test]
fn the_deepest_topic_can_be_decoded_inside_a_list() {
    use prost::Message;

    let before = r#"{"messageTransforms":[{"aiInference":{"unstructuredInference":{"parameters":"#;
    let open = DEPTH_MAX - 5;
    let text =
        format!("{before}{}{}}}}}}}]}}", r#"{"a":"#.repeat(open - 1) + "{}", "}".repeat(open - 1));
    let topic: Topic = from_slice(text.as_bytes()).unwrap();
    let list = crate::pubsub::ListTopicsResponse { topics: vec![topic], ..Default::default() };
    assert_eq!(to_vec(&list.topics[0]).unwrap(), text.as_bytes());
    assert!(crate::pubsub::ListTopicsResponse::decode(list.encode_to_vec().as_slice()).is_ok());
}

#[test]
fn errors_are_one_short_line_whatever_was_sent() {
    let long = "é\n".repeat(100_000);
    for text in [
        json!({ &long: 1 }),
        json!({ "messages": &long }),
        json!({ "messages": [{ "attributes": { &long: 1 } }] }),
        json!({ "messages": [{ "data": &long }] }),
    ] {
        let error = from_value::<PublishRequest>(text).unwrap_err().to_string();
        assert!(error.len() < 400 && !error.contains('\n'), "{error}");
    }
}

#[test]
fn what_has_no_json_form_is_an_error() {
    let unknown = Topic { state: 99, ..Topic::default() };
    assert!(to_vec(&unknown).is_err());
    let time = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
    assert!(to_vec(&PubsubMessage { publish_time: time, ..Default::default() }).is_err());
}

#[test]
fn values_are_counted_before_they_are_built() {
    let list = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
    assert!(parse(list(VALUES_MAX).as_bytes()).is_ok());
    let fault = parse(list(VALUES_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(fault.message.split(" at ").next(), Some("more than 210000 values"), "{fault}");
    let nested = format!("{{\"messages\":[{}{{}}]}}", "{},".repeat(VALUES_MAX));
    let fault = parse(nested.as_bytes()).unwrap_err();
    assert!(fault.to_string().starts_with("messages["), "{fault}");
}

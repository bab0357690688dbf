use std::collections::BTreeMap;

use base64::engine::general_purpose::STANDARD;
use domain::delivery::{AckId, Lease};
use domain::push::{BatchPush, OidcToken, PushConfig, Secret, Signing};
use domain::{DeadLetterPolicy, Message, Record, TopicName, message};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::json::{Spelling, message_json};
use super::*;

const TIME: Timestamp = Timestamp(1_800_000_000_000_001);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests do not contain it; any will do.
fn any_ack_id() -> AckId {
    AckId::parse("AAAAAAAAAAEAAAAAAAAAAgAAAAAAAAADAAAAAAAAAAQ2j3xV").unwrap()
}

fn published(data: &[u8], attributes: &[(&str, &str)], ordering_key: &str) -> Message {
    let attributes = attributes.iter().map(|(key, value)| ((*key).into(), (*value).into()));
    Message {
        data: Bytes::copy_from_slice(data),
        attributes: attributes.collect(),
        ordering_key: ordering_key.into(),
    }
}

fn lease(offset: u64, message: &Message) -> Lease {
    let mut body = Vec::new();
    message::encode(message, Offset(offset), TIME, &mut body);
    let record =
        Record { offset: Offset(offset), publish_time: TIME, addressee: None, body: body.into() };
    Lease { ack_id: any_ack_id(), attempt: 2, record, stored: None }
}

fn settings(endpoint: &str) -> Subscription {
    let topic = TopicName::parse("topic", "projects/p/topics/top").unwrap();
    let name = domain::SubscriptionName::parse("name", "projects/p/subscriptions/sub").unwrap();
    let mut settings = Subscription::new(name, topic);
    settings.push = Some(PushConfig::new(Endpoint::parse("endpoint", endpoint).unwrap()));
    settings
}

fn dead_letters() -> Option<DeadLetterPolicy> {
    let topic = TopicName::parse("topic", "projects/p/topics/dead").unwrap();
    Some(DeadLetterPolicy { topic, max_delivery_attempts: 5 })
}

fn request(settings: &Subscription, leases: &[Lease], chain: Option<Chain>) -> Request {
    let template = Template::new(settings, "1.2.3").unwrap();
    let messages: Vec<_> = if template.is_wrapped() {
        leases.iter().map(|lease| message_json(&lease.record, Spelling::Twice).unwrap()).collect()
    } else {
        Vec::new()
    };
    let order = Order { chain, links: Vec::new() };
    let parcel = Parcel { leases, messages: &messages, order: &order };
    template.request(&parcel, TIME, None, TIMEOUT).unwrap()
}

fn text(request: &Request) -> &str {
    std::str::from_utf8(&request.body).unwrap()
}

fn headers(request: &Request) -> BTreeMap<&str, &str> {
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let lines = std::str::from_utf8(&request.lines).unwrap().split_terminator("\r\n");
    headers.chain(lines.map(|line| line.split_once(": ").unwrap())).collect()
}

#[test]
fn a_wrapped_message_is_googles_envelope() {
    let mut settings = settings("http://localhost:8080/push");
    settings.dead_letter_policy = dead_letters();
    let message = published(b"hello\xff", &[("a", "1"), ("b\"", "\\\n")], "key");
    let request = request(&settings, &[lease(17, &message)], None);
    let expected = concat!(
        r#"{"message":{"attributes":{"a":"1","b\"":"\\\n"},"data":"aGVsbG//","#,
        r#""messageId":"17","message_id":"17","#,
        r#""publishTime":"2027-01-15T08:00:00.000001Z","#,
        r#""publish_time":"2027-01-15T08:00:00.000001Z","#,
        r#""orderingKey":"key"},"#,
        r#""subscription":"projects/p/subscriptions/sub","deliveryAttempt":2}"#,
    );
    assert_eq!(text(&request), expected);
    let expected = BTreeMap::from([
        ("content-type", "application/json"),
        ("user-agent", "postrider-push/1.2.3"),
    ]);
    assert_eq!(headers(&request), expected);
    assert_eq!((&request.method, request.timeout), (&Method::POST, TIMEOUT));
    assert_eq!(request.endpoint.text(), "http://localhost:8080/push");
}

#[test]
fn what_is_empty_is_left_out_but_for_the_data() {
    let settings = settings("http://localhost/");
    let only_data = request(&settings, &[lease(1, &published(b"x", &[], ""))], None);
    let only_attributes = request(&settings, &[lease(1, &published(b"", &[("", "")], ""))], None);
    let times = concat!(
        r#""messageId":"1","message_id":"1","publishTime":"2027-01-15T08:00:00.000001Z","#,
        r#""publish_time":"2027-01-15T08:00:00.000001Z"},"#,
        r#""subscription":"projects/p/subscriptions/sub"}"#,
    );
    assert_eq!(text(&only_data), format!(r#"{{"message":{{"data":"eA==",{times}"#));
    assert_eq!(
        text(&only_attributes),
        format!(r#"{{"message":{{"attributes":{{"":""}},"data":"",{times}"#)
    );
}

#[test]
fn a_batch_is_an_array_also_of_one() {
    let mut settings = settings("http://localhost/");
    settings.batch = Some(BatchPush { messages: 10, bytes: 1_000, linger: Duration::ZERO });
    settings.signing = Some(Signing::new(Secret::new(&[7; 24])));
    let chain = Some(Chain { previous: Some(Offset(4)), epoch: 9 });
    let message = published(b"x", &[], "k");
    let leases = [lease(5, &message), lease(6, &message), lease(8, &message)];
    for (sent, id) in [(1, "5"), (2, "5-6-"), (3, "5-8-")] {
        let request = request(&settings, &leases[..sent], chain);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let ids: Vec<_> =
            body.as_array().unwrap().iter().map(|e| &e["message"]["messageId"]).collect();
        assert_eq!(ids, [&json!("5"), &json!("6"), &json!("8")][..sent]);
        assert!(body[0]["subscription"].is_string());
        let headers = headers(&request);
        assert_eq!(headers["postrider-batch-size"], sent.to_string());
        assert_eq!(headers["postrider-sequence"], "5");
        assert_eq!(headers["postrider-previous-sequence"], "4");
        assert_eq!(headers["postrider-epoch"], "9");
        assert!(headers["postrider-batch-id"].starts_with(id), "{headers:?}");
        assert_eq!(headers["webhook-id"], headers["postrider-batch-id"]);
    }
}

/// What `webhook-id` calls these messages.
fn webhook_id(leases: &[Lease]) -> String {
    let mut settings = settings("http://localhost/");
    settings.signing = Some(Signing::new(Secret::new(&[7; 24])));
    settings.batch = Some(BatchPush::default());
    headers(&request(&settings, leases, None))["webhook-id"].to_owned()
}

#[test]
fn a_message_keeps_its_webhook_id_when_it_is_replayed() {
    let plain = published(b"x", &[], "");
    assert_eq!(webhook_id(&[lease(5, &plain)]), "5");
    let replayed = published(b"x", &[("original_message_id", "5")], "");
    assert_eq!(webhook_id(&[lease(900, &replayed)]), "5");
    // A dead letter is a separate message; and an id is a number, whoever wrote it.
    let subscription = ("original_subscription", "projects/p/subscriptions/s");
    let letter = published(b"x", &[("original_message_id", "5"), subscription], "");
    let odd = published(b"x", &[("original_message_id", "5\r\nx: y")], "");
    for message in [letter, odd] {
        assert_eq!(webhook_id(&[lease(900, &message)]), "900");
    }
}

#[test]
fn several_messages_have_a_webhook_id_that_none_of_them_and_no_others_have() {
    let message = published(b"x", &[], "");
    let of = |ids: &[u64]| {
        let leases: Vec<Lease> = ids.iter().map(|id| lease(*id, &message)).collect();
        webhook_id(&leases)
    };
    let all = [&[5][..], &[8], &[5, 6, 8], &[5, 8], &[5, 7, 8]].map(of);
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{all:?}");
    }
    assert_eq!(of(&[5, 6, 8]), all[2], "sent again it has the same");
    let replayed = published(b"x", &[("original_message_id", "5")], "");
    let replays = [lease(900, &replayed), lease(901, &message)];
    assert!(webhook_id(&replays).starts_with("5-901-"));
}

#[test]
fn messages_of_several_lanes_say_each_where_it_stands() {
    let mut settings = settings("http://localhost/");
    settings.batch = Some(BatchPush::default());
    let message = published(b"x", &[], "k");
    let leases = [lease(5, &message), lease(6, &message), lease(7, &message)];
    let links = vec![Link::After(Offset(4)), Link::First, Link::Free];
    let order = Order { chain: Some(Chain { previous: Some(Offset(4)), epoch: 9 }), links };
    let template = Template::new(&settings, "1").unwrap();
    let parcel = Parcel { leases: &leases, messages: &[], order: &order };
    let request = template.request(&parcel, TIME, None, TIMEOUT).unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body[0]["postrider"], json!({"sequence": "5", "previousSequence": "4"}));
    assert_eq!(body[1]["postrider"], json!({"sequence": "6"}));
    assert_eq!(body[2].get("postrider"), None);
    let headers = headers(&request);
    assert_eq!((headers["postrider-sequence"], headers["postrider-epoch"]), ("5", "9"));
}

#[test]
fn a_signed_request_has_the_signature_of_what_is_sent() {
    let mut settings = settings("http://localhost/");
    let signing = Signing::new(Secret::new(&[7; 24]));
    settings.signing = Some(signing.clone());
    let request = request(&settings, &[lease(5, &published(b"x", &[], ""))], None);
    let expected = Signer::new(&signing).header(b"5", TIME, &request.body);
    let headers = headers(&request);
    assert_eq!(headers["webhook-id"], "5");
    assert_eq!(headers["webhook-timestamp"], "1800000000");
    assert_eq!(headers["webhook-signature"], expected);
}

#[test]
fn the_first_of_a_lane_has_no_previous_sequence() {
    let chain = Some(Chain { previous: None, epoch: 1 });
    let leases = [lease(5, &published(b"x", &[], "k"))];
    let request = request(&settings("http://localhost/"), &leases, chain);
    assert_eq!(headers(&request)["postrider-sequence"], "5");
    assert!(!headers(&request).contains_key("postrider-previous-sequence"));
}

fn unwrapped(write_metadata: bool) -> Subscription {
    let mut settings = settings("http://localhost/");
    if let Some(push) = &mut settings.push {
        push.form = Form::Unwrapped { write_metadata };
    }
    settings
}

#[test]
fn an_unwrapped_message_is_its_data_and_keeps_nothing_else_in_memory() {
    let lease = lease(5, &published(b"raw \xff data", &[("a", "1")], "k"));
    let request = request(&unwrapped(false), std::slice::from_ref(&lease), None);
    assert_eq!(&request.body[..], b"raw \xff data");
    assert!(!lease.record.body.as_ptr_range().contains(&request.body.as_ptr()));
    let expected = BTreeMap::from([
        ("content-type", "application/octet-stream"),
        ("user-agent", "postrider-push/1.2.3"),
    ]);
    assert_eq!(headers(&request), expected);
}

#[test]
fn metadata_and_attributes_are_headers_where_they_can_be() {
    let mut settings = unwrapped(true);
    settings.dead_letter_policy = dead_letters();
    settings.headers.insert("X-Mine".into(), "set".into());
    let attributes = [
        ("color", "red"),
        ("Content-Type", "text/plain"),
        ("content-encoding", "gzip"),
        ("cookie", "session=forged"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-mine", "forged"),
        ("user-agent", "forged"),
        ("authorization", "forged"),
        ("proxy-authorization", "forged"),
        ("host", "forged"),
        ("content-length", "0"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "h2c"),
        ("postrider-epoch", "1"),
        ("webhook-signature", "v1,x"),
        ("x-goog-pubsub-message-id", "1"),
        ("not a name", "x"),
        ("", "x"),
        ("injected", "a\r\nb: c"),
    ];
    let leases = [lease(5, &published(b"x", &attributes, "key"))];
    let request = request(&settings, &leases, None);
    let expected = BTreeMap::from([
        ("color", "red"),
        ("content-type", "application/octet-stream"),
        ("user-agent", "postrider-push/1.2.3"),
        ("x-goog-pubsub-delivery-attempt", "2"),
        ("x-goog-pubsub-message-id", "5"),
        ("x-goog-pubsub-ordering-key", "key"),
        ("x-goog-pubsub-publish-time", "2027-01-15T08:00:00.000001Z"),
        ("x-goog-pubsub-subscription-name", "projects/p/subscriptions/sub"),
        ("x-mine", "set"),
    ]);
    assert_eq!(headers(&request), expected);
}

#[test]
fn own_headers_and_methods_are_sent_but_not_those_of_the_request_itself() {
    let mut settings = settings("http://localhost/");
    settings.method = domain::push::Method::Patch;
    for (name, value) in [
        ("X-Key", "k"),
        ("Content-Type", "application/cloudevents+json"),
        ("Host", "elsewhere"),
        ("postrider-sequence", "1"),
        ("bad", "a\nb"),
    ] {
        settings.headers.insert(name.into(), value.into());
    }
    let request = request(&settings, &[lease(5, &published(b"x", &[], ""))], None);
    let expected = BTreeMap::from([
        ("content-type", "application/cloudevents+json"),
        ("user-agent", "postrider-push/1.2.3"),
        ("x-key", "k"),
    ]);
    assert_eq!(headers(&request), expected);
    assert_eq!(request.method, Method::PATCH);
}

#[test]
fn authorization_is_the_token_or_ones_own_or_user_and_password() {
    let leases = [lease(5, &published(b"x", &[], ""))];
    let mut settings = settings("https://us%40er:p%3Aw%zz@example.com/x?y=1");
    let basic = request(&settings, &leases, None);
    let expected = format!("Basic {}", STANDARD.encode("us@er:p:w%zz"));
    assert_eq!(basic.headers["authorization"], expected);
    settings.headers.insert("Authorization".into(), "mine".into());
    assert_eq!(request(&settings, &leases, None).headers["authorization"], "mine");
    if let Some(push) = &mut settings.push {
        let service_account_email = "a@b".to_owned();
        push.oidc = Some(OidcToken { service_account_email, audience: String::new() });
    }
    let template = Template::new(&settings, "1").unwrap();
    assert_eq!(template.oidc(), Some(("a@b", "https://example.com/x?y=1")));
    let messages = [message_json(&leases[0].record, Spelling::Twice).unwrap()];
    let parcel = Parcel { leases: &leases, messages: &messages, order: &Order::default() };
    let token = HeaderValue::from_static("Bearer t");
    let request = template.request(&parcel, TIME, Some(&token), TIMEOUT).unwrap();
    assert_eq!(request.headers["authorization"], "Bearer t");
    assert_eq!(request.headers.get_all("authorization").iter().count(), 1);
}

#[test]
fn headers_that_hold_secrets_are_not_shown() {
    let mut settings = settings("https://user:hush@example.com/x?key=hush");
    settings.signing = Some(Signing::new(Secret::new(&[7; 24])));
    for name in ["Cookie", "x-api-key", "X-Token", "client-secret"] {
        settings.headers.insert(name.into(), "hush".into());
    }
    settings.headers.insert("x-tenant".into(), "blue".into());
    let request = request(&settings, &[lease(5, &published(b"x", &[], ""))], None);
    for name in ["authorization", "cookie", "x-api-key", "x-token", "webhook-signature"] {
        assert!(request.headers[name].is_sensitive(), "{name}");
    }
    assert!(!request.headers["x-tenant"].is_sensitive());
    let shown = format!("{request:?}");
    assert!(shown.contains("blue") && !shown.contains("hush"), "{shown}");
}

#[test]
fn without_an_endpoint_there_is_nothing_to_prepare() {
    let mut settings = settings("http://localhost/");
    settings.push = None;
    assert!(Template::new(&settings, "1").is_none());
}

#[test]
fn a_malformed_record_is_an_error() {
    let mut lease = lease(1, &published(b"x", &[], ""));
    lease.record.body = Bytes::from_static(b"\x0a\x09cut");
    assert_eq!(message_json(&lease.record, Spelling::Twice), Err(Malformed));
    let template = Template::new(&unwrapped(true), "1").unwrap();
    let parcel = Parcel { leases: &[lease], messages: &[], order: &Order::default() };
    assert!(template.request(&parcel, TIME, None, TIMEOUT).is_err());
}

proptest! {
    #[test]
    fn what_was_published_is_what_json_readers_read(
        data in proptest::collection::vec(any::<u8>(), 0..100),
        attributes in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5),
        odd in "[\u{0}-\u{7f}\u{2028}\u{2029}\u{10ffff}]{0,30}",
        ordering_key: String,
        offset: u64,
    ) {
        let mut attributes = attributes;
        attributes.insert("odd".to_owned(), odd);
        let message = Message { data: data.into(), attributes, ordering_key };
        let lease = lease(offset, &message);
        let written = message_json(&lease.record, Spelling::Twice).unwrap();
        let read: Value = serde_json::from_slice(&written).unwrap();
        let data = STANDARD.decode(read["data"].as_str().unwrap_or_default()).unwrap();
        prop_assert_eq!(&data[..], &message.data[..]);
        prop_assert_eq!(&read["attributes"], &json!(message.attributes));
        prop_assert_eq!(read["orderingKey"].as_str().unwrap_or_default(), &message.ordering_key);
        prop_assert_eq!(&read["messageId"], &json!(offset.to_string()));
        prop_assert_eq!(&read["message_id"], &json!(offset.to_string()));
    }

    #[test]
    fn no_attribute_breaks_out_of_its_header(
        attributes in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..8),
        ordering_key: String,
    ) {
        let message = Message { data: Bytes::new(), attributes, ordering_key };
        let request = request(&unwrapped(true), &[lease(1, &message)], None);
        for (name, value) in request.headers.iter() {
            prop_assert!(name.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
        prop_assert_eq!(&request.headers["user-agent"], "postrider-push/1.2.3");
    }
}

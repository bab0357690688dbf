//! Live subscriptions: who is told, once and in order, and what happens when somebody is slow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::{
    Change, Live, LiveEvent, LiveFrame, LiveOptions, LiveStart, LiveStream, Lost, Options,
};
use domain::live::Request;
use domain::topic::LIVE_LABEL;
use domain::{Message, Offset, TopicName};
use futures::FutureExt;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, HOUR, message, settle, topic_name, until};

const SECOND: Duration = Duration::from_secs(1);

/// A topic with the label.
async fn live_topic(fixture: &Fixture, id: &str) -> TopicName {
    let name = topic_name(id);
    let labels = BTreeMap::from([(LIVE_LABEL.to_owned(), "true".to_owned())]);
    let settings = domain::Topic { labels, ..domain::Topic::new(name.clone()) };
    fixture.broker.create_topic(settings).await.unwrap();
    name
}

fn with_options(live: LiveOptions) -> Options {
    Options { live, ..Options::default() }
}

fn wish(gateway: &str, id: &str, filter: &str) -> Request {
    Request {
        gateway: gateway.to_owned(),
        subscription: id.to_owned(),
        tenant: "p".to_owned(),
        collection: "rooms".to_owned(),
        filter: (!filter.is_empty()).then(|| filter.to_owned()),
        ..Request::default()
    }
}

fn document(text: &str) -> Message {
    let attributes = BTreeMap::from([("collection".to_owned(), "rooms".to_owned())]);
    Message { attributes, ..message(text) }
}

fn with(message: Message, key: &str, value: &str) -> Message {
    let mut attributes = message.attributes;
    attributes.insert(key.to_owned(), value.to_owned());
    Message { attributes, ..message }
}

async fn send(fixture: &Fixture, topic: &TopicName, messages: Vec<Message>) -> Vec<u64> {
    let range = fixture.broker.publish(topic, messages).await.unwrap().offsets;
    (range.from.0..range.to.0).collect()
}

fn open(live: &Arc<Live>, gateway: &str) -> LiveStream {
    live.open(gateway, &LiveStart::Last).unwrap()
}

async fn next(stream: &mut LiveStream) -> Vec<Arc<LiveFrame>> {
    let next = tokio::time::timeout(Duration::from_secs(10), stream.next());
    next.await.expect("a frame comes").expect("the stream is open")
}

/// The next `count` frames.
async fn frames(stream: &mut LiveStream, count: usize) -> Vec<Arc<LiveFrame>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        frames.extend(next(stream).await);
    }
    assert_eq!(frames.len(), count, "{frames:?}");
    frames
}

/// A frame in few words: `text id id`, `text id=enter`, or what else it says.
fn said(frame: &LiveFrame) -> String {
    match &frame.event {
        LiveEvent::Message(found) => {
            let data = domain::message::decode(found.message.body()).unwrap().data;
            let text = String::from_utf8(data.to_vec()).unwrap();
            let mut ids: Vec<_> = match &found.changes {
                None => found.ids.iter().map(str::to_owned).collect(),
                Some(changes) => {
                    let pairs = found.ids.iter().zip(changes.iter());
                    pairs.map(|(id, change)| format!("{id}={}", change.as_str())).collect()
                }
            };
            ids.sort();
            format!("{text} {}", ids.join(" "))
        }
        LiveEvent::Heartbeat => "heartbeat".to_owned(),
        LiveEvent::Register => "register".to_owned(),
        LiveEvent::Resync(lost) => format!("resync {}", lost.as_str()),
        LiveEvent::Expired(ids) => format!("expired {}", ids.iter().collect::<Vec<_>>().join(" ")),
    }
}

fn all_said(frames: &[Arc<LiveFrame>]) -> Vec<String> {
    frames.iter().map(|frame| said(frame)).collect()
}

fn is_quiet(stream: &mut LiveStream) -> bool {
    stream.next().now_or_never().is_none()
}

#[tokio::test]
async fn each_gateway_is_told_once_with_all_its_matching_subscriptions() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    for request in [
        wish("g1", "a", r#"data.status == "active""#),
        wish("g1", "b", "data.priority > 5"),
        wish("g1", "c", ""),
        wish("g2", "d", "data.priority > 5"),
        wish("g2", "e", r#"data.status == "idle""#),
    ] {
        live.register(request).unwrap();
    }
    let (mut one, mut two) = (open(live, "g1"), open(live, "g2"));
    let first = r#"{"status":"active","priority":9}"#;
    let second = r#"{"status":"active","priority":1}"#;
    let offsets = send(&fixture, &topic, vec![document(first), document(second)]).await;
    let told = frames(&mut one, 2).await;
    assert_eq!(all_said(&told), [format!("{first} a b c"), format!("{second} a c")]);
    assert_eq!(told[0].sequence + 1, told[1].sequence);
    let LiveEvent::Message(found) = &told[0].event else { panic!("{told:?}") };
    assert_eq!((found.message.offset().0, &found.message.topic), (offsets[0], &topic));
    assert_eq!(all_said(&frames(&mut two, 1).await), [format!("{first} d")]);
    settle().await;
    assert!(is_quiet(&mut one) && is_quiet(&mut two));
}

#[tokio::test]
async fn a_subscription_counts_from_exactly_its_effective_offset() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    let before = send(&fixture, &topic, vec![document("{}")]).await;
    let first = live.register(wish("g", "a", "")).unwrap();
    assert_eq!(first.effective, [(topic.clone(), Offset(before[0]))]);
    let mut stream = open(live, "g");
    let between = send(&fixture, &topic, vec![document("[1]")]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), ["[1] a"]);
    let second = live.register(wish("g", "b", "")).unwrap();
    assert_eq!(second.effective, [(topic.clone(), Offset(between[0]))]);
    send(&fixture, &topic, vec![document("[2]")]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), ["[2] a b"]);
}

#[tokio::test]
async fn a_message_with_the_document_before_tells_who_gains_and_loses_it() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "high", "data.priority > 5")).unwrap();
    live.register(wish("g", "low", "data.priority <= 5")).unwrap();
    live.register(wish("g", "any", "")).unwrap();
    let mut stream = open(live, "g");
    let (small, large) = (r#"{"priority":1}"#, r#"{"priority":7}"#);
    let messages = vec![
        with(document(large), "old", small),
        with(document(large), "old", large),
        // The document is gone.
        with(document(""), "old", large),
        // What cannot be read says nothing about before.
        with(document(small), "old", "{"),
    ];
    send(&fixture, &topic, messages).await;
    assert_eq!(
        all_said(&frames(&mut stream, 4).await),
        [
            format!("{large} any=update high=enter low=leave"),
            format!("{large} any=update high=update"),
            " any=leave high=leave".to_owned(),
            format!("{small} any low"),
        ]
    );
    assert_eq!(live.figures(0).unreadable, 1);
    assert_eq!(Change::Enter.as_str(), "enter");
}

#[tokio::test]
async fn a_body_that_is_not_json_or_too_large_matches_only_who_does_not_look_into_it() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "filtered", "data.a == 1 || !(data.a == 1)")).unwrap();
    live.register(wish("g", "all", "")).unwrap();
    let mut stream = open(live, "g");
    let large = format!(r#"{{"a":1,"b":"{}"}}"#, "x".repeat(1 << 20));
    let messages = vec![document("not json"), document(&large), document(r#"{"a":1}"#)];
    send(&fixture, &topic, messages).await;
    let told = frames(&mut stream, 3).await;
    assert!(said(&told[0]).ends_with(" all"), "{}", said(&told[0]));
    assert!(said(&told[1]).ends_with("\"} all"));
    assert_eq!(said(&told[2]), r#"{"a":1} all filtered"#);
    assert_eq!(live.figures(0).unreadable, 2);
}

#[tokio::test]
async fn tenants_never_cross_and_default_to_the_project() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "own", "")).unwrap();
    live.register(Request { tenant: "other".to_owned(), ..wish("g", "foreign", "") }).unwrap();
    let mut stream = open(live, "g");
    let messages = vec![
        document("1"),
        with(document("2"), "tenant", "other"),
        with(document("3"), "tenant", "nobody"),
        message("4"),
        with(document("5"), "tenant", "p"),
    ];
    send(&fixture, &topic, messages).await;
    assert_eq!(all_said(&frames(&mut stream, 3).await), ["1 own", "2 foreign", "5 own"]);
}

#[tokio::test]
async fn only_topics_that_are_to_be_are_followed() {
    let fixture = Fixture::new().await;
    let live = fixture.broker.live();
    let plain = fixture.topic_of("plain").await;
    live.register(wish("g", "a", "")).unwrap();
    let mut stream = open(live, "g");
    send(&fixture, &plain, vec![document("1")]).await;
    settle().await;
    assert!(live.topics().is_empty() && is_quiet(&mut stream));
    let labels = BTreeMap::from([(LIVE_LABEL.to_owned(), "true".to_owned())]);
    let label = |labels| domain::topic::Change { labels: Some(labels), ..Default::default() };
    fixture.broker.update_topic(&plain, label(labels)).await.unwrap();
    assert_eq!(live.topics(), std::slice::from_ref(&plain));
    send(&fixture, &plain, vec![document("2")]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), ["2 a"]);
    fixture.broker.update_topic(&plain, label(BTreeMap::new())).await.unwrap();
    send(&fixture, &plain, vec![document("3")]).await;
    settle().await;
    assert!(live.topics().is_empty() && is_quiet(&mut stream));
}

#[tokio::test]
async fn topics_can_be_named_instead() {
    let named = LiveOptions { topics: Some(vec![topic_name("named")]), ..LiveOptions::default() };
    let fixture = Fixture::with(with_options(named)).await;
    let live = fixture.broker.live();
    live_topic(&fixture, "labelled").await;
    let topic = fixture.topic_of("named").await;
    assert_eq!(live.topics(), std::slice::from_ref(&topic));
    fixture.broker.delete_topic(&topic).await.unwrap();
    assert!(live.topics().is_empty());
}

#[tokio::test]
async fn a_slow_gateway_loses_frames_is_told_so_and_slows_nobody() {
    let small = LiveOptions { buffer_frames: 10, ..LiveOptions::default() };
    let fixture = Fixture::with(with_options(small)).await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("slow", "a", "")).unwrap();
    live.register(wish("quick", "b", "")).unwrap();
    let (mut slow, mut quick) = (open(live, "slow"), open(live, "quick"));
    for number in 0..25 {
        send(&fixture, &topic, vec![document(&number.to_string())]).await;
        assert_eq!(all_said(&frames(&mut quick, 1).await), [format!("{number} b")]);
    }
    // Ten fill it, the eleventh clears it: the marker and nine, and so again.
    let told = frames(&mut slow, 7).await;
    let last = ["19 a", "20 a", "21 a", "22 a", "23 a", "24 a"].map(str::to_owned);
    assert_eq!(said(&told[0]), "resync overflow");
    assert_eq!(all_said(&told[1..]), last);
    assert!(told.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    assert_eq!(live.figures(0).resyncs, 2);
    // What was sent makes room for what was not.
    for number in 25..34 {
        send(&fixture, &topic, vec![document(&number.to_string())]).await;
    }
    until(|| live.figures(0).frames == 25 + 25 + 18).await;
    let told = frames(&mut slow, 9).await;
    assert_eq!((said(&told[0]), said(&told[8])), ("25 a".to_owned(), "33 a".to_owned()));
}

#[tokio::test]
async fn frames_of_all_gateways_together_are_bounded_in_bytes() {
    let few = LiveOptions { buffer_bytes: 100_000, ..LiveOptions::default() };
    let fixture = Fixture::with(with_options(few)).await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    for gateway in 0..10 {
        live.register(wish(&gateway.to_string(), &format!("s{gateway}"), "")).unwrap();
    }
    let text = format!("\"{}\"", "x".repeat(1_000));
    for _ in 0..50 {
        send(&fixture, &topic, vec![document(&text)]).await;
    }
    until(|| live.figures(0).frames == 500).await;
    // Each may keep one frame whatever the others keep.
    let held = live.figures(0).buffer_bytes;
    assert!(held <= 100_000 + 10 * 3_000, "{held} bytes");
    for gateway in 0..10 {
        live.close_gateway(&gateway.to_string());
    }
    assert_eq!(live.figures(0).buffer_bytes, 0);
}

/// Gateways that read nothing fill what there is; one that reads has its share all the same.
#[tokio::test]
async fn gateways_that_never_read_cost_no_other_its_frames() {
    let few = LiveOptions { buffer_bytes: 100_000, ..LiveOptions::default() };
    let fixture = Fixture::with(with_options(few)).await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    let stuck = (0..4).map(|number| format!("stuck-{number}"));
    for gateway in stuck.chain(["quick".to_owned()]) {
        live.register(wish(&gateway, &gateway, "")).unwrap();
    }
    let mut quick = open(live, "quick");
    let text = format!("\"{}\"", "x".repeat(1_000));
    for _ in 0..50 {
        // Three at a time are below a fifth of what there is.
        send(&fixture, &topic, vec![document(&text); 3]).await;
        let told = frames(&mut quick, 3).await;
        assert!(told.iter().all(|frame| said(frame).ends_with(" quick")), "{told:?}");
    }
    assert!(live.figures(0).resyncs > 0, "those that do not read have lost some");
}

#[tokio::test]
async fn a_broken_stream_goes_on_where_it_ended_or_where_it_says() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "a", "")).unwrap();
    send(&fixture, &topic, vec![document("1")]).await;
    // What was matched before there was a stream is kept.
    let mut stream = open(live, "g");
    let told = frames(&mut stream, 1).await;
    assert_eq!(all_said(&told), ["1 a"]);
    drop(stream);
    send(&fixture, &topic, vec![document("2"), document("3")]).await;
    let mut stream = open(live, "g");
    assert_eq!(all_said(&frames(&mut stream, 2).await), ["2 a", "3 a"]);
    let start = LiveStart::Sequence(told[0].sequence);
    let mut stream = live.open("g", &start).unwrap();
    assert_eq!(all_said(&frames(&mut stream, 2).await), ["2 a", "3 a"]);
    for unknown in [0, told[0].sequence - 2, told[0].sequence + 3, u64::MAX] {
        let mut stream = live.open("g", &LiveStart::Sequence(unknown)).unwrap();
        assert_eq!(all_said(&next(&mut stream).await), ["resync unknown_sequence"], "{unknown}");
        settle().await;
        assert!(is_quiet(&mut stream));
    }
    // Nothing is lost by going on behind the last frame.
    let mut stream = live.open("g", &LiveStart::Sequence(told[0].sequence + 2)).unwrap();
    assert!(is_quiet(&mut stream));
}

#[tokio::test]
async fn a_later_stream_takes_the_place_of_an_earlier() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "a", "")).unwrap();
    let mut earlier = open(live, "g");
    assert!(is_quiet(&mut earlier));
    let mut later = open(live, "g");
    assert!(earlier.next().await.is_none());
    send(&fixture, &topic, vec![document("1")]).await;
    assert_eq!(all_said(&frames(&mut later, 1).await), ["1 a"]);
    drop(earlier);
    assert_eq!(live.figures(0).streams, 1);
    // One of the two is still open: nothing expires.
    fixture.clock.advance(HOUR);
    assert!(live.get("a").is_ok());
}

#[tokio::test]
async fn after_a_restart_a_gateway_registers_again_and_misses_nothing_that_is_retained() {
    let mut fixture = Fixture::new().await;
    let topic = live_topic(&fixture, "changes").await;
    fixture.subscription(&topic, "keeper").await;
    let live = Arc::clone(fixture.broker.live());
    live.register(wish("g", "a", "data.n > 0")).unwrap();
    let mut stream = open(&live, "g");
    let offsets = send(&fixture, &topic, vec![document(r#"{"n":1}"#)]).await;
    let told = frames(&mut stream, 1).await;
    fixture.reopen().await;
    assert!(stream.next().await.is_none(), "the stream ended with the server");
    let live = fixture.broker.live();
    // Nobody has registered anything: the follower rests.
    settle().await;
    send(&fixture, &topic, vec![document(r#"{"n":2}"#), document(r#"{"n":0}"#)]).await;

    let mut stream = live.open("g", &LiveStart::Sequence(told[0].sequence)).unwrap();
    let first = next(&mut stream).await;
    assert_eq!(all_said(&first), ["register", "resync unknown_sequence"]);
    live.register(wish("g", "a", "data.n > 0")).unwrap();
    live.register(wish("h", "b", "data.n > 0")).unwrap();
    let start = LiveStart::Offset(None, Offset(offsets[0]));
    let mut stream = live.open("g", &start).unwrap();
    send(&fixture, &topic, vec![document(r#"{"n":3}"#)]).await;
    assert_eq!(all_said(&frames(&mut stream, 2).await), [r#"{"n":2} a"#, r#"{"n":3} a"#]);
    send(&fixture, &topic, vec![document(r#"{"n":4}"#)]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), [r#"{"n":4} a"#]);
    // Another gateway's frames are not touched by it.
    let mut other = open(live, "h");
    assert_eq!(all_said(&frames(&mut other, 2).await), [r#"{"n":3} b"#, r#"{"n":4} b"#]);
    assert_eq!(fixture.pull("keeper", 10).await.len(), 5);
}

#[tokio::test]
async fn going_back_to_what_is_no_longer_retained_is_told() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    live.register(wish("g", "a", "")).unwrap();
    let offsets = send(&fixture, &topic, vec![document("1"), document("2")]).await;
    fixture.trim().await;
    let start = LiveStart::Offset(Some(topic.clone()), Offset(offsets[0]));
    let mut stream = live.open("g", &start).unwrap();
    send(&fixture, &topic, vec![document("3")]).await;
    assert_eq!(all_said(&frames(&mut stream, 2).await), ["resync not_retained", "3 a"]);
    let unknown = LiveStart::Offset(Some(topic_name("other")), Offset(1));
    assert!(live.open("g", &unknown).is_err());
    live_topic(&fixture, "second").await;
    assert!(live.open("g", &LiveStart::Offset(None, Offset(1))).is_err(), "which topic?");
}

#[tokio::test]
async fn a_gateway_is_told_of_what_expired_and_never_early() {
    let told = LiveOptions { notify_on_expiry: true, ..LiveOptions::default() };
    let fixture = Fixture::with(with_options(told)).await;
    let live = fixture.broker.live();
    let short = Request { ttl_s: Some(60), ..wish("g", "short", "") };
    live.register(short).unwrap();
    live.register(Request { ttl_s: Some(3_600), ..wish("g", "long", "") }).unwrap();
    fixture.clock.advance(30 * SECOND);
    live.heartbeat("short", None).unwrap();
    fixture.clock.advance(59 * SECOND);
    settle().await;
    assert_eq!(live.figures(0).expired, 0);
    fixture.clock.advance(2 * SECOND);
    until(|| live.figures(0).expired == 1).await;
    assert_eq!(live.heartbeat("short", None).unwrap_err().code(), "SUBSCRIPTION_EXPIRED");
    let mut stream = open(live, "g");
    assert_eq!(all_said(&frames(&mut stream, 1).await), ["expired short"]);
    // While the stream is open nothing expires.
    fixture.clock.advance(2 * HOUR);
    settle().await;
    assert_eq!(all_said(&next(&mut stream).await), ["heartbeat"]);
    assert_eq!(live.get("long").unwrap().view.id, "long");
    drop(stream);
    fixture.clock.advance(HOUR - SECOND);
    settle().await;
    assert!(live.get("long").is_ok(), "a broken stream costs nothing until the TTL");
    fixture.clock.advance(2 * SECOND);
    until(|| live.figures(0).counts.total == 0).await;
    let figures = live.figures(0);
    // That the first has expired is long forgotten.
    assert_eq!((figures.counts.expired, figures.expired, figures.unregistered), (1, 2, 0));
}

#[tokio::test]
async fn what_was_removed_is_told_of_no_more() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    for id in ["a", "b", "c"] {
        live.register(wish("g", id, "")).unwrap();
    }
    let mut stream = open(live, "g");
    assert_eq!(live.delete("a", Some("h")).unwrap_err().code(), "NOT_OWNER");
    assert!(live.delete("a", Some("g")).unwrap());
    assert!(!live.delete("a", None).unwrap());
    send(&fixture, &topic, vec![document("1")]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), ["1 b c"]);
    assert_eq!((live.close_gateway("g"), live.close_gateway("g")), (2, 0));
    send(&fixture, &topic, vec![document("2")]).await;
    settle().await;
    assert!(is_quiet(&mut stream));
    assert_eq!(live.figures(0).unregistered, 3);
}

#[tokio::test]
async fn a_large_gateway_is_closed_at_once_and_the_index_soon_after() {
    let fixture = Fixture::new().await;
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    for number in 0..3_000 {
        let filter = format!("data.n == {number}");
        live.register(wish("g", &format!("s{number}"), &filter)).unwrap();
    }
    live.register(wish("h", "other", "")).unwrap();
    assert_eq!((live.close_gateway("g"), live.figures(0).counts.total), (3_000, 1));
    let mut stream = open(live, "h");
    send(&fixture, &topic, vec![document(r#"{"n":7}"#)]).await;
    assert_eq!(all_said(&frames(&mut stream, 1).await), [r#"{"n":7} other"#]);
    until(|| live.figures(0).groups == 1).await;
    // What was there can be registered again, also while the index is cleared.
    live.register(wish("g", "s7", "data.n == 7")).unwrap();
    assert_eq!(live.figures(0).groups, 2);
}

#[tokio::test]
async fn what_is_wanted_is_known_before_a_registration_answers() {
    let fixture = Fixture::new().await;
    let live = fixture.broker.live();
    let nobody = live.interest("p", "rooms");
    assert!(!nobody.match_all && !nobody.may_want(&[1]));
    let registered = live.register(wish("g", "a", r#"data.room == "x""#)).unwrap();
    let wanted = live.interest("p", "rooms");
    assert!(wanted.version >= registered.interest_version && wanted.version != nobody.version);
    let field = domain::filter::Field::Data(vec!["room".to_owned()]);
    let key = |text: &str| domain::matching::key_of(&field, &domain::filter::Scalar::from(text));
    assert!(wanted.may_want(&[key("x")]) && !wanted.may_want(&[key("y")]));
    assert!(Arc::ptr_eq(&wanted, &live.interest("p", "rooms")), "kept until it changes");
    live.register(wish("g", "b", "data.n > 1")).unwrap();
    assert!(live.interest("p", "rooms").match_all);
    assert!(!live.interest("q", "rooms").match_all);
}

/// Registrations, removals and publishing at once, on several threads: each subscription is told
/// of exactly the messages behind its effective offset, each once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn registrations_race_with_messages_and_neither_gap_nor_overlap_comes_of_it() {
    const MESSAGES: usize = 3_000;
    const SUBSCRIPTIONS: usize = 300;
    let fixture = Arc::new(Fixture::new().await);
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    let mut stream = open(live, "g");
    let (publisher, to) = (Arc::clone(&fixture), topic.clone());
    let mut publishing = JoinSet::new();
    publishing.spawn(async move {
        let mut last = 0;
        for number in 0..MESSAGES / 10 {
            let texts: Vec<_> = (0..10).map(|_| document(&number.to_string())).collect();
            last = send(&publisher, &to, texts).await[9];
            tokio::task::yield_now().await;
        }
        last
    });
    let registrar = Arc::clone(live);
    let registering = tokio::task::spawn_blocking(move || {
        let register = |number: usize| {
            let answer = registrar.register(wish("g", &format!("s{number}"), "")).unwrap();
            (format!("s{number}"), answer.effective[0].1)
        };
        (0..SUBSCRIPTIONS).map(register).collect::<BTreeMap<_, _>>()
    });
    let effective = registering.await.unwrap();
    let last = publishing.join_next().await.unwrap().unwrap();
    let end = send(&fixture, &topic, vec![document("end")]).await[0];
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    'reading: loop {
        for frame in next(&mut stream).await {
            let LiveEvent::Message(found) = &frame.event else { continue };
            let offset = found.message.offset().0;
            if offset == end {
                break 'reading;
            }
            for id in found.ids.iter() {
                seen.entry(id.to_owned()).or_default().push(offset);
            }
        }
    }
    for (id, effective) in effective {
        let expected: Vec<u64> = (effective.0 + 1..=last).collect();
        assert_eq!(seen.remove(&id).unwrap_or_default(), expected, "{id}");
    }
}

/// A gateway that goes back while messages come is brought each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn going_back_while_messages_come_leaves_neither_gap_nor_overlap() {
    let fixture = Arc::new(Fixture::new().await);
    let (topic, live) = (live_topic(&fixture, "changes").await, fixture.broker.live());
    fixture.subscription(&topic, "keeper").await;
    live.register(wish("g", "a", "")).unwrap();
    let mut last = send(&fixture, &topic, vec![document("0")]).await[0];
    for _ in 0..20 {
        let (publisher, to) = (Arc::clone(&fixture), topic.clone());
        let mut publishing = JoinSet::new();
        publishing.spawn(async move {
            for _ in 0..40 {
                send(&publisher, &to, vec![document("1"), document("2")]).await;
            }
        });
        let first = last.saturating_sub(100);
        let mut stream = live.open("g", &LiveStart::Offset(None, Offset(first))).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 60 {
            for frame in next(&mut stream).await {
                match &frame.event {
                    LiveEvent::Message(found) => seen.push(found.message.offset().0),
                    // Before the topic's first message there is nothing.
                    LiveEvent::Resync(Lost::NotRetained) => assert!(seen.is_empty()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seen:?}");
        publishing.join_next().await.unwrap().unwrap();
        last = send(&fixture, &topic, vec![document("3")]).await[0];
    }
}

//! Live subscriptions over gRPC.

use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use wire::live::live_client::LiveClient;
use wire::live::{
    Change, Clause, DeleteRequest, Frame, HeartbeatRequest, Match, Outcome, Place, RegisterRequest,
    Registration, Results, Resume, StreamRequest, frame, outcome, resume,
};

use crate::live_rig::{document, live_topic, publish, publish_one};
use crate::rig::{Rig, each_engine};

async fn client(rig: &Rig) -> LiveClient<Channel> {
    LiveClient::connect(format!("http://{}", rig.address)).await.unwrap()
}

struct Stream {
    requests: mpsc::Sender<StreamRequest>,
    frames: Streaming<Frame>,
}

impl Stream {
    async fn open(rig: &Rig, first: StreamRequest) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(16);
        requests.send(first).await.unwrap();
        let opened = client(rig).await.stream(ReceiverStream::new(receiver)).await?;
        Ok(Self { requests, frames: opened.into_inner() })
    }

    /// The next frame that is no heartbeat.
    async fn told(&mut self) -> frame::Kind {
        loop {
            let frame = self.frames.message().await.unwrap().expect("the stream ended");
            match frame.kind.unwrap() {
                frame::Kind::Heartbeat(_) => {}
                kind => return kind,
            }
        }
    }

    async fn message(&mut self) -> Match {
        match self.told().await {
            frame::Kind::Message(found) => found,
            other => panic!("{other:?}"),
        }
    }

    async fn results(&mut self) -> Results {
        match self.told().await {
            frame::Kind::Results(results) => results,
            other => panic!("{other:?}"),
        }
    }
}

fn registration(gateway: &str, id: &str) -> Registration {
    Registration {
        gateway_id: gateway.to_owned(),
        subscription_id: id.to_owned(),
        tenant: "blue".to_owned(),
        collection: "rooms/1".to_owned(),
        ..Registration::default()
    }
}

fn of(gateway: &str) -> StreamRequest {
    StreamRequest { gateway_id: gateway.to_owned(), ..StreamRequest::default() }
}

/// The code of each that was refused, or what it became.
fn words(results: &Results) -> Vec<&str> {
    let word = |one: &'_ Outcome| match one.kind.as_ref().unwrap() {
        outcome::Kind::Registered(one) if one.renewed => "again",
        outcome::Kind::Registered(_) => "registered",
        outcome::Kind::Renewed(_) => "renewed",
        outcome::Kind::Deleted(one) if one.existed => "deleted",
        outcome::Kind::Deleted(_) => "not there",
        outcome::Kind::Fault(_) => "fault",
    };
    results.results.iter().map(word).collect()
}

fn code(outcome: &Outcome) -> (&str, &str) {
    match outcome.kind.as_ref().unwrap() {
        outcome::Kind::Fault(fault) => (&fault.code, &fault.field),
        other => panic!("{other:?}"),
    }
}

async fn a_stream_registers_and_is_told(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    let clause = |field: &str, op: &str, value: &str| Clause {
        field: field.to_owned(),
        op: op.to_owned(),
        value: value.to_owned(),
    };
    let open = clause("data.state", "==", "\"open\"");
    let first = StreamRequest {
        register: vec![
            Registration { filters: vec![open.clone()], ..registration("", "open") },
            Registration { filters: vec![open, clause("x", "==", "1")], ..registration("", "bad") },
            registration("other", "theirs"),
        ],
        ..of("g")
    };
    let mut stream = Stream::open(rig, first).await.unwrap();
    let results = stream.results().await;
    assert_eq!(words(&results), ["registered", "fault", "fault"]);
    assert_eq!(code(&results.results[1]), ("INVALID_FILTER", "filters[1].field"));
    assert_eq!(code(&results.results[2]), ("INVALID_ARGUMENT", "gatewayId"));
    assert!(matches!(stream.told().await, frame::Kind::Register(_)));

    let all = Registration { ttl: 60, ..registration("g", "all") };
    let more = StreamRequest {
        register: vec![all],
        heartbeat: vec!["open".to_owned(), "bad".to_owned()],
        delete: vec!["nobody".to_owned()],
        ..StreamRequest::default()
    };
    stream.requests.send(more).await.unwrap();
    let results = stream.results().await;
    assert_eq!(words(&results), ["registered", "renewed", "fault", "not there"]);
    assert_eq!(code(&results.results[2]), ("SUBSCRIPTION_NOT_FOUND", ""));

    let mut message = document(&json!({"state": "done"}));
    message.attributes.insert("old".to_owned(), json!({"state": "open"}).to_string());
    let id = publish(rig, &topic, vec![message]).await.remove(0);
    let found = stream.message().await;
    assert_eq!((found.offset.to_string(), found.topic.as_str()), (id.clone(), topic.as_str()));
    assert_eq!(found.message.as_ref().unwrap().message_id, id);
    let mut pairs: Vec<_> = found.subscription_ids.iter().zip(&found.changes).collect();
    pairs.sort();
    let (update, leave) = (Change::Update.into(), Change::Leave.into());
    assert_eq!(pairs, [(&"all".to_owned(), &update), (&"open".to_owned(), &leave)]);
}

async fn a_stream_over_grpc_resumes_and_is_replaced(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    let first = StreamRequest { register: vec![registration("", "s")], ..of("g") };
    let mut stream = Stream::open(rig, first).await.unwrap();
    stream.results().await;
    let offset = publish_one(rig, &topic, &json!({})).await;
    publish_one(rig, &topic, &json!({})).await;
    let sequence = loop {
        let frame = stream.frames.message().await.unwrap().unwrap();
        if let Some(frame::Kind::Message(_)) = frame.kind {
            break frame.sequence;
        }
    };
    let next = stream.message().await;
    for from in [
        resume::From::Sequence(sequence),
        resume::From::Place(Place { topic, offset: offset.parse().unwrap() }),
    ] {
        let again = StreamRequest { resume: Some(Resume { from: Some(from) }), ..of("g") };
        let mut again = Stream::open(rig, again).await.unwrap();
        assert_eq!(again.message().await.offset, next.offset);
        let ended = loop {
            match stream.frames.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ended well"),
                Err(status) => break status,
            }
        };
        assert_eq!(ended.code(), Code::Aborted, "{ended}");
        stream = again;
    }
}

async fn bad_first_requests_are_refused(rig: &Rig) {
    let place = Place { topic: "orders".to_owned(), offset: 1 };
    let from = Some(Resume { from: Some(resume::From::Place(place)) });
    for (first, named) in [
        (StreamRequest::default(), "gatewayId"),
        (StreamRequest { resume: from, ..of("g") }, "resume.place.topic"),
        (StreamRequest { delete: vec![String::new(); 10_001], ..of("g") }, "10001"),
    ] {
        let refused = Stream::open(rig, first).await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(named), "{refused}");
    }
}

async fn single_calls_do_the_same(rig: &Rig) {
    let mut client = client(rig).await;
    let subscriptions = vec![registration("g", "a"), registration("g", "a"), registration("", "b")];
    let results = client.register(RegisterRequest { subscriptions }).await.unwrap().into_inner();
    assert_eq!(words(&results), ["registered", "again", "fault"]);
    assert!(results.warning.contains("postrider-live=true"), "{}", results.warning);
    let ids = || vec!["a".to_owned()];
    for (gateway, expected) in [("", "renewed"), ("g", "renewed"), ("h", "fault")] {
        let gateway_id = gateway.to_owned();
        let request = HeartbeatRequest { subscription_ids: ids(), gateway_id };
        let results = client.heartbeat(request).await.unwrap().into_inner();
        assert_eq!(words(&results), [expected]);
    }
    for (gateway, expected) in [("h", "fault"), ("g", "deleted"), ("g", "not there")] {
        let gateway_id = gateway.to_owned();
        let request = DeleteRequest { subscription_ids: ids(), gateway_id };
        let results = client.delete(request).await.unwrap().into_inner();
        assert_eq!(words(&results), [expected]);
    }
}

each_engine! {
    a_stream_registers_and_is_told,
    a_stream_over_grpc_resumes_and_is_replaced,
    bad_first_requests_are_refused,
    single_calls_do_the_same,
}

#[tokio::test]
async fn streams_over_grpc_are_told_that_the_server_stops() {
    let rig = Rig::start("memory").await;
    let mut stream = Stream::open(&rig, of("g")).await.unwrap();
    assert!(matches!(stream.told().await, frame::Kind::Register(_)));
    let ended = async {
        loop {
            match stream.frames.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ended well"),
                Err(status) => break status.code(),
            }
        }
    };
    let (ended, ()) = tokio::join!(ended, rig.stop());
    assert_eq!(ended, Code::Unavailable);
}

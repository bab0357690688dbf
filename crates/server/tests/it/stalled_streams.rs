//! Clients that stop reading: they answer pings, but open their window never again, or slowly.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::Request;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic_prost::prost::Message as _;
use wire::pubsub::{
    PublishRequest, PubsubMessage, ReceivedMessage, StreamingPullRequest, StreamingPullResponse,
    Subscription,
};

use crate::metrics::value;
use crate::rig::{Rig, each_engine, message};
use crate::streams::{Stream, first, ids};

/// Far less than an ack deadline, and enough for a busy machine.
const SOON: Duration = Duration::from_secs(120);

/// A stream over HTTP/2 whose window only the test opens.
struct Slow {
    responses: RecvStream,
    requests: SendStream<Bytes>,
    /// What came and is no whole response yet.
    bytes: BytesMut,
    received: Vec<ReceivedMessage>,
    /// What came and was not let go.
    unreleased: usize,
    _connection: JoinSet<()>,
}

impl Slow {
    /// Opens a stream that is sent `window` bytes before it must let some go.
    async fn open(address: SocketAddr, first: StreamingPullRequest, window: u32) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut client = h2::client::Builder::new();
        client.initial_window_size(window);
        let (sender, connection) = client.handshake(socket).await.unwrap();
        let mut driving = JoinSet::new();
        driving.spawn(async move { drop(connection.await) });
        let mut sender = sender.ready().await.unwrap();
        let request =
            Request::post(format!("http://{address}/google.pubsub.v1.Subscriber/StreamingPull"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(())
                .unwrap();
        let (response, mut requests) = sender.send_request(request, false).unwrap();
        requests.send_data(framed(&first), false).unwrap();
        let responses = response.await.unwrap().into_body();
        let (bytes, received) = (BytesMut::new(), Vec::new());
        Self { responses, requests, bytes, received, unreleased: 0, _connection: driving }
    }

    /// Waits for something to come; opens no window for it.
    async fn read(&mut self) {
        let data = self.responses.data().await.expect("the stream ended").unwrap();
        self.unreleased += data.len();
        self.bytes.extend_from_slice(&data);
        while self.bytes.len() >= 5 {
            let length = (&self.bytes[1..5]).get_u32() as usize;
            if self.bytes.len() < 5 + length {
                return;
            }
            self.bytes.advance(5);
            let response = StreamingPullResponse::decode(self.bytes.split_to(length)).unwrap();
            self.received.extend(response.received_messages);
        }
    }

    /// Lets all go that came, so that the window opens again.
    fn open_window(&mut self) {
        let bytes = std::mem::take(&mut self.unreleased);
        self.responses.flow_control().release_capacity(bytes).unwrap();
    }

    fn send(&mut self, request: &StreamingPullRequest) {
        self.requests.send_data(framed(request), false).unwrap();
    }
}

pub(crate) fn framed(request: &StreamingPullRequest) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(request.encoded_len()).unwrap());
    request.encode(&mut frame).unwrap();
    frame.freeze()
}

/// A stream that takes no more than `messages_max` for as long as a test may last.
fn bounded(subscription: &str, messages_max: i64) -> StreamingPullRequest {
    StreamingPullRequest {
        stream_ack_deadline_seconds: 600,
        max_outstanding_messages: messages_max,
        ..first(subscription)
    }
}

/// Takes messages until there are `count` different ones.
async fn take_until(stream: &mut Stream, count: usize) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    while taken.len() < count {
        let next = tokio::time::timeout(SOON, stream.responses.message()).await;
        let Ok(response) = next else { panic!("{} of {count} came", taken.len()) };
        let received = response.unwrap().expect("the stream ended").received_messages;
        taken.extend(received.iter().map(|one| format!("{:?}", one.message)));
    }
    taken
}

async fn a_client_that_stops_reading_keeps_nothing_from_others(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let mut stalled = Slow::open(rig.address, bounded(&subscription, 20), 1_000).await;
    let mut other = Stream::open_at(rig.address, bounded(&subscription, 0)).await.unwrap();
    let mut publisher = rig.publisher().await;
    let publishing = async {
        for number in 0..200 {
            let messages = vec![message(format!("{number:050}"))];
            let request = PublishRequest { topic: topic.clone(), messages };
            publisher.publish(request).await.unwrap();
        }
    };
    // All but what the other may hold and never acks.
    let (_, taken) = tokio::join!(publishing, take_until(&mut other, 180));
    assert!(taken.len() >= 180);
    stalled.read().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_keeps_the_disk_from_nobody() {
    let rig = Rig::with("disk", "[storage]\ntail_memory = \"1MiB\"").await;
    let (topic, _) = rig.pair().await;
    let subscription = crate::rig::subscription("filtered");
    let made = Subscription {
        name: subscription.clone(),
        topic: topic.clone(),
        filter: "attributes:wanted".to_owned(),
        ..Subscription::default()
    };
    rig.subscriber().await.create_subscription(made).await.unwrap();
    let mut publisher = rig.publisher().await;
    for batch in 0..16 {
        let numbered = |number: usize| {
            let mut message: PubsubMessage = message(format!("{batch}/{number:0500}"));
            if number.is_multiple_of(50) {
                message.attributes.insert("wanted".to_owned(), "yes".to_owned());
            }
            message
        };
        let messages = (0..500).map(numbered).collect();
        publisher.publish(PublishRequest { topic: topic.clone(), messages }).await.unwrap();
    }
    // It is sent some, and stops while more is read for it.
    let mut stalled = Slow::open(rig.address, bounded(&subscription, 60), 200).await;
    stalled.read().await;
    let mut other = Stream::open_at(rig.address, bounded(&subscription, 0)).await.unwrap();
    let taken = take_until(&mut other, 100).await;
    assert!(taken.len() >= 100);
    drop((stalled, other));
    rig.stop().await;
}

async fn a_slow_client_holds_no_more_than_it_may_and_gets_everything(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let messages = (0..60).map(|number| message(format!("{number:0100}"))).collect();
    rig.publisher().await.publish(PublishRequest { topic, messages }).await.unwrap();
    let mut slow = Slow::open(rig.address, bounded(&subscription, 10), 300).await;
    let mut acked = 0;
    let reading = async {
        while slow.received.len() < 60 {
            slow.read().await;
            slow.open_window();
            assert!(slow.received.len() - acked <= 10, "it holds more than it may");
            if slow.received.len() == acked + 10 {
                let ack_ids = ids(&slow.received[acked..]);
                slow.send(&StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() });
                acked += 10;
            }
        }
    };
    tokio::time::timeout(SOON, reading).await.expect("it gets everything");
    let different: BTreeSet<_> =
        slow.received.iter().map(|one| format!("{:?}", one.message)).collect();
    assert_eq!((different.len(), slow.received.len()), (60, 60), "each once");
}

async fn streams_that_come_and_go_leave_nothing_behind(rig: &Rig) {
    const ROUNDS: usize = 250;
    let (topic, subscription) = rig.pair().await;
    let mut publisher = rig.publisher().await;
    let first = || StreamingPullRequest {
        stream_ack_deadline_seconds: 10,
        max_outstanding_messages: 3,
        ..first(&subscription)
    };
    let mut staying = Stream::open_at(rig.address, bounded(&subscription, 0)).await.unwrap();
    let mut seen = BTreeSet::new();
    for number in 0..ROUNDS {
        // It goes without a word, with what it holds: its connection breaks.
        let going = Slow::open(rig.address, first(), 100).await;
        let request = PublishRequest {
            topic: topic.clone(),
            messages: vec![message(format!("{number:040}"))],
        };
        publisher.publish(request).await.unwrap();
        drop(going);
    }
    while seen.len() < ROUNDS {
        seen.extend(take_until(&mut staying, 1).await);
    }
    let left = async {
        while value(rig, "postrider_open_streams").await > 1.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, left).await.expect("the streams that went are counted no more");
}

each_engine! {
    a_client_that_stops_reading_keeps_nothing_from_others,
    a_slow_client_holds_no_more_than_it_may_and_gets_everything,
    streams_that_come_and_go_leave_nothing_behind,
}

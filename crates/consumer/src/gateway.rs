//! A gateway of live subscriptions: says what it wants, and is told of each matching message.
//!
//! It registers in batches, renews at half the TTL, opens its stream again when that is lost and
//! goes on behind the last frame, and registers everything again whenever the server may not know
//! it: after a restart, or when frames were lost.

mod frames;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::RetryPolicy;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use wire::live::{DeleteRequest, Frame, Registration, Resume, StreamRequest, resume};

pub use frames::{Change, Event, Match};

use crate::{Connection, StartError, clock};

/// Subscriptions of one request.
const BATCH: usize = 1_000;
/// Requests that may wait for the transport, at most.
const REQUESTS_MAX: usize = 4;
/// Changes of what is wanted that may wait, at most.
const CHANGES_MAX: usize = 1_024;
/// What the server takes for a subscription that names no TTL.
const TTL_DEFAULT: Duration = Duration::from_secs(300);
/// The waits between tries to open a lost stream.
const RECONNECT: RetryPolicy =
    RetryPolicy { min: Duration::from_millis(100), max: Duration::from_secs(10) };

/// A live subscription that a gateway wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Its id: letters, digits, `-` and `_`; unique on the server.
    pub id: String,
    /// Whose documents.
    pub tenant: String,
    /// Of which collection.
    pub collection: String,
    /// Which of them, in the CEL spelling; empty = all.
    pub filter: String,
    /// How long it lives without a heartbeat; `None` = the server's default.
    pub ttl: Option<Duration>,
}

/// Changes what a gateway wants, from anywhere. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wishes(mpsc::Sender<Wanted>);

#[derive(Debug)]
enum Wanted {
    More(Wish),
    Less(String),
}

impl Wishes {
    /// Asks for a subscription. `false` = the gateway is gone.
    pub async fn add(&self, wish: Wish) -> bool {
        self.0.send(Wanted::More(wish)).await.is_ok()
    }

    /// Gives a subscription up. `false` = the gateway is gone.
    pub async fn remove(&self, id: impl Into<String>) -> bool {
        self.0.send(Wanted::Less(id.into())).await.is_ok()
    }
}

/// A gateway. `next` does all its work: call it again and again.
pub struct Gateway {
    connection: Connection,
    id: String,
    wishes: BTreeMap<String, Registration>,
    changes: mpsc::Receiver<Wanted>,
    /// The last frame that came.
    last: Option<u64>,
    link: Link,
    /// Requests that are not sent yet.
    waiting: VecDeque<StreamRequest>,
    events: VecDeque<Event>,
    heartbeat_at: Instant,
    failures: u32,
}

enum Link {
    Down { until: Instant },
    Up(Box<Up>),
}

struct Up {
    requests: mpsc::Sender<StreamRequest>,
    frames: Streaming<Frame>,
}

/// What `next` waits for.
enum Next {
    Said(Result<Option<Frame>, Status>),
    Wanted(Option<Wanted>),
    Sent,
    Beat,
    Retry,
}

impl Gateway {
    /// A gateway of this id, which is the same after a restart of its program: then it goes on
    /// with the subscriptions it had. What is wanted is said through `Wishes`.
    pub fn new(connection: Connection, id: impl Into<String>) -> (Self, Wishes) {
        let (sender, changes) = mpsc::channel(CHANGES_MAX);
        let now = Instant::now();
        let gateway = Self {
            connection,
            id: id.into(),
            wishes: BTreeMap::new(),
            changes,
            last: None,
            link: Link::Down { until: now },
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            heartbeat_at: now + TTL_DEFAULT / 2,
            failures: 0,
        };
        (gateway, Wishes(sender))
    }

    /// What happens next. Fails only if the server refuses the gateway and would again; a lost
    /// connection is an event, and is made again.
    pub async fn next(&mut self) -> Result<Event, StartError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            match self.wait().await {
                Next::Said(Ok(Some(frame))) => self.read(frame),
                Next::Said(Ok(None)) => self.lose(Status::unavailable("the stream has ended"))?,
                Next::Said(Err(status)) => self.lose(status)?,
                Next::Wanted(Some(wanted)) => self.change(wanted),
                Next::Wanted(None) => self.changes.close(),
                Next::Sent => {}
                Next::Beat => self.beat(),
                Next::Retry => self.open().await?,
            }
        }
    }

    /// Tells the server that these subscriptions are given up, at once: for a gateway that ends.
    pub async fn leave(&mut self, ids: impl IntoIterator<Item = String>) -> Result<(), StartError> {
        let subscription_ids: Vec<_> = ids.into_iter().collect();
        subscription_ids.iter().for_each(|id| drop(self.wishes.remove(id)));
        let request = DeleteRequest { subscription_ids, gateway_id: self.id.clone() };
        let deleted = async {
            let request = self.connection.call(request).await?;
            self.connection.live().delete(request).await
        };
        let refused =
            |status| StartError::Gateway { id: self.id.clone(), status: Box::new(status) };
        deleted.await.map(drop).map_err(refused)
    }

    /// Waits for whatever comes first. May be dropped without loss.
    async fn wait(&mut self) -> Next {
        let (changes, heartbeat_at) = (&mut self.changes, self.heartbeat_at);
        let more = !changes.is_closed() || !changes.is_empty();
        match &mut self.link {
            Link::Down { until } => tokio::select! {
                wanted = changes.recv(), if more => Next::Wanted(wanted),
                () = sleep_until(*until) => Next::Retry,
            },
            Link::Up(up) => {
                let waiting = &mut self.waiting;
                let has_waiting = !waiting.is_empty();
                let send = async {
                    let Ok(place) = up.requests.reserve().await else {
                        // The stream is over, which the other side of it tells.
                        return std::future::pending().await;
                    };
                    if let Some(request) = waiting.pop_front() {
                        place.send(request);
                    }
                };
                tokio::select! {
                    said = up.frames.message() => Next::Said(said),
                    wanted = changes.recv(), if more => Next::Wanted(wanted),
                    () = send, if has_waiting => Next::Sent,
                    () = sleep_until(heartbeat_at) => Next::Beat,
                }
            }
        }
    }

    async fn open(&mut self) -> Result<(), StartError> {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let from = self.last.map(resume::From::Sequence);
        let first = StreamRequest {
            gateway_id: self.id.clone(),
            resume: from.map(|from| Resume { from: Some(from) }),
            ..StreamRequest::default()
        };
        let first = tokio_stream::once(first);
        let all = tokio_stream::StreamExt::chain(first, ReceiverStream::new(receiver));
        match self.opened(all).await {
            Ok(frames) => {
                self.link = Link::Up(Box::new(Up { requests, frames }));
                self.register_all();
                Ok(())
            }
            Err(status) => self.lose(status),
        }
    }

    async fn opened(
        &self,
        requests: impl tokio_stream::Stream<Item = StreamRequest> + Send + 'static,
    ) -> Result<Streaming<Frame>, Status> {
        let request = self.connection.stream(requests).await?;
        Ok(self.connection.live().stream(request).await?.into_inner())
    }

    /// Tries again after a while, unless the server would say the same again.
    fn lose(&mut self, status: Status) -> Result<(), StartError> {
        if is_final(&status) {
            return Err(StartError::Gateway { id: self.id.clone(), status: Box::new(status) });
        }
        self.failures = self.failures.saturating_add(1);
        // Gateways that lost the same server do not all come back at once.
        let wait = RECONNECT.backoff(self.failures, clock::wall().0);
        self.link = Link::Down { until: Instant::now() + wait };
        self.waiting.clear();
        self.events.push_back(Event::Lost(status.message().to_owned()));
        Ok(())
    }

    fn change(&mut self, wanted: Wanted) {
        let mut request = StreamRequest::default();
        match wanted {
            Wanted::More(wish) => {
                let registration = registration(wish);
                request.register.push(registration.clone());
                self.wishes.insert(registration.subscription_id.clone(), registration);
                self.heartbeat_at = self.heartbeat_at.min(Instant::now() + self.half_ttl());
            }
            Wanted::Less(id) => {
                self.wishes.remove(&id);
                request.delete.push(id);
            }
        }
        if matches!(self.link, Link::Up(_)) {
            self.ask(request);
        }
    }

    /// Puts a request behind those that wait, in one with the last if that has room.
    fn ask(&mut self, request: StreamRequest) {
        match self.waiting.back_mut() {
            Some(last)
                if last.register.len() + request.register.len() <= BATCH
                    && last.delete.is_empty()
                    && request.delete.is_empty() =>
            {
                last.register.extend(request.register);
                last.heartbeat.extend(request.heartbeat);
            }
            _ => self.waiting.push_back(request),
        }
    }

    fn register_all(&mut self) {
        let all: Vec<_> = self.wishes.values().cloned().collect();
        for part in all.chunks(BATCH) {
            let register = part.to_vec();
            self.waiting.push_back(StreamRequest { register, ..StreamRequest::default() });
        }
    }

    fn beat(&mut self) {
        self.heartbeat_at = Instant::now() + self.half_ttl();
        let ids: Vec<_> = self.wishes.keys().cloned().collect();
        for part in ids.chunks(BATCH) {
            let heartbeat = part.to_vec();
            self.waiting.push_back(StreamRequest { heartbeat, ..StreamRequest::default() });
        }
    }

    fn half_ttl(&self) -> Duration {
        let ttls = self.wishes.values().filter_map(|wish| u64::try_from(wish.ttl).ok());
        let least = ttls.filter(|ttl| *ttl > 0).min().map(Duration::from_secs);
        least.unwrap_or(TTL_DEFAULT) / 2
    }
}

fn registration(wish: Wish) -> Registration {
    let Wish { id, tenant, collection, filter, ttl } = wish;
    let ttl = ttl.map_or(0, |ttl| i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
    let subscription_id = id;
    Registration { subscription_id, tenant, collection, filter, ttl, ..Registration::default() }
}

/// Whether the server would say the same again.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::Unimplemented
            | Code::PermissionDenied
            | Code::Unauthenticated
    )
}

//! Follows a topic and sends gateways the messages they want.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::{Offset, OffsetRange};
use storage::{Batch, ReadLimit};
use tokio::sync::Notify;

use super::Live;
use super::frame::{LiveEvent, Lost};
use super::matcher::{For, Matcher};
use crate::source::read_some;
use crate::topic::Topic;

/// Limit for one read.
const LIMIT: ReadLimit = ReadLimit { records: 256, bytes: 1 << 20 };

/// Matches the messages of one topic, each once and in order.
pub(super) struct Follower {
    pub(super) topic: Arc<Topic>,
    /// The first offset not matched yet. Moved under the lock of the index, so that a registration
    /// knows exactly from where on it applies.
    at: AtomicU64,
    /// Nobody has registered anything, so nothing is read. Changes under the lock of the
    /// registrations.
    resting: AtomicBool,
    /// The topic is no longer followed: stops at the end of its log.
    leaving: AtomicBool,
    pub(super) wake: Notify,
}

impl Follower {
    pub(super) fn new(topic: Arc<Topic>, at: Offset) -> Self {
        Self {
            topic,
            at: AtomicU64::new(at.0),
            resting: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// The first offset not matched yet.
    pub(super) fn at(&self) -> Offset {
        Offset(self.at.load(Ordering::SeqCst))
    }

    fn move_to(&self, offset: Offset) {
        self.at.store(offset.0, Ordering::SeqCst);
    }

    /// Wakes it up, at the end of the log. Call under the lock of the registrations.
    pub(super) fn rouse(&self) {
        if self.resting.swap(false, Ordering::SeqCst) {
            self.move_to(self.topic.log().end(self.topic.id()));
            self.wake.notify_one();
        }
    }

    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Whether there is nobody to match for.
    fn rests(&self, live: &Live) -> bool {
        let registrations = live.registrations.lock();
        let rests = registrations.registry.counts().total == 0;
        self.resting.store(rests, Ordering::SeqCst);
        rests
    }
}

/// Runs until the topic is no longer followed or its shard is closed.
pub(super) async fn run(live: Arc<Live>, follower: Arc<Follower>) {
    let mut matcher = Matcher::default();
    while !follower.topic.runtime().serving.is_over() {
        if follower.rests(&live) {
            if follower.is_leaving() {
                return;
            }
            follower.wake.notified().await;
            continue;
        }
        let visible = follower.topic.watchers.notified();
        tokio::pin!(visible);
        visible.as_mut().enable();
        match step(&live, &follower, &mut matcher).await {
            Ok(true) => tokio::task::coop::consume_budget().await,
            Ok(false) if follower.is_leaving() => return,
            Ok(false) => tokio::select! {
                biased;
                () = visible => {}
                () = follower.wake.notified() => {}
            },
            Err(error) => {
                let topic = follower.topic.name();
                tracing::error!(%error, %topic, "cannot read messages for live subscriptions");
                live.lose(Lost::NotRetained);
                follower.move_to(follower.topic.log().end(follower.topic.id()));
                tokio::select! {
                    biased;
                    () = visible => {}
                    () = follower.wake.notified() => {}
                }
            }
        }
    }
    live.wake_streams();
}

/// Matches what is there, within a limit; returns whether there was anything.
async fn step(
    live: &Live,
    follower: &Follower,
    matcher: &mut Matcher,
) -> Result<bool, storage::Error> {
    let topic = &follower.topic;
    let batch = read_some(&**topic.log(), topic.id(), follower.at(), LIMIT).await?;
    if batch.covered.is_empty() {
        return Ok(false);
    }
    let Batch { covered, records, .. } = batch;
    live.figures.note_messages(records.len() as u64);
    if !is_whole(covered, records.len()) {
        live.lose(Lost::NotRetained);
    }
    for record in records {
        let (offset, next) = (record.offset, record.offset.next());
        if record.addressee.is_some() {
            follower.move_to(next);
            continue;
        }
        let tell = |session: &super::session::Session, event: LiveEvent| {
            live.figures.note_frame(session.tell(topic.id(), offset, event));
        };
        let noted = || follower.move_to(next);
        if matcher.run(live, topic, &record, &For::Everybody, noted, tell).is_err() {
            live.lose(Lost::NotRetained);
            follower.move_to(next);
        }
    }
    follower.move_to(covered.to);
    Ok(true)
}

/// Whether this many records are all that these offsets should hold.
pub(super) fn is_whole(covered: OffsetRange, records: usize) -> bool {
    covered.len() == records as u64
}

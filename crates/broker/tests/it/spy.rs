//! The memory engine's log, watched, and made to behave like a disk that is slow, full or broken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use domain::{NodeId, Offset, ShardId, Timestamp, TopicId};
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;
use storage::{
    Batch, Claim, Commit, Engine, Error, Future, Keep, Listener, MessageLog, Position,
    ProgressStore, ReadLimit, Receipt, Result, Shard, Shards, TailRead, Trimmed,
};
use tokio::sync::oneshot;

pub(crate) struct SpyLog {
    /// The log as the broker that was opened last holds it.
    inner: Mutex<Option<Arc<dyn MessageLog>>>,
    told: Arc<Told>,
    commits: Mutex<Vec<Commit>>,
    appended: AtomicUsize,
    reads: AtomicUsize,
    trims: Arc<AtomicUsize>,
    /// Nothing is in memory, and one record is read at a time.
    pub(crate) is_far: AtomicBool,
    /// Reads end at once, as those of a disk may.
    pub(crate) is_quick: AtomicBool,
    /// Appends are refused.
    pub(crate) is_full: AtomicBool,
    /// Everything is refused.
    pub(crate) is_broken: AtomicBool,
    /// What happens between a commit and its caller's next step.
    between: Mutex<Option<Between>>,
    /// Barriers are not answered.
    pub(crate) holds_barriers: AtomicBool,
    held: Mutex<Vec<oneshot::Sender<Result<Position>>>>,
}

/// Which commit, and what then.
type Between = (Box<dyn Fn(&Commit) -> bool + Send>, Act);

type Act = Box<dyn FnOnce(&SpyLog) + Send>;

/// Tells the latest listener, that of the broker opened last.
#[derive(Default)]
struct Told {
    listener: Mutex<Option<Arc<dyn Listener>>>,
    /// How often it was told of records.
    times: AtomicUsize,
}

impl Told {
    fn latest(&self) -> Option<Arc<dyn Listener>> {
        self.listener.lock().clone()
    }
}

impl Listener for Told {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        if let Some(listener) = self.latest() {
            listener.visible(ends);
        }
        self.times.fetch_add(1, Ordering::SeqCst);
    }

    fn pressed(&self) {
        if let Some(listener) = self.latest() {
            listener.pressed();
        }
    }

    fn stalled(&self, stalled: bool) {
        if let Some(listener) = self.latest() {
            listener.stalled(stalled);
        }
    }

    fn failed(&self, error: &Error) {
        if let Some(listener) = self.latest() {
            listener.failed(error);
        }
    }
}

impl SpyLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            told: Arc::default(),
            commits: Mutex::default(),
            appended: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            trims: Arc::default(),
            is_far: AtomicBool::new(false),
            is_quick: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            between: Mutex::default(),
            holds_barriers: AtomicBool::new(false),
            held: Mutex::default(),
        })
    }

    /// The engine with this log in the place of its own.
    pub(crate) fn watch(self: &Arc<Self>, engine: Engine) -> Engine {
        let (inner, log) = (Arc::clone(&engine.shards), Arc::clone(self));
        Engine { shards: Arc::new(SpyShards { inner, log, wrap: None }), ..engine }
    }

    /// The same with another store of progress, made from the engine's own.
    pub(crate) fn watch_with(
        self: &Arc<Self>,
        engine: Engine,
        wrap: impl Fn(Arc<dyn ProgressStore>) -> Arc<dyn ProgressStore> + Send + Sync + 'static,
    ) -> Engine {
        let (inner, log) = (Arc::clone(&engine.shards), Arc::clone(self));
        Engine { shards: Arc::new(SpyShards { inner, log, wrap: Some(Arc::new(wrap)) }), ..engine }
    }

    fn inner(&self) -> Arc<dyn MessageLog> {
        self.inner.lock().clone().expect("a shard that is open")
    }

    /// Has `between` run as soon as a commit that `is_meant` is queued, before its caller goes on.
    pub(crate) fn after_commit(
        &self,
        is_meant: impl Fn(&Commit) -> bool + Send + 'static,
        between: impl FnOnce(&Self) + Send + 'static,
    ) {
        *self.between.lock() = Some((Box::new(is_meant), Box::new(between)));
    }

    fn take_between(&self, commit: &Commit) -> Option<Act> {
        let mut between = self.between.lock();
        between.take_if(|(is_meant, _)| is_meant(commit)).map(|(_, between)| between)
    }

    /// The commits since the last call.
    pub(crate) fn take_commits(&self) -> Vec<Commit> {
        std::mem::take(&mut self.commits.lock())
    }

    /// How far the log is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.inner().position().0
    }

    /// Whether the broker was told of everything that was appended, which is after the answer.
    pub(crate) fn has_told_all(&self) -> bool {
        self.told.times.load(Ordering::SeqCst) >= self.appended.load(Ordering::SeqCst)
    }

    /// How often the disk was read.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Asks the broker for a trim.
    pub(crate) fn press(&self) {
        self.told.pressed();
    }

    /// How many trims ended since the last call.
    pub(crate) fn take_trims(&self) -> usize {
        self.trims.swap(0, Ordering::SeqCst)
    }

    /// How many barriers wait for ever.
    pub(crate) fn held_barriers(&self) -> usize {
        self.held.lock().len()
    }

    fn refusal(&self, commit: &Commit) -> Option<Error> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Some(Error::Unavailable(Arc::new(io::Error::other("broken"))));
        }
        let is_full = self.is_full.load(Ordering::SeqCst) && !commit.appends.is_empty();
        is_full.then_some(Error::Full)
    }
}

impl MessageLog for SpyLog {
    fn commit(&self, commit: Commit) -> Receipt {
        if let Some(error) = self.refusal(&commit) {
            return Receipt::ready(Err(error));
        }
        let is_barrier = commit.appends.is_empty() && commit.progress.is_empty();
        if is_barrier && self.holds_barriers.load(Ordering::SeqCst) {
            let (sender, receiver) = oneshot::channel();
            self.held.lock().push(sender);
            return Receipt::waiting(receiver);
        }
        let between = self.take_between(&commit);
        let receipt = self.inner().commit(commit.clone());
        if let Some(between) = between {
            between(self);
        }
        if receipt.refused().is_none() && !commit.appends.is_empty() {
            self.appended.fetch_add(1, Ordering::SeqCst);
        }
        // Only now: what is known here has its place in the log's queue.
        self.commits.lock().push(commit);
        receipt
    }

    fn room(&self) -> Future<Result<()>> {
        if self.is_full.load(Ordering::SeqCst) {
            return ready(Err(Error::Full)).boxed();
        }
        self.inner().room()
    }

    fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::SeqCst) && self.inner().has_room()
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        if self.is_far.load(Ordering::SeqCst) && from < self.inner().end(topic) {
            return TailRead::NotInMemory;
        }
        self.inner().read_tail(topic, from, limit)
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let records = if self.is_far.load(Ordering::SeqCst) { 1 } else { limit.records };
        let read = self.inner().read(topic, from, ReadLimit { records, ..limit });
        if self.is_quick.load(Ordering::SeqCst) {
            return read;
        }
        async {
            tokio::task::yield_now().await;
            read.await
        }
        .boxed()
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.inner().end(topic)
    }

    fn offsets_at(&self, times: Vec<(TopicId, Timestamp)>) -> Future<Result<Vec<Offset>>> {
        self.inner().offsets_at(times)
    }

    fn begin(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        self.inner().begin(topic, first)
    }

    fn close(&self) -> Future<Result<()>> {
        self.inner().close()
    }

    fn position(&self) -> Position {
        self.inner().position()
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        let (trim, trims) = (self.inner().trim(keep), Arc::clone(&self.trims));
        async move {
            let trimmed = trim.await;
            trims.fetch_add(1, Ordering::SeqCst);
            trimmed
        }
        .boxed()
    }
}

type Wrap = Arc<dyn Fn(Arc<dyn ProgressStore>) -> Arc<dyn ProgressStore> + Send + Sync>;

/// An engine's shards, of which there is one, with the spy's log.
struct SpyShards {
    inner: Arc<dyn Shards>,
    log: Arc<SpyLog>,
    wrap: Option<Wrap>,
}

impl Shards for SpyShards {
    fn count(&self) -> u32 {
        self.inner.count()
    }

    fn open(
        &self,
        shard: ShardId,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>> {
        let (log, wrap) = (Arc::clone(&self.log), self.wrap.clone());
        *log.told.listener.lock() = Some(listener);
        let opening = self.inner.open(shard, node, Arc::clone(&log.told) as _);
        async move {
            let opened = opening.await?;
            *log.inner.lock() = Some(Arc::clone(&opened.log));
            let progress = match wrap {
                Some(wrap) => wrap(opened.progress),
                None => opened.progress,
            };
            Ok(Shard { log, progress, ..opened })
        }
        .boxed()
    }
}

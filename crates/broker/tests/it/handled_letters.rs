//! What is committed together with a message is never forgotten by a checkpoint that comes in
//! between: a letter is replayed once, deleted for good, and dead-lettered once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::{
    Broker, Clock, LetterPlace, LetterQuery, LettersWanted, Options, ReplayRequest, ReplayState,
    SystemClock,
};
use domain::replay::{Criteria, Destination, Selection};
use domain::{ClockMark, Message, Offset, Progress, Subscription, SubscriptionId, TopicId};
use parking_lot::{Condvar, Mutex};
use storage::disk::{self, Handle};
use storage::{Checkpoint, Commit, Future, ProgressStore, Result};
use tempfile::TempDir;
use testkit::disk::Cut;
use testkit::{FakeClock, SimDisk};
use tokio::runtime::{self, Runtime};

use crate::fixture::{
    Fixture, message, set_up_letters, settings, settle, subscription_name, texts, topic_name, until,
};
use crate::spy::SpyLog;

/// How long a checkpoint in between is waited for. It must not get through, so each test takes
/// this long; were it to get through, it would in far less.
const BETWEEN: Duration = Duration::from_secs(2);

/// How long the next checkpoint is waited for before it is asked for again: who is asked while
/// one is half way may take that one for the one meant.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// How many checkpoints were saved.
#[derive(Default)]
struct Saved {
    count: Mutex<u64>,
    grew: Condvar,
}

impl Saved {
    fn count(&self) -> u64 {
        *self.count.lock()
    }

    fn add_one(&self) {
        *self.count.lock() += 1;
        self.grew.notify_all();
    }

    /// Blocks until there are more than `count`, or for `time`.
    fn wait_beyond(&self, count: u64, time: Duration) {
        self.grew.wait_while_for(&mut self.count.lock(), |now| *now <= count, time);
    }
}

/// Counts the checkpoints that were saved; while it hangs, none is.
struct Counted {
    inner: Arc<dyn ProgressStore>,
    saved: Arc<Saved>,
    hangs: Arc<AtomicBool>,
}

impl ProgressStore for Counted {
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>> {
        self.inner.load(starts)
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        if self.hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let (saving, count) = (self.inner.checkpoint(checkpoint), Arc::clone(&self.saved));
        Box::pin(async move {
            saving.await?;
            count.add_one();
            Ok(())
        })
    }

    fn is_copy(&self) -> bool {
        self.inner.is_copy()
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        self.inner.raise(topics)
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        self.inner.clock_mark()
    }
}

struct Life {
    broker: Arc<Broker>,
    log: Arc<SpyLog>,
    checkpoints: Arc<Saved>,
    runtime: Runtime,
    handle: Handle,
}

struct Lives {
    disk: SimDisk,
    folder: TempDir,
    clock: Arc<FakeClock>,
    /// What a power cut would leave in the middle of it.
    left: Arc<Mutex<Option<(SimDisk, TempDir)>>>,
}

impl Lives {
    fn new() -> Self {
        let (disk, folder) = (SimDisk::new(), tempfile::tempdir().unwrap());
        Self { disk, folder, clock: Arc::new(FakeClock::new()), left: Arc::default() }
    }

    fn open(&self) -> Life {
        let database = self.folder.path().join("definitions");
        let disk = Arc::new(self.disk.clone());
        let opened = disk::open_on(disk, &database, disk::Options::default()).unwrap();
        let (log, checkpoints) = (SpyLog::new(), Arc::<Saved>::default());
        let saved = Arc::clone(&checkpoints);
        let engine = log.watch_with(opened.engine, move |inner| {
            Arc::new(Counted { inner, saved: Arc::clone(&saved), hangs: Arc::default() })
        });
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let opening = Broker::open(engine, clock, Options::default());
        let broker = runtime.block_on(opening).unwrap();
        Life { broker, log, checkpoints, runtime, handle: opened.handle }
    }

    /// Has a checkpoint asked for while the next such commit, durable already, is still in the
    /// hands of who made it; then the power goes.
    fn cut_after_a_checkpoint_in(
        &self,
        life: &Life,
        is_meant: impl Fn(&Commit) -> bool + Send + 'static,
    ) {
        let checkpoints = Arc::clone(&life.checkpoints);
        let (disk, left) = (self.disk.clone(), Arc::clone(&self.left));
        let (before, folder) = (life.log.synced(), self.folder.path().to_owned());
        life.log.after_commit(is_meant, move |log| {
            let clock = SystemClock::start();
            let until = clock.now().plus(BETWEEN);
            while log.synced() <= before && clock.now() < until {
                std::thread::yield_now();
            }
            // One may be half way; the second was begun after the commit.
            let saved = checkpoints.count();
            while checkpoints.count() < saved + 2 && clock.now() < until {
                let count = checkpoints.count();
                // From a thread of its own: a task woken from here might wait for this very
                // thread, which is held up.
                std::thread::scope(|scope| drop(scope.spawn(|| log.press()).join()));
                checkpoints.wait_beyond(count, ASK_EVERY);
            }
            let cut = disk.power_cut_with(Cut::LosesUnsynced);
            *left.lock() = Some((cut, copied(&folder)));
        });
    }

    /// Ends a life; the next begins with what the power cut left.
    fn cut(&mut self, life: Life) {
        self.end(life);
        (self.disk, self.folder) = self.left.lock().take().expect("the commit never came");
    }

    /// No task goes on, nothing is saved.
    fn end(&self, life: Life) {
        let Life { broker, runtime, handle, log, .. } = life;
        drop((runtime, broker, log));
        handle.close();
    }
}

/// The files of SQLite as they are.
fn copied(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

impl Life {
    /// How many letters such there are.
    fn letters(&self, wanted: LettersWanted) -> usize {
        let query = LetterQuery { wanted, limit: 10, ..LetterQuery::default() };
        let place = place();
        let listing = self.broker.dead_letters(&place, &query);
        self.runtime.block_on(listing).unwrap().letters.len()
    }

    /// Saves everything, so that what comes next is all that a checkpoint could miss.
    fn save(&self) {
        // Twice: one may have been half way.
        for _ in 0..2 {
            let saved = self.checkpoints.count();
            self.log.press();
            self.runtime.block_on(until(|| self.checkpoints.count() > saved));
        }
    }
}

async fn put_letter(broker: &Broker) {
    let source = ("original_subscription".to_owned(), subscription_name("sub").to_string());
    let letter = Message { attributes: [source].into(), ..message("letter") };
    broker.publish(&topic_name("dead"), vec![letter]).await.unwrap();
}

fn place() -> LetterPlace {
    LetterPlace::Topic(topic_name("dead"))
}

async fn replay(broker: &Broker) -> String {
    let request = ReplayRequest {
        place: place(),
        selection: Selection::Matching(Criteria::default()),
        to: Destination::Subscription,
        per_second: 1_000,
        again: false,
    };
    let name = broker.replay_letters(request).await.unwrap().name;
    until(|| broker.replay(&name).unwrap().state == ReplayState::Done).await;
    name
}

async fn pulled(broker: &Broker) -> usize {
    broker.pull(&subscription_name("sub"), 10, Duration::ZERO).await.unwrap().len()
}

#[test]
fn a_letter_is_replayed_once_though_a_checkpoint_and_a_crash_come_in_between() {
    let mut lives = Lives::new();
    let life = lives.open();
    life.runtime.block_on(set_up_letters(&life.broker));
    life.runtime.block_on(put_letter(&life.broker));
    life.save();
    lives.cut_after_a_checkpoint_in(&life, |commit| !commit.appends.is_empty());
    let name = life.runtime.block_on(replay(&life.broker));
    lives.cut(life);

    let life = lives.open();
    let state = || life.broker.replay(&name).unwrap().state;
    life.runtime.block_on(until(|| state() == ReplayState::Done));
    let replayed = life.letters(LettersWanted::Replayed);
    assert_eq!(replayed, 1, "its mark is there");
    assert_eq!(life.runtime.block_on(pulled(&life.broker)), 1);
    lives.end(life);
}

#[test]
fn a_deleted_letter_stays_so_though_a_checkpoint_and_a_crash_come_in_between() {
    let mut lives = Lives::new();
    let life = lives.open();
    life.runtime.block_on(set_up_letters(&life.broker));
    life.runtime.block_on(put_letter(&life.broker));
    life.save();
    lives.cut_after_a_checkpoint_in(&life, |commit| !commit.progress.is_empty());
    let all = Selection::Matching(Criteria::default());
    let place = place();
    let deleting = life.broker.delete_letters(&place, all, LettersWanted::All, Some(1));
    assert_eq!(life.runtime.block_on(deleting).unwrap(), 1);
    lives.cut(life);

    let life = lives.open();
    assert_eq!(life.letters(LettersWanted::All), 0);
    lives.end(life);
}

#[test]
fn a_message_is_dead_lettered_once_though_a_checkpoint_and_a_crash_come_in_between() {
    let mut lives = Lives::new();
    let life = lives.open();
    life.runtime.block_on(set_up_letters(&life.broker));
    let topic = topic_name("orders");
    let retry_policy = Some(domain::RetryPolicy::default());
    let failing = Subscription { retry_policy, ..settings(&topic, "failing") };
    let sub = life.runtime.block_on(life.broker.create_subscription(failing)).unwrap();
    let publishing = life.broker.publish(&topic, vec![message("bad")]);
    life.runtime.block_on(publishing).unwrap();
    for _ in 0..5 {
        // Past any backoff.
        lives.clock.advance(Duration::from_secs(1_000));
        let pulling = life.broker.pull(sub.name(), 1, Duration::from_secs(60));
        let leases = life.runtime.block_on(pulling).unwrap();
        let ids = [leases[0].ack_id];
        life.runtime.block_on(sub.modify_ack_deadline(&ids, Duration::ZERO)).unwrap();
    }
    // With the policy it is exhausted already: nothing but the commit changes its progress.
    life.save();
    lives.cut_after_a_checkpoint_in(&life, |commit| !commit.appends.is_empty());
    let mut change = domain::subscription::Change::default();
    change.joined.dead_letter_policy.topic = Some(Some(topic_name("dead")));
    change.joined.dead_letter_policy.attempts = Some(Some(5));
    let updating = life.broker.update_subscription(sub.name(), change);
    drop(life.runtime.block_on(updating).unwrap());
    life.runtime.block_on(until(|| sub.dead_lettered() == 1));
    drop(sub);
    lives.cut(life);

    let life = lives.open();
    let sub = life.broker.subscription(&subscription_name("failing")).unwrap();
    assert_eq!(sub.backlog(), 0, "it was dead-lettered");
    drop(sub);
    lives.end(life);
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_checkpoint_forgets_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.broker.close(Duration::ZERO).await.unwrap();
    let hangs = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&hangs);
    fixture.engine = fixture.log.watch_with(fixture.store.clone(), move |inner| {
        Arc::new(Counted { inner, saved: Arc::default(), hangs: Arc::clone(&told) })
    });
    fixture.open_again().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b"]).await;
    let leases = fixture.pull("sub", 1).await;
    fixture.ack("sub", &leases).await;
    hangs.store(true, Ordering::SeqCst);
    fixture.log.press();
    settle().await;
    hangs.store(false, Ordering::SeqCst);
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["b"]);
}

//! The disk engine in a simulation: all on one thread, the same again from the same seed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use clock::tasks::{self, Executor};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use storage::disk::{self, Handle, Options};
use storage::{Commit, Error, Urgency};
use testkit::disk::{Call, Cut, Effect, Errno, Fault};
use testkit::{SimDisk, seed};

use crate::bed::{Bed, Running, tiny};
use crate::film::recovers;
use crate::history::Mark;
use crate::owner::Owner;
use crate::script;

/// Runs tasks in the order in which they are woken; time passes when none can run.
#[derive(Default)]
struct World {
    tasks: RefCell<BTreeMap<usize, BoxFuture<'static, ()>>>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    started: Cell<usize>,
    sleepers: RefCell<BTreeMap<(Duration, usize), Sleeper>>,
    now: Cell<Duration>,
}

type Sleeper = Arc<Mutex<Alarm>>;

#[derive(Default)]
struct Alarm {
    rang: bool,
    waker: Option<Waker>,
}

struct Task {
    number: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock();
        if !ready.contains(&self.number) {
            ready.push_back(self.number);
        }
    }
}

impl Executor for World {
    fn run(&self, _: &'static str, task: BoxFuture<'static, ()>) {
        let number = self.started.get();
        self.started.set(number + 1);
        self.tasks.borrow_mut().insert(number, task);
        self.ready.lock().push_back(number);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let number = self.started.get();
        self.started.set(number + 1);
        let alarm = Arc::new(Mutex::new(Alarm::default()));
        self.sleepers.borrow_mut().insert((self.now.get() + time, number), Arc::clone(&alarm));
        std::future::poll_fn(move |context| {
            let mut alarm = alarm.lock();
            if alarm.rang {
                return Poll::Ready(());
            }
            alarm.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .boxed()
    }
}

impl World {
    /// Runs `main`, and whatever it starts, until it has ended.
    fn play(self: &Rc<Self>, main: impl Future<Output = ()> + Send + 'static) {
        let _entered = tasks::enter(Rc::clone(self) as Rc<dyn Executor>);
        let main = tasks::spawn("main", main);
        while !main.is_finished() {
            let next = self.ready.lock().pop_front();
            match next {
                Some(number) => self.poll(number),
                None => self.ring(),
            }
        }
    }

    fn poll(&self, number: usize) {
        let Some(mut task) = self.tasks.borrow_mut().remove(&number) else { return };
        let waker = Waker::from(Arc::new(Task { number, ready: Arc::clone(&self.ready) }));
        // A test's own runtime must not have a say in whose turn it is.
        let mut turn = std::pin::pin!(tokio::task::unconstrained(task.as_mut()));
        if turn.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.tasks.borrow_mut().insert(number, task);
        }
    }

    fn ring(&self) {
        let next = self.sleepers.borrow_mut().pop_first();
        let ((time, _), alarm) =
            next.expect("nobody can run, and nobody sleeps: a wake-up is lost");
        self.now.set(time);
        let mut alarm = alarm.lock();
        alarm.rang = true;
        if let Some(waker) = alarm.waker.take() {
            waker.wake();
        }
    }

    fn tasks_left(&self) -> usize {
        // Those that were woken come to their end.
        while let Some(number) = { self.ready.lock().pop_front() } {
            self.poll(number);
        }
        self.tasks.borrow().len()
    }
}

fn options(seed: u64) -> Options {
    Options { seed: Some(seed), ..tiny() }
}

async fn open(bed: &Bed, options: Options) -> Result<(Running, Handle), Error> {
    let opened = disk::open_on(Arc::new(bed.disk.clone()), &bed.database(), options)?;
    Ok((Running::open(&opened.engine).await?, opened.handle))
}

/// Plays some rounds of the script; returns what was on the disk, and which calls led there.
fn play(seed: u64) -> (Bed, Vec<String>, Arc<crate::history::History>) {
    let bed = Arc::new(Bed::new());
    let world = Rc::new(World::default());
    let history = Arc::new(Mutex::new(None));
    let (place, found) = (Arc::clone(&bed), Arc::clone(&history));
    world.play(async move {
        let (running, handle) = open(&place, options(seed)).await.expect("a fresh store");
        let mut owner = Owner::new(running);
        script::set_up(&mut owner).await.expect("a working store");
        for number in 0..4 {
            script::round(&mut owner, number).await;
        }
        assert!(owner.errors.is_empty(), "{:?}", owner.errors);
        *found.lock() = Some(Arc::clone(&owner.history));
        owner.engine.log.close().await.expect("closed");
        handle.close();
    });
    assert_eq!(world.tasks_left(), 0, "tasks of a closed store go on");
    drop(world);
    let calls = bed.disk.trace().iter().map(|traced| format!("{traced:?}")).collect();
    let bed = Arc::into_inner(bed).expect("nobody else has it");
    let history = history.lock().take().expect("it was played");
    (bed, calls, history)
}

#[test]
fn the_same_seed_makes_the_same_calls_and_leaves_the_same_bytes() {
    let seed = seed::seed_or(20_261_118);
    let ((one, one_calls, _), (two, two_calls, _)) = (play(seed), play(seed));
    assert!(one_calls.len() > 200, "only {} calls", one_calls.len());
    assert_eq!(one_calls, two_calls);
    assert_eq!(one.disk.files(), two.disk.files());
    let (other, _, _) = play(seed + 1);
    assert_ne!(one.disk.files(), other.disk.files(), "the salts are drawn from the seed");
}

#[tokio::test]
async fn what_was_simulated_is_found_by_an_engine_with_threads() {
    let (bed, _, history) = play(7);
    let left = bed.after(Cut::LosesUnsynced);
    recovers(&left, &history, history.mark()).await.expect("nothing is lost");
}

/// A process that is dropped was killed: what it has not answered may be lost, and nothing of it
/// goes on.
#[tokio::test]
async fn a_dropped_store_writes_no_more_and_leaves_no_task() {
    let bed = Arc::new(Bed::new());
    let world = Rc::new(World::default());
    let marks = Arc::new(Mutex::new(None));
    let (place, found) = (Arc::clone(&bed), Arc::clone(&marks));
    world.play(async move {
        let (running, handle) = open(&place, options(3)).await.expect("a fresh store");
        let mut owner = Owner::new(running);
        script::set_up(&mut owner).await.expect("a working store");
        owner.publish(0, &[100]).await.expect("published");
        let queued = owner.queue(&[(0, &[200])], Vec::new(), Urgency::Durable);
        let calls = place.disk.calls();
        let (history, mark) = (Arc::clone(&owner.history), owner.history.mark());
        drop((owner, queued, handle));
        tasks::sleep(Duration::from_secs(60)).await;
        assert_eq!(place.disk.calls(), calls, "it goes on writing");
        *found.lock() = Some((history, mark));
    });
    assert_eq!(world.tasks_left(), 0);
    let (history, mark) = marks.lock().take().expect("it was played");
    let left = bed.after(Cut::LosesNothing);
    recovers(&left, &history, mark).await.expect("nothing that was answered is lost");
}

#[test]
fn a_full_disk_is_waited_for_without_blocking() {
    let world = Rc::new(World::default());
    world.play(async {
        let bed = Bed::new();
        bed.disk.set_capacity(Some(1 << 20));
        let (running, handle) = open(&bed, options(5)).await.expect("a fresh store");
        let mut owner = Owner::new(running);
        script::set_up(&mut owner).await.expect("a working store");
        let mut refused = None;
        for number in 0..1_000 {
            if number % 4 == 3 {
                owner.checkpoint().await.expect("a checkpoint");
                owner.trim().await.expect("a trim");
            }
            refused = owner.publish(1, &[3_000; 4]).await.err();
            if refused.is_some() {
                break;
            }
        }
        assert!(matches!(refused, Some(Error::Full)), "{refused:?}");
        for number in 0..100 {
            owner.ack(1, &[7], Urgency::Durable).await.expect("acks go on");
            if number % 20 == 19 {
                owner.checkpoint().await.expect("a checkpoint");
                owner.trim().await.expect("a trim");
            }
        }
        bed.disk.set_capacity(None);
        while let Err(error) = owner.publish(1, &[100]).await {
            assert!(matches!(error, Error::Full), "{error:?}");
            tasks::sleep(Duration::from_millis(100)).await;
        }
        owner.history.check(&owner.engine, owner.history.mark()).await;
        handle.close();
    });
}

#[test]
fn the_engine_in_memory_needs_no_thread_either() {
    let world = Rc::new(World::default());
    world.play(async {
        let engine = storage::memory::open();
        let ears = Arc::new(script::Ears::default());
        let mut owner = Owner::new(Running::open(&engine).await.expect("its shard opens"));
        owner.engine.listen(Arc::clone(&ears) as _);
        script::set_up(&mut owner).await.expect("a working store");
        for number in 0..4 {
            script::round(&mut owner, number).await;
        }
        assert!(owner.errors.is_empty(), "{:?}", owner.errors);
        owner.history.check(&owner.engine, owner.history.mark()).await;
        owner.engine.log.close().await.expect("closed");
        let end = owner.topics[0].next;
        assert!(ears.has_heard_of(owner.topics[0].id, end), "nothing was told");
    });
    assert_eq!(world.tasks_left(), 0);
}

#[test]
fn a_failed_sync_ends_the_log_and_no_task_stays() {
    let world = Rc::new(World::default());
    world.play(async {
        let bed = Bed::new();
        let (running, handle) = open(&bed, options(5)).await.expect("a fresh store");
        let mut owner = Owner::new(running);
        script::set_up(&mut owner).await.expect("a working store");
        let on = Some(Call::Sync);
        bed.disk.fail(Fault { on, nth: 1, effect: Effect::Fail(Errno::Io) });
        let failed = owner.publish(0, &[10]).await;
        assert!(matches!(failed, Err(Error::Indeterminate(_))), "{failed:?}");
        let later = owner.engine.log.commit(Commit::barrier()).await;
        assert!(matches!(later, Err(Error::Unavailable(_))), "{later:?}");
        handle.close();
    });
    assert_eq!(world.tasks_left(), 0);
}

#[tokio::test]
async fn whatever_was_answered_in_a_simulation_survives_any_power_cut() {
    for seed in seed::seeds(0..20) {
        seed::tell(seed);
        let cut_at = 40 + seed * 17;
        let disks: Arc<Mutex<Option<(SimDisk, Mark)>>> = Arc::default();
        let bed = Arc::new(Bed::new());
        let histories = Arc::new(Mutex::new(None));
        let (place, told, found) = (Arc::clone(&bed), Arc::clone(&histories), Arc::clone(&disks));
        let world = Rc::new(World::default());
        world.play(async move {
            let (running, handle) = open(&place, options(seed)).await.expect("a fresh store");
            let mut owner = Owner::new(running);
            script::set_up(&mut owner).await.expect("a working store");
            *told.lock() = Some(Arc::clone(&owner.history));
            let on = place.disk.calls() + cut_at;
            let mut number = 0;
            while place.disk.calls() < on {
                drop(owner.publish(0, &[300, 1_200]).await);
                drop(owner.ack(0, &[0], Urgency::Ride).await);
                drop(owner.publish(1, &[5_000]).await);
                number += 1;
                assert!(number < 1_000, "the disk is not used");
            }
            *found.lock() = Some((place.disk.fork(), owner.history.mark()));
            handle.close();
        });
        let (disk, mark) = disks.lock().take().expect("it was played");
        let history = histories.lock().take().expect("it was played");
        let left = Bed::of(disk.power_cut_with(Cut::Random(seed)), &bed.database());
        recovers(&left, &history, mark).await.expect("nothing that was answered is lost");
    }
}

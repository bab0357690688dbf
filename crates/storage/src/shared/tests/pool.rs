//! Runs tasks on one thread, in an order that a seed decides; time passes when nothing else can.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use clock::{Clock, tasks};
use domain::{Moment, Timestamp};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use testkit::Random;

/// The time of a test.
#[derive(Default)]
pub(super) struct Time {
    now: AtomicU64,
    sleepers: Mutex<BTreeMap<(Moment, u64), Waker>>,
    count: AtomicU64,
}

impl Time {
    fn now(&self) -> Moment {
        Moment(self.now.load(Ordering::SeqCst))
    }

    fn set(&self, now: Moment) {
        self.now.store(now.0, Ordering::SeqCst);
    }

    /// Lets the next sleeper's time come; `false` if nobody sleeps.
    fn pass(&self) -> bool {
        let Some(((at, _), sleeper)) = ({ self.sleepers.lock().pop_first() }) else {
            return false;
        };
        self.set(at.max(self.now()));
        sleeper.wake();
        true
    }
}

/// The clock of a pool.
#[derive(Clone, Default)]
pub(super) struct PoolClock(Arc<Time>);

/// One who sleeps.
struct Sleep {
    time: Arc<Time>,
    key: (Moment, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.time.sleepers.lock().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.time.sleepers.lock().remove(&self.key);
    }
}

impl Clock for PoolClock {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        Timestamp(1_800_000_000_000_000 + self.now().0)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let time = Arc::clone(&self.0);
        let key = (moment, time.count.fetch_add(1, Ordering::SeqCst));
        Box::pin(Sleep { time, key })
    }
}

struct Woken {
    id: u64,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock();
        if !ready.contains(&self.id) {
            ready.push(self.id);
        }
    }
}

/// The tasks of a test.
pub(super) struct Pool {
    pub clock: PoolClock,
    ready: Arc<Mutex<Vec<u64>>>,
    tasks: RefCell<BTreeMap<u64, BoxFuture<'static, ()>>>,
    started: RefCell<Vec<BoxFuture<'static, ()>>>,
    random: RefCell<Random>,
}

impl tasks::Executor for Pool {
    fn run(&self, _: &'static str, task: BoxFuture<'static, ()>) {
        self.started.borrow_mut().push(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.clock.now().plus(time))
    }
}

impl Pool {
    fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            clock: PoolClock::default(),
            ready: Arc::default(),
            tasks: RefCell::default(),
            started: RefCell::default(),
            random: RefCell::new(Random::seeded(seed)),
        })
    }

    /// Runs `test`, and whatever it starts, to its end.
    pub(super) fn run<F: Future>(seed: u64, test: impl FnOnce(Rc<Self>) -> F) -> F::Output {
        let pool = Self::new(seed);
        let _entered = tasks::enter(Rc::clone(&pool) as Rc<dyn tasks::Executor>);
        let mut test = pin!(test(Rc::clone(&pool)));
        let mut next_id = 1;
        pool.ready.lock().push(0);
        loop {
            for task in pool.started.take() {
                pool.tasks.borrow_mut().insert(next_id, task);
                pool.ready.lock().push(next_id);
                next_id += 1;
            }
            let Some(id) = pool.pick() else {
                assert!(pool.clock.0.pass(), "everything waits, and for nothing");
                continue;
            };
            let waker = Waker::from(Arc::new(Woken { id, ready: Arc::clone(&pool.ready) }));
            let mut context = Context::from_waker(&waker);
            if id == 0 {
                if let Poll::Ready(output) = test.as_mut().poll(&mut context) {
                    // Futures may start something more, or wake someone, as they are dropped.
                    drop(pool.tasks.take());
                    return output;
                }
                continue;
            }
            let Some(mut task) = ({ pool.tasks.borrow_mut().remove(&id) }) else { continue };
            if task.as_mut().poll(&mut context).is_pending() {
                pool.tasks.borrow_mut().insert(id, task);
            }
        }
    }

    /// Anyone of those that can go on.
    fn pick(&self) -> Option<u64> {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            return None;
        }
        let place = self.random.borrow_mut().index(ready.len());
        Some(ready.remove(place))
    }

    /// How many tasks there are besides the test.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.borrow().len() + self.started.borrow().len()
    }
}

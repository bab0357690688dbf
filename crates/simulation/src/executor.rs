//! Runs all tasks of a simulated world on one thread, in an order that its seed decides, and keeps
//! its time.
//!
//! Every task belongs to a node, and what it starts belongs to the same one. A node can be paused
//! (its tasks are not polled, its timers still fire, as for a process that is stopped) and dropped
//! (its tasks are gone at whatever pause they were, as for one that is killed). Time stands while a
//! task is ready and then goes on to the next timer; in some worlds each poll takes a little, too.

mod timers;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use clock::tasks::{self, Entered};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use testkit::Random;

pub(crate) use timers::Timers;

/// More polls than this without any time passing are a livelock.
const POLLS_MAX: u64 = 100_000;
/// What FNV hashes begin with, and go on by.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_STEP: u64 = 0x0100_0000_01b3;

/// One machine of the world. The first one is outside: clients, and whoever plays the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(pub usize);

impl Node {
    /// Where clients are. It is never paused or dropped.
    pub const OUTSIDE: Self = Self(0);
}

/// Tasks ran on and on while no time passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Livelock {
    /// The tasks that ran most recently, by name.
    pub tasks: Vec<&'static str>,
}

/// How tasks are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// In so many of a hundred cases the task that was woken first runs; otherwise any.
    pub in_turn: u64,
    /// A poll takes up to so many microseconds.
    pub poll_micros: u64,
}

/// What wakers reach from anywhere.
#[derive(Default)]
struct Ready {
    /// Ids of tasks to be polled, in the order in which they were woken.
    queue: Mutex<Vec<u64>>,
}

struct Awake {
    id: u64,
    /// Whether it is in the queue, or is kept aside for a paused node.
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            self.ready.queue.lock().push(self.id);
        }
    }
}

struct Task {
    name: &'static str,
    node: Node,
    /// Not here while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    awake: Arc<Awake>,
    waker: Waker,
}

#[derive(Default)]
struct Machine {
    is_paused: bool,
    /// Tasks that were woken meanwhile.
    aside: Vec<u64>,
}

struct State {
    random: Random,
    manner: Manner,
    tasks: BTreeMap<u64, Task>,
    next_id: u64,
    /// Whose task is being polled.
    current: Node,
    machines: Vec<Machine>,
    /// A digest of every choice so far.
    trace: u64,
    polls_at_once: u64,
    polls: u64,
    recent: Vec<&'static str>,
}

/// Runs the tasks of a world.
pub struct Executor {
    state: RefCell<State>,
    ready: Arc<Ready>,
    timers: Arc<Timers>,
}

thread_local! {
    static HERE: RefCell<Option<Rc<Executor>>> = const { RefCell::new(None) };
}

/// Ends what [`Executor::enter`] began, and drops every task that is left.
pub struct Inside {
    _entered: Entered,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // What tasks start when they are dropped must have a place too.
        if let Some(executor) = HERE.with_borrow(Clone::clone) {
            executor.drop_all();
        }
        HERE.set(None);
    }
}

/// Runs `task` on `node`, whoever starts it. For clients that call a node, which are on another.
///
/// # Panics
///
/// Panics outside of a simulation.
pub fn run_on(node: Node, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    HERE.with_borrow(|here| here.as_ref().expect("in a simulation").add(node, name, task.boxed()));
}

impl Executor {
    /// An executor for so many nodes besides the outside.
    pub fn new(seed: u64, nodes: usize, manner: Manner) -> Rc<Self> {
        let state = State {
            random: Random::seeded(seed),
            manner,
            tasks: BTreeMap::new(),
            next_id: 0,
            current: Node::OUTSIDE,
            machines: (0..=nodes).map(|_| Machine::default()).collect(),
            trace: HASH_START,
            polls_at_once: 0,
            polls: 0,
            recent: Vec::new(),
        };
        let (ready, timers) = (Arc::default(), Arc::default());
        Rc::new(Self { state: RefCell::new(state), ready, timers })
    }

    /// Has whatever is started on this thread run here, until the result is dropped.
    pub fn enter(self: &Rc<Self>) -> Inside {
        HERE.set(Some(Rc::clone(self)));
        Inside { _entered: tasks::enter(Rc::clone(self) as _) }
    }

    /// The time, for clocks.
    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.timers
    }

    /// How much time has passed in this world.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.timers.now())
    }

    /// A digest of every choice so far: two runs of a seed must have the same.
    pub fn trace(&self) -> u64 {
        self.state.borrow().trace
    }

    /// How many polls there were.
    pub fn polls(&self) -> u64 {
        self.state.borrow().polls
    }

    /// How many tasks a node has.
    pub fn tasks_of(&self, node: Node) -> usize {
        self.state.borrow().tasks.values().filter(|task| task.node == node).count()
    }

    /// Runs `work` so that whatever it starts belongs to `node`.
    pub fn on<T>(&self, node: Node, work: impl FnOnce() -> T) -> T {
        let before = mem::replace(&mut self.state.borrow_mut().current, node);
        let result = work();
        self.state.borrow_mut().current = before;
        result
    }

    /// Stops polling the tasks of a node.
    pub fn pause(&self, node: Node) {
        self.state.borrow_mut().machines[node.0].is_paused = true;
    }

    /// Goes on with a paused node.
    pub fn resume(&self, node: Node) {
        let aside = {
            let machine = &mut self.state.borrow_mut().machines[node.0];
            machine.is_paused = false;
            mem::take(&mut machine.aside)
        };
        self.ready.queue.lock().extend(aside);
    }

    /// Drops all tasks of a node, wherever they are.
    pub fn drop_node(&self, node: Node) {
        // Dropping a task may start others there.
        loop {
            let ids: Vec<u64> = {
                let state = self.state.borrow();
                let of_node = state.tasks.iter().filter(|(_, task)| task.node == node);
                of_node.map(|(id, _)| *id).collect()
            };
            if ids.is_empty() {
                break;
            }
            for id in ids {
                let dropped = self.state.borrow_mut().tasks.remove(&id);
                self.on(node, || drop(dropped));
            }
        }
        let machine = &mut self.state.borrow_mut().machines[node.0];
        *machine = Machine::default();
    }

    fn drop_all(&self) {
        let nodes = self.state.borrow().machines.len();
        (0..nodes).rev().for_each(|node| self.drop_node(Node(node)));
    }

    /// Runs until so much time has passed.
    pub fn run_for(&self, time: Duration) -> Result<(), Livelock> {
        self.run_for_while(time, || true)
    }

    /// The same, but no longer than `goes_on`, which is asked after each poll.
    pub fn run_for_while(
        &self,
        time: Duration,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), Livelock> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let until = self.timers.now().saturating_add(micros);
        loop {
            if !goes_on() {
                return Ok(());
            }
            if self.step()? {
                if self.timers.now() >= until {
                    return Ok(());
                }
            } else if !self.pass_time(until) {
                return Ok(());
            }
        }
    }

    /// Runs so many polls, or until `time` has passed, and no longer than `goes_on`.
    pub fn run_polls(
        &self,
        polls: u64,
        time: Duration,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), Livelock> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let until = self.timers.now().saturating_add(micros);
        let mut left = polls;
        while left > 0 && goes_on() {
            if self.step()? {
                left -= 1;
            } else if !self.pass_time(until) {
                break;
            }
        }
        Ok(())
    }

    /// Lets time go on to the next timer, at most to `until`. Returns whether there is one before.
    fn pass_time(&self, until: u64) -> bool {
        self.state.borrow_mut().polls_at_once = 0;
        self.timers.pass_to_next(until)
    }

    /// Polls one ready task; `false` if there is none.
    fn step(&self) -> Result<bool, Livelock> {
        let Some((id, mut future, waker)) = self.take_next()? else { return Ok(false) };
        let is_over = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let (over, micros) = {
            let mut state = self.state.borrow_mut();
            state.current = Node::OUTSIDE;
            let most = state.manner.poll_micros;
            let micros = if most == 0 { 0 } else { state.random.below(most + 1) };
            match state.tasks.get_mut(&id) {
                Some(task) if !is_over => {
                    task.future = Some(future);
                    (None, micros)
                }
                _ => (Some((state.tasks.remove(&id), future)), micros),
            }
        };
        drop(over);
        if micros > 0 {
            self.timers.pass(micros);
        }
        Ok(true)
    }

    /// Chooses among the ready tasks.
    fn take_next(&self) -> Result<Option<(u64, BoxFuture<'static, ()>, Waker)>, Livelock> {
        let mut state = self.state.borrow_mut();
        loop {
            let id = {
                let mut queue = self.ready.queue.lock();
                if queue.is_empty() {
                    return Ok(None);
                }
                let in_turn = state.manner.in_turn;
                if in_turn > 0 && state.random.percent(in_turn) {
                    queue.remove(0)
                } else {
                    let at = state.random.index(queue.len());
                    queue.swap_remove(at)
                }
            };
            let State { tasks, machines, .. } = &mut *state;
            let Some(task) = tasks.get_mut(&id) else { continue };
            let machine = &mut machines[task.node.0];
            if machine.is_paused {
                machine.aside.push(id);
                continue;
            }
            task.awake.is_queued.store(false, Ordering::SeqCst);
            let (name, node, waker) = (task.name, task.node, task.waker.clone());
            let Some(future) = task.future.take() else { continue };
            state.note(id, self.timers.now(), name)?;
            state.current = node;
            return Ok(Some((id, future, waker)));
        }
    }

    fn add(&self, node: Node, name: &'static str, task: BoxFuture<'static, ()>) {
        let awake = {
            let mut state = self.state.borrow_mut();
            let id = state.next_id;
            state.next_id += 1;
            let (is_queued, ready) = (AtomicBool::new(false), Arc::clone(&self.ready));
            let awake = Arc::new(Awake { id, is_queued, ready });
            let waker = Waker::from(Arc::clone(&awake));
            let task = Task { name, node, future: Some(task), awake: Arc::clone(&awake), waker };
            state.tasks.insert(id, task);
            awake
        };
        awake.wake();
    }
}

impl State {
    fn note(&mut self, id: u64, now: u64, name: &'static str) -> Result<(), Livelock> {
        for word in [id, now] {
            self.trace = (self.trace ^ word).wrapping_mul(HASH_STEP);
        }
        self.polls += 1;
        self.polls_at_once += 1;
        if self.polls_at_once + 20 > POLLS_MAX {
            self.recent.push(name);
        }
        if self.polls_at_once > POLLS_MAX {
            return Err(Livelock { tasks: mem::take(&mut self.recent) });
        }
        Ok(())
    }
}

impl tasks::Executor for Executor {
    fn run(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let node = self.state.borrow().current;
        self.add(node, name, task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.timers.sleep_until(self.timers.now().saturating_add(micros))
    }
}

#[cfg(test)]
mod tests;

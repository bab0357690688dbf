//! Lets a scenario happen.

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use broker::{Broker, Options, Peers};
use clock::{Clock, tasks};
use domain::{NodeId, ShardId};
use testkit::Random;
use testkit::disk::{Call, Effect, Errno, Fault};

use crate::checks::{self, Promise, Violation};
use crate::cluster::{self, Others};
use crate::executor::{Executor, Livelock, Node, run_on};
use crate::history::{Entry, Event, Fate, Life};
use crate::load;
use crate::net::{Net, Server};
use crate::node_clock::NodeClock;
use crate::scenario::{Act, Scenario, Step, Wait};
use crate::store::{OnDisk, Store};

/// How long everything may take to drain once faults have ended.
const DRAIN_MAX: Duration = Duration::from_secs(150);
/// What must not come again has its chance for so long after that.
const AFTER_DRAIN: Duration = Duration::from_secs(25);
/// How long making topics and subscriptions may take.
const SET_UP_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether a node has failed by itself.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A process that failed is started anew after so long.
const START_AGAIN_AFTER: Duration = Duration::from_millis(700);
/// A step that waits for polls does not wait longer.
const POLLS_TIME_MAX: Duration = Duration::from_secs(1);

/// What came of a scenario.
pub struct Outcome {
    /// What clients saw.
    pub history: Vec<Entry>,
    /// The promises that were broken.
    pub violations: Vec<Violation>,
    /// A digest of everything that was done; the same for the same scenario.
    pub trace: u64,
    /// How many polls it took.
    pub polls: u64,
    /// How much time passed in the world.
    pub time: Duration,
}

/// Something that is done when its time has come.
enum Later {
    Resume(Node, Life),
    Start(Node),
    Reach(Node, Life),
}

struct World {
    net: Arc<Net>,
    executor: Rc<Executor>,
    later: BTreeMap<(Duration, u64), Later>,
    numbers: u64,
    /// How wrong the wall clock of each node is.
    skews: Vec<Arc<AtomicI64>>,
    boots: Vec<u64>,
    random: Random,
    /// How long the power stays off when it goes.
    off_for: Duration,
}

/// Lets `scenario` happen, and checks what came of it.
pub fn run(scenario: &Scenario) -> Outcome {
    let executor = Executor::new(scenario.seed, scenario.nodes(), scenario.manner);
    let inside = executor.enter();
    let mut world = World::new(scenario, &executor);
    let ended = world.live();
    let history = world.net.history.entries();
    let mut violations = match ended {
        Ok(()) => Vec::new(),
        Err(violation) => vec![violation],
    };
    violations.extend(checks::check(scenario, &history));
    let (trace, polls, time) = (executor.trace(), executor.polls(), executor.now());
    for node in (1..=scenario.nodes()).map(Node) {
        let server = world.net.end(node);
        world.end_life(node, server);
    }
    drop(world);
    drop(inside);
    Outcome { history, violations, trace, polls, time }
}

impl World {
    fn new(scenario: &Scenario, executor: &Rc<Executor>) -> Self {
        let clock = NodeClock::start(executor, &Arc::default(), 1);
        let store = Store::new(scenario, Arc::new(clock));
        let time = Arc::clone(executor.timers());
        Self {
            net: Arc::new(Net::new(scenario.clone(), store, time)),
            executor: Rc::clone(executor),
            later: BTreeMap::new(),
            numbers: 0,
            skews: (0..=scenario.nodes()).map(|_| Arc::default()).collect(),
            boots: vec![1; scenario.nodes() + 1],
            random: Random::seeded(scenario.seed ^ 0x0ff),
            off_for: Duration::ZERO,
        }
    }

    /// Everything, from the first start to the end.
    fn live(&mut self) -> Result<(), Violation> {
        for node in 1..=self.net.scenario.nodes() {
            self.start(Node(node));
        }
        let set_up = tasks::spawn("set up", load::set_up(Arc::clone(&self.net)));
        self.run_until(SET_UP_MAX, |_| set_up.is_finished())?;
        if !set_up.is_finished() {
            return Err(stuck("topics and subscriptions could not be made".to_owned()));
        }
        for step in self.net.scenario.steps.clone() {
            self.step(&step)?;
        }
        self.heal();
        self.drain()
    }

    fn step(&mut self, step: &Step) -> Result<(), Violation> {
        match step.wait {
            Wait::Time(time) => self.run_for(time)?,
            Wait::Polls(polls) => {
                let is_on = || self.net.store.disk().is_none_or(|disk| !disk.is_off());
                let run = self.executor.run_polls(polls, POLLS_TIME_MAX, is_on);
                run.map_err(livelock)?;
                self.run_for(Duration::ZERO)?;
            }
        }
        self.numbers += 1;
        let net = Arc::clone(&self.net);
        match step.act.clone() {
            Act::Publish { topic, number, drafts } => {
                let topic = Arc::clone(&net.scenario.topics[topic]);
                outside("publisher", load::publish(net, topic, number, drafts));
            }
            Act::Snapshot(at) => outside("snapshot", load::snapshot(net, at, self.numbers)),
            Act::Seek(at, to) => outside("seek", load::seek(net, at, to)),
            Act::Replay(at) => outside("replay", load::replay(net, at)),
            Act::Create(number, drafts) => outside("create", load::create(net, number, drafts)),
            Act::Delete(number) => outside("delete", load::delete(net, number)),
            Act::List => outside("list", load::list(net)),
            Act::Pause(node, time) => self.pause(Node(node), time),
            Act::Kill(node, time) => self.kill(Node(node), time),
            Act::Close(node) => self.close(Node(node)),
            Act::CutOff(node, time) => self.cut_off(Node(node), time),
            Act::HandOver(shard, node) => net.want(ShardId(shard), node),
            Act::Jump(node, micros) => self.jump(Node(node), micros),
            Act::PowerOff(calls, time) => self.power_off(calls, time),
            Act::FailWrite(calls) => self.fail_write(calls),
        }
        Ok(())
    }

    /// Runs for some time, and does what is due meanwhile.
    fn run_for(&mut self, time: Duration) -> Result<(), Violation> {
        self.run_until(time, |_| false)
    }

    /// The same, but no longer than until `is_enough`, which is asked now and then.
    fn run_until(
        &mut self,
        time: Duration,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Violation> {
        let end = self.executor.now() + time;
        loop {
            self.do_due();
            let now = self.executor.now();
            if now >= end || is_enough(self) {
                return Ok(());
            }
            let next = self.later.first_key_value().map_or(end, |((at, _), _)| *at);
            let until = end.min(next).min(now + LOOK_EVERY);
            self.run_with_power(until - now)?;
        }
    }

    fn run_with_power(&self, time: Duration) -> Result<(), Violation> {
        let is_on = || self.net.store.disk().is_none_or(|disk| !disk.is_off());
        self.executor.run_for_while(time, is_on).map_err(livelock)
    }

    fn do_due(&mut self) {
        self.look_for_power();
        for (node, life) in self.net.take_failed() {
            if self.net.life(node) == life && self.net.server(node).is_some() {
                self.kill(node, START_AGAIN_AFTER);
            }
        }
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= self.executor.now()
        {
            match first.remove() {
                Later::Start(node) => self.start(node),
                Later::Resume(node, life) => self.resume(node, life),
                Later::Reach(node, life) => self.reach(node, life),
            }
        }
    }

    fn plan(&mut self, after: Duration, later: Later) {
        self.numbers += 1;
        self.later.insert((self.executor.now() + after, self.numbers), later);
    }
}

/// What befalls nodes.
impl World {
    fn start(&mut self, node: Node) {
        let life = self.net.begin(node);
        let clock = NodeClock::start(&self.executor, &self.skews[node.0], self.boots[node.0]);
        let boot = boot(Arc::clone(&self.net), node, life, Arc::new(clock));
        run_on(node, "boot", boot);
    }

    fn befell(&self, node: Node, fate: Fate) {
        self.net.history.note(Event::Befell(node, self.net.life(node), fate));
    }

    /// Whether a new fault may begin there: it serves, and nothing is planned for it.
    fn is_well(&self, node: Node) -> bool {
        let is_planned = |later: &Later| match later {
            Later::Resume(other, _) | Later::Start(other) | Later::Reach(other, _) => {
                *other == node
            }
        };
        self.net.server(node).is_some() && !self.later.values().any(is_planned)
    }

    fn pause(&mut self, node: Node, time: Duration) {
        if self.is_well(node) {
            self.befell(node, Fate::Paused);
            self.executor.pause(node);
            self.plan(time, Later::Resume(node, self.net.life(node)));
        }
    }

    fn resume(&mut self, node: Node, life: Life) {
        if self.net.life(node) == life {
            self.befell(node, Fate::Resumed);
            self.executor.resume(node);
        }
    }

    /// The store does not answer it for a while.
    fn cut_off(&mut self, node: Node, time: Duration) {
        if self.is_well(node)
            && let Some(store) = self.net.store.shared()
        {
            self.befell(node, Fate::CutOff);
            store.cut_off(node, true);
            self.plan(time, Later::Reach(node, self.net.life(node)));
        }
    }

    fn reach(&mut self, node: Node, life: Life) {
        if let Some(store) = self.net.store.shared() {
            store.cut_off(node, false);
        }
        if self.net.life(node) == life {
            self.befell(node, Fate::Reached);
        }
    }

    /// The power goes in the middle of one of the next calls of the disk.
    fn power_off(&mut self, calls: u64, time: Duration) {
        if self.is_well(Node(1))
            && let Some(store) = self.net.store.disk()
        {
            store.fail(Fault { on: None, nth: calls, effect: Effect::PowerOff });
            self.off_for = time;
        }
    }

    fn fail_write(&mut self, calls: u64) {
        if let Some(store) = self.net.store.disk() {
            let on = if calls.is_multiple_of(2) { Call::Write } else { Call::Sync };
            store.fail(Fault { on: Some(on), nth: calls, effect: Effect::Fail(Errno::Io) });
        }
    }

    /// Nothing goes on without power, and what was not synced may be gone.
    fn look_for_power(&mut self) {
        let is_off = |store: &&OnDisk| store.is_off();
        if self.net.store.disk().filter(is_off).is_none() {
            return;
        }
        let node = Node(1);
        self.boots[node.0] += 1;
        if self.net.server(node).is_some() {
            self.kill(node, self.off_for);
        } else {
            self.end_life(node, None);
            self.plan(self.off_for, Later::Start(node));
        }
        if let Some(store) = self.net.store.disk() {
            store.cut(&mut self.random);
        }
    }

    /// It is gone at once, wherever it was, and comes back after `time`.
    fn kill(&mut self, node: Node, time: Duration) {
        if self.net.server(node).is_some() {
            self.befell(node, Fate::Killed);
            let server = self.net.end(node);
            self.end_life(node, server);
            self.plan(time, Later::Start(node));
        }
    }

    /// Whatever the node had in memory is gone.
    fn end_life(&self, node: Node, server: Option<Server>) {
        self.executor.drop_node(node);
        self.executor.on(node, || {
            self.net.store.let_go(node);
            drop(server);
        });
        // What ended with the broker.
        self.executor.drop_node(node);
    }

    /// It is asked to end, and given some time for it.
    fn close(&mut self, node: Node) {
        if !self.is_well(node) {
            return;
        }
        let (net, life) = (Arc::clone(&self.net), self.net.life(node));
        net.note_closing(node);
        run_on(node, "closing", async move {
            let Some(server) = net.server(node) else { return };
            let closed = server.broker.close(Duration::from_millis(100)).await;
            if closed.is_ok() {
                net.history.note(Event::Befell(node, life, Fate::Closed));
            }
            // Started anew as after a failure.
            net.fail(node, life);
        });
    }

    fn jump(&mut self, node: Node, micros: i64) {
        self.befell(node, Fate::Jumped(micros));
        self.skews[node.0].fetch_add(micros, Ordering::SeqCst);
    }
}

/// The end of a history.
impl World {
    /// Faults end: every node is up and well.
    fn heal(&mut self) {
        self.net.calm_down();
        self.net.store.heal();
        let now = self.executor.now();
        let later = std::mem::take(&mut self.later);
        self.later = later.into_iter().map(|((at, n), what)| ((at.min(now), n), what)).collect();
    }

    /// All that is owed comes, and then nothing that was settled comes again.
    fn drain(&mut self) -> Result<(), Violation> {
        let end = self.executor.now() + DRAIN_MAX;
        loop {
            self.run_for(Duration::from_secs(2))?;
            let owed = self.net.history.look(|history| checks::owed(&self.net.scenario, history));
            if owed.is_empty() {
                break;
            }
            if self.executor.now() > end {
                // The check of the whole history says what is missing.
                return Ok(());
            }
        }
        self.run_for(AFTER_DRAIN)?;
        let listed = tasks::spawn("list", load::list(Arc::clone(&self.net)));
        self.run_until(DRAIN_MAX, |_| listed.is_finished())
    }
}

fn outside(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    run_on(Node::OUTSIDE, name, task);
}

fn livelock(Livelock { tasks }: Livelock) -> Violation {
    stuck(format!("no time passes, these go on and on: {tasks:?}"))
}

fn stuck(what: String) -> Violation {
    Violation { promise: Promise::L1, what }
}

/// Opens a broker, as often as it takes, and waits for its failure.
async fn boot(net: Arc<Net>, node: Node, life: Life, clock: Arc<dyn Clock>) {
    let broker = loop {
        let others = net.store.shared().map(|_| Arc::new(Others::new(&net)) as Arc<dyn Peers>);
        let options = Options {
            node: NodeId(life.0.into()),
            peers: others,
            progress_flush: net.scenario.progress_flush,
            planted: net.scenario.planted,
            ..Options::default()
        };
        let opened = match net.store.open(node) {
            Ok(engine) => Broker::open(engine, Arc::clone(&clock), options).await,
            Err(error) => Err(error.into()),
        };
        match opened {
            Ok(broker) => break broker,
            Err(_) => tasks::sleep(START_AGAIN_AFTER).await,
        }
    };
    net.serve(node, life, Arc::clone(&broker));
    if net.store.shared().is_some() {
        let balancing = cluster::balance(Arc::clone(&net), node, life, Arc::clone(&broker));
        drop(tasks::spawn("balancer", balancing));
    }
    broker.failure().await;
    drop(broker);
    net.history.note(Event::Befell(node, life, Fate::Failed));
    net.fail(node, life);
}

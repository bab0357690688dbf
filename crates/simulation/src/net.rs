//! The nodes as clients reach them: a call runs on its node, and its answer is lost with the node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use broker::Broker;
use clock::tasks;
use domain::{NodeId, ShardId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::executor::{Node, Timers, run_on};
use crate::history::{Answer, Event, Fate, History, Id, Life, Seen};
use crate::scenario::Scenario;
use crate::store::Store;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a call that was not taken is tried elsewhere, and how long after.
const TRIES: u32 = 4;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// What clients and nodes share.
pub(crate) struct Net {
    pub(crate) scenario: Scenario,
    pub(crate) store: Store,
    pub(crate) history: History,
    slots: Mutex<Vec<Slot>>,
    lives: AtomicU32,
    /// Faults are over: consumers take and ack all there is.
    calm: AtomicBool,
    /// How often each message came to a subscription.
    deliveries: Mutex<HashMap<(Id, Id), u32>>,
    /// Letters that were seen, by the subscription that gave them up.
    letters: Mutex<BTreeMap<String, BTreeSet<u64>>>,
    /// Subscriptions that nobody reads any more.
    forgotten: Mutex<BTreeSet<Id>>,
    /// Where shards were handed over to.
    wanted: Mutex<BTreeMap<ShardId, usize>>,
    /// Nodes that have failed by themselves, and must be started anew.
    failed: Mutex<Vec<(Node, Life)>>,
}

#[derive(Clone)]
struct Slot {
    life: Life,
    broker: Option<Arc<Broker>>,
    /// It was asked to end.
    is_closing: bool,
}

/// A node in one of its lives.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) broker: Arc<Broker>,
    pub(crate) life: Life,
}

/// What a node made of a call.
pub(crate) enum Taken<T> {
    /// It was answered, somehow.
    Answered(T),
    /// It is not for this node, and nothing was done.
    Elsewhere,
}

impl Net {
    pub(crate) fn new(scenario: Scenario, store: Store, time: Arc<Timers>) -> Self {
        let empty = Slot { life: Life(0), broker: None, is_closing: false };
        Self {
            slots: Mutex::new(vec![empty; scenario.nodes() + 1]),
            scenario,
            store,
            history: History::new(time),
            lives: AtomicU32::new(0),
            calm: AtomicBool::new(false),
            deliveries: Mutex::default(),
            letters: Mutex::default(),
            forgotten: Mutex::default(),
            wanted: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// A node begins a life.
    pub(crate) fn begin(&self, node: Node) -> Life {
        let life = Life(1 + self.lives.fetch_add(1, Ordering::SeqCst));
        self.slots.lock()[node.0] = Slot { life, broker: None, is_closing: false };
        life
    }

    /// It serves from now on.
    pub(crate) fn serve(&self, node: Node, life: Life, broker: Arc<Broker>) {
        self.slots.lock()[node.0] = Slot { life, broker: Some(broker), is_closing: false };
        self.history.note(Event::Befell(node, life, Fate::Up));
    }

    /// It serves no longer.
    pub(crate) fn end(&self, node: Node) -> Option<Server> {
        let slot = &mut self.slots.lock()[node.0];
        slot.broker.take().map(|broker| Server { broker, life: slot.life })
    }

    pub(crate) fn note_closing(&self, node: Node) {
        self.slots.lock()[node.0].is_closing = true;
    }

    pub(crate) fn is_closing(&self, node: Node) -> bool {
        self.slots.lock()[node.0].is_closing
    }

    pub(crate) fn life(&self, node: Node) -> Life {
        self.slots.lock()[node.0].life
    }

    pub(crate) fn server(&self, node: Node) -> Option<Server> {
        let Slot { life, broker, .. } = self.slots.lock()[node.0].clone();
        broker.map(|broker| Server { broker, life })
    }

    /// Any node that serves, by a number of the caller's.
    pub(crate) fn any(&self, number: u64) -> Node {
        let slots = self.slots.lock();
        let up: Vec<usize> = (1..slots.len()).filter(|at| slots[*at].broker.is_some()).collect();
        let at = usize::try_from(number % up.len().max(1) as u64).unwrap_or(0);
        Node(up.get(at).copied().unwrap_or(1))
    }

    /// Where a member of the store runs, if it is its node's present life.
    pub(crate) fn node_of(&self, member: NodeId) -> Option<Node> {
        let slots = self.slots.lock();
        (1..slots.len()).find(|at| u64::from(slots[*at].life.0) == member.0).map(Node)
    }

    /// A shard is to be on that node from now on.
    pub(crate) fn want(&self, shard: ShardId, node: usize) {
        self.wanted.lock().insert(shard, node);
    }

    /// Where a shard is to be.
    pub(crate) fn wanted(&self, shard: ShardId) -> Option<usize> {
        self.wanted.lock().get(&shard).copied()
    }

    pub(crate) fn fail(&self, node: Node, life: Life) {
        self.failed.lock().push((node, life));
    }

    pub(crate) fn take_failed(&self) -> Vec<(Node, Life)> {
        std::mem::take(&mut *self.failed.lock())
    }

    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Counts a delivery; returns how many there were before.
    pub(crate) fn count_delivery(&self, subscription: &Id, text: &Id) -> u32 {
        let mut deliveries = self.deliveries.lock();
        let count = deliveries.entry((Arc::clone(subscription), Arc::clone(text))).or_default();
        *count += 1;
        *count - 1
    }

    /// A letter was seen.
    pub(crate) fn note_letter(&self, seen: &Seen) {
        if let Some(of) = &seen.letter_of {
            self.letters.lock().entry(of.clone()).or_default().insert(seen.id);
        }
    }

    /// The letters of a subscription that were seen since this was asked for the last time.
    pub(crate) fn take_letters(&self, of: &str) -> Vec<u64> {
        self.letters.lock().remove(of).unwrap_or_default().into_iter().collect()
    }

    /// Nobody reads a subscription any more.
    pub(crate) fn forget(&self, id: &Id) {
        self.forgotten.lock().insert(Arc::clone(id));
    }

    pub(crate) fn is_forgotten(&self, id: &Id) -> bool {
        self.forgotten.lock().contains(id)
    }

    /// Has the owner of `topic` do `work`, whose answer is noted under `call`. `None` = it is not
    /// known what became of it.
    pub(crate) async fn ask<T, W, F>(self: &Arc<Self>, topic: &Id, call: u64, work: W) -> Option<T>
    where
        T: Send + 'static,
        W: Fn(Server) -> F + Send + Sync + Clone + 'static,
        F: Future<Output = Taken<(Answer, T)>> + Send + 'static,
    {
        for _ in 0..TRIES {
            let node = self.store.owner(self, topic, call);
            match self.try_one(node, call, work.clone()).await {
                Some(Taken::Answered(answer)) => return Some(answer),
                Some(Taken::Elsewhere) => tasks::sleep(TRY_AGAIN_AFTER).await,
                None => return None,
            }
        }
        None
    }

    async fn try_one<T, W, F>(self: &Arc<Self>, node: Node, call: u64, work: W) -> Option<Taken<T>>
    where
        T: Send + 'static,
        W: Fn(Server) -> F + Send + Sync + 'static,
        F: Future<Output = Taken<(Answer, T)>> + Send + 'static,
    {
        let Some(server) = self.server(node) else { return Some(Taken::Elsewhere) };
        let (net, (answer, answered)) = (Arc::clone(self), oneshot::channel());
        run_on(node, "call", async move {
            let life = server.life;
            let taken = match work(server).await {
                Taken::Elsewhere => Taken::Elsewhere,
                Taken::Answered((told, kept)) => {
                    // In the same poll: nothing happens in between.
                    net.history.note(Event::Answered(call, life, told));
                    Taken::Answered(kept)
                }
            };
            // The client may have given up.
            drop(answer.send(taken));
        });
        tokio::select! {
            biased;
            answer = answered => answer.ok(),
            () = tasks::sleep(PATIENCE) => None,
        }
    }
}

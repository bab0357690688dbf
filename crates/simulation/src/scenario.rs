//! What is to happen in a world, drawn from its seed: who is there, and a list of steps. A list can
//! be shortened, so that a failing one shrinks.

mod draw;

use std::time::Duration;

use domain::delivery::Ordering;
use storage::planted::Planted;

use crate::executor::Manner;
use crate::history::Id;
pub(crate) use draw::SHARDS;

/// Which program is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One node that keeps everything in memory; a new life finds it again.
    Memory,
    /// One node on a disk whose power may go.
    Disk,
    /// Three nodes on one store.
    Cluster,
}

/// A subscription as it is to be.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Its name.
    pub id: Id,
    /// Its topic.
    pub topic: Id,
    /// In which order its messages go.
    pub ordering: Ordering,
    /// Whether an ack that is answered is durable and final.
    pub exactly_once: bool,
    /// The only kind of message that its filter lets through.
    pub kind: Option<&'static str>,
    /// Where messages go that failed too often.
    pub letters_to: Option<Id>,
    /// It is sent elsewhere now and then, and keeps what it has acked.
    pub is_sought: bool,
    /// Its consumers: streams, or such as pull.
    pub consumers: Vec<Consumer>,
    /// It is not even made: a scenario that fails does so without it.
    pub is_left_out: bool,
}

impl Subscription {
    /// The lane of a message with that key; `None` = it is in none.
    pub fn lane<'key>(&self, key: &'key str) -> Option<&'key str> {
        match self.ordering {
            Ordering::Fifo => Some(""),
            Ordering::ByKey if !key.is_empty() => Some(key),
            Ordering::ByKey | Ordering::None => None,
        }
    }

    /// Whether it gets messages of that kind.
    pub fn wants(&self, kind: &str) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// Who takes messages of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct Consumer {
    /// Whether it keeps a stream open; otherwise it pulls.
    pub is_stream: bool,
    /// The most messages that it holds, or asks for.
    pub most: u16,
}

/// A message to be published.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// Its key; empty = none.
    pub key: &'static str,
    /// What filters look at.
    pub kind: &'static str,
}

/// What is done in a step.
#[derive(Clone, Debug)]
pub enum Act {
    /// Messages are published together.
    Publish {
        /// To this topic, by its place in the scenario.
        topic: usize,
        /// A number of its own, from which their texts are made.
        number: u32,
        /// These.
        drafts: Vec<Draft>,
    },
    /// A snapshot is taken of a subscription, by its place.
    Snapshot(usize),
    /// A subscription, by its place, goes to its last snapshot, to the future, or to the beginning.
    Seek(usize, To),
    /// Some letters of a subscription, by its place, are replayed.
    Replay(usize),
    /// A topic and a subscription of that number are made, and get these messages.
    Create(u32, Vec<Draft>),
    /// Those of that number are deleted.
    Delete(u32),
    /// Someone lists everything.
    List,
    /// A node is stopped for so long, as a process can be, and goes on.
    Pause(usize, Duration),
    /// A node is gone, and comes back after so long.
    Kill(usize, Duration),
    /// A node is asked to end, and comes back soon.
    Close(usize),
    /// A shard is handed over to another node.
    HandOver(u32, usize),
    /// The store does not answer a node for so long.
    CutOff(usize, Duration),
    /// The wall clock of a node is set, by microseconds.
    Jump(usize, i64),
    /// The power goes after so many calls of the disk, and comes back after so long.
    PowerOff(u64, Duration),
    /// A write or sync fails after so many calls of the disk.
    FailWrite(u64),
}

/// Where a seek goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The last snapshot of the subscription; the beginning if there is none.
    Snapshot,
    /// A time to come.
    Future,
    /// The beginning.
    Past,
}

/// How long is waited before a step.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// So much time.
    Time(Duration),
    /// So many polls: it comes amid whatever is going on.
    Polls(u64),
}

/// Something that happens, and when.
#[derive(Clone, Debug)]
pub struct Step {
    /// After the step before.
    pub wait: Wait,
    /// What.
    pub act: Act,
}

/// What is to happen in a world.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The program.
    pub kind: Kind,
    /// Where everything was drawn from.
    pub seed: u64,
    /// What the program does wrong on purpose.
    pub planted: Planted,
    /// How tasks are chosen.
    pub manner: Manner,
    /// How often progress is saved.
    pub progress_flush: Duration,
    /// How faulty the store is, in percent of calls.
    pub faulty: u64,
    /// The topics. The last one takes dead letters.
    pub topics: Vec<Id>,
    /// The subscriptions. The last one reads the dead letters.
    pub subscriptions: Vec<Subscription>,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// What the seed says.
    pub fn draw(kind: Kind, seed: u64) -> Self {
        draw::draw(kind, seed)
    }

    /// The same with a fault of the program's own.
    #[must_use]
    pub fn with(self, planted: Planted) -> Self {
        Self { planted, ..self }
    }

    /// The subscription of that number, which is made on the way with a topic of its own.
    pub fn extra(&self, number: u32) -> Subscription {
        draw::extra(number)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        match self.kind {
            Kind::Memory | Kind::Disk => 1,
            Kind::Cluster => 3,
        }
    }
}

//! What clients asked for and what they were answered, in the order in which it happened.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::executor::{Node, Timers};

/// Names of topics and subscriptions, without their project.
pub type Id = Arc<str>;

/// A node from one start to its end; greater for each later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life(pub u32);

/// A message as its publisher has it. Texts are unique.
#[derive(Clone, PartialEq, Eq)]
pub struct Sent {
    /// What tells it from all others; its data is made from it.
    pub text: Id,
    /// The ordering key; empty = none.
    pub key: &'static str,
    /// What filters look at.
    pub kind: &'static str,
}

/// A lease as its consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The number of the lease, unique in a history.
    pub lease: u64,
    /// The message's id.
    pub id: u64,
    /// What its data says.
    pub text: Id,
    /// Its ordering key.
    pub key: String,
    /// Its attribute `kind`.
    pub kind: String,
    /// The epoch of its owner: leases of another are over.
    pub epoch: u64,
    /// Which delivery of it this is.
    pub attempt: u32,
    /// As a dead letter, whose it was; replayed, and as a letter: the first message's id.
    pub letter_of: Option<String>,
    /// The id it had first, if it was dead-lettered.
    pub original: Option<u64>,
    /// Whether its data is what was published under that text.
    pub is_whole: bool,
}

/// Where a seek goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A snapshot, by name.
    Snapshot(Id),
    /// A time to come: all there is counts as acked.
    Future,
    /// The beginning.
    Past,
}

/// Something a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A topic.
    CreateTopic(Id),
    /// Its end.
    DeleteTopic(Id),
    /// A subscription.
    CreateSubscription(Id),
    /// Its end.
    DeleteSubscription(Id),
    /// Messages for a topic.
    Publish(Id, Vec<Sent>),
    /// Leases of a subscription are settled.
    Ack(Id, Vec<u64>),
    /// Leases of a subscription are given back.
    Nack(Id, Vec<u64>),
    /// Leases of a subscription last longer.
    Extend(Id, Vec<u64>),
    /// A snapshot of a subscription.
    Snapshot(Id, Id),
    /// A subscription goes elsewhere.
    Seek(Id, Goal),
    /// Letters of a subscription are replayed.
    Replay(Id, Vec<u64>),
    /// Everything there is.
    List,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The ids of messages.
    Ids(Vec<u64>),
    /// It is done but for these, by their place in the call.
    DoneBut(Vec<usize>),
    /// Everything there is.
    Found(BTreeSet<String>),
    /// An error: it may have happened all the same.
    Failed(String),
}

/// What befalls nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves.
    Up,
    /// It is stopped as a process can be, and knows nothing of it.
    Paused,
    /// It goes on.
    Resumed,
    /// Its log has failed: it serves nothing more.
    Failed,
    /// It is gone, with all it had in memory.
    Killed,
    /// It was asked to end, and has.
    Closed,
    /// The store does not answer it.
    CutOff,
    /// The store answers again.
    Reached,
    /// Its wall clock was set, by microseconds.
    Jumped(i64),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks for something, under a number of its own.
    Asked(u64, Ask),
    /// A node has answered.
    Answered(u64, Life, Answer),
    /// A subscription gives leases to a consumer.
    Leased(Id, u64, Life, Vec<Seen>),
    /// Something befalls a node.
    Befell(Node, Life, Fate),
    /// A node takes a shard, or lets it go.
    Owns(Node, u32, bool),
}

/// An event and its time, in microseconds since the world began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: u64,
    /// What.
    pub event: Event,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}.{:06} {}", self.at / 1_000_000, self.at % 1_000_000, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(call, ask) => write!(f, "{call}: {ask:?}"),
            Self::Answered(call, life, answer) => write!(f, "{call}: {answer:?} by {}", life.0),
            Self::Leased(id, consumer, life, seen) => {
                write!(f, "{id} leases to {consumer:x} by {}:", life.0)?;
                seen.iter().try_for_each(|seen| write!(f, " {seen}"))
            }
            Self::Befell(node, life, fate) => write!(f, "node {} ({}): {fate:?}", node.0, life.0),
            Self::Owns(node, shard, true) => write!(f, "node {} has shard {shard}", node.0),
            Self::Owns(node, shard, false) => write!(f, "node {} gives shard {shard}", node.0),
        }
    }
}

/// Short, since there are many of them.
impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.text, self.key, self.kind)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, id, text, key, attempt, .. } = self;
        write!(f, "[{lease}: {id} {text}/{key} x{attempt}")?;
        if let Some(original) = self.original {
            write!(f, " of {original} {:?}", self.letter_of)?;
        }
        f.write_str("]")
    }
}

impl Event {
    /// Whether it has to do with a subscription or topic; what befalls nodes always has.
    pub fn is_about(&self, ids: &[&str], calls: &mut BTreeSet<u64>) -> bool {
        let is_one = |id: &Id| ids.contains(&&**id);
        match self {
            Self::Asked(call, ask) => {
                let is_about = ask.subjects().into_iter().any(is_one);
                is_about && calls.insert(*call)
            }
            Self::Answered(call, ..) => calls.contains(call),
            Self::Leased(id, ..) => is_one(id),
            Self::Befell(..) | Self::Owns(..) => true,
        }
    }
}

impl Ask {
    fn subjects(&self) -> Vec<&Id> {
        match self {
            Self::CreateTopic(id)
            | Self::DeleteTopic(id)
            | Self::CreateSubscription(id)
            | Self::DeleteSubscription(id)
            | Self::Publish(id, _)
            | Self::Ack(id, _)
            | Self::Nack(id, _)
            | Self::Extend(id, _)
            | Self::Snapshot(id, _)
            | Self::Seek(id, _)
            | Self::Replay(id, _) => vec![id],
            Self::List => Vec::new(),
        }
    }
}

/// A history while it is written.
pub struct History {
    time: Arc<Timers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    calls: u64,
    leases: u64,
}

impl History {
    pub(crate) fn new(time: Arc<Timers>) -> Self {
        Self { time, state: Mutex::default() }
    }

    /// Notes what happens now.
    pub fn note(&self, event: Event) {
        let at = self.time.now();
        self.state.lock().entries.push(Entry { at, event });
    }

    /// Notes what a client asks for; returns the call's number.
    pub fn ask(&self, ask: Ask) -> u64 {
        let call = {
            let mut state = self.state.lock();
            state.calls += 1;
            state.calls
        };
        self.note(Event::Asked(call, ask));
        call
    }

    /// A number for the next lease.
    pub fn number_lease(&self) -> u64 {
        let mut state = self.state.lock();
        state.leases += 1;
        state.leases
    }

    /// All of it so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.state.lock().entries.clone()
    }

    /// Calls `look` with what there is so far.
    pub fn look<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.state.lock().entries)
    }
}

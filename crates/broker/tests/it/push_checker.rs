//! Knows what was published and what each endpoint was sent, and says which promise broke.
//!
//! Faults begin with the promise's name:
//!
//! D1  an answered publish reaches every subscription
//! D2  nothing arrives that was not published, or changed
//! A1  what is acked does not come again, unless a power cut took the ack back
//! O1  per lane first arrivals are in order, and a repeat is followed by what followed it
//! O2  one request in flight per lane

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use domain::delivery::Ordering;
use domain::{OffsetRange, ProgressChange, SubscriptionId};
use parking_lot::Mutex;
use storage::Commit;
use tokio::sync::watch;

use crate::push_receiver::Pushed;

const DRAIN_MAX: Duration = Duration::from_secs(30);
const FAULTS_MAX: usize = 20;

/// What was answered to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The first so many messages are acked.
    Acked(usize),
    Failed,
}

/// May be told things from anywhere.
#[derive(Default)]
pub(crate) struct PushChecker {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    life: u64,
    /// Text → ordering key of all that was ever to be published, answered or not.
    sent: HashMap<String, String>,
    /// Id → text, of what is known to be in the topic.
    texts: BTreeMap<u64, String>,
    /// Lane → ids known to be in it. All of them are in that of FIFO, which has no key.
    lanes: BTreeMap<Option<String>, BTreeSet<u64>>,
    subscriptions: BTreeMap<String, Known>,
    /// Acks that the log has taken in this life, in the order in which it did.
    taken: Vec<(SubscriptionId, OffsetRange)>,
    faults: Vec<String>,
}

struct Known {
    id: SubscriptionId,
    ordering: Ordering,
    lanes: BTreeMap<Option<String>, Lane>,
    /// Id → the life in which a success was answered last.
    acked: BTreeMap<u64, u64>,
    /// Acks that no power cut can take back.
    durable: BTreeSet<u64>,
    /// How often something came again whose ack a power cut took back.
    taken_back: usize,
}

#[derive(Default)]
struct Lane {
    highest: Option<u64>,
    seen: BTreeSet<u64>,
    /// The last request.
    last: Vec<u64>,
    life: u64,
    /// `None` = it is in flight.
    outcome: Option<Outcome>,
}

impl PushChecker {
    pub(crate) fn add(&self, name: &str, id: SubscriptionId, ordering: Ordering) {
        let known = Known {
            id,
            ordering,
            lanes: BTreeMap::new(),
            acked: BTreeMap::new(),
            durable: BTreeSet::new(),
            taken_back: 0,
        };
        self.state.lock().subscriptions.insert(name.to_owned(), known);
    }

    /// A broker is about to start; the one before it has gone.
    pub(crate) fn begin_life(&self) {
        let mut state = self.state.lock();
        state.life += 1;
        state.taken.clear();
    }

    /// These texts are about to be published.
    pub(crate) fn publish_begins(&self, messages: &[(String, String)]) {
        self.state.lock().sent.extend(messages.iter().cloned());
    }

    /// They were published.
    pub(crate) fn publish_answered(&self, messages: &[(String, String)], ids: OffsetRange) {
        let mut state = self.state.lock();
        if ids.len() != messages.len() as u64 {
            state.fault(format!("D2 {} messages published as {ids:?}", messages.len()));
        }
        for (id, (text, key)) in (ids.from.0..).zip(messages) {
            state.learn(id, text, key);
        }
    }

    /// The log has taken these commits into its queue, and knows them in that order. Returns what
    /// to tell `durable` when something is durable that was queued after them.
    pub(crate) fn taken(&self, commits: Vec<Commit>) -> usize {
        let mut state = self.state.lock();
        for (subscription, change) in commits.into_iter().flat_map(|commit| commit.progress) {
            if let ProgressChange::Settled(ranges) = change {
                state.taken.extend(ranges.into_iter().map(|range| (subscription, range)));
            }
        }
        state.taken.len()
    }

    /// The first `count` acks that the log took are durable: none of them may come again.
    pub(crate) fn durable(&self, count: usize) {
        let state = &mut *self.state.lock();
        for (subscription, range) in &state.taken[..count] {
            let known = state.subscriptions.values_mut().find(|known| known.id == *subscription);
            known.unwrap().durable.extend(range.from.0..range.to.0);
        }
    }

    /// A request has come.
    pub(crate) fn arrived(&self, name: &str, messages: &[Pushed]) {
        self.state.lock().arrived(name, messages);
    }

    /// To be called just before the answer is sent.
    pub(crate) fn answers(&self, name: &str, messages: &[Pushed], outcome: Outcome) {
        let state = &mut *self.state.lock();
        let known = state.subscriptions.get_mut(name).unwrap();
        if let Some(lane) = known.lane_of(&messages[0]) {
            lane.outcome = Some(outcome);
        }
        if let Outcome::Acked(count) = outcome {
            let life = state.life;
            known.acked.extend(messages[..count].iter().map(|message| (message.id, life)));
            self.changed.send_replace(());
        }
    }

    /// Waits until no subscription is owed more than `most` messages. D1 is a fault if that takes
    /// too long.
    pub(crate) async fn until_owed(&self, most: usize) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while self.state.lock().owed().any(|(_, owed)| owed.len() > most) {
                changed.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(DRAIN_MAX, waiting).await.is_err() {
            let state = &mut *self.state.lock();
            let owed: Vec<_> = state.owed().filter(|(_, owed)| owed.len() > most).collect();
            state.fault(format!("D1 owed: {owed:?}"));
        }
    }

    /// Whether the log, with these commits, has taken every ack of this life.
    pub(crate) fn has_taken_all(&self, commits: Vec<Commit>) -> bool {
        self.taken(commits);
        let state = self.state.lock();
        let mut taken: HashMap<SubscriptionId, BTreeSet<u64>> = HashMap::new();
        for (subscription, range) in &state.taken {
            taken.entry(*subscription).or_default().extend(range.from.0..range.to.0);
        }
        let is_taken = |id, known: &Known| taken.get(&known.id).is_some_and(|ids| ids.contains(id));
        state.subscriptions.values().all(|known| {
            let acked = known.acked.iter().filter(|(_, life)| **life == state.life);
            acked.into_iter().all(|(id, _)| is_taken(id, known))
        })
    }

    /// A broken promise that somebody else has seen.
    pub(crate) fn fault(&self, text: String) {
        self.state.lock().fault(text);
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.state.lock().faults.clone()
    }

    /// How many messages were published, and how many acks power cuts took back.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        let taken_back = state.subscriptions.values().map(|known| known.taken_back).sum();
        (state.texts.len(), taken_back)
    }
}

impl State {
    fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("life {}: {text}", self.life));
        }
    }

    /// An id is known to be in the topic.
    fn learn(&mut self, id: u64, text: &str, key: &str) {
        let known = self.texts.entry(id).or_insert_with(|| text.to_owned());
        if known != text {
            let fault = format!("D2 {id} is {known:?} and {text:?}");
            self.fault(fault);
        }
        for lane in [None, Some(key.to_owned())] {
            self.lanes.entry(lane).or_default().insert(id);
        }
    }

    /// What one subscription has seen was published, answered or not, and is owed to all.
    fn owed(&self) -> impl Iterator<Item = (&str, Vec<u64>)> {
        self.subscriptions.iter().map(|(name, known)| {
            let owed = self.texts.keys().filter(|id| !known.acked.contains_key(id));
            (name.as_str(), owed.copied().collect())
        })
    }

    fn arrived(&mut self, name: &str, messages: &[Pushed]) {
        for Pushed { id, key, text, .. } in messages {
            if self.sent.get(text) != Some(key) {
                self.fault(format!("D2 {name} got {id} {text:?}, key {key:?}, never published"));
            }
            self.learn(*id, text, key);
        }
        let mut faults = Vec::new();
        let known = self.subscriptions.get_mut(name).unwrap();
        let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
        faults.extend(known.find_repeat(&ids, self.life));
        let key = known.lane_key(&messages[0]);
        if let Some(lane) = known.lane_of(&messages[0]) {
            let fault = lane.take(&ids, &self.lanes[&key], self.life);
            faults.extend(fault.map(|why| format!("{why}, lane {key:?}")));
        }
        known.taken_back += ids.iter().filter(|id| known.acked.contains_key(id)).count();
        for fault in faults {
            self.fault(format!("{fault}: {name} got {ids:?}"));
        }
    }
}

impl Known {
    fn lane_key(&self, message: &Pushed) -> Option<String> {
        (self.ordering == Ordering::ByKey).then(|| message.key.clone())
    }

    /// The lane of a message; `None` = it is in none.
    fn lane_of(&mut self, message: &Pushed) -> Option<&mut Lane> {
        let key = self.lane_key(message);
        (self.ordering != Ordering::None).then(|| self.lanes.entry(key).or_default())
    }

    fn find_repeat(&self, ids: &[u64], life: u64) -> Option<String> {
        let durable = ids.iter().find(|id| self.durable.contains(id));
        let acked = ids.iter().find(|id| self.acked.get(id) == Some(&life));
        match (durable, acked) {
            (Some(id), _) => Some(format!("A1 {id} comes again although its ack was durable")),
            (None, Some(id)) => Some(format!("A1 {id} comes again in the life that acked it")),
            (None, None) => None,
        }
    }
}

impl Lane {
    /// A request of this lane has come; `order` is what is known to be in it.
    fn take(&mut self, ids: &[u64], order: &BTreeSet<u64>, life: u64) -> Option<String> {
        let fault = self.find_fault(ids, order, life).map(|why| {
            format!("{why}, after {:?}, {:?}, highest {:?}", self.last, self.outcome, self.highest)
        });
        self.highest = self.highest.max(ids.last().copied());
        self.seen.extend(ids);
        (self.last, self.life, self.outcome) = (ids.to_vec(), life, None);
        fault
    }

    fn find_fault(&self, ids: &[u64], order: &BTreeSet<u64>, life: u64) -> Option<&'static str> {
        let first = ids[0];
        if !ids.windows(2).all(|pair| follows(order, Some(pair[0]), pair[1])) {
            return Some("O1 a hole or a turn in itself");
        }
        if self.highest < Some(first) && !follows(order, self.highest, first) {
            return Some("O1 something was left out");
        }
        if ids.iter().any(|id| Some(*id) < self.highest && !self.seen.contains(id)) {
            return Some("O1 a first arrival after later ones");
        }
        if self.life != life {
            return None;
        }
        match self.outcome {
            None => Some("O2 the last request was not answered yet"),
            Some(Outcome::Failed) if first != self.last[0] => Some("O1 not what failed"),
            Some(Outcome::Acked(count)) if !follows(order, Some(self.last[count - 1]), first) => {
                Some("O1 not what comes next")
            }
            Some(_) => None,
        }
    }
}

/// Whether nothing that is known stands between the two; no `one` means the beginning.
fn follows(order: &BTreeSet<u64>, one: Option<u64>, later: u64) -> bool {
    let after = one.map_or(Bound::Unbounded, Bound::Excluded);
    order.range((after, Bound::Unbounded)).next() == Some(&later)
}

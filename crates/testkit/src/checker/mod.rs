//! A checker of histories: what clients saw of a server goes in, broken promises come out.
//!
//! It knows every message sent, every id answered, every delivery and every ack, and holds them
//! against promises D1 to D4, A1, A2 and R1. Each event costs constant time; `Drained` costs the
//! number of messages sent to the topic. The content of every message sent must be unique, for it
//! is by its content that a delivery is matched with what was sent.

mod event;
mod subscription;
mod topic;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

pub use event::{Content, Event};
use subscription::Subscription;
use topic::Topic;

/// A promise of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// What was answered OK reaches every subscription.
    D1,
    /// Nothing unpublished arrives.
    D2,
    /// No holes inside a request and key.
    D3,
    /// Ids are unique and grow.
    D4,
    /// An ack sticks.
    A1,
    /// Stale ack ids are refused, or count, as the subscription says.
    A2,
    /// What was created exists.
    R1,
    /// A lane's messages come in order.
    O1,
    /// A message is acked or becomes one dead letter.
    X1,
    /// Only what the filter lets through arrives.
    F1,
    /// Once faults end, all that is owed comes.
    L1,
}

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.what)
    }
}

/// Takes a history event by event, in the order in which its clients saw it.
#[derive(Default)]
pub struct Checker {
    crashes: Crashes,
    topics: HashMap<String, Topic>,
    subscriptions: HashMap<String, Subscription>,
    /// The topic of each request sent.
    requests: HashMap<u64, String>,
    resources: BTreeSet<String>,
    violations: Vec<Violation>,
}

/// When the server crashed, and how much a crash may take back.
#[derive(Default)]
struct Crashes {
    /// In microseconds, ascending.
    at: Vec<u64>,
    ack_loss: Duration,
}

/// Where violations go.
type Found<'list> = &'list mut Vec<Violation>;

impl Checker {
    /// A checker that lets a crash take back the ordinary acks of the last `ack_loss`.
    pub fn new(ack_loss: Duration) -> Self {
        Self { crashes: Crashes { at: Vec::new(), ack_loss }, ..Self::default() }
    }

    /// The promises broken so far, in the order in which that was seen.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Takes the next event.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Created { resource } => drop(self.resources.insert(resource)),
            Event::DeleteSent { resource } => drop(self.resources.remove(&resource)),
            Event::Found { resources } => self.found(&resources),
            Event::Subscribed { subscription, topic, exactly_once } => {
                let start = self.topics.entry(topic.clone()).or_default().requests();
                let new = Subscription::new(topic, exactly_once, start);
                self.subscriptions.insert(subscription, new);
            }
            Event::PublishSent { request, topic, messages } => {
                self.topics.entry(topic.clone()).or_default().sent(request, messages);
                self.requests.insert(request, topic);
            }
            Event::PublishAnswered { request, ids } => self.answered(request, &ids),
            Event::Delivered { subscription, id, content, ack_id } => {
                self.delivered(&subscription, id, &content, ack_id);
            }
            Event::AckSent { subscription, ack_id } => {
                if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
                    subscription.ack_sent(ack_id, &self.crashes);
                }
            }
            Event::AckAnswered { subscription, ack_id, accepted, at } => {
                if let Some(subscription) = self.subscriptions.get_mut(&subscription) {
                    let found = &mut self.violations;
                    subscription.ack_answered(ack_id, accepted, at, &self.crashes, found);
                }
            }
            Event::Crashed { at } => self.crashes.at.push(at),
            Event::Drained { subscription } => self.drained(&subscription),
        }
    }

    fn found(&mut self, resources: &BTreeSet<String>) {
        for missing in self.resources.difference(resources) {
            let what = format!("{missing} was created and is not there");
            self.violations.push(Violation { promise: Promise::R1, what });
        }
    }

    fn answered(&mut self, request: u64, ids: &[u64]) {
        let topic = self.requests.get(&request).and_then(|topic| self.topics.get_mut(topic));
        match topic {
            Some(topic) => topic.answered(request, ids, &mut self.violations),
            None => {
                let what = format!("request {request} was answered but never sent");
                self.violations.push(Violation { promise: Promise::D2, what });
            }
        }
    }

    fn delivered(&mut self, name: &str, id: u64, content: &Content, ack_id: u64) {
        let Some(subscription) = self.subscriptions.get_mut(name) else { return };
        let topic = self.topics.entry(subscription.topic().to_owned()).or_default();
        if topic.delivered(id, content, &mut self.violations) {
            subscription.delivered(id, content, ack_id, &self.crashes, &mut self.violations);
        }
    }

    fn drained(&mut self, name: &str) {
        if let Some(subscription) = self.subscriptions.get(name)
            && let Some(topic) = self.topics.get(subscription.topic())
        {
            subscription.drained(name, topic, &mut self.violations);
        }
    }
}

impl Crashes {
    /// How many there were: which life of the server it is.
    fn life(&self) -> usize {
        self.at.len()
    }

    /// Whether an ack answered at `at` in that life may have been taken back since.
    fn may_undo(&self, at: u64, life: usize) -> bool {
        let loss = u64::try_from(self.ack_loss.as_micros()).unwrap_or(u64::MAX);
        self.at.get(life).is_some_and(|crash| *crash <= at.saturating_add(loss))
    }
}

#[cfg(test)]
mod tests;

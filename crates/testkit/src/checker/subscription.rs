//! What a subscription was given and has acked.

use std::collections::HashMap;

use super::topic::{Request, Topic};
use super::{Content, Crashes, Found, Promise, Violation};

pub(super) struct Subscription {
    topic: String,
    exactly_once: bool,
    /// How many requests the topic had taken before the subscription existed.
    start: usize,
    /// Messages delivered, by digest.
    messages: HashMap<u64, State>,
    /// Deliveries by ack id.
    deliveries: HashMap<u64, Delivery>,
}

#[derive(Default)]
struct State {
    id: u64,
    newest_ack_id: u64,
    /// The life of the server in which an ack was sent, whatever became of it, and since when the
    /// message has not come again.
    ack_sent: Option<usize>,
    acked: Option<Acked>,
}

struct Acked {
    at: u64,
    life: usize,
    /// Its ack id was not the newest one.
    late: bool,
}

struct Delivery {
    digest: u64,
    life: usize,
    /// When its ack was sent it was no longer the current lease.
    stale: bool,
}

impl Subscription {
    pub(super) fn new(topic: String, exactly_once: bool, start: usize) -> Self {
        let (messages, deliveries) = (HashMap::new(), HashMap::new());
        Self { topic, exactly_once, start, messages, deliveries }
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn delivered(
        &mut self,
        id: u64,
        content: &Content,
        ack_id: u64,
        crashes: &Crashes,
        found: Found<'_>,
    ) {
        let exactly_once = self.exactly_once;
        let state = self.messages.entry(content.digest).or_default();
        if let Some(acked) = state.acked.take() {
            let undone = !exactly_once && crashes.may_undo(acked.at, acked.life);
            if !undone {
                let promise = if acked.late { Promise::A2 } else { Promise::A1 };
                let what = format!("id {id} was delivered again after its ack was accepted");
                found.push(Violation { promise, what });
            }
            state.ack_sent = None;
        }
        // A crash ends what was under way: a message that comes again was not settled.
        state.ack_sent = state.ack_sent.filter(|life| *life == crashes.life());
        state.id = id;
        state.newest_ack_id = ack_id;
        let digest = content.digest;
        self.deliveries.insert(ack_id, Delivery { digest, life: crashes.life(), stale: false });
    }

    pub(super) fn ack_sent(&mut self, ack_id: u64, crashes: &Crashes) {
        let Some(delivery) = self.deliveries.get_mut(&ack_id) else { return };
        if let Some(state) = self.messages.get_mut(&delivery.digest) {
            state.ack_sent = Some(crashes.life());
            delivery.stale = state.newest_ack_id != ack_id || delivery.life != crashes.life();
        }
    }

    pub(super) fn ack_answered(
        &mut self,
        ack_id: u64,
        accepted: bool,
        at: u64,
        crashes: &Crashes,
        found: Found<'_>,
    ) {
        let Some(delivery) = self.deliveries.get(&ack_id) else { return };
        let Some(state) = self.messages.get_mut(&delivery.digest) else { return };
        if !accepted {
            return;
        }
        if self.exactly_once && delivery.stale {
            let what = format!("id {} was acked with a stale ack id", state.id);
            found.push(Violation { promise: Promise::A2, what });
        }
        state.acked = Some(Acked { at, life: crashes.life(), late: delivery.stale });
    }

    /// Nothing is left: every message answered must have been settled, and requests without an
    /// answer must not have holes.
    pub(super) fn drained(&self, name: &str, topic: &Topic, found: Found<'_>) {
        for request in topic.requests_from(self.start) {
            if request.answered {
                self.check_settled(name, request, found);
            } else {
                self.check_holes(name, request, found);
            }
        }
    }

    fn check_settled(&self, name: &str, request: &Request, found: Found<'_>) {
        for (place, content) in request.messages.iter().enumerate() {
            let how = match self.messages.get(&content.digest) {
                None => "was never delivered",
                Some(state) if state.ack_sent.is_none() => {
                    "was delivered, not acked, and never came again"
                }
                Some(_) => continue,
            };
            let what = format!("{name}: message {place} of request {} {how}", request.number);
            found.push(Violation { promise: Promise::D1, what });
        }
    }

    fn check_holes(&self, name: &str, request: &Request, found: Found<'_>) {
        let mut missing = HashMap::new();
        for (place, content) in request.messages.iter().enumerate() {
            if !self.messages.contains_key(&content.digest) {
                missing.entry(content.key.as_str()).or_insert(place);
            } else if let Some(hole) = missing.get(content.key.as_str()) {
                let number = request.number;
                let what = format!("{name}: request {number} has {place} but not {hole}");
                found.push(Violation { promise: Promise::D3, what });
            }
        }
    }
}

//! What the server says, as a gateway is told it.

use wire::live::frame::Kind;
use wire::live::{self, Frame, Outcome, outcome};

use super::Gateway;
use crate::{Message, clock};

/// What happens to a gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A message matches.
    Message(Match),
    /// The server knows this subscription, from now on or still.
    Registered(String),
    /// The server does not take this subscription.
    Refused {
        /// The subscription.
        id: String,
        /// Why, for programs: `TENANT_QUOTA_EXCEEDED`.
        code: String,
        /// Why, for people.
        message: String,
    },
    /// Frames were lost: fetch what is shown again. Everything is registered again.
    Resync(String),
    /// Why nothing will come, if the server matches no topic's messages.
    Warning(String),
    /// The connection was lost, and is made again.
    Lost(String),
}

/// A message and the subscriptions that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The topic it was published to.
    pub topic: String,
    /// Its place there.
    pub offset: u64,
    /// The message.
    pub message: Message,
    /// The subscriptions, each with what the message means for what it shows, where the message
    /// tells of the document before.
    pub subscriptions: Vec<(String, Option<Change>)>,
}

/// What a message means for what a subscription shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The document did not match, and does now.
    Enter,
    /// It matched before too.
    Update,
    /// It matched, and does no longer.
    Leave,
}

impl Change {
    fn new(change: live::Change) -> Option<Self> {
        match change {
            live::Change::Unspecified => None,
            live::Change::Enter => Some(Self::Enter),
            live::Change::Update => Some(Self::Update),
            live::Change::Leave => Some(Self::Leave),
        }
    }
}

impl Gateway {
    pub(super) fn read(&mut self, frame: Frame) {
        self.failures = 0;
        let Frame { sequence, kind } = frame;
        match kind {
            Some(Kind::Results(results)) => return self.read_results(results),
            Some(Kind::Message(found)) => self.events.push_back(Event::Message(matched(found))),
            Some(Kind::Resync(live::Resync { reason })) => {
                self.events.push_back(Event::Resync(reason));
                self.register_all();
            }
            // What was sent when the stream was opened may have been before.
            Some(Kind::Register(_) | Kind::Expired(_)) => self.register_all(),
            Some(Kind::Heartbeat(_)) | None => {}
        }
        self.last = Some(sequence);
    }

    fn read_results(&mut self, results: live::Results) {
        if !results.warning.is_empty() {
            self.events.push_back(Event::Warning(results.warning));
        }
        for Outcome { subscription_id: id, kind } in results.results {
            match kind {
                Some(outcome::Kind::Registered(registered)) if !registered.renewed => {
                    self.events.push_back(Event::Registered(id));
                }
                Some(outcome::Kind::Fault(fault)) => self.read_fault(id, fault),
                _ => {}
            }
        }
    }

    fn read_fault(&mut self, id: String, fault: live::Fault) {
        if !is_gone(&fault.code) {
            self.wishes.remove(&id);
            let live::Fault { code, message, .. } = fault;
            self.events.push_back(Event::Refused { id, code, message });
            return;
        }
        // A heartbeat came too late: what is still wanted is registered again.
        if let Some(wish) = self.wishes.get(&id).cloned() {
            self.ask(live::StreamRequest { register: vec![wish], ..Default::default() });
        }
    }
}

fn is_gone(code: &str) -> bool {
    matches!(code, "SUBSCRIPTION_NOT_FOUND" | "SUBSCRIPTION_EXPIRED")
}

fn matched(found: live::Match) -> Match {
    let changes: Vec<_> = found.changes().map(Change::new).collect();
    let ids = found.subscription_ids.into_iter().enumerate();
    let subscriptions =
        ids.map(|(place, id)| (id, changes.get(place).copied().flatten())).collect();
    let message = found.message.unwrap_or_default();
    let message = Message {
        id: message.message_id,
        data: message.data,
        attributes: message.attributes,
        ordering_key: message.ordering_key,
        publish_time: message.publish_time.as_ref().and_then(clock::from_wire),
        delivery_attempt: None,
        subscription: None,
    };
    Match { topic: found.topic, offset: found.offset, message, subscriptions }
}

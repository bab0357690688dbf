//! What was sent to a topic, and under which ids it is known.

use std::collections::HashMap;

use super::{Content, Found, Promise, Violation};

#[derive(Default)]
pub(super) struct Topic {
    requests: Vec<Request>,
    /// Places in `requests` by the caller's number.
    numbers: HashMap<u64, usize>,
    /// Each message sent, by digest, and the id it is known under.
    sent: HashMap<u64, Known>,
    /// The digest of the message that each id stands for.
    ids: HashMap<u64, u64>,
    /// The highest id answered so far.
    highest: Option<u64>,
}

/// A publish request.
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) messages: Vec<Content>,
    pub(super) answered: bool,
    /// The highest id answered before it was sent: its own must be higher.
    floor: Option<u64>,
}

struct Known {
    key: String,
    id: Option<u64>,
}

impl Topic {
    /// How many requests were sent so far.
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn requests_from(&self, start: usize) -> &[Request] {
        self.requests.get(start..).unwrap_or_default()
    }

    pub(super) fn sent(&mut self, number: u64, messages: Vec<Content>) {
        for content in &messages {
            self.sent.insert(content.digest, Known { key: content.key.clone(), id: None });
        }
        self.numbers.insert(number, self.requests.len());
        let floor = self.highest;
        self.requests.push(Request { number, messages, answered: false, floor });
    }

    pub(super) fn answered(&mut self, number: u64, ids: &[u64], found: Found<'_>) {
        let Some(request) = self.numbers.get(&number).and_then(|at| self.requests.get_mut(*at))
        else {
            return;
        };
        request.answered = true;
        if ids.len() != request.messages.len() {
            let (sent, got) = (request.messages.len(), ids.len());
            let what = format!("request {number}: {got} ids for {sent} messages");
            found.push(Violation { promise: Promise::D4, what });
        }
        let mut last = request.floor;
        let digests: Vec<_> = request.messages.iter().map(|content| content.digest).collect();
        for (&id, digest) in ids.iter().zip(digests) {
            if last >= Some(id) {
                let what = format!("request {number}: id {id} does not follow {last:?}");
                found.push(Violation { promise: Promise::D4, what });
            }
            last = Some(id);
            self.highest = self.highest.max(last);
            self.name(id, digest, found);
        }
    }

    /// Whether something like it was sent; if so its id is checked.
    pub(super) fn delivered(&mut self, id: u64, content: &Content, found: Found<'_>) -> bool {
        let known = self.sent.get(&content.digest);
        if known.is_none_or(|known| known.key != content.key) {
            let what = format!("id {id} was delivered with content that nobody published");
            found.push(Violation { promise: Promise::D2, what });
            return false;
        }
        self.name(id, content.digest, found);
        true
    }

    /// Ties a message to its id.
    fn name(&mut self, id: u64, digest: u64, found: Found<'_>) {
        if *self.ids.entry(id).or_insert(digest) != digest {
            let what = format!("id {id} stands for two messages");
            found.push(Violation { promise: Promise::D4, what });
        }
        if let Some(known) = self.sent.get_mut(&digest)
            && *known.id.get_or_insert(id) != id
        {
            let what = format!("one message was published once and has ids {:?}, {id}", known.id);
            found.push(Violation { promise: Promise::D2, what });
        }
    }
}

//! Knows what was published and what each subscription was given, and says which promise broke.
//!
//! It is told of one thing after another, so that it knows at any time what every record must be:
//! waiting, leased, acked behind another of its lane, or settled. Faults begin with the promise:
//!
//! D1  an answered publish reaches every subscription whose filter it matches
//! D2  nothing arrives that was not published
//! A1  what is settled does not come again, unless a crash took the ack back
//! O1  per lane nothing comes before what is unsettled in front of it, and to one consumer only
//! X1  a message is acked or becomes one dead letter, after all its attempts; one replay a letter
//! F1  nothing arrives that the filter keeps out

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::Subscription;
use domain::delivery::{Lease, Ordering};

use crate::fixture::decoded;

/// What must be so of a record at a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Leased {
        consumer: u64,
    },
    /// Acked behind an unsettled record of its lane.
    Provisional,
    /// Until something later is durable, a crash may take it back.
    Settled {
        is_durable: bool,
    },
    /// Settled or waiting: a crash, or an owner who gives it up, has decided.
    Unsure,
}

use Standing::{Leased, Provisional, Settled, Unsure, Waiting};

#[derive(Clone, Debug)]
struct Record {
    key: String,
    standing: Standing,
    /// How many deliveries have failed, at most.
    failures: u32,
    /// An ack was sent, or even answered, and it has not come since.
    ack: Ack,
    /// Its publish was answered.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ack {
    None,
    Sent,
    Answered,
}

pub(crate) struct Known {
    ordering: Ordering,
    exactly_once: bool,
    attempts_max: Option<u32>,
    /// The only kind that its filter lets through.
    kind: Option<String>,
    records: BTreeMap<u64, Record>,
    /// The original's id → letters, and messages that were replayed.
    letters: BTreeMap<u64, BTreeSet<u64>>,
    replayed: BTreeMap<u64, BTreeSet<u64>>,
    /// Up to here everything that is not in `records` is settled for good.
    over_to: u64,
    /// A seek has sent it elsewhere.
    was_sought: bool,
}

#[derive(Default)]
pub(crate) struct PullChecker {
    /// Text → (key, kind) of all that was ever to be published.
    sent: HashMap<String, (String, String)>,
    /// Id → text of what is known to be in the topic.
    texts: BTreeMap<u64, String>,
    pub(crate) subscriptions: BTreeMap<String, Known>,
    pub(crate) faults: Vec<String>,
    pub(crate) delivered: usize,
    pub(crate) taken_back: usize,
}

/// A message as a consumer sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    pub(crate) text: String,
    pub(crate) key: String,
    /// It was replayed for this message.
    pub(crate) original: Option<u64>,
}

impl Seen {
    pub(crate) fn of(lease: &Lease) -> Self {
        let message = decoded(lease);
        Self {
            id: lease.ack_id.offset().0,
            text: String::from_utf8(message.data.to_vec()).unwrap(),
            key: message.ordering_key,
            original: message.attributes.get("original_message_id").map(|id| id.parse().unwrap()),
        }
    }
}

/// What is settled, as a snapshot or a seek sees it.
pub(crate) type Standings = BTreeMap<u64, Standing>;

impl PullChecker {
    pub(crate) fn add(&mut self, name: &str, settings: &Subscription, kind: Option<&str>) {
        let known = Known {
            ordering: settings.ordering(),
            exactly_once: settings.exactly_once,
            attempts_max: settings
                .dead_letter_policy
                .as_ref()
                .map(|policy| policy.max_delivery_attempts),
            kind: kind.map(str::to_owned),
            records: BTreeMap::new(),
            letters: BTreeMap::new(),
            replayed: BTreeMap::new(),
            over_to: 0,
            was_sought: false,
        };
        self.subscriptions.insert(name.to_owned(), known);
    }

    pub(crate) fn publish_begins(&mut self, text: &str, key: &str, kind: &str) {
        self.sent.insert(text.to_owned(), (key.to_owned(), kind.to_owned()));
    }

    /// It was published. What was queued before it is durable too: commits keep their order.
    pub(crate) fn published(&mut self, text: &str, id: u64) {
        self.learn(id, text, true);
        self.all_durable();
    }

    /// Whatever was answered before is durable.
    pub(crate) fn all_durable(&mut self) {
        for record in self.subscriptions.values_mut().flat_map(|known| known.records.values_mut()) {
            if let Settled { is_durable } = &mut record.standing {
                *is_durable = true;
            }
        }
    }

    /// A message is in the topic. One whose publish was never answered may have been there when a
    /// subscription was sent past all there was.
    fn learn(&mut self, id: u64, text: &str, is_answered: bool) {
        let Some((key, kind)) = self.sent.get(text).cloned() else {
            return self.faults.push(format!("D2 {id} {text:?} was never published"));
        };
        let known = self.texts.entry(id).or_insert_with(|| text.to_owned());
        if known != text {
            self.faults.push(format!("D2 {id} is {known:?} and {text:?}"));
        }
        for known in self.subscriptions.values_mut() {
            if id > known.over_to && known.kind.as_ref().is_none_or(|wanted| *wanted == kind) {
                let is_sure = is_answered || !known.was_sought;
                let standing = if is_sure { Waiting } else { Unsure };
                let record = || Record { standing, is_answered, ..Record::waiting(&key) };
                known.records.entry(id).or_insert_with(record);
            }
        }
    }

    /// A consumer was given a message.
    pub(crate) fn given(&mut self, name: &str, consumer: u64, seen: &Seen) {
        self.delivered += 1;
        if seen.original.is_none() {
            self.learn(seen.id, &seen.text, false);
        }
        let known = self.subscriptions.get_mut(name).unwrap();
        if let Some(original) = seen.original {
            known.records.entry(seen.id).or_insert_with(|| Record::waiting(&seen.key));
            known.replayed.entry(original).or_default().insert(seen.id);
        }
        self.taken_back += usize::from(known.standing(seen.id) == Some(Unsure));
        let faults = known.give(seen.id, consumer);
        self.faults.extend(faults.into_iter().map(|fault| format!("{fault}: {name}")));
    }

    /// An ack was answered. `Err`: it was not, and may have happened.
    pub(crate) fn acked(&mut self, name: &str, id: u64, answered: Result<(), ()>) {
        self.subscriptions.get_mut(name).unwrap().ack(id, answered.is_ok());
    }

    /// A delivery failed. Gives the leases that end with it.
    pub(crate) fn failed(&mut self, name: &str, id: u64) -> Vec<u64> {
        self.subscriptions.get_mut(name).unwrap().fail(id)
    }

    /// All leases are over.
    pub(crate) fn expired(&mut self) {
        for known in self.subscriptions.values_mut() {
            known.lose_leases(true);
        }
    }

    /// The power has gone.
    pub(crate) fn cut(&mut self) {
        for known in self.subscriptions.values_mut() {
            known.lose_leases(false);
            for record in known.records.values_mut() {
                if record.standing == (Settled { is_durable: false }) {
                    record.standing = Unsure;
                }
            }
        }
    }

    /// The dead letter topic has one of `name`.
    pub(crate) fn letter(&mut self, name: &str, original: u64, id: u64) {
        let known = self.subscriptions.get_mut(name).unwrap();
        let fault = known.take_letter(original, id);
        self.faults.extend(fault.map(|fault| format!("{fault}: {name}")));
    }

    /// What is not settled yet at any subscription, and letters without their replay.
    pub(crate) fn owed(&self) -> Vec<(&str, u64)> {
        let owed = self.subscriptions.iter().flat_map(|(name, known)| {
            let waiting = known.records.iter().filter(|(id, record)| known.is_owed(**id, record));
            waiting.map(|(id, _)| (name.as_str(), *id))
        });
        owed.collect()
    }

    /// The first few of what is owed, with all that is known of them.
    pub(crate) fn tell_owed(&self) -> Vec<String> {
        let told = self.owed().into_iter().take(5).map(|(name, id)| {
            format!("{id} to {name}: {:?}", self.subscriptions[name].records[&id])
        });
        told.collect()
    }

    /// Originals whose letters were not seen to be replayed, with their letters.
    pub(crate) fn letters_to_replay(&self, name: &str) -> Vec<(u64, u64)> {
        let known = &self.subscriptions[name];
        let letters = known.letters.iter().filter(|(id, _)| !known.replayed.contains_key(id));
        letters.filter_map(|(id, letters)| Some((*id, *letters.first()?))).collect()
    }

    /// What is settled for good is over: should it come again, that is a fault all the same.
    pub(crate) fn forget_settled(&mut self) {
        for known in self.subscriptions.values_mut() {
            known.records.retain(|id, record| {
                let is_over = record.standing == Settled { is_durable: true };
                known.over_to = known.over_to.max(if is_over { *id } else { 0 });
                !is_over
            });
            known.letters.clear();
            known.replayed.clear();
        }
        self.texts.clear();
    }

    /// A subscription's state, for a snapshot.
    pub(crate) fn snapshot(&self, name: &str) -> Standings {
        let records = &self.subscriptions[name].records;
        records.iter().map(|(id, record)| (*id, record.standing)).collect()
    }

    /// A subscription's state once all that is there counts as acked.
    pub(crate) fn all_settled(&self, name: &str) -> Standings {
        let ids = self.subscriptions[name].records.keys();
        ids.map(|id| (*id, Settled { is_durable: true })).collect()
    }

    /// The subscription was sent to what a snapshot says; `Err`: perhaps.
    pub(crate) fn sought(&mut self, name: &str, snapshot: &Standings, answered: Result<(), ()>) {
        let known = self.subscriptions.get_mut(name).unwrap();
        known.was_sought = true;
        for (id, record) in &mut known.records {
            let then = match snapshot.get(id) {
                Some(Settled { .. }) => Settled { is_durable: true },
                Some(Unsure) => Unsure,
                // It was there unknown, perhaps, and perhaps settled.
                None if !record.is_answered => Unsure,
                Some(Waiting | Leased { .. } | Provisional) | None => Waiting,
            };
            let now = match record.standing {
                Leased { .. } | Provisional => Waiting,
                other => other,
            };
            record.standing = if answered.is_ok() || now == then { then } else { Unsure };
        }
    }
}

impl Record {
    fn waiting(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            standing: Waiting,
            failures: 0,
            ack: Ack::None,
            is_answered: true,
        }
    }
}

impl Known {
    pub(crate) fn standing(&self, id: u64) -> Option<Standing> {
        Some(self.records.get(&id)?.standing)
    }

    /// Records of the same lane as `id`, itself included; none if it is in no lane.
    fn lane(&mut self, id: u64) -> impl Iterator<Item = (u64, &mut Record)> {
        let key = self.records.get(&id).map(|record| record.key.clone()).unwrap_or_default();
        let ordering = self.ordering;
        let is_same = move |record: &Record| match ordering {
            Ordering::None => false,
            Ordering::ByKey => !key.is_empty() && record.key == key,
            Ordering::Fifo => true,
        };
        let records = self.records.iter_mut().filter(move |(_, record)| is_same(record));
        records.map(|(id, record)| (*id, record))
    }

    fn give(&mut self, id: u64, consumer: u64) -> Vec<String> {
        let mut faults = Vec::new();
        match self.standing(id) {
            None if id <= self.over_to => faults.push(format!("A1 {id} was settled long ago")),
            None => faults.push(format!("F1 {id} is not for it")),
            Some(Waiting | Unsure) => {}
            Some(other) => faults.push(format!("A1 {id} comes although it is {other:?}")),
        }
        for (before, record) in self.lane(id).take_while(|(before, _)| *before < id) {
            match record.standing {
                Waiting => faults.push(format!("O1 {id} comes before {before}")),
                Leased { consumer: other } if other != consumer => {
                    faults.push(format!("O1 {id} comes to {consumer}, {before} to {other}"));
                }
                // Had it not been settled, it would have come first.
                Unsure => record.standing = Settled { is_durable: true },
                Leased { .. } | Provisional | Settled { .. } => {}
            }
        }
        if let Some(record) = self.records.get_mut(&id) {
            record.standing = Leased { consumer };
            record.ack = Ack::None;
        }
        faults
    }

    fn ack(&mut self, id: u64, is_answered: bool) {
        let (exactly_once, is_in_lane) = (self.exactly_once, self.lane(id).next().is_some());
        let Some(record) = self.records.get_mut(&id) else { return };
        record.standing = match (is_answered, exactly_once, is_in_lane) {
            (false, ..) => Unsure,
            (true, true, _) => Settled { is_durable: true },
            (true, false, false) => Settled { is_durable: false },
            (true, false, true) => Provisional,
        };
        record.ack = if is_answered { Ack::Answered } else { Ack::Sent };
        for (_, record) in self.lane(id) {
            match record.standing {
                Provisional => record.standing = Settled { is_durable: false },
                Settled { .. } => {}
                Waiting | Leased { .. } | Unsure => break,
            }
        }
    }

    fn fail(&mut self, id: u64) -> Vec<u64> {
        self.note_failure(id);
        let mut ended = Vec::new();
        if self.exactly_once {
            return ended;
        }
        for (later, record) in self.lane(id).filter(|(later, _)| *later > id) {
            if matches!(record.standing, Leased { .. }) {
                ended.push(later);
            }
            if matches!(record.standing, Leased { .. } | Provisional) {
                record.standing = Waiting;
            }
        }
        ended
    }

    fn note_failure(&mut self, id: u64) {
        let attempts_max = self.attempts_max;
        if let Some(record) = self.records.get_mut(&id) {
            record.failures += 1;
            let is_given_up = attempts_max.is_some_and(|max| record.failures >= max);
            record.standing = if is_given_up { Unsure } else { Waiting };
        }
    }

    fn lose_leases(&mut self, are_failures: bool) {
        let ids: Vec<_> = self.records.keys().copied().collect();
        for id in ids {
            match self.standing(id) {
                Some(Leased { .. }) if are_failures => self.note_failure(id),
                Some(Leased { .. } | Provisional) => {
                    self.records.get_mut(&id).unwrap().standing = Waiting;
                }
                _ => {}
            }
        }
    }

    fn take_letter(&mut self, original: u64, id: u64) -> Option<String> {
        if original <= self.over_to && !self.records.contains_key(&original) {
            return None;
        }
        let letters = self.letters.entry(original).or_default();
        letters.insert(id);
        if letters.len() > 1 {
            return Some(format!("X1 {original} became the letters {letters:?}"));
        }
        let (record, max) =
            (self.records.get_mut(&original), self.attempts_max.unwrap_or(u32::MAX));
        match record {
            Some(record) if record.failures < max => {
                Some(format!("X1 {original} became a letter after {} failures", record.failures))
            }
            // Passed over in its lane, or not seen again since it failed for the last time.
            Some(record)
                if matches!(record.standing, Unsure | Settled { .. })
                    && record.ack != Ack::Answered =>
            {
                record.standing = Settled { is_durable: true };
                None
            }
            other => Some(format!("X1 {original} became a letter although it was {other:?}")),
        }
    }

    fn is_owed(&self, id: u64, record: &Record) -> bool {
        let is_given_up = self.attempts_max.is_some_and(|max| record.failures >= max);
        match record.standing {
            Waiting | Leased { .. } | Provisional => true,
            // Given up it becomes a letter, or comes again where a crash took a failure back.
            Unsure => is_given_up && record.ack == Ack::None && !self.letters.contains_key(&id),
            Settled { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;

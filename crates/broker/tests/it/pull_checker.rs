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
    /// An ack was answered and it has not come since.
    is_acked: bool,
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
        };
        self.subscriptions.insert(name.to_owned(), known);
    }

    pub(crate) fn publish_begins(&mut self, text: &str, key: &str, kind: &str) {
        self.sent.insert(text.to_owned(), (key.to_owned(), kind.to_owned()));
    }

    /// It was published. What was queued before it is durable too: commits keep their order.
    pub(crate) fn published(&mut self, text: &str, id: u64) {
        self.learn(id, text);
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

    fn learn(&mut self, id: u64, text: &str) {
        let Some((key, kind)) = self.sent.get(text).cloned() else {
            return self.faults.push(format!("D2 {id} {text:?} was never published"));
        };
        let known = self.texts.entry(id).or_insert_with(|| text.to_owned());
        if known != text {
            self.faults.push(format!("D2 {id} is {known:?} and {text:?}"));
        }
        for known in self.subscriptions.values_mut() {
            if id > known.over_to && known.kind.as_ref().is_none_or(|wanted| *wanted == kind) {
                known.records.entry(id).or_insert_with(|| Record::waiting(&key));
            }
        }
    }

    /// A consumer was given a message.
    pub(crate) fn given(&mut self, name: &str, consumer: u64, seen: &Seen) {
        self.delivered += 1;
        if seen.original.is_none() {
            self.learn(seen.id, &seen.text);
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
        for (id, record) in &mut known.records {
            let then = match snapshot.get(id) {
                Some(Settled { .. }) => Settled { is_durable: true },
                Some(Unsure) => Unsure,
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
        Self { key: key.to_owned(), standing: Waiting, failures: 0, is_acked: false }
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
            record.is_acked = false;
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
        record.is_acked = is_answered;
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
                if matches!(record.standing, Unsure | Settled { .. }) && !record.is_acked =>
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
            Unsure => is_given_up && !self.letters.contains_key(&id),
            Settled { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{dead_letters_to, settings, topic_name};

    /// A subscription `s` with 1, 2, 3 published, all of one key.
    fn world(change: impl FnOnce(&mut Subscription)) -> PullChecker {
        let mut settings = settings(&topic_name("orders"), "sub");
        change(&mut settings);
        let mut checker = PullChecker::default();
        checker.add("s", &settings, None);
        for id in 1..=3 {
            checker.publish_begins(&id.to_string(), "k", "a");
            checker.published(&id.to_string(), id);
        }
        checker
    }

    fn ordered() -> PullChecker {
        world(|settings| settings.message_ordering = true)
    }

    fn give(checker: &mut PullChecker, id: u64, consumer: u64) {
        let seen = Seen { id, text: id.to_string(), key: "k".to_owned(), original: None };
        checker.given("s", consumer, &seen);
    }

    fn ack(checker: &mut PullChecker, id: u64) {
        checker.acked("s", id, Ok(()));
    }

    fn promises(checker: &PullChecker) -> Vec<&str> {
        checker.faults.iter().map(|fault| &fault[..2]).collect()
    }

    #[test]
    fn a_sound_history_has_no_faults() {
        let mut checker = ordered();
        for id in 1..=3 {
            give(&mut checker, id, 7);
        }
        ack(&mut checker, 2);
        assert_eq!(checker.failed("s", 1), [3]);
        for id in 1..=3 {
            give(&mut checker, id, 8);
            ack(&mut checker, id);
        }
        assert_eq!((promises(&checker), checker.owed()), (vec![], vec![]));
    }

    #[test]
    fn what_is_passed_over_or_shared_in_a_lane_is_caught() {
        let mut checker = ordered();
        give(&mut checker, 2, 7);
        assert_eq!(promises(&checker), ["O1"]);
        let mut checker = ordered();
        give(&mut checker, 1, 7);
        give(&mut checker, 2, 8);
        assert_eq!(promises(&checker), ["O1"]);
        let mut checker = ordered();
        give(&mut checker, 1, 7);
        give(&mut checker, 2, 7);
        ack(&mut checker, 2);
        checker.cut();
        give(&mut checker, 1, 7);
        give(&mut checker, 3, 7);
        assert_eq!(promises(&checker), ["O1"], "the ack of 2 was provisional");
    }

    #[test]
    fn an_ack_that_does_not_stick_is_caught() {
        let mut checker = ordered();
        give(&mut checker, 1, 7);
        ack(&mut checker, 1);
        checker.all_durable();
        checker.cut();
        give(&mut checker, 1, 7);
        assert_eq!(promises(&checker), ["A1"]);
        // Exactly-once: without anything that came after it.
        let mut checker = world(|settings| settings.exactly_once = true);
        give(&mut checker, 1, 7);
        ack(&mut checker, 1);
        checker.cut();
        give(&mut checker, 1, 7);
        assert_eq!(promises(&checker), ["A1"]);
    }

    #[test]
    fn what_was_forgotten_as_settled_may_not_come_again() {
        let mut checker = world(|_| {});
        for id in 1..=2 {
            give(&mut checker, id, 7);
            ack(&mut checker, id);
        }
        checker.all_durable();
        checker.forget_settled();
        assert_eq!(checker.owed(), [("s", 3)]);
        give(&mut checker, 3, 7);
        assert_eq!(promises(&checker), [""; 0]);
        give(&mut checker, 1, 7);
        assert_eq!(promises(&checker), ["A1"]);
    }

    #[test]
    fn what_a_crash_may_take_back_is_no_fault_and_is_then_known() {
        let mut checker = ordered();
        give(&mut checker, 1, 7);
        ack(&mut checker, 1);
        checker.cut();
        give(&mut checker, 2, 7);
        assert_eq!(promises(&checker), [""; 0]);
        checker.cut();
        give(&mut checker, 1, 7);
        assert_eq!(promises(&checker), ["A1"], "it was passed over: so it was settled");
    }

    #[test]
    fn letters_that_are_early_twice_missing_or_of_acked_messages_are_caught() {
        let policy = |settings: &mut Subscription| {
            settings.dead_letter_policy = dead_letters_to("dead");
        };
        let fail = |checker: &mut PullChecker, times| {
            for _ in 0..times {
                give(checker, 1, 7);
                checker.failed("s", 1);
            }
        };
        let mut early = world(policy);
        fail(&mut early, 4);
        early.letter("s", 1, 100);
        assert_eq!(promises(&early), ["X1"]);
        let mut twice = world(policy);
        fail(&mut twice, 5);
        assert!(twice.owed().contains(&("s", 1)), "neither acked nor a letter");
        twice.letter("s", 1, 100);
        twice.letter("s", 1, 100);
        assert_eq!((promises(&twice), twice.owed().len()), (vec![], 2));
        twice.letter("s", 1, 101);
        assert_eq!(promises(&twice), ["X1"]);
        give(&mut twice, 1, 7);
        assert_eq!(promises(&twice), ["X1", "A1"]);
        let mut acked = world(policy);
        fail(&mut acked, 5);
        give(&mut acked, 1, 7);
        ack(&mut acked, 1);
        acked.letter("s", 1, 100);
        assert_eq!(promises(&acked), ["X1"]);
    }

    #[test]
    fn what_a_filter_keeps_out_and_what_nobody_published_is_caught() {
        let mut checker = world(|_| {});
        checker.add("b", &settings(&topic_name("orders"), "other"), Some("b"));
        checker.given("b", 7, &Seen { id: 1, text: "1".into(), key: "k".into(), original: None });
        checker.given("s", 7, &Seen { id: 9, text: "9".into(), key: "k".into(), original: None });
        assert_eq!(promises(&checker), ["F1", "D2", "F1"]);
    }

    #[test]
    fn a_seek_that_was_not_answered_leaves_open_what_it_would_change() {
        let mut checker = world(|settings| settings.exactly_once = true);
        give(&mut checker, 1, 7);
        ack(&mut checker, 1);
        let then = checker.snapshot("s");
        give(&mut checker, 2, 7);
        ack(&mut checker, 2);
        checker.sought("s", &then, Err(()));
        give(&mut checker, 2, 7);
        assert_eq!(promises(&checker), [""; 0]);
        checker.sought("s", &then, Ok(()));
        assert_eq!(checker.owed(), [("s", 2), ("s", 3)]);
        give(&mut checker, 1, 7);
        assert_eq!(promises(&checker), ["A1"]);
    }
}

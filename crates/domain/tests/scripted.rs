//! Runs the scripts in `tests/delivery/*.txt` against a `Delivery`.
//!
//! A script is a list of commands; a line with `>` is the reply expected to the one before. A
//! lease is written `offset@attempt`, and that also names its ack id; `e1:` before it names the
//! epoch, which is 1 at the start and one more after every `crash`.
//!
//! ```text
//! exactly-once                            settles by the current lease's id only
//! publish 3 [bytes=B] [addressee=S]       > the offsets; the subscription is number 1
//! gap 2 / damage A..B / trim A..B         offsets without a record
//! evict O / fetch A..B                    below O must be fetched first; A..B is fetched
//! consumer NAME [messages=M] [bytes=B]    opens a consumer, or changes its flow
//! close NAME
//! lease NAME [records=N] [bytes=B] [deadline=S] [since=O]     > leases, why no more
//! ack ID / nack ID / extend ID S          > what became of it, consumers freed, records returned
//! tick S                                  > so many seconds later: leases expired
//! progress                                > cursor, acked above it, backlog
//! crash                                   leases and consumers are gone, what was journaled stays
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failed test")]

#[path = "delivery/log.rs"]
mod log;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use domain::delivery::{
    AckId, ConsumerId, Delivery, Effects, Flow, Identity, LeaseRequest, LeaseStatus, Ordering,
    Settings,
};
use domain::{
    Epoch, Moment, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, Timestamp,
};
use log::{Log, Place};

#[test]
fn scripts_are_answered_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/delivery");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 9, "scripts are missing");
    for path in scripts {
        run(&path);
    }
}

fn run(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut stage = Stage::new();
    let mut reply = String::new();
    let mut replies = 0;
    let place = |line: usize| format!("{}:{line}", path.file_name().unwrap().display());
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if let Some(expected) = text.strip_prefix('>') {
            assert_eq!(reply, expected.trim(), "{}", place(line));
            reply.clear();
            replies += 1;
        } else if !text.is_empty() && !text.starts_with('#') {
            assert_eq!(reply, "", "{}: the command before has a reply", place(line));
            reply = stage.command(text);
        }
    }
    assert_eq!(reply, "", "{}: the last command has a reply", place(text.lines().count()));
    assert!(replies > 0, "{} expects nothing", place(1));
}

const THIS: SubscriptionId = SubscriptionId(1);

struct Stage {
    log: Log,
    settings: Settings,
    epoch: Epoch,
    now: Moment,
    delivery: Delivery,
    journal: Vec<ProgressChange>,
    consumers: BTreeMap<String, ConsumerId>,
    /// By epoch, offset and attempt.
    ids: BTreeMap<(u64, u64, u32), AckId>,
}

impl Stage {
    fn new() -> Self {
        let settings = Settings {
            ordering: Ordering::None,
            ack_deadline: Duration::from_secs(10),
            exactly_once: false,
        };
        let identity = Identity { subscription: THIS, epoch: Epoch(1) };
        Self {
            log: Log::default(),
            delivery: Delivery::new(identity, settings.clone(), Progress::default()),
            settings,
            epoch: Epoch(1),
            now: Moment(1_000_000),
            journal: Vec::new(),
            consumers: BTreeMap::new(),
            ids: BTreeMap::new(),
        }
    }

    fn command(&mut self, text: &str) -> String {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let words = Words(arguments);
        let mut effects = Effects::default();
        let mut reply = match name {
            "exactly-once" => self.turn_exactly_once(),
            "publish" => self.publish(&words),
            "gap" => self.append(words.number(0), &Place::Gap),
            "damage" => self.replace(words.range(0), &Place::Damaged),
            "trim" => self.replace(words.range(0), &Place::Gap),
            "evict" => {
                self.log.memory_from = Offset(words.number(0));
                self.log.fetched = None;
                String::new()
            }
            "fetch" => {
                self.log.fetched = Some(words.range(0));
                String::new()
            }
            "consumer" => self.consumer(&words, &mut effects),
            "close" => {
                self.delivery.close_consumer(self.named(words.word(0)));
                String::new()
            }
            "lease" => self.lease(&words, &mut effects),
            "ack" => {
                let (id, end) = (self.id(words.word(0)), self.log.end());
                readable(&self.delivery.ack(self.now, &id, end, &mut effects))
            }
            "nack" => {
                readable(&self.delivery.nack(self.now, &self.id(words.word(0)), &mut effects))
            }
            "extend" => {
                let (id, by) = (self.id(words.word(0)), words.seconds(1));
                readable(&self.delivery.extend(self.now, &id, by, &mut effects))
            }
            "tick" => {
                self.now = self.now.plus(words.seconds(0));
                format!("expired {}", self.delivery.tick(self.now, &mut effects))
            }
            "progress" => self.progress(),
            "crash" => self.crash(),
            other => panic!("no command {other}"),
        };
        self.finish(effects, &mut reply);
        reply
    }

    fn turn_exactly_once(&mut self) -> String {
        self.settings.exactly_once = true;
        self.delivery.update_settings(self.settings.clone());
        String::new()
    }

    fn publish(&mut self, words: &Words<'_>) -> String {
        let bytes = words.named("bytes").map_or(10, |bytes| bytes.parse().unwrap());
        let addressee = words.named("addressee").map(|id| SubscriptionId(id.parse().unwrap()));
        self.append(words.number(0), &Place::Record { bytes, addressee })
    }

    fn append(&mut self, count: u64, place: &Place) -> String {
        let from = self.log.end();
        self.log.places.extend((0..count).map(|_| place.clone()));
        written(OffsetRange { from, to: self.log.end() })
    }

    fn replace(&mut self, range: OffsetRange, place: &Place) -> String {
        for offset in range.from.0..range.to.0 {
            self.log.set(Offset(offset), place.clone());
        }
        String::new()
    }

    fn consumer(&mut self, words: &Words<'_>, effects: &mut Effects) -> String {
        let limit = |name| words.named(name).map_or(0, |max| max.parse().unwrap());
        let flow = Flow { messages_max: limit("messages"), bytes_max: limit("bytes") };
        match self.consumers.get(words.word(0)) {
            Some(&known) => self.delivery.set_flow(known, flow, effects),
            None => {
                let id = self.delivery.open_consumer(flow);
                self.consumers.insert(words.word(0).to_owned(), id);
            }
        }
        String::new()
    }

    fn lease(&mut self, words: &Words<'_>, effects: &mut Effects) -> String {
        let limit = |name| words.named(name).map_or(1_000, |max| max.parse().unwrap());
        let request = LeaseRequest {
            consumer: self.named(words.word(0)),
            records_max: limit("records"),
            bytes_max: limit("bytes"),
            ack_deadline: words.named("deadline").map_or(self.settings.ack_deadline, seconds),
            retained_since: Timestamp(words.named("since").map_or(0, |at| at.parse().unwrap())),
        };
        let mut out = Vec::new();
        let status = self.delivery.lease(self.now, &request, &mut self.log, &mut out, effects);
        let mut reply = String::new();
        for lease in out {
            let offset = lease.record.offset;
            write!(reply, "{offset}@{} ", lease.attempt).unwrap();
            // Ids travel as text, so they do here.
            let id = AckId::parse(&lease.ack_id.to_string()).unwrap();
            self.ids.insert((self.epoch.0, offset.0, lease.attempt), id);
        }
        match status {
            LeaseStatus::Wanted(offset) => write!(reply, "wanted {offset}").unwrap(),
            status => reply.push_str(&readable(&status)),
        }
        reply
    }

    fn progress(&self) -> String {
        let progress = self.delivery.progress();
        let above: Vec<_> = progress.acked_ranges_above().map(written).collect();
        let backlog = self.delivery.backlog(self.log.end());
        format!("cursor {}, above [{}], backlog {backlog}", progress.cursor(), above.join(" "))
    }

    fn crash(&mut self) -> String {
        self.epoch.0 += 1;
        let mut progress = Progress::default();
        self.journal.iter().for_each(|change| progress.apply(change));
        let identity = Identity { subscription: THIS, epoch: self.epoch };
        self.delivery = Delivery::new(identity, self.settings.clone(), progress);
        self.consumers.clear();
        String::new()
    }

    /// Journals what must be, and adds what else happened to the reply.
    fn finish(&mut self, effects: Effects, reply: &mut String) {
        assert_eq!(effects.attempts, [], "no setting asks for attempts to be journaled");
        if !effects.settled.is_empty() {
            self.journal.push(ProgressChange::Settled(effects.settled));
        }
        if effects.returned > 0 {
            write!(reply, ", returned {}", effects.returned).unwrap();
        }
        for freed in effects.freed {
            let (name, _) = self.consumers.iter().find(|(_, id)| **id == freed).unwrap();
            write!(reply, ", freed {name}").unwrap();
        }
    }

    fn named(&self, name: &str) -> ConsumerId {
        *self.consumers.get(name).unwrap_or_else(|| panic!("no consumer {name}"))
    }

    fn id(&self, text: &str) -> AckId {
        let (epoch, lease) = match text.split_once(':') {
            Some((epoch, lease)) => (epoch.trim_start_matches('e').parse().unwrap(), lease),
            None => (self.epoch.0, text),
        };
        let (offset, attempt) = lease.split_once('@').unwrap();
        let key = (epoch, offset.parse().unwrap(), attempt.parse().unwrap());
        *self.ids.get(&key).unwrap_or_else(|| panic!("{text} was never leased"))
    }
}

/// The arguments of a command.
struct Words<'text>(&'text str);

impl<'text> Words<'text> {
    fn word(&self, place: usize) -> &'text str {
        self.0.split_whitespace().nth(place).unwrap_or_else(|| panic!("too short: {}", self.0))
    }

    fn number(&self, place: usize) -> u64 {
        self.word(place).parse().unwrap()
    }

    fn seconds(&self, place: usize) -> Duration {
        seconds(self.word(place))
    }

    /// `A..B`, or one offset.
    fn range(&self, place: usize) -> OffsetRange {
        match self.word(place).split_once("..") {
            Some((from, to)) => {
                OffsetRange { from: Offset(from.parse().unwrap()), to: Offset(to.parse().unwrap()) }
            }
            None => OffsetRange::one(Offset(self.number(place))),
        }
    }

    fn named(&self, name: &str) -> Option<&'text str> {
        self.0.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap())
}

fn written(range: OffsetRange) -> String {
    if range.len() == 1 { range.from.to_string() } else { format!("{}..{}", range.from, range.to) }
}

/// `AlreadySettled` as `already settled`.
fn readable(outcome: &impl std::fmt::Debug) -> String {
    let mut words = String::new();
    for letter in format!("{outcome:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

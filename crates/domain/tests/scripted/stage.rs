//! A `Delivery`, its log and its journal, driven by commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{
    AckId, AckStatus, ConsumerId, Delivery, Effects, Failure, Flow, INDEXED_MAX, Identity,
    LaneView, Lease, LeaseRequest, LeaseStatus, Ordering, Settings,
};
use domain::{
    Backoff, Epoch, Filter, Message, Moment, Now, Offset, OffsetRange, Poison, Progress,
    ProgressChange, RetryPolicy, SubscriptionId, Timestamp,
};

use crate::log::{Log, Place};
use crate::words::{Words, read, readable, seconds, written};

const THIS: SubscriptionId = SubscriptionId(1);

/// The wall clock at the start: much later than any record, which carry their offsets as times.
const START: Timestamp = Timestamp(1_700_000_000_000_000);

pub(crate) struct Stage {
    log: Log,
    settings: Settings,
    epoch: Epoch,
    now: Now,
    delivery: Delivery,
    journal: Vec<ProgressChange>,
    snapshots: BTreeMap<String, Progress>,
    consumers: BTreeMap<String, ConsumerId>,
    /// By epoch, offset and attempt.
    ids: BTreeMap<(u64, u64, u32), Vec<AckId>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let settings = Settings::plain(Duration::from_secs(10));
        let identity = Identity { subscription: THIS, epoch: Epoch(1) };
        Self {
            log: Log::default(),
            delivery: Delivery::new(identity, settings.clone(), Progress::default()),
            settings,
            epoch: Epoch(1),
            now: Now { moment: Moment(1_000_000), wall: START },
            journal: Vec::new(),
            snapshots: BTreeMap::new(),
            consumers: BTreeMap::new(),
            ids: BTreeMap::new(),
        }
    }

    pub(crate) fn command(&mut self, text: &str) -> String {
        let (name, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let words = Words(arguments);
        let mut effects = Effects::default();
        let mut reply = match name {
            "settings" | "filter" => self.change_settings(name, &words, &mut effects),
            "publish" | "gap" | "damage" | "trim" | "evict" | "fetch" => {
                self.change_log(name, &words)
            }
            "consumer" => self.consumer(&words, &mut effects),
            "close" => {
                self.delivery.close_consumer(self.named(words.word(0)));
                String::new()
            }
            "lease" => self.lease(&words, &mut effects),
            "drain" => self.drain(&words, &mut effects),
            "ack" | "nack" | "give-back" | "extend" => self.answer(name, &words, &mut effects),
            "settle" | "spare" | "lanes" | "waits" | "release" | "skip" => {
                self.operate(name, &words, &mut effects)
            }
            "snapshot" | "seek" => self.seek(name, &words),
            "tick" => {
                self.pass(words.seconds(0));
                format!("expired {}", self.delivery.tick(self.now, &mut effects))
            }
            "progress" => self.progress(),
            "indexed" => self.delivery.indexed().to_string(),
            "crash" => self.crash(&words),
            other => panic!("no command {other}"),
        };
        self.finish(effects, &mut reply);
        reply
    }

    fn pass(&mut self, by: Duration) {
        self.now.moment = self.now.moment.plus(by);
        self.now.wall = self.now.wall.plus(by);
    }

    /// Journals what must be, and adds what else happened to the reply.
    fn finish(&mut self, effects: Effects, reply: &mut String) {
        if !effects.settled.is_empty() {
            self.journal.push(ProgressChange::Settled(effects.settled));
        }
        let mut attempts = effects.attempts.clone();
        // Of what fails together any may be first.
        attempts.sort_by_key(|(offset, _)| *offset);
        for (offset, attempt) in attempts {
            write!(reply, ", counted {offset}={}", attempt.count).unwrap();
        }
        if !effects.attempts.is_empty() {
            self.journal.push(ProgressChange::Attempts(effects.attempts));
        }
        for exhausted in effects.exhausted {
            write!(reply, ", exhausted {} after {}", exhausted.offset, exhausted.attempts).unwrap();
        }
        if effects.returned > 0 {
            write!(reply, ", returned {}", effects.returned).unwrap();
        }
        for freed in effects.freed.into_iter().collect::<BTreeSet<_>>() {
            // A lane may still be that of a consumer that is closed.
            if let Some((name, _)) = self.consumers.iter().find(|(_, id)| **id == freed) {
                write!(reply, ", freed {name}").unwrap();
            }
        }
    }

    fn named(&self, name: &str) -> ConsumerId {
        *self.consumers.get(name).unwrap_or_else(|| panic!("no consumer {name}"))
    }

    fn id(&self, text: &str) -> AckId {
        let (epoch, lease) = match text.split_once(':') {
            Some((epoch, lease)) => (read(epoch.trim_start_matches('e')), lease),
            None => (self.epoch.0, text),
        };
        let (offset, attempt) = lease.split_once('@').unwrap();
        let (attempt, time) = match attempt.split_once('#') {
            Some((attempt, time)) => (attempt, Some(read::<usize>(time) - 1)),
            None => (attempt, None),
        };
        let ids = self.ids.get(&(epoch, read(offset), read(attempt)));
        let id = ids.and_then(|ids| time.map_or(ids.last(), |time| ids.get(time)));
        *id.unwrap_or_else(|| panic!("{text} was never leased"))
    }

    /// The lane key as a script writes it.
    fn key(word: &str) -> &str {
        if word == "-" { "" } else { word }
    }
}

/// The log and the settings.
impl Stage {
    fn change_log(&mut self, name: &str, words: &Words<'_>) -> String {
        let range = || words.range(0);
        match name {
            "publish" => return self.publish(words),
            "gap" => {
                let from = self.log.end();
                self.log.places.extend((0..words.number(0)).map(|_| Place::Gap));
                return written(OffsetRange { from, to: self.log.end() });
            }
            "damage" => self.replace(range(), &Place::Damaged),
            "trim" => self.replace(range(), &Place::Gap),
            "evict" => {
                self.log.memory_from = words.offset(0);
                self.log.fetched = None;
            }
            _ => self.log.fetched = Some(range()),
        }
        String::new()
    }

    fn publish(&mut self, words: &Words<'_>) -> String {
        let addressee = words.named("addressee").map(|id| SubscriptionId(read(id)));
        let from = self.log.end();
        for _ in 0..words.number(0) {
            let publish_time = Timestamp(self.log.end().0);
            let body = self.body(words, publish_time);
            self.log.publish(body, publish_time, addressee);
        }
        written(OffsetRange { from, to: self.log.end() })
    }

    /// A message if it is to have a key or an attribute, otherwise just so many bytes.
    fn body(&self, words: &Words<'_>, publish_time: Timestamp) -> Bytes {
        let ordering_key = words.named_or("key", String::new());
        let attribute = words.named("attribute").and_then(|pair| pair.split_once(':'));
        if ordering_key.is_empty() && attribute.is_none() {
            return Bytes::from(vec![b'x'; words.named_or("bytes", 10)]);
        }
        let attributes = attribute.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let data = Bytes::from(vec![b'x'; words.named_or("bytes", 1)]);
        let attributes = attributes.into_iter().collect();
        self.log.encode(&Message { data, attributes, ordering_key }, publish_time)
    }

    fn replace(&mut self, range: OffsetRange, place: &Place) {
        for offset in range.from.0..range.to.0 {
            self.log.set(Offset(offset), place.clone());
        }
    }

    fn change_settings(&mut self, name: &str, words: &Words<'_>, effects: &mut Effects) -> String {
        let settings = &mut self.settings;
        if name == "filter" {
            settings.filter = Some(Arc::new(Filter::parse("filter", words.0).unwrap()));
        }
        for word in words.0.split_whitespace().filter(|_| name == "settings") {
            let (name, value) = word.split_once('=').unwrap();
            match name {
                "ordering" => {
                    settings.ordering = match value {
                        "none" => Ordering::None,
                        "key" => Ordering::ByKey,
                        "fifo" => Ordering::Fifo,
                        other => panic!("no ordering {other}"),
                    }
                }
                "lane-by" => settings.lane_by = (value != "none").then(|| value.into()),
                "exactly-once" => settings.exactly_once = value == "yes",
                "retry" => {
                    let bounds = value.split_once("..");
                    settings.retry = bounds
                        .map(|(min, max)| RetryPolicy { min: seconds(min), max: seconds(max) })
                        .map(Backoff::Exponential);
                }
                "attempts" => settings.attempts_max = value.parse().ok(),
                "poison" => settings.poison = Poison::parse("poison", value).unwrap(),
                "push" => settings.is_push = value == "yes",
                "paused" => settings.is_paused = value == "yes",
                other => panic!("no setting {other}"),
            }
        }
        self.delivery.update_settings(self.now, self.settings.clone(), effects);
        // It always says so, because everybody must be woken.
        effects.returned = 0;
        String::new()
    }
}

/// What consumers do.
impl Stage {
    fn consumer(&mut self, words: &Words<'_>, effects: &mut Effects) -> String {
        let flow = Flow {
            messages_max: words.named_or("messages", 0),
            bytes_max: words.named_or("bytes", 0),
        };
        match self.consumers.get(words.word(0)) {
            Some(&known) => self.delivery.set_flow(known, flow, effects),
            None => {
                let id = self.delivery.open_consumer(flow);
                self.consumers.insert(words.word(0).to_owned(), id);
            }
        }
        String::new()
    }

    fn ask(&mut self, words: &Words<'_>, effects: &mut Effects) -> (Vec<Lease>, LeaseStatus) {
        let request = LeaseRequest {
            consumer: self.named(words.word(0)),
            records_max: words.named_or("records", 1_000),
            bytes_max: words.named_or("bytes", 1_000),
            ack_deadline: words.named("deadline").map_or(self.settings.ack_deadline, seconds),
            retained_since: Timestamp(words.named_or("since", 0)),
            indexed_max: words.named_or("indexed", INDEXED_MAX),
            remembered_max: words.named_or("remembered", usize::MAX),
            prefers_fresh: words.named("fresh").is_some(),
        };
        let mut out = Vec::new();
        let status = self.delivery.lease(self.now, &request, &mut self.log, &mut out, effects);
        for lease in &out {
            // Ids travel as text, so they do here.
            let id = AckId::parse(&lease.ack_id.to_string()).unwrap();
            let key = (self.epoch.0, lease.record.offset.0, lease.attempt);
            self.ids.entry(key).or_default().push(id);
        }
        (out, status)
    }

    fn lease(&mut self, words: &Words<'_>, effects: &mut Effects) -> String {
        let (out, status) = self.ask(words, effects);
        // Who asks does not wait, so that it is no news to it.
        effects.freed.retain(|freed| *freed != self.named(words.word(0)));
        let mut reply = String::new();
        for lease in out {
            write!(reply, "{}@{} ", lease.record.offset, lease.attempt).unwrap();
        }
        match status {
            LeaseStatus::Wanted(offset) => write!(reply, "wanted {offset}").unwrap(),
            status => reply.push_str(&readable(&status)),
        }
        reply
    }

    /// Leases and acks until there is nothing more. What it led to besides is not told.
    fn drain(&mut self, words: &Words<'_>, effects: &mut Effects) -> String {
        let mut count = 0;
        loop {
            let (out, status) = self.ask(words, effects);
            count += out.len();
            for lease in &out {
                let (now, end) = (self.now.moment, self.log.end());
                let status = self.delivery.ack(now, &lease.ack_id, end, effects);
                assert_eq!(status, AckStatus::Settled, "{lease:?}");
            }
            if out.is_empty() && status != LeaseStatus::More {
                effects.returned = 0;
                effects.freed.clear();
                return format!("{count} {}", readable(&status));
            }
        }
    }

    fn answer(&mut self, name: &str, words: &Words<'_>, effects: &mut Effects) -> String {
        let (id, now) = (self.id(words.word(0)), self.now);
        match name {
            "ack" => readable(&self.delivery.ack(now.moment, &id, self.log.end(), effects)),
            "nack" => {
                let retry_after = words.named("retry-after").map(seconds);
                let failure = Failure { retry_after, ..Failure::NACK };
                readable(&self.delivery.nack(now, &id, &failure, effects))
            }
            "give-back" => readable(&self.delivery.give_back(now, &id, effects)),
            _ => readable(&self.delivery.extend(now, &id, words.seconds(1), effects)),
        }
    }
}

/// What owners and operators do.
impl Stage {
    fn operate(&mut self, name: &str, words: &Words<'_>, effects: &mut Effects) -> String {
        let now = self.now;
        match name {
            "settle" => {
                let is_settled = self.delivery.settle_exhausted(now, words.offset(0), effects);
                if is_settled { "settled" } else { "not exhausted" }.to_owned()
            }
            "spare" => {
                self.delivery.spare(now, words.offset(0), effects);
                String::new()
            }
            "lanes" => {
                let lanes = self.delivery.lanes(now);
                lanes.iter().map(|lane| self.view(lane)).collect::<Vec<_>>().join("; ")
            }
            "waits" => self.waits(),
            _ => {
                let Some(offset) = self.delivery.blocked_by(Self::key(words.word(0))) else {
                    return "not blocked".to_owned();
                };
                let is_done = match name {
                    "release" => self.delivery.release(now, offset, effects),
                    _ => self.delivery.skip(offset, effects),
                };
                assert!(is_done);
                format!("{name} {offset}")
            }
        }
    }

    fn waits(&self) -> String {
        let waits = self.delivery.waits(self.now);
        let mut text = format!("{} blocked, {} halted", waits.lanes_blocked, waits.lanes_halted);
        if let Some(since) = waits.lane_failing_since {
            write!(text, ", failing for {} s", self.now.wall.since(since).as_secs()).unwrap();
        }
        if let Some(until) = waits.backing_off_until {
            let seconds = until.since(self.now.wall).as_secs();
            write!(text, ", {} again in {seconds} s", waits.backing_off).unwrap();
        }
        text
    }

    fn view(&self, lane: &LaneView) -> String {
        let key = if lane.key.is_empty() { "-" } else { &lane.key };
        let mut view = format!("{key} {}", lane.state.as_str());
        if let Some(next) = lane.next {
            write!(view, " {next}×{}", lane.attempts).unwrap();
        }
        write!(view, " pending {}", lane.pending).unwrap();
        if let Some(since) = lane.blocked_since {
            write!(view, " since {} s", self.now.wall.since(since).as_secs()).unwrap();
        }
        if let Some(at) = lane.next_attempt_at {
            write!(view, " again in {} s", at.since(self.now.wall).as_secs()).unwrap();
        }
        if let Some(class) = lane.last_class {
            write!(view, " ({class})").unwrap();
        }
        view
    }

    fn seek(&mut self, name: &str, words: &Words<'_>) -> String {
        let progress = self.delivery.progress().without_attempts();
        if name == "snapshot" {
            self.snapshots.insert(words.word(0).to_owned(), progress);
            return String::new();
        }
        let target = match self.snapshots.get(words.word(0)) {
            Some(snapshot) => snapshot.clone(),
            None => Progress::starting_at(words.offset(0)),
        };
        self.delivery.seek(target);
        let progress = self.delivery.progress().clone();
        self.journal.push(ProgressChange::Replaced(Box::new(progress)));
        String::new()
    }

    fn progress(&self) -> String {
        let progress = self.delivery.progress();
        let above: Vec<_> = progress.acked_ranges_above().map(written).collect();
        let backlog = self.delivery.backlog(self.log.end());
        format!("cursor {}, above [{}], backlog {backlog}", progress.cursor(), above.join(" "))
    }

    fn crash(&mut self, words: &Words<'_>) -> String {
        self.epoch.0 += 1;
        let mut progress = Progress::default();
        self.journal.iter().for_each(|change| progress.apply(change));
        assert_eq!(progress, *self.delivery.progress(), "the journal says what was settled");
        let identity = Identity { subscription: THIS, epoch: self.epoch };
        self.delivery = Delivery::new(identity, self.settings.clone(), progress);
        self.consumers.clear();
        match words.0.strip_prefix('-') {
            Some(back) => self.now.wall = self.now.wall.minus(seconds(back)),
            None if words.is_empty() => {}
            None => self.now.wall = self.now.wall.plus(words.seconds(0)),
        }
        self.now.moment = Moment(1_000);
        String::new()
    }
}

//! A history sorted by topic, subscription and message.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::executor::Node;
use crate::history::{Answer, Ask, Entry, Event, Fate, Goal, Id, Life, Seen, Sent};
use crate::scenario::{Scenario, Subscription as Settings};

/// A place in a history. What happened at a lower one was before.
pub(super) type Place = usize;

/// When a call was sent and, if it was, answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) sent: Place,
    /// `None` = nobody knows whether and when it happened.
    pub(super) end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) place: Place,
    /// In microseconds.
    pub(super) at: u64,
    pub(super) life: Life,
    /// It was done, not refused.
    pub(super) is_done: bool,
}

impl Span {
    /// Whether it may have had its effect at or after `place`.
    pub(super) fn may_be_after(&self, place: Place) -> bool {
        self.end.is_none_or(|end| !end.is_done || end.place >= place)
    }

    /// Where it was done, if that was answered.
    pub(super) fn done(&self) -> Option<End> {
        self.end.filter(|end| end.is_done)
    }
}

pub(super) struct Publish {
    pub(super) span: Span,
    pub(super) messages: Vec<Sent>,
    pub(super) ids: Option<Vec<u64>>,
}

#[derive(Default)]
pub(super) struct Topic {
    pub(super) publishes: Vec<Publish>,
    /// Text → its publish and its place there.
    pub(super) texts: BTreeMap<Id, (usize, usize)>,
    /// Messages that are known to exist.
    pub(super) ids: BTreeMap<u64, Id>,
}

#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) number: u64,
    pub(super) place: Place,
    /// In microseconds.
    pub(super) at: u64,
    pub(super) consumer: u64,
    pub(super) life: Life,
    /// Leases of another epoch are over.
    pub(super) epoch: u64,
    /// There was one before in the same epoch: it came back, and took along what was behind it.
    pub(super) is_back: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Ack {
    pub(super) lease: u64,
    pub(super) span: Span,
}

/// One message at one subscription.
#[derive(Default)]
pub(super) struct Record {
    pub(super) key: String,
    pub(super) text: Option<Id>,
    pub(super) original: Option<u64>,
    pub(super) leases: Vec<Lease>,
    pub(super) acks: Vec<Ack>,
    pub(super) nacks: Vec<Ack>,
    pub(super) extends: Vec<Ack>,
}

pub(super) struct Seek {
    pub(super) span: Span,
    pub(super) goal: Goal,
}

pub(super) struct Subscription {
    pub(super) settings: Settings,
    pub(super) created: Option<End>,
    pub(super) deleted: Option<Place>,
    pub(super) records: BTreeMap<u64, Record>,
    pub(super) seeks: Vec<Seek>,
    pub(super) snapshots: BTreeMap<Id, Span>,
    /// Replays that were asked for: the letters of each.
    pub(super) replays: Vec<(Span, Vec<u64>)>,
}

/// A time in which acks that a node has answered may not have become durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) life: Life,
    /// In microseconds.
    pub(super) from: u64,
    pub(super) to: u64,
}

#[derive(Default)]
pub(super) struct Facts {
    /// The store itself fails now and then.
    pub(super) is_faulty: bool,
    pub(super) topics: BTreeMap<Id, Topic>,
    pub(super) subscriptions: BTreeMap<Id, Subscription>,
    /// Who gave it up, and its first id → letters.
    pub(super) letters: BTreeMap<(Id, u64), Vec<u64>>,
    pub(super) troubles: Vec<Trouble>,
}

/// Where a call's facts are.
enum Told {
    Publish(Id, usize),
    Acks(Vec<u64>),
    Nacks(Vec<u64>),
    Extends(Vec<u64>),
    Seek(Id, usize),
    Snapshot(Id, Id),
    Replay(Id, usize),
    Creation(Id),
}

struct Reader {
    facts: Facts,
    calls: BTreeMap<u64, Told>,
    /// Lease → its subscription and message.
    leases: BTreeMap<u64, (Id, u64)>,
    /// Call → each lease's place among the acks of its message.
    acks: BTreeMap<u64, Vec<usize>>,
}

impl Facts {
    pub(super) fn of(scenario: &Scenario, history: &[Entry]) -> Self {
        let mut reader = Reader {
            facts: Self { is_faulty: scenario.faulty > 0, ..Self::default() },
            calls: BTreeMap::new(),
            leases: BTreeMap::new(),
            acks: BTreeMap::new(),
        };
        let settings: BTreeMap<Id, &Settings> =
            scenario.subscriptions.iter().map(|one| (Arc::clone(&one.id), one)).collect();
        for (place, entry) in history.iter().enumerate() {
            match &entry.event {
                Event::Asked(call, ask) => reader.asked(place, *call, ask, scenario, &settings),
                Event::Answered(call, life, answer) => {
                    let is_done = !matches!(answer, Answer::Failed(_));
                    let end = End { place, at: entry.at, life: *life, is_done };
                    reader.answered(*call, end, answer);
                }
                Event::Leased(id, consumer, life, seen) => {
                    for seen in seen {
                        let (number, at) = (seen.lease, entry.at);
                        let (consumer, life) = (*consumer, *life);
                        let (epoch, is_back) = (seen.epoch, false);
                        let lease = Lease { number, place, at, consumer, life, epoch, is_back };
                        reader.leased(id, lease, seen);
                    }
                }
                Event::Befell(node, life, fate) => {
                    reader.facts.befell(*node, *life, fate, entry.at);
                }
                Event::Owns(..) => {}
            }
        }
        reader.facts
    }

    fn befell(&mut self, _node: Node, life: Life, fate: &Fate, at: u64) {
        match fate {
            Fate::Killed | Fate::Failed => self.troubles.push(Trouble { life, from: at, to: at }),
            Fate::Paused | Fate::CutOff => {
                self.troubles.push(Trouble { life, from: at, to: u64::MAX });
            }
            Fate::Resumed | Fate::Reached => {
                let open = self.troubles.iter_mut().rev();
                let mut open =
                    open.filter(|trouble| trouble.life == life && trouble.to == u64::MAX);
                if let Some(trouble) = open.next() {
                    trouble.to = at;
                }
            }
            Fate::Up | Fate::Closed | Fate::Jumped(_) => {}
        }
    }

    /// The subscriptions of a topic.
    pub(super) fn topic_of(&self, subscription: &Subscription) -> Option<&Topic> {
        self.topics.get(&subscription.settings.topic)
    }
}

impl Reader {
    fn asked(
        &mut self,
        place: Place,
        call: u64,
        ask: &Ask,
        scenario: &Scenario,
        settings: &BTreeMap<Id, &Settings>,
    ) {
        let span = Span { sent: place, end: None };
        let facts = &mut self.facts;
        let told = match ask {
            Ask::Publish(topic, messages) => {
                let at = facts.topics.entry(Arc::clone(topic)).or_default().publish(span, messages);
                Told::Publish(Arc::clone(topic), at)
            }
            Ask::Ack(_, leases) => Told::Acks(leases.clone()),
            Ask::Nack(_, leases) => Told::Nacks(leases.clone()),
            Ask::Extend(_, leases) => Told::Extends(leases.clone()),
            Ask::CreateSubscription(id) => {
                let settings = settings_of(id, scenario, settings);
                facts.subscriptions.entry(Arc::clone(id)).or_insert_with(settings);
                Told::Creation(Arc::clone(id))
            }
            // It may even be asked for before it is made.
            Ask::DeleteSubscription(id) => {
                let settings = settings_of(id, scenario, settings);
                let subscription = facts.subscriptions.entry(Arc::clone(id));
                subscription.or_insert_with(settings).deleted.get_or_insert(place);
                return;
            }
            Ask::Snapshot(id, name) => {
                let Some(subscription) = facts.subscriptions.get_mut(id) else { return };
                subscription.snapshots.insert(Arc::clone(name), span);
                Told::Snapshot(Arc::clone(id), Arc::clone(name))
            }
            Ask::Seek(id, goal) => {
                let Some(subscription) = facts.subscriptions.get_mut(id) else { return };
                subscription.seeks.push(Seek { span, goal: goal.clone() });
                Told::Seek(Arc::clone(id), subscription.seeks.len() - 1)
            }
            Ask::Replay(id, letters) => {
                let Some(subscription) = facts.subscriptions.get_mut(id) else { return };
                subscription.replays.push((span, letters.clone()));
                Told::Replay(Arc::clone(id), subscription.replays.len() - 1)
            }
            Ask::CreateTopic(_) | Ask::DeleteTopic(_) | Ask::List => return,
        };
        self.note_acks(call, &told, span);
        self.calls.insert(call, told);
    }

    fn note_acks(&mut self, call: u64, told: &Told, span: Span) {
        let (Told::Acks(leases) | Told::Nacks(leases) | Told::Extends(leases)) = told else {
            return;
        };
        let mut places = Vec::new();
        for lease in leases {
            let list = self.acks_of(told, *lease);
            let at = list.map(|list| {
                list.push(Ack { lease: *lease, span });
                list.len() - 1
            });
            places.push(at.unwrap_or(usize::MAX));
        }
        self.acks.insert(call, places);
    }

    fn acks_of(&mut self, told: &Told, lease: u64) -> Option<&mut Vec<Ack>> {
        let (subscription, id) = self.leases.get(&lease)?;
        let subscription = self.facts.subscriptions.get_mut(subscription)?;
        let record = subscription.records.get_mut(id)?;
        Some(match told {
            Told::Acks(..) => &mut record.acks,
            Told::Nacks(..) => &mut record.nacks,
            _ => &mut record.extends,
        })
    }

    fn answered(&mut self, call: u64, end: End, answer: &Answer) {
        let Some(told) = self.calls.remove(&call) else { return };
        match &told {
            Told::Publish(topic, at) => {
                if let Some(topic) = self.facts.topics.get_mut(topic) {
                    topic.answered(*at, end, answer);
                }
            }
            Told::Acks(leases) | Told::Nacks(leases) | Told::Extends(leases) => {
                let stale = match answer {
                    Answer::DoneBut(stale) => stale.as_slice(),
                    _ => &[],
                };
                let places = self.acks.remove(&call).unwrap_or_default();
                for (at, (lease, place)) in leases.iter().zip(places).enumerate() {
                    let is_done = end.is_done && !stale.contains(&at);
                    let list = self.acks_of(&told, *lease);
                    if let Some(ack) = list.and_then(|list| list.get_mut(place)) {
                        ack.span.end = Some(End { is_done, ..end });
                    }
                }
            }
            Told::Creation(id) if end.is_done => {
                if let Some(subscription) = self.facts.subscriptions.get_mut(id) {
                    subscription.created.get_or_insert(end);
                }
            }
            Told::Creation(_) => {}
            Told::Seek(id, at) => self.with(id, |one| one.seeks[*at].span.end = Some(end)),
            Told::Replay(id, at) => self.with(id, |one| one.replays[*at].0.end = Some(end)),
            Told::Snapshot(id, name) => self.with(id, |one| {
                if let Some(span) = one.snapshots.get_mut(name) {
                    span.end = Some(end);
                }
            }),
        }
    }

    fn with(&mut self, id: &Id, change: impl FnOnce(&mut Subscription)) {
        if let Some(subscription) = self.facts.subscriptions.get_mut(id) {
            change(subscription);
        }
    }

    fn leased(&mut self, id: &Id, lease: Lease, seen: &Seen) {
        self.leases.insert(lease.number, (Arc::clone(id), seen.id));
        let Some(subscription) = self.facts.subscriptions.get_mut(id) else { return };
        let record = subscription.records.entry(seen.id).or_default();
        record.key.clone_from(&seen.key);
        record.text = Some(Arc::clone(&seen.text));
        record.original = seen.original;
        let is_back = record.leases.iter().any(|before| before.epoch == lease.epoch);
        record.leases.push(Lease { is_back, ..lease });
        if let (Some(of), Some(original)) = (&seen.letter_of, seen.original) {
            let letters = self.facts.letters.entry((Arc::from(of.as_str()), original)).or_default();
            if !letters.contains(&seen.id) {
                letters.push(seen.id);
            }
        } else if seen.original.is_none()
            && let Some(topic) = self.facts.topics.get_mut(&subscription.settings.topic)
        {
            topic.ids.entry(seen.id).or_insert_with(|| Arc::clone(&seen.text));
        }
    }
}

/// A subscription of the scenario, or one that was made on the way.
fn settings_of(
    id: &Id,
    scenario: &Scenario,
    settings: &BTreeMap<Id, &Settings>,
) -> impl FnOnce() -> Subscription {
    let number = id.strip_prefix("extra-").and_then(|number| number.parse().ok());
    let extra = || scenario.extra(number.unwrap_or(0));
    let settings = settings.get(id).map_or_else(extra, |settings| (*settings).clone());
    move || Subscription::new(settings)
}

impl Topic {
    fn publish(&mut self, span: Span, messages: &[Sent]) -> usize {
        let at = self.publishes.len();
        for (place, message) in messages.iter().enumerate() {
            self.texts.insert(Arc::clone(&message.text), (at, place));
        }
        self.publishes.push(Publish { span, messages: messages.to_vec(), ids: None });
        at
    }

    fn answered(&mut self, at: usize, end: End, answer: &Answer) {
        let publish = &mut self.publishes[at];
        publish.span.end = Some(end);
        if let Answer::Ids(ids) = answer {
            publish.ids = Some(ids.clone());
            let texts = publish.messages.iter().map(|message| Arc::clone(&message.text));
            self.ids.extend(ids.iter().copied().zip(texts));
        }
    }

    /// The publish of a text, and what was sent.
    pub(super) fn sent(&self, text: &Id) -> Option<(&Publish, &Sent)> {
        let (publish, at) = self.texts.get(text)?;
        let publish = self.publishes.get(*publish)?;
        Some((publish, publish.messages.get(*at)?))
    }
}

impl Subscription {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            created: None,
            deleted: None,
            records: BTreeMap::new(),
            seeks: Vec::new(),
            snapshots: BTreeMap::new(),
            replays: Vec::new(),
        }
    }
}

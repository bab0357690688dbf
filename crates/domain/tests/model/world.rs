//! A `Delivery`, its log, its journal and its consumers, beside the naive model of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{ConsumerId, Delivery, Effects, Flow, Identity, Settings};
use domain::{
    Epoch, Filter, Message, Moment, Now, Offset, Progress, ProgressChange, SubscriptionId,
    Timestamp,
};

use crate::line::Line;
use crate::log::{Log, Place};
use crate::naive::{FILTERS, LANES, Naive, Saved, Seat, THIS};
use crate::run::tell;
use crate::spot::{Attributes, Kind, Spot};
use crate::steps::{COLOURS, KEYS, KINDS, Plan, Step};

/// Deadlines are exact to the tick of the wheel, so times are whole ticks here.
pub(crate) const TICK: Duration = Duration::from_micros(1 << 14);

const START: Timestamp = Timestamp(100_000 << 14);

/// Most streams at a time.
const STREAMS_MAX: usize = 5;

pub(crate) struct World {
    pub(crate) log: Log,
    pub(crate) naive: Naive,
    pub(crate) delivery: Delivery,
    pub(crate) now: Now,
    /// By number in the model.
    pub(crate) ids: Vec<ConsumerId>,
    pub(crate) line: Line,
    /// Exhausted records whose owner was told.
    pub(crate) reported: BTreeSet<usize>,
    /// How many ordering keys there are.
    keys: usize,
    journal: Journal,
    snapshots: Vec<(Progress, Saved)>,
}

/// What was given out to be journaled.
struct Journal {
    /// What is on stable storage for sure.
    base: (Progress, Saved),
    /// Changes since, with what the model knows after each.
    riding: Vec<(Vec<ProgressChange>, Saved)>,
    /// All of it.
    folded: Progress,
}

/// Whether a change is flushed before it is answered (LOG-5).
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Urgency {
    Ride,
    Durable,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let (text, wants) = FILTERS[plan.filter];
        let filter = (!text.is_empty()).then(|| Filter::parse("filter", text).unwrap());
        let settings =
            Settings { filter: filter.map(Arc::new), ..Settings::plain(Duration::from_secs(10)) };
        let naive = Naive {
            settings: settings.clone(),
            wants,
            spots: Vec::new(),
            given: Vec::new(),
            seats: Vec::new(),
            epoch: 1,
            regime: 0,
            is_reordering: false,
            shared: [false; LANES],
            held_up: [false; LANES],
            was_exactly_once: false,
            retained_since: Timestamp(0),
            indexed_max: plan.indexed_max,
            remembered_max: plan.remembered_max,
            ticked: START,
            expected: Vec::new(),
        };
        let identity = Identity { subscription: THIS, epoch: Epoch(naive.epoch) };
        let journal = Journal {
            base: (Progress::default(), naive.save()),
            riding: Vec::new(),
            folded: Progress::default(),
        };
        let mut world = Self {
            log: Log { read_max: plan.read_max, ..Log::default() },
            naive,
            delivery: Delivery::new(identity, settings, Progress::default()),
            now: Now { moment: Moment(0), wall: START },
            ids: Vec::new(),
            line: Line::default(),
            reported: BTreeSet::new(),
            keys: plan.keys,
            journal,
            snapshots: Vec::new(),
        };
        world.open(Flow::default());
        world
    }

    pub(crate) fn step(&mut self, step: &Step) {
        tell(|| format!("{step:?}"));
        match *step {
            Step::Publish { count, key, kind, colour, bytes } => {
                for _ in 0..count {
                    self.publish(Kind::Record, key, kind, colour, bytes, None);
                }
            }
            Step::PublishTo { subscription, key } => {
                self.publish(Kind::Record, key, 1, 0, 5, Some(subscription));
            }
            Step::PublishGap(count) => {
                (0..count).for_each(|_| self.publish(Kind::Gap, 0, 0, 0, 0, None));
            }
            Step::PublishDamaged { key } => self.publish(Kind::Damaged, key, 1, 0, 5, None),
            Step::Damage(offset) => self.damage(offset),
            Step::Trim(offset) => self.trim(offset),
            Step::Evict(below) => {
                let below = Offset((below % (self.naive.spots.len() + 1)) as u64);
                self.log.memory_from = self.log.memory_from.max(below);
            }
            Step::Open(flow) => {
                if self.streams().len() < STREAMS_MAX {
                    self.open(flow);
                }
            }
            Step::SetFlow(consumer, flow) => {
                self.with_stream(consumer, |world, consumer| world.set_flow(consumer, flow));
            }
            Step::Close(consumer) => self.with_stream(consumer, Self::close),
            ref other => self.act(other),
        }
        self.check();
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Retain(place) => {
                let offset = place % self.naive.spots.len().max(1);
                if let Some(spot) = self.naive.spots.get(offset) {
                    self.naive.retained_since = spot.published;
                    self.line.wake_all();
                }
            }
            Step::Seek(offset) => {
                let offset = offset % (self.naive.spots.len() + 1);
                self.seek(Progress::starting_at(Offset(offset as u64)), |at| at < offset);
            }
            Step::TakeSnapshot => {
                let progress = self.delivery.progress().without_attempts();
                self.snapshots.push((progress, self.naive.save()));
            }
            Step::SeekSnapshot(snapshot) if !self.snapshots.is_empty() => {
                let (progress, saved) = self.snapshots[snapshot % self.snapshots.len()].clone();
                self.seek(progress, |at| saved.is_settled(at));
            }
            Step::Crash { lost, ticks, is_set_back } => {
                let (wall, by) = (self.now.wall, TICK * ticks);
                self.crash(lost, if is_set_back { wall.minus(by) } else { wall.plus(by) });
            }
            ref other => self.consume(other),
        }
    }

    /// The streams that are open.
    pub(crate) fn streams(&self) -> Vec<usize> {
        (0..self.ids.len()).filter(|&consumer| self.naive.seats[consumer].is_open).collect()
    }

    pub(crate) fn with_stream(&mut self, place: usize, act: impl FnOnce(&mut Self, usize)) {
        let streams = self.streams();
        if !streams.is_empty() {
            act(self, streams[place % streams.len()]);
        }
    }

    pub(crate) fn open(&mut self, flow: Flow) -> usize {
        let consumer = self.ids.len();
        self.ids.push(self.delivery.open_consumer(flow));
        self.naive.seats.push(Seat { flow, is_open: true });
        self.line.stay_awake(consumer);
        consumer
    }

    fn set_flow(&mut self, consumer: usize, flow: Flow) {
        let mut effects = Effects::default();
        self.delivery.set_flow(self.ids[consumer], flow, &mut effects);
        self.naive.seats[consumer].flow = flow;
        self.finish(effects, Urgency::Ride);
    }

    pub(crate) fn close(&mut self, consumer: usize) {
        self.delivery.close_consumer(self.ids[consumer]);
        self.naive.seats[consumer].is_open = false;
        self.line.remove(consumer);
        self.line.wake_one();
    }
}

/// The log.
impl World {
    fn publish(
        &mut self,
        kind: Kind,
        key: usize,
        value: usize,
        colour: usize,
        bytes: usize,
        addressee: Option<SubscriptionId>,
    ) {
        let key = key % self.keys;
        let mut attributes = Attributes::from([("colour".to_owned(), COLOURS[colour].to_owned())]);
        if value > 0 {
            attributes.insert("kind".to_owned(), KINDS[value].to_owned());
        }
        let mut spot = Spot::new(kind, key, attributes.clone(), self.now.wall);
        spot.addressee = addressee;
        match kind {
            Kind::Record => {
                let data = Bytes::from(vec![b'x'; bytes]);
                let message = Message { data, attributes, ordering_key: KEYS[key].to_owned() };
                let body = self.log.encode(&message, self.now.wall);
                spot.bytes = body.len() as u64;
                self.log.publish(body, self.now.wall, addressee);
            }
            Kind::Gap => self.log.places.push(Place::Gap),
            Kind::Damaged => self.log.places.push(Place::Damaged),
        }
        self.naive.append(spot);
        self.line.wake_one();
    }

    fn damage(&mut self, place: usize) {
        let offset = place % self.naive.spots.len().max(1);
        if let Some(spot) = self.naive.spots.get_mut(offset)
            && spot.kind == Kind::Record
        {
            spot.kind = Kind::Damaged;
            self.log.set(Offset(offset as u64), Place::Damaged);
        }
    }

    /// Takes away a record that nobody needs (LOG-7).
    fn trim(&mut self, place: usize) {
        let offset = place % self.naive.spots.len().max(1);
        let Some(spot) = self.naive.spots.get(offset) else { return };
        let is_needed = spot.published >= self.naive.retained_since && !spot.settled;
        if spot.kind == Kind::Record && !is_needed {
            self.naive.spots[offset].kind = Kind::Gap;
            self.log.set(Offset(offset as u64), Place::Gap);
        }
    }
}

/// Seeks and crashes.
impl World {
    fn seek(&mut self, progress: Progress, settled: impl Fn(usize) -> bool) {
        self.delivery.seek(progress);
        self.naive.seek(settled);
        self.reported.clear();
        self.line.wake_all();
        let progress = self.delivery.progress().clone();
        self.note(vec![ProgressChange::Replaced(Box::new(progress))], Urgency::Durable);
    }

    /// The process ends and starts again. Of what was not flushed the last `lost` changes are
    /// gone.
    fn crash(&mut self, lost: usize, wall: Timestamp) {
        let kept = self.journal.riding.len().saturating_sub(lost);
        self.journal.riding.truncate(kept);
        let (progress, saved) = self.journal.replay();
        self.now = Now { moment: Moment(3 << 14), wall };
        let streams = self.streams();
        self.naive.restart(&saved, self.now);
        let identity = Identity { subscription: THIS, epoch: Epoch(self.naive.epoch) };
        self.delivery = Delivery::new(identity, self.naive.settings.clone(), progress.clone());
        self.journal =
            Journal { base: (progress.clone(), saved), riding: vec![], folded: progress };
        self.reported.clear();
        self.line = Line::default();
        for stream in streams {
            self.open(self.naive.seats[stream].flow);
        }
    }

    /// Puts what must be journaled into the journal, and checks that it says what happened.
    pub(crate) fn note(&mut self, changes: Vec<ProgressChange>, urgency: Urgency) {
        for change in &changes {
            self.journal.folded.apply(change);
        }
        assert_eq!(self.journal.folded, *self.delivery.progress(), "the journal against progress");
        self.naive.follow(&self.journal.folded);
        if !changes.is_empty() {
            self.journal.riding.push((changes, self.naive.save()));
        }
        if urgency == Urgency::Durable {
            self.journal.base = self.journal.replay();
            self.journal.riding.clear();
        }
    }
}

impl Journal {
    /// What a restart finds: changes merged into frames, written, read and applied.
    fn replay(&self) -> (Progress, Saved) {
        let mut frames: Vec<ProgressChange> = Vec::new();
        for change in self.riding.iter().flat_map(|(changes, _)| changes) {
            let rest = match frames.last_mut() {
                Some(last) => last.merge(change.clone()),
                None => Some(change.clone()),
            };
            frames.extend(rest);
        }
        let (mut progress, mut saved) = self.base.clone();
        for frame in frames {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            progress.apply(&ProgressChange::decode(&bytes).unwrap());
        }
        if let Some((_, last)) = self.riding.last() {
            saved = last.clone();
        }
        (progress, saved)
    }
}

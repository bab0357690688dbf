//! Histories drawn from seeds: owners that come, go, die and come back late, over a store that
//! refuses, delays, loses answers and repeats calls; held against a model of what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clock::tasks;
use domain::{Offset, OffsetRange, Progress};
use testkit::Random;

use super::bed::{FIRST, Needs, Node, SUBSCRIPTION, TOPIC, append, kept, read_all, settle, small};
use super::pool::Pool;
use crate::planted::{Fault as PlantedFault, Planted};
use crate::shared::Options;
use crate::shared::memory::{Faults, NoFaults, Seeded, Store};
use crate::{Checkpoint, Commit, Error, ReadLimit, Receipt, Urgency};

/// What is known of something that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Durable,
    Maybe,
    Never,
}

impl Known {
    fn of<T>(answer: &Result<T, Error>) -> Self {
        match answer {
            Ok(_) => Self::Durable,
            Err(Error::Indeterminate(_)) => Self::Maybe,
            Err(_) => Self::Never,
        }
    }
}

/// Records that were committed together.
#[derive(Clone, Debug)]
struct Published {
    first: Offset,
    numbers: Vec<u64>,
    bytes: usize,
    known: Known,
}

/// What a history has come to.
struct Model {
    random: Random,
    published: Vec<Published>,
    acked: BTreeMap<Offset, Known>,
    /// What some trim was allowed to drop.
    droppable: BTreeSet<Offset>,
    next_number: u64,
    /// The handles of earlier owners that were not closed.
    zombies: Vec<Node>,
    nodes: u64,
    /// What went wrong.
    broken: Option<String>,
}

/// One life of an owner.
struct Life {
    node: Node,
    next: Offset,
    progress: Progress,
    /// Acks that have no answer of their own.
    riding: Vec<Offset>,
}

const LIMITS: [ReadLimit; 3] = [
    ReadLimit { records: 1, bytes: 1 },
    ReadLimit { records: 7, bytes: 1_500 },
    ReadLimit { records: 1_000, bytes: 1 << 20 },
];

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::seeded(seed),
            published: Vec::new(),
            acked: BTreeMap::new(),
            droppable: BTreeSet::new(),
            next_number: 1,
            zombies: Vec::new(),
            nodes: 0,
            broken: None,
        }
    }

    fn hold(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// Opens the shard for a new node, however often it takes.
    async fn open(
        &mut self,
        store: &Store,
        options: Options,
        faults: &Arc<dyn Faults>,
    ) -> Option<Life> {
        loop {
            self.nodes += 1;
            match Node::open(store, self.nodes, options, Arc::clone(faults)).await {
                Ok(node) => match self.begin(node).await {
                    Ok(life) => return Some(life),
                    Err(error) => self.allow(&error),
                },
                Err(error) => self.allow(&error),
            }
            if self.broken.is_some() {
                return None;
            }
            tasks::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Only a corrupt log is a finding.
    fn allow(&mut self, error: &Error) {
        self.hold(!matches!(error, Error::Corrupt { .. }), || format!("opening: {error}"));
    }

    async fn begin(&mut self, node: Node) -> Result<Life, Error> {
        let claim = node.log().begin(TOPIC, FIRST).await?;
        let start = Progress::starting_at(FIRST);
        let progress = node.shard.progress.load_one(SUBSCRIPTION, start).await?;
        let limit = self.random.pick(&LIMITS);
        let (records, damaged) = read_all(node.log(), limit).await?;
        self.hold(damaged.is_empty(), || format!("damaged: {damaged:?}"));
        self.check_records(&records, claim.next);
        self.check_progress(&progress);
        Ok(Life { node, next: claim.next, progress, riding: Vec::new() })
    }

    /// Everything that was answered is there once and in its place; what cannot be known is there
    /// as a whole or not at all.
    fn check_records(&mut self, records: &[domain::Record], end: Offset) {
        let found: BTreeMap<Offset, _> =
            records.iter().map(|record| (record.offset, &record.body)).collect();
        let mut explained = BTreeSet::new();
        for published in std::mem::take(&mut self.published) {
            let places = (published.first.0..).map(Offset).zip(&published.numbers);
            let mut is_there = Vec::new();
            for (offset, number) in places {
                let body = kept(offset, *number, published.bytes);
                match found.get(&offset) {
                    Some(other) if **other == body => {
                        is_there.push(true);
                        explained.insert(offset);
                    }
                    None if self.droppable.contains(&offset) && offset < end => {}
                    _ => is_there.push(false),
                }
            }
            let all = is_there.iter().all(|is| *is);
            let none = is_there.iter().all(|is| !*is);
            match published.known {
                Known::Durable => self.hold(all, || format!("lost or changed: {published:?}")),
                Known::Never => self.hold(none, || format!("came to life: {published:?}")),
                Known::Maybe => self.hold(all || none, || format!("torn: {published:?}")),
            }
            // What was found can be relied on from now on, and what was not never comes.
            let is_known = published.known == Known::Durable || (all && !is_there.is_empty());
            if is_known {
                self.published.push(Published { known: Known::Durable, ..published });
            } else if published.known == Known::Never || none {
                self.published.push(Published { known: Known::Never, ..published });
            }
        }
        let strays: Vec<_> = found.keys().filter(|offset| !explained.contains(*offset)).collect();
        self.hold(strays.is_empty(), || format!("nobody published {strays:?}"));
    }

    fn check_progress(&mut self, progress: &Progress) {
        for (offset, known) in std::mem::take(&mut self.acked) {
            let is_acked = progress.is_acked(offset);
            match known {
                Known::Durable => self.hold(is_acked, || format!("ack of {offset} is lost")),
                Known::Never => self.hold(!is_acked, || format!("ack of {offset} came to life")),
                Known::Maybe => {}
            }
            let known = if is_acked { Known::Durable } else { Known::Never };
            self.acked.insert(offset, known);
        }
    }

    /// A few commits at once, and what became of them.
    async fn commits(&mut self, life: &mut Life) -> bool {
        let mut waiting: Vec<(Receipt, Result<Published, Vec<Offset>>)> = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            if self.random.percent(60) {
                let published = self.publish(life);
                let commit = append(published.first, &published.numbers, published.bytes);
                waiting.push((life.node.log().commit(commit), Ok(published)));
            } else {
                let offsets = self.some_offsets(life.next);
                if self.random.percent(50) {
                    let receipt = life.node.log().commit(settle(&offsets, Urgency::Durable));
                    waiting.push((receipt, Err(offsets)));
                } else {
                    let refused = life.node.log().commit(settle(&offsets, Urgency::Ride));
                    if refused.await.is_ok() {
                        life.riding.extend(offsets);
                    }
                }
            }
        }
        let mut goes_on = true;
        for (receipt, what) in waiting {
            let answer = receipt.await;
            goes_on &= answer.is_ok();
            match what {
                Ok(published) => {
                    let known = Known::of(&answer);
                    self.published.push(Published { known, ..published });
                }
                Err(offsets) => self.note_acks(life, &offsets, Known::of(&answer)),
            }
        }
        goes_on
    }

    fn note_acks(&mut self, life: &mut Life, offsets: &[Offset], known: Known) {
        for offset in offsets {
            let noted = self.acked.entry(*offset).or_insert(Known::Never);
            match (known, *noted) {
                (Known::Durable, _) => {
                    *noted = Known::Durable;
                    life.progress.ack(OffsetRange::one(*offset));
                }
                (Known::Maybe, Known::Never) => *noted = Known::Maybe,
                _ => {}
            }
        }
    }

    fn publish(&mut self, life: &mut Life) -> Published {
        let count = self.random.between(1, 5) as u64;
        let numbers = (self.next_number..self.next_number + count).collect();
        self.next_number += count;
        let first = life.next;
        life.next = first.plus(count);
        let bytes = self.random.between(8, 700);
        Published { first, numbers, bytes, known: Known::Never }
    }

    fn some_offsets(&mut self, end: Offset) -> Vec<Offset> {
        let count = self.random.between(1, 6);
        (0..count).map(|_| FIRST.plus(self.random.below((end.0 - FIRST.0).max(1)))).collect()
    }

    /// A checkpoint of what is durable, and perhaps a trim of what is acked.
    async fn upkeep(&mut self, life: &mut Life) -> bool {
        let riding = std::mem::take(&mut life.riding);
        let barrier = life.node.log().commit(Commit::barrier()).await;
        let known = if barrier.is_ok() { Known::Durable } else { Known::Maybe };
        self.note_acks(life, &riding, known);
        let Ok(position) = barrier else { return false };
        let progress = vec![(SUBSCRIPTION, life.progress.clone())];
        if self.random.percent(50) && !self.commits(life).await {
            return false;
        }
        let checkpoint = Checkpoint { position, progress, ..Checkpoint::default() };
        let saved = life.node.shard.progress.checkpoint(checkpoint);
        if self.random.percent(30) && !self.commits(life).await {
            return false;
        }
        // An owner may go while it is still at it.
        if self.random.percent(10) || saved.await.is_err() {
            return false;
        }
        if self.random.percent(60) {
            let range = OffsetRange { from: FIRST, to: life.next };
            let needed = life.progress.unacked_in(range);
            let is_needed = |offset: &Offset| needed.iter().any(|range| range.contains(*offset));
            let acked = (FIRST.0..life.next.0).map(Offset).filter(|offset| !is_needed(offset));
            self.droppable.extend(acked);
            let trimmed = life.node.log().trim(Arc::new(Needs(needed)));
            if self.random.percent(50) && !self.commits(life).await {
                return false;
            }
            if self.random.percent(15) || trimmed.await.is_err() {
                return false;
            }
            let limit = self.random.pick(&LIMITS);
            if let Ok((records, damaged)) = read_all(life.node.log(), limit).await {
                self.hold(damaged.is_empty(), || format!("damaged: {damaged:?}"));
                self.check_records(&records, life.node.log().end(TOPIC));
            }
        }
        true
    }

    /// Whatever an earlier owner tries comes to nothing.
    async fn zombie(&mut self) {
        let Some(place) = self.zombies.len().checked_sub(1) else { return };
        let place = self.random.index(place + 1);
        let number = self.next_number;
        self.next_number += 1;
        let Some(zombie) = self.zombies.get(place) else { return };
        let log = Arc::clone(zombie.log());
        let progress = Arc::clone(&zombie.shard.progress);
        let first = log.end(TOPIC);
        let offsets = [FIRST, FIRST.plus(3)];
        let answers = match self.random.below(4) {
            0 => {
                let answer = log.commit(append(first, &[number], 20)).await;
                let (numbers, known) = (vec![number], Known::of(&answer));
                self.published.push(Published { first, numbers, bytes: 20, known });
                answer.map(drop)
            }
            1 => {
                for offset in offsets {
                    self.acked.entry(offset).or_insert(Known::Never);
                }
                log.commit(settle(&offsets, Urgency::Durable)).await.map(drop)
            }
            2 => {
                let checkpoint = Checkpoint { position: log.position(), ..Checkpoint::default() };
                progress.checkpoint(checkpoint).await
            }
            _ => log.trim(Arc::new(Needs(Vec::new()))).await.map(drop),
        };
        self.hold(answers.is_err(), || {
            "an earlier owner was answered as if it were one".to_owned()
        });
    }
}

/// Runs one history; returns what was broken.
async fn history(pool: Rc<Pool>, seed: u64, planted: Planted) -> Option<String> {
    let store = Store::new(1, Arc::new(pool.clock.clone())).with_planted(planted);
    let mut model = Model::new(seed);
    let per_mille = model.random.pick(&[0, 20, 100, 300]);
    let delay = Duration::from_millis(model.random.pick(&[5, 300, 8_000]));
    let faults: Arc<dyn Faults> = Arc::new(Seeded::new(seed, per_mille, delay).harsh());
    let options = Options { planted, ..small() };
    for _ in 0..model.random.between(2, 6) {
        let Some(mut life) = model.open(&store, options, &faults).await else { break };
        for _ in 0..model.random.between(1, 12) {
            let goes_on = match model.random.below(5) {
                0 => model.upkeep(&mut life).await,
                1 => {
                    model.zombie().await;
                    true
                }
                _ => model.commits(&mut life).await,
            };
            if !goes_on || model.broken.is_some() {
                break;
            }
        }
        end(&mut model, life, &store).await;
        if model.broken.is_some() {
            return model.broken;
        }
    }
    store.settle();
    let quiet: Arc<dyn Faults> = Arc::new(NoFaults);
    drop(model.open(&store, options, &quiet).await);
    model.zombies.clear();
    for _ in 0..100 {
        tasks::sleep(Duration::from_secs(1)).await;
    }
    model.hold(pool.tasks() == 0, || "tasks are left behind".to_owned());
    model.broken
}

/// An owner goes: it closes, is forgotten, or does not know that it was replaced.
async fn end(model: &mut Model, mut life: Life, store: &Store) {
    let riding = std::mem::take(&mut life.riding);
    match model.random.below(3) {
        0 => {
            let closed = life.node.log().close().await;
            let known = if closed.is_ok() { Known::Durable } else { Known::Maybe };
            model.note_acks(&mut life, &riding, known);
            let again = life.node.log().commit(Commit::barrier()).await;
            model.hold(again.is_err(), || "a closed handle commits".to_owned());
        }
        1 => {
            model.note_acks(&mut life, &riding, Known::Maybe);
            model.zombies.push(life.node);
        }
        _ => model.note_acks(&mut life, &riding, Known::Maybe),
    }
    if model.random.percent(20) {
        store.settle();
    }
}

fn run(seed: u64, planted: Planted) -> Option<String> {
    Pool::run(seed, |pool| history(pool, seed, planted))
}

#[test]
fn whatever_the_store_does_a_commit_is_there_once_or_never() {
    let count = testkit::seed::number("SHARED_HISTORIES").unwrap_or(3_000);
    for seed in testkit::seed::seeds(0..count) {
        if let Some(broken) = run(seed, Planted::default()) {
            panic!("{}={seed}: {broken}", testkit::seed::VARIABLE);
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let faults = [
        PlantedFault::NoFenceOnAcks,
        PlantedFault::AnswerBeforeSync,
        PlantedFault::CheckpointAhead,
    ];
    for fault in faults {
        let found = (0..500).find(|seed| run(*seed, Planted::only(fault)).is_some());
        assert!(found.is_some(), "{fault:?} was not found");
    }
}

//! What was asked of a log and what it answered, and whether a recovered store agrees.
//!
//! State is the fold of durable commits in the order in which they were queued, so a store opened
//! after a crash must hold the fold of the first j commits for some j: not fewer than were
//! answered, not more than were sent.

use std::collections::BTreeMap;

use domain::{
    Message, Offset, OffsetRange, Progress, Record, SubscriptionId, Timestamp, TopicId, message,
};
use parking_lot::Mutex;
use storage::{Append, Commit, Kind, NewRecord, ReadLimit, Urgency};

use crate::bed::Running;
use crate::owner::{Owner, Subscription};

#[derive(Default)]
pub(crate) struct History(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    topics: BTreeMap<TopicId, Offset>,
    subscriptions: BTreeMap<SubscriptionId, (TopicId, Progress)>,
    steps: Vec<Step>,
    /// Steps up to here are answered.
    answered: usize,
    /// Definitions whose creation was answered.
    defined: Vec<String>,
}

struct Step {
    commit: Commit,
    refused: bool,
}

/// A moment in a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) sent: usize,
    pub(crate) answered: usize,
    pub(crate) defined: usize,
    pub(crate) topics: usize,
    pub(crate) subscriptions: usize,
}

/// The fold of the first commits.
#[derive(Clone, Default)]
struct Fold {
    records: BTreeMap<TopicId, Vec<Record>>,
    progress: BTreeMap<SubscriptionId, Progress>,
}

impl History {
    pub(crate) fn mark(&self) -> Mark {
        let inner = self.0.lock();
        Mark {
            sent: inner.steps.len(),
            answered: inner.answered,
            defined: inner.defined.len(),
            topics: inner.topics.len(),
            subscriptions: inner.subscriptions.len(),
        }
    }

    pub(crate) fn topic(&self, topic: TopicId, first: Offset) {
        self.0.lock().topics.insert(topic, first);
    }

    pub(crate) fn subscription(&self, id: SubscriptionId, topic: TopicId, start: Progress) {
        self.0.lock().subscriptions.insert(id, (topic, start));
    }

    pub(crate) fn defined(&self, name: &str) {
        self.0.lock().defined.push(name.to_owned());
    }

    /// Notes a commit that is about to be queued; its number.
    pub(crate) fn sent(&self, commit: &Commit) -> usize {
        let mut inner = self.0.lock();
        inner.steps.push(Step { commit: commit.clone(), refused: false });
        inner.steps.len() - 1
    }

    /// The commit noted last.
    pub(crate) fn last_commit(&self) -> Commit {
        self.0.lock().steps.last().expect("a commit").commit.clone()
    }

    /// The commit is durable, and so is everything queued before it.
    pub(crate) fn answered(&self, step: usize) {
        let mut inner = self.0.lock();
        inner.answered = inner.answered.max(step + 1);
    }

    /// The commit was refused: it did not happen.
    pub(crate) fn refused(&self, step: usize) {
        self.0.lock().steps[step].refused = true;
    }

    /// Panics unless `engine` holds what a store must hold that lost its power at `mark`.
    pub(crate) async fn check(&self, engine: &Running, mark: Mark) {
        if let Err(what) = self.find_fault(engine, mark).await {
            panic!("{what}");
        }
    }

    /// How many commits `engine` holds as a store that lost its power at `mark`, or what is wrong
    /// with it.
    pub(crate) async fn find_fault(&self, engine: &Running, mark: Mark) -> Result<usize, String> {
        let folds = self.0.lock().folds(mark);
        let (topics, subscriptions) = {
            let inner = self.0.lock();
            (inner.topics.clone(), inner.subscriptions.clone())
        };
        let mut ends = BTreeMap::new();
        for (&topic, &first) in topics.iter().take(mark.topics) {
            let claim = engine.log.begin(topic, first).await.map_err(|e| e.to_string())?;
            ends.insert(topic, (claim.next, claim.last_publish_time));
        }
        let mut progress = BTreeMap::new();
        for (&id, (_, start)) in subscriptions.iter().take(mark.subscriptions) {
            let loaded = engine.progress.load_one(id, start.clone()).await;
            progress.insert(id, loaded.map_err(|e| e.to_string())?);
        }
        let agrees = |fold: &&Fold| {
            fold.progress == progress
                && ends.iter().all(|(id, end)| fold.end(*id, topics[id]) == *end)
        };
        let Some(place) = folds.iter().position(|fold| agrees(&fold)) else {
            return Err(explain(&folds, &ends, &progress, &topics, mark));
        };
        let fold = &folds[place];
        for (&topic, &first) in topics.iter().take(mark.topics) {
            let readers = subscriptions.iter().filter(|(_, (on, _))| *on == topic);
            let readers: Vec<_> = readers.filter_map(|(id, _)| progress.get(id)).collect();
            let none = Vec::new();
            let records = fold.records.get(&topic).unwrap_or(&none);
            check_records(engine, topic, first, records, &readers).await?;
        }
        self.check_definitions(engine, mark).await?;
        Ok(mark.answered + place)
    }

    /// Checks that what was answered can be read, unless `owner` has acked it.
    pub(crate) async fn check_readable(&self, engine: &Running, owner: &Owner) {
        let mark = self.mark();
        let (folds, topics) = {
            let inner = self.0.lock();
            (inner.folds(mark), inner.topics.clone())
        };
        for (place, (topic, first)) in topics.into_iter().enumerate() {
            let readers = owner.subscriptions.iter().filter(|one| one.topic == place);
            let readers: Vec<_> = readers.map(Subscription::progress).collect();
            let readers: Vec<_> = readers.iter().collect();
            let none = Vec::new();
            let answered = folds[0].records.get(&topic).unwrap_or(&none);
            let found = check_records(engine, topic, first, answered, &readers).await;
            found.unwrap_or_else(|what| panic!("{what}"));
        }
    }

    /// Checks that every topic takes one more message and shows it.
    pub(crate) async fn takes_messages(&self, engine: &Running, mark: Mark) -> Result<(), String> {
        let topics = self.0.lock().topics.clone();
        for (topic, first) in topics.into_iter().take(mark.topics) {
            let claim = engine.log.begin(topic, first).await.map_err(|e| e.to_string())?;
            let time = claim.last_publish_time.0 + 1;
            let (first, records) = (claim.next, vec![record(time, 50)]);
            let append = Append { topic, first, records };
            let expected: Vec<_> = as_kept(&append).collect();
            let (appends, progress) = (vec![append], Vec::new());
            let commit = Commit { appends, progress, urgency: Urgency::Durable };
            engine.log.commit(commit).await.map_err(|e| format!("takes no message: {e}"))?;
            let limit = ReadLimit { records: 10, bytes: 1 << 20 };
            let read = engine.log.read(topic, first, limit).await.map_err(|e| e.to_string())?;
            if read.records != expected {
                return Err(format!("{topic:?}: the new message reads as {read:?}"));
            }
        }
        Ok(())
    }

    async fn check_definitions(&self, engine: &Running, mark: Mark) -> Result<(), String> {
        let names = self.0.lock().defined[..mark.defined].to_vec();
        for name in names {
            if let Err(error) = engine.catalogue.get(Kind::Schema, &name).await {
                return Err(format!("definition {name}: {error}"));
            }
        }
        Ok(())
    }
}

impl Inner {
    /// The folds of `answered`, `answered + 1`, … up to `sent` commits.
    fn folds(&self, mark: Mark) -> Vec<Fold> {
        let mut fold = Fold::default();
        for (id, (_, start)) in self.subscriptions.iter().take(mark.subscriptions) {
            fold.progress.insert(*id, start.clone());
        }
        let mut folds = Vec::new();
        for (place, step) in self.steps[..mark.sent].iter().enumerate() {
            if place >= mark.answered {
                folds.push(fold.clone());
            }
            if !step.refused {
                fold.take(&step.commit);
            }
        }
        folds.push(fold);
        folds
    }
}

impl Fold {
    fn take(&mut self, commit: &Commit) {
        for append in &commit.appends {
            self.records.entry(append.topic).or_default().extend(as_kept(append));
        }
        for (subscription, change) in &commit.progress {
            if let Some(progress) = self.progress.get_mut(subscription) {
                progress.apply(change);
            }
        }
    }

    /// The next offset and the last publish time of a topic.
    fn end(&self, topic: TopicId, first: Offset) -> (Offset, Timestamp) {
        let last = self.records.get(&topic).and_then(|records| records.last());
        last.map_or((first, Timestamp(0)), |last| (last.offset.next(), last.publish_time))
    }
}

pub(crate) fn as_kept(append: &Append) -> impl Iterator<Item = Record> + '_ {
    (append.first.0..).map(Offset).zip(&append.records).map(|(offset, new)| {
        let mut body = Vec::new();
        message::encode(&new.message, offset, new.publish_time, &mut body);
        let (publish_time, addressee) = (new.publish_time, new.addressee);
        Record { offset, publish_time, addressee, body: body.into() }
    })
}

/// What is read must be what was published, and what is missing must be acked by every reader.
async fn check_records(
    engine: &Running,
    topic: TopicId,
    first: Offset,
    expected: &[Record],
    readers: &[&Progress],
) -> Result<(), String> {
    let mut found = BTreeMap::new();
    let mut at = first;
    loop {
        let limit = ReadLimit { records: 100, bytes: 16 << 10 };
        let batch = engine.log.read(topic, at, limit).await.map_err(|e| e.to_string())?;
        if batch.covered.is_empty() {
            break;
        }
        if batch.covered.from != at || !batch.damaged.is_empty() {
            return Err(format!("{topic:?}: read from {at} gave {:?}", batch.covered));
        }
        at = batch.covered.to;
        found.extend(batch.records.into_iter().map(|record| (record.offset, record)));
    }
    for record in expected {
        match found.remove(&record.offset) {
            Some(read) if read == *record => {}
            Some(_) => return Err(format!("{topic:?}: record {} has changed", record.offset)),
            None if readers.iter().all(|reader| reader.is_acked(record.offset)) => {}
            None => return Err(format!("{topic:?}: unacked record {} is gone", record.offset)),
        }
    }
    match found.keys().next() {
        Some(offset) => Err(format!("{topic:?}: record {offset} was never published")),
        None => Ok(()),
    }
}

/// Why no fold agrees with what was found.
fn explain(
    folds: &[Fold],
    ends: &BTreeMap<TopicId, (Offset, Timestamp)>,
    progress: &BTreeMap<SubscriptionId, Progress>,
    topics: &BTreeMap<TopicId, Offset>,
    mark: Mark,
) -> String {
    let mut text = format!("no fold of {}..={} commits agrees\n", mark.answered, mark.sent);
    for (id, end) in ends {
        let expected: Vec<_> = folds.iter().map(|fold| fold.end(*id, topics[id])).collect();
        text += &format!("{id:?}: ends at {end:?}, folds at {expected:?}\n");
    }
    for (id, found) in progress {
        let agreeing: Vec<_> =
            (0..folds.len()).filter(|n| folds[*n].progress[id] == *found).collect();
        text += &format!("{id:?}: agrees with folds {agreeing:?}, cursor {}, ", found.cursor());
        let wanted: Vec<_> = folds.iter().map(|fold| fold.progress[id].cursor().0).collect();
        text += &format!("cursors wanted {wanted:?}\n");
    }
    text
}

/// A message whose content nobody else has; published at microsecond `n`.
pub(crate) fn record(n: u64, size: usize) -> NewRecord {
    let mut data = n.to_le_bytes().to_vec();
    data.extend((0..size as u64).map(|i| (n ^ i.wrapping_mul(37)).to_le_bytes()[0]));
    let message = Message {
        data: data.into(),
        attributes: BTreeMap::from([("n".to_owned(), n.to_string())]),
        ordering_key: if n.is_multiple_of(2) { "key".to_owned() } else { String::new() },
    };
    NewRecord { message, publish_time: Timestamp(n), addressee: None }
}

pub(crate) fn ones(offsets: &[Offset]) -> Vec<OffsetRange> {
    offsets.iter().map(|offset| OffsetRange::one(*offset)).collect()
}

//! One shard as one owner holds it: what its tasks share.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::{ClockMark, Epoch, Offset, ShardId, TopicId};
use parking_lot::Mutex;

use super::Options;
use super::blocks::Block;
use super::chain::HEADER;
use super::chunks::{Chunks, Key, Row};
use super::index::{Spans, Stretches};
use super::patience::{Pauses, may_pass};
use super::rows::{State, TopicRow};
use crate::front::{Front, Part, Topic, closed};
use crate::{Error, Future, Result};

/// What the core keeps about a topic.
///
/// ```text
/// blocks (with gaps) < spans of chunks (dense) ≤ end
/// ```
#[derive(Debug, Default)]
pub(super) struct Own {
    pub spans: Spans,
    /// Ascending.
    pub blocks: Vec<Block>,
    /// What was last saved about it.
    pub saved: Option<TopicRow>,
}

impl Part for Own {
    const HEADER: usize = HEADER;
    const BLOCK: usize = 1;
}

/// A shard of an owner.
pub(super) struct Owned {
    pub id: ShardId,
    pub epoch: Epoch,
    pub chunks: Arc<dyn Chunks>,
    pub options: Options,
    pub front: Front<Own>,
    pub stretches: Mutex<Stretches>,
    /// Bytes of all chunks that are kept.
    pub log_bytes: AtomicU64,
    /// Held while something is saved or moved.
    pub upkeep: tokio::sync::Mutex<Upkeep>,
    /// The clock mark, as last saved.
    pub clock: Mutex<Option<ClockMark>>,
    /// Whether the store does not answer.
    pub is_stalled: AtomicBool,
    /// Whether the owner has closed it.
    pub is_closed: AtomicBool,
    /// Whether nobody has the handle any more.
    is_abandoned: AtomicBool,
    /// Why the owner lost the shard, once it did.
    lost: OnceLock<Error>,
}

/// What was saved, and what the next save does besides.
#[derive(Debug)]
pub(super) struct Upkeep {
    pub state: State,
    /// The number of the last save.
    pub saves: u64,
    /// Rows that count for nothing.
    pub stale: Vec<Key>,
}

/// What an owner has besides what was found.
pub(super) struct Parts {
    pub id: ShardId,
    pub epoch: Epoch,
    pub chunks: Arc<dyn Chunks>,
    pub options: Options,
}

impl Owned {
    pub(super) fn new(
        parts: Parts,
        front: Front<Own>,
        stretches: Stretches,
        upkeep: Upkeep,
        clock: Option<ClockMark>,
    ) -> Self {
        let Parts { id, epoch, chunks, options } = parts;
        let log_bytes = AtomicU64::new(stretches.bytes());
        front.figures.log_bytes.store(stretches.bytes(), Ordering::Relaxed);
        Self {
            id,
            epoch,
            chunks,
            options,
            front,
            stretches: Mutex::new(stretches),
            log_bytes,
            upkeep: tokio::sync::Mutex::new(upkeep),
            clock: Mutex::new(clock),
            is_stalled: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            lost: OnceLock::new(),
        }
    }

    /// Whether appends may be queued now.
    pub(super) fn has_room(&self) -> Result<bool> {
        let has_room = self.front.has_queue_room()?;
        Ok(has_room && !self.is_stalled.load(Ordering::Acquire) && self.has_log_room())
    }

    /// Whether the chunks are below their limit.
    pub(super) fn has_log_room(&self) -> bool {
        self.log_bytes.load(Ordering::Relaxed) < self.options.log_bytes_max
    }

    /// Nobody has the handle any more: what is queued is tried once more, and then given up.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        self.front.queue.stop(closed());
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// The owner has lost the shard, as whoever asked the store was told. The committer, which
    /// alone knows what is on its way, does the rest.
    pub(super) fn lose(&self, error: &Error) {
        drop(self.lost.set(error.clone()));
        self.front.queue.stop(error.clone());
    }

    /// Why the owner lost the shard.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Why the store did not do what only the owner may ask: it has another one, or is not what it
    /// was.
    pub(super) fn refused(&self, error: Error) -> Error {
        match error {
            error @ (Error::Fenced { .. } | Error::Corrupt { .. }) => error,
            _ => Error::corrupt(
                format!("shard {}", self.id.0),
                "the store is behind what it has answered",
            ),
        }
    }

    /// Asks the store until it answers, or the handle is closed. Whoever is `Fenced` loses the
    /// shard.
    pub(super) async fn insist<T>(&self, call: impl Fn() -> Future<Result<T>>) -> Result<T> {
        let mut pauses = Pauses::default();
        loop {
            let answer = pauses.answer(call(), || {}).await;
            match answer {
                Err(error) if may_pass(&error) => {}
                Err(error) => {
                    let error = self.refused(error);
                    self.lose(&error);
                    return Err(error);
                }
                Ok(answer) => return Ok(answer),
            }
            self.front.check_open()?;
            if self.is_abandoned() {
                return Err(closed());
            }
            pauses.pause().await;
        }
    }

    /// Saves `rows`, with `state` among them.
    pub(super) async fn save(
        &self,
        upkeep: &mut Upkeep,
        state: State,
        rows: Vec<Row>,
    ) -> Result<()> {
        let number = upkeep.saves + 1;
        let stale = upkeep.stale.iter().map(|key| (*key, None));
        let rows: Vec<Row> = stale.chain(rows).collect();
        self.insist(|| self.chunks.save(self.id, self.epoch, number, rows.clone())).await?;
        upkeep.stale.clear();
        (upkeep.saves, upkeep.state) = (number, state);
        Ok(())
    }
}

impl TopicRow {
    /// What is to be saved about a topic now.
    pub(super) fn of(topic: &Topic<Own>) -> Self {
        let state = topic.state();
        Self { next: state.end, last_time: state.last_time }
    }
}

/// The topics whose rows have changed since they were saved.
pub(super) fn changed(owned: &Owned) -> Vec<(Arc<Topic<Own>>, TopicRow)> {
    let rows = owned.front.topics.all().into_iter().map(|topic| {
        let row = TopicRow::of(&topic);
        (topic, row)
    });
    rows.filter(|(topic, row)| topic.state().own.saved != Some(*row)).collect()
}

/// Notes that these rows were saved.
pub(super) fn note_saved(rows: Vec<(Arc<Topic<Own>>, TopicRow)>) {
    for (topic, row) in rows {
        topic.state().own.saved = Some(row);
    }
}

/// Sets the offsets of the next records of these topics.
pub(super) async fn raise(owned: &Owned, raised: Vec<(TopicId, Offset)>) -> Result<()> {
    let mut upkeep = owned.upkeep.lock().await;
    owned.front.queue.check(owned.epoch)?;
    let mut rows = Vec::with_capacity(raised.len());
    for (id, next) in raised {
        let topic = owned.front.topics.get(id).ok_or(Error::NotFound)?;
        let row = TopicRow::of(&topic);
        let is_in_log = topic.state().own.spans.first().is_some();
        if is_in_log || next < row.next || !owned.front.queue.is_at(id, row.next) {
            return Err(Error::Conflict);
        }
        rows.push((topic, TopicRow { next, ..row }));
    }
    let saved = rows.iter().map(|(topic, row)| super::rows::topic_row(topic.id, *row)).collect();
    let state = upkeep.state.clone();
    owned.save(&mut upkeep, state, saved).await?;
    for (topic, row) in &rows {
        topic.state().end = row.next;
        owned.front.queue.raise(topic.id, row.next);
    }
    note_saved(rows);
    Ok(())
}

//! The open store: what all its threads share, and closing it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use domain::{Epoch, Offset, TopicId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::attempts::History;
use super::committer::Committer;
use super::database::{Database, Meta, TopicRow, put_meta, put_topic};
use super::files::Files;
use super::group::tail_groups_bytes;
use super::pending::Pending;
use super::preallocator::Preallocator;
use super::queue::Queue;
use super::real::FolderLock;
use super::recovery::Recovered;
use super::scan::unavailable;
use super::seam::Disk;
use super::tail::Ring;
use super::topic::{Topic, Topics};
use super::wal::{Wal, Writer};
use super::{Durability, Options};
use crate::{Claim, Commit, Error, Future, Listener, LogFigures, Position, Receipt, Result};

/// What the threads of an open store share.
pub(super) struct Shared {
    pub options: Options,
    pub disk: Arc<dyn Disk>,
    pub database: Database,
    pub attempts: History,
    pub preallocator: Arc<Preallocator>,
    pub wal: Arc<Wal>,
    pub files: Files,
    pub topics: Topics,
    pub queue: Queue,
    /// The newest groups. Locked before the state of a topic.
    pub ring: Mutex<Ring>,
    pub pending: Mutex<Pending>,
    /// The number of the last durable group.
    pub position: AtomicU64,
    /// The group up to which progress is checkpointed.
    pub checkpoint: AtomicU64,
    pub figures: Arc<LogFigures>,
    pub listener: OnceLock<Arc<dyn Listener>>,
    /// Held while a trim runs.
    pub trimming: Mutex<()>,
    /// Whether the listener was asked for a trim that has not started yet.
    pub pressed: AtomicBool,
    /// The first epoch of this opening.
    epoch: Epoch,
    /// Held while a topic is claimed or forgotten.
    claims: Mutex<()>,
    /// Whether this is a copy that has not been put into use.
    is_copy: AtomicBool,
    /// Why nothing is written anymore.
    stopped: OnceLock<Error>,
    room: Arc<Notify>,
    lock: Mutex<Option<FolderLock>>,
}

/// What a store consists of besides what was recovered.
pub(super) struct Parts {
    pub options: Options,
    pub disk: Arc<dyn Disk>,
    pub database: Database,
    pub attempts: History,
    pub preallocator: Arc<Preallocator>,
    pub room: Arc<Notify>,
    pub lock: Option<FolderLock>,
    /// How many times the store was opened, including this time.
    pub opens: u64,
    /// Whether it is a copy that has not been put into use.
    pub is_copy: bool,
}

/// The engine's public part: closes the store when its last user drops it.
pub(super) struct Store {
    pub shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Starts the threads of a recovered store.
    pub(super) fn start(parts: Parts, recovered: Recovered) -> Result<Self> {
        // Claims within one open count from here.
        const CLAIMS_MAX: u64 = 1 << 20;
        let options = parts.options;
        let active = recovered.files.last().cloned().ok_or(Error::NotFound)?;
        let wal = Arc::new(Wal::new(recovered.files, recovered.at));
        let shared = Arc::new(Shared {
            queue: Queue::new(
                options.tail_memory_bytes,
                options.group_bytes_max,
                options.ride_delay,
            ),
            ring: Mutex::new(Ring::new(tail_groups_bytes(options.tail_memory_bytes))),
            files: Files::new(Arc::clone(&parts.disk)),
            disk: Arc::clone(&parts.disk),
            database: parts.database,
            attempts: parts.attempts,
            preallocator: Arc::clone(&parts.preallocator),
            wal: Arc::clone(&wal),
            topics: recovered.topics,
            pending: Mutex::new(recovered.pending),
            position: AtomicU64::new(recovered.number),
            checkpoint: AtomicU64::new(recovered.checkpoint),
            figures: Arc::default(),
            listener: OnceLock::new(),
            trimming: Mutex::new(()),
            pressed: AtomicBool::new(false),
            epoch: Epoch(parts.opens * CLAIMS_MAX),
            claims: Mutex::new(()),
            is_copy: AtomicBool::new(parts.is_copy),
            stopped: OnceLock::new(),
            room: parts.room,
            lock: Mutex::new(parts.lock),
            options,
        });
        let writer = Writer {
            disk: parts.disk,
            wal,
            preallocator: parts.preallocator,
            active,
            at: recovered.at,
            number: recovered.number,
            syncs: options.durability == Durability::Fsync,
            asked: false,
        };
        shared.figures.log_bytes.store(shared.wal.bytes(), Ordering::Relaxed);
        let store = Self { shared, threads: Mutex::default() };
        let preallocator = Arc::clone(&store.shared.preallocator);
        let committer = Committer::new(Arc::clone(&store.shared), writer);
        store.spawn("log-prealloc", move || preallocator.run())?;
        store.spawn("log-committer", move || committer.run())?;
        Ok(store)
    }

    fn spawn(&self, name: &str, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(life);
        self.threads.lock().push(thread.map_err(unavailable)?);
        Ok(())
    }

    /// Writes what is queued, ends the threads and releases the folder.
    pub(super) fn close(&self) {
        let shared = &self.shared;
        let closed = unavailable(io::Error::other("the store was closed"));
        shared.queue.stop(closed.clone());
        shared.preallocator.close_soon();
        let mut threads = self.threads.lock();
        // The committer first: it may still need the preallocator.
        while let Some(thread) = threads.pop() {
            if threads.is_empty() {
                shared.preallocator.close();
            }
            if thread.join().is_err() {
                tracing::error!("a thread of the log panicked");
            }
        }
        drop(threads);
        // A panicked committer leaves commits behind; nobody should wait for them forever.
        shared.queue.refuse(&closed);
        drop(shared.stopped.set(closed));
        shared.room.notify_waiters();
        let _trim_has_ended = shared.trimming.lock();
        shared.database.close();
        shared.attempts.close();
        shared.lock.lock().take();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Queues a commit.
    pub(super) fn commit(&self, commit: Commit) -> Receipt {
        let durable = Position(self.position.load(Ordering::Acquire));
        self.queue.commit(commit, self.preallocator.is_full(), durable)
    }

    /// `Err` once nothing is written anymore.
    pub(super) fn check_open(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether appends may be queued now.
    pub(super) fn has_room(&self) -> Result<bool> {
        self.check_open()?;
        if self.preallocator.is_full() {
            return Err(Error::Full);
        }
        Ok(self.queue.bytes() < self.options.queue_bytes_max && self.has_log_room())
    }

    /// Whether the log is below its limit.
    pub(super) fn has_log_room(&self) -> bool {
        self.wal.bytes() < self.options.wal_max_bytes
    }

    /// Resolves when appends may be queued.
    pub(super) fn room(self: &Arc<Self>) -> Future<Result<()>> {
        let shared = Arc::clone(self);
        Box::pin(async move {
            let room = Arc::clone(&shared.room);
            loop {
                let mut notified = std::pin::pin!(room.notified());
                notified.as_mut().enable();
                if shared.has_room()? {
                    return Ok(());
                }
                if !shared.has_log_room() && !shared.pressed.load(Ordering::Relaxed) {
                    shared.press();
                }
                notified.await;
            }
        })
    }

    pub(super) fn notify_room(&self) {
        self.room.notify_waiters();
    }

    /// Asks the owner for a checkpoint and a trim.
    pub(super) fn press(&self) {
        self.pressed.store(true, Ordering::Relaxed);
        if let Some(listener) = self.listener.get() {
            listener.pressed();
        }
    }

    /// The log has failed: this process writes nothing more.
    pub(super) fn fail(&self, error: &Error) {
        if self.stopped.set(error.clone()).is_err() {
            return;
        }
        tracing::error!(%error, "the log has failed, nothing more is written");
        self.queue.refuse(error);
        self.room.notify_waiters();
        if let Some(listener) = self.listener.get() {
            listener.failed(error);
        }
    }

    /// Changes the database in one transaction, using the reserve if the disk is full.
    pub(super) fn write<T>(
        &self,
        change: impl Fn(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.preallocator.for_database(|| {
            self.check_open()?;
            let position = self.position.load(Ordering::Acquire);
            self.sync_unsynced()?;
            self.database.write(|transaction| {
                put_meta(transaction, Meta::Position, position)?;
                change(transaction)
            })
        })
    }

    /// SQLite names only what is on stable storage, even if commits are not synced one by one.
    fn sync_unsynced(&self) -> Result<()> {
        if self.options.durability == Durability::Os
            && let Some(newest) = self.wal.newest()
        {
            newest.file.sync().map_err(unavailable)?;
        }
        Ok(())
    }

    /// Takes over `topic` under a new epoch.
    pub(super) fn claim(&self, topic: TopicId, first: Offset) -> Result<Claim> {
        self.check_open()?;
        let _one_at_a_time = self.claims.lock();
        let topic = self.topics.get_or_make(topic, first);
        Ok(self.queue.claim(topic, self.epoch))
    }

    pub(super) fn is_copy(&self) -> bool {
        self.is_copy.load(Ordering::Acquire)
    }

    /// Sets the offsets of the next records of these topics.
    pub(super) fn raise(&self, raised: &[(TopicId, Offset)]) -> Result<()> {
        let _one_at_a_time = self.claims.lock();
        let mut rows = Vec::with_capacity(raised.len());
        for &(id, next) in raised {
            let topic = self.topics.get(id).ok_or(Error::NotFound)?;
            let is_in_log = topic.state().log.first().is_some();
            let row = TopicRow::of(&topic);
            if is_in_log || next < row.next || !self.queue.is_at(id, row.next) {
                return Err(Error::Conflict);
            }
            let low = if row.low == row.next { next } else { row.low };
            rows.push((topic, TopicRow { next, low, ..row }));
        }
        self.write(|transaction| {
            rows.iter().try_for_each(|(_, row)| put_topic(transaction, *row))?;
            put_meta(transaction, Meta::Copy, 0)
        })?;
        for (topic, row) in rows {
            let mut state = topic.state();
            (state.end, state.saved) = (row.next, Some(row));
            drop(state);
            self.queue.raise(row.id, row.next);
        }
        self.is_copy.store(false, Ordering::Release);
        Ok(())
    }

    /// Forgets those of `topics` that are still unclaimed, after `record` has made that durable.
    pub(super) fn forget_topics(
        &self,
        topics: &[Arc<Topic>],
        record: impl FnOnce(&[TopicId]) -> Result<()>,
    ) -> Result<()> {
        let _one_at_a_time = self.claims.lock();
        let unclaimed = topics.iter().filter(|topic| !topic.state().claimed);
        let gone: Vec<_> = unclaimed.map(|topic| topic.id).collect();
        if !gone.is_empty() {
            record(&gone)?;
        }
        for id in gone {
            self.topics.remove(id);
        }
        Ok(())
    }
}

/// Runs `work`, which may block on the disk, where it delays nobody: on a blocking thread, or right
/// here if there is no runtime.
pub(super) fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
) -> Future<Result<T>> {
    let shared = Arc::clone(shared);
    Box::pin(async move {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime
                .spawn_blocking(move || work(&shared))
                .await
                .unwrap_or_else(|error| Err(unavailable(io::Error::other(error)))),
            Err(_) => work(&shared),
        }
    })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

//! The open store: what all its threads share, and closing it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use clock::tasks;
use domain::{Epoch, Offset, ShardId, TopicId};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock};

use super::attempts::History;
use super::committer::Committer;
use super::database::{Database, Meta, TopicRow, put_meta, put_topic};
use super::files::Files;
use super::preallocator::Preallocator;
use super::real::FolderLock;
use super::recovery::Recovered;
use super::scan::unavailable;
use super::seam::Disk;
use super::topic::{Places, Topic};
use super::wal::{Wal, Writer};
use super::{Durability, Options};
use crate::catalogue::Recent;
use crate::front::{Bounds, Found, Front};
use crate::{Commit, Error, Future, Listener, Receipt, Result};

/// The only shard there is.
pub(super) const SHARD: ShardId = ShardId(0);

/// What the threads of an open store share.
pub(super) struct Shared {
    pub options: Options,
    pub disk: Arc<dyn Disk>,
    pub database: Database,
    pub attempts: History,
    pub preallocator: Arc<Preallocator>,
    pub wal: Arc<Wal>,
    pub files: Files,
    pub front: Front<Places>,
    /// Changes of definitions.
    pub recent: Arc<Recent>,
    /// Held while a definition is written, so that changes are noted in the order they were made.
    pub defining: Mutex<()>,
    /// Held while a trim runs.
    pub trimming: Mutex<()>,
    /// The same for trims that are tasks.
    pub trimming_task: tokio::sync::Mutex<()>,
    /// Read while a chore of an owner runs, so that the next owner can wait for its end.
    chores: Arc<RwLock<()>>,
    /// The epoch of the last owner.
    epoch: AtomicU64,
    /// Whether this is a copy that has not been put into use.
    is_copy: AtomicBool,
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
    /// The serial number of the last change of definitions.
    pub serial: u64,
    /// Whether it is a copy that has not been put into use.
    pub is_copy: bool,
}

/// The engine's public part: closes the store when its last user drops it.
pub(super) struct Store {
    pub shared: Arc<Shared>,
    workers: Mutex<Workers>,
}

/// Who does the work.
enum Workers {
    /// The preallocator and the committer.
    Threads(Vec<JoinHandle<()>>),
    /// Tasks, in a simulation.
    Tasks(Arc<Mutex<Committer>>),
}

impl Store {
    /// Starts the threads of a recovered store; in a simulation, its tasks.
    pub(super) fn start(parts: Parts, recovered: Recovered) -> Result<Self> {
        // Owners within one open count from here.
        const OWNERS_MAX: u64 = 1 << 20;
        let options = parts.options;
        let active = recovered.files.last().cloned().ok_or(Error::NotFound)?;
        let wal = Arc::new(Wal::new(recovered.files, recovered.at));
        let writer = Writer {
            disk: Arc::clone(&parts.disk),
            wal: Arc::clone(&wal),
            preallocator: Arc::clone(&parts.preallocator),
            active,
            at: recovered.at,
            number: recovered.number,
            syncs: options.durability == Durability::Fsync,
            seed: options.seed,
            asked: false,
        };
        let found = Found {
            topics: recovered.topics,
            pending: recovered.pending,
            position: recovered.number,
            checkpoint: recovered.checkpoint,
        };
        let shared = Arc::new(Shared {
            front: Front::new(SHARD, options.bounds(), found, parts.room),
            files: Files::new(Arc::clone(&parts.disk)),
            disk: parts.disk,
            database: parts.database,
            attempts: parts.attempts,
            preallocator: parts.preallocator,
            wal,
            recent: Arc::new(Recent::new(parts.serial)),
            defining: Mutex::new(()),
            trimming: Mutex::new(()),
            trimming_task: tokio::sync::Mutex::new(()),
            chores: Arc::default(),
            epoch: AtomicU64::new(parts.opens * OWNERS_MAX),
            is_copy: AtomicBool::new(parts.is_copy),
            lock: Mutex::new(parts.lock),
            options,
        });
        shared.front.figures.log_bytes.store(shared.wal.bytes(), Ordering::Relaxed);
        let preallocator = Arc::clone(&shared.preallocator);
        let committer = Committer::new(Arc::clone(&shared), writer);
        let workers = if tasks::is_simulated() {
            let committer = Arc::new(Mutex::new(committer));
            drop(tasks::spawn("log-prealloc", Preallocator::run_as_task(preallocator)));
            drop(tasks::spawn("log-committer", Committer::run_as_task(Arc::clone(&committer))));
            Workers::Tasks(committer)
        } else {
            Workers::Threads(vec![
                spawn("log-prealloc", move || preallocator.run())?,
                spawn("log-committer", move || committer.run())?,
            ])
        };
        Ok(Self { shared, workers: Mutex::new(workers) })
    }

    /// Writes what is queued, ends the threads and releases the folder.
    pub(super) fn close(&self) {
        let shared = &self.shared;
        let closed = closed();
        shared.front.queue.stop(closed.clone());
        shared.preallocator.close_soon();
        match &mut *self.workers.lock() {
            Workers::Threads(threads) => join(threads, &shared.preallocator),
            Workers::Tasks(committer) => {
                committer.lock().drain();
                shared.preallocator.close();
            }
        }
        self.end(&closed);
    }

    /// Ends what is left once nobody writes the log.
    fn end(&self, closed: &Error) {
        let shared = &self.shared;
        // A panicked committer leaves commits behind; nobody should wait for them forever.
        shared.front.stop(closed);
        shared.front.listening.end(Epoch(u64::MAX));
        shared.recent.end(closed.clone());
        let _trim_has_ended = shared.trimming.lock();
        shared.database.close();
        shared.attempts.close();
        shared.lock.lock().take();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Workers::Tasks(_) = &*self.workers.lock() {
            // A simulated process that is dropped was killed: what it has queued is lost.
            self.shared.preallocator.close();
            self.end(&closed());
            return;
        }
        self.close();
    }
}

fn closed() -> Error {
    unavailable(io::Error::other("the store was closed"))
}

fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(life).map_err(unavailable)
}

/// Waits for the committer, which may still need the preallocator, then for that.
fn join(threads: &mut Vec<JoinHandle<()>>, preallocator: &Preallocator) {
    while let Some(thread) = threads.pop() {
        if threads.is_empty() {
            preallocator.close();
        }
        if thread.join().is_err() {
            tracing::error!("a thread of the log panicked");
        }
    }
}

impl Options {
    fn bounds(&self) -> Bounds {
        Bounds {
            tail_bytes: self.tail_memory_bytes,
            queue_bytes_max: self.queue_bytes_max,
            group_bytes_max: self.group_bytes_max,
            ride_delay: self.ride_delay,
        }
    }
}

impl Shared {
    /// Gives the log to a new owner: when this returns, what earlier ones have queued is durable,
    /// and none of their chores runs any more.
    pub(super) async fn take_over(&self, listener: Arc<dyn Listener>) -> Result<Epoch> {
        let front = &self.front;
        let epoch = Epoch(self.epoch.fetch_add(1, Ordering::AcqRel) + 1);
        front.queue.open(epoch)?;
        front.queue.barrier().await?;
        let _no_chore_runs = self.chores.write().await;
        front.check_open()?;
        front.queue.check(epoch)?;
        front.relieve();
        front.listening.begin(epoch, listener);
        // Whoever waits for room through an earlier handle waits in vain.
        front.notify_room();
        Ok(epoch)
    }

    /// Lets a chore of the owner of `epoch` run as long as the result lives.
    pub(super) fn chore(&self, epoch: Epoch) -> Result<OwnedRwLockReadGuard<()>> {
        let guard = Arc::clone(&self.chores).try_read_owned();
        // Whoever takes over fences first.
        self.front.queue.check(epoch)?;
        guard.map_err(|_| Error::Fenced { shard: SHARD, epoch })
    }

    /// Queues a commit.
    pub(super) fn commit(&self, epoch: Epoch, commit: Commit) -> Receipt {
        let (is_full, durable) = (self.preallocator.is_full(), self.front.position());
        self.front.queue.commit(epoch, commit, is_full, durable)
    }

    /// Whether appends may be queued now.
    pub(super) fn has_room(&self) -> Result<bool> {
        let has_queue_room = self.front.has_queue_room()?;
        if self.preallocator.is_full() {
            return Err(Error::Full);
        }
        Ok(has_queue_room && self.has_log_room())
    }

    /// Whether the log is below its limit.
    pub(super) fn has_log_room(&self) -> bool {
        self.wal.bytes() < self.options.wal_max_bytes
    }

    /// Resolves when appends of the owner of `epoch` may be queued; `check` is asked meanwhile.
    pub(super) async fn room(&self, epoch: Epoch, check: impl Fn() -> Result<()>) -> Result<()> {
        let has_room = || {
            check()?;
            self.front.queue.check(epoch)?;
            let has_room = self.has_room()?;
            if !has_room && !self.has_log_room() && !self.front.is_pressed() {
                self.front.press();
            }
            Ok(has_room)
        };
        self.front.wait_for_room(has_room).await
    }

    /// Changes the database in one transaction, using the reserve if the disk is full.
    pub(super) fn write<T>(
        &self,
        change: impl Fn(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.preallocator.for_database(|| {
            self.front.check_open()?;
            let position = self.front.position();
            self.sync_unsynced()?;
            self.database.write(|transaction| {
                put_meta(transaction, Meta::Position, position.0)?;
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

    pub(super) fn is_copy(&self) -> bool {
        self.is_copy.load(Ordering::Acquire)
    }

    /// Sets the offsets of the next records of these topics.
    pub(super) fn raise(&self, raised: &[(TopicId, Offset)]) -> Result<()> {
        self.front.while_none_begins(|| self.raise_now(raised))
    }

    fn raise_now(&self, raised: &[(TopicId, Offset)]) -> Result<()> {
        let front = &self.front;
        let mut rows = Vec::with_capacity(raised.len());
        for &(id, next) in raised {
            let topic = front.topics.get(id).ok_or(Error::NotFound)?;
            let is_in_log = topic.state().own.log.first().is_some();
            let row = TopicRow::of(&topic);
            if is_in_log || next < row.next || !front.queue.is_at(id, row.next) {
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
            (state.end, state.own.saved) = (row.next, Some(row));
            drop(state);
            front.queue.raise(row.id, row.next);
        }
        self.is_copy.store(false, Ordering::Release);
        Ok(())
    }

    /// Forgets those of `topics` that nobody has begun, after `record` has made that durable.
    pub(super) fn forget_topics(
        &self,
        topics: &[Arc<Topic>],
        record: impl FnOnce(&[TopicId]) -> Result<()>,
    ) -> Result<()> {
        self.front.while_none_begins(|| {
            let idle = topics.iter().filter(|topic| !self.front.queue.is_begun(topic.id));
            let gone: Vec<_> = idle.map(|topic| topic.id).collect();
            if !gone.is_empty() {
                record(&gone)?;
            }
            for id in gone {
                self.front.topics.remove(id);
            }
            Ok(())
        })
    }
}

/// Runs `work`, which may block on the disk, where it delays nobody.
pub(super) fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
) -> Future<Result<T>> {
    let shared = Arc::clone(shared);
    let done = tasks::blocking(move || work(&shared));
    Box::pin(async move { done.await.unwrap_or_else(|lost| Err(Error::unavailable(lost))) })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

//! Opening and closing shards while the node runs.

use std::sync::Arc;
use std::time::Duration;

use clock::tasks::{self, Task};
use domain::ShardId;
use parking_lot::Mutex;
use storage::{LogFigures, Shard};

use super::Broker;
use crate::dead_letter::Forwarder;
use crate::dead_letter_admin::Counter;
use crate::error::{Error, Result};
use crate::maintenance::{Checkpointer, Expirer};
use crate::runtime::{LogAccess, Runtime, Signals};
use crate::shards::OpenShard;
use crate::subscription::Notes;
use crate::tail::ShardListener;

/// What runs for one open shard.
pub(super) struct Running {
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) figures: Arc<LogFigures>,
    chores: Mutex<Vec<Task>>,
}

impl Running {
    /// Ends the chores.
    async fn end(&self) {
        let chores = std::mem::take(&mut *self.chores.lock());
        chores.iter().for_each(Task::abort);
        for chore in chores {
            chore.await;
        }
    }
}

/// Whether a shard that is closed can still be written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    /// Its progress is saved, and it is released.
    Works,
    /// It failed, or another node has it.
    Failed,
}

impl Broker {
    /// Takes over a shard with all that is in it, and runs it: its topics, subscriptions, timers,
    /// pushes and chores. `Conflict` if another node has it. Does nothing if it is open here.
    pub async fn open_shard(&self, id: ShardId) -> Result<()> {
        let _one_at_a_time = self.moving.lock().await;
        self.host.serving.check()?;
        if self.shards.get(id).is_ok() {
            return Ok(());
        }
        let signals = Signals::new(&self.host);
        let listener = ShardListener { shard: id, tail: Arc::clone(&self.tail), signals };
        let signals = listener.signals.clone();
        let node = self.host.options.node;
        let shard = self.engine.shards.open(id, node, Arc::new(listener)).await?;
        let open = self.add_shard(&shard, signals);
        match Box::pin(self.load_shard(&shard, &open)).await {
            Ok(()) => {
                tracing::info!(shard = id.0, epoch = shard.epoch.0, "shard opened");
                Ok(())
            }
            Err(error) => {
                self.end_shard(&open, Duration::ZERO, Log::Failed).await?;
                // Whoever tries next need not wait until this node's lease is over.
                drop(shard.log.close().await);
                Err(error)
            }
        }
    }

    /// Stops running a shard: whoever waits for something in it is told to try elsewhere, pushes
    /// may finish within `grace`, progress is saved, and the shard is released. Does nothing if it
    /// is not open here.
    pub async fn close_shard(&self, id: ShardId, grace: Duration) -> Result<()> {
        let _one_at_a_time = self.moving.lock().await;
        let Ok(shard) = self.shards.get(id) else { return Ok(()) };
        let log = if shard.runtime.serving.failed().is_some() { Log::Failed } else { Log::Works };
        let ended = self.end_shard(&shard, grace, log).await;
        tracing::info!(shard = id.0, "shard closed");
        ended
    }

    /// The same for a shard that another node may have taken over: nothing is saved.
    pub(super) async fn abandon_shard(&self, id: ShardId) -> Result<()> {
        let _one_at_a_time = self.moving.lock().await;
        let Ok(shard) = self.shards.get(id) else { return Ok(()) };
        self.end_shard(&shard, Duration::ZERO, Log::Failed).await
    }

    /// The shards that are open here.
    pub fn open_shards(&self) -> Vec<ShardId> {
        self.shards.all().iter().map(|shard| shard.runtime.shard).collect()
    }

    /// How many shards the store has.
    pub fn shard_count(&self) -> u32 {
        self.shards.count()
    }

    /// Ends shards whose logs have failed, for ever.
    pub(super) async fn end_failed(self: Arc<Self>) {
        loop {
            self.tail.failed.notified().await;
            for shard in self.shards.all() {
                let Some(error) = shard.runtime.serving.failed() else { continue };
                if self.engine.members.is_none() {
                    // There is nobody else to go on: the process ends.
                    self.host.serving.fail(error);
                    continue;
                }
                if let Err(error) = self.close_shard(shard.runtime.shard, Duration::ZERO).await {
                    tracing::warn!(shard = shard.runtime.shard.0, %error, "ended with an error");
                }
            }
        }
    }

    /// Makes an open shard known, empty still.
    fn add_shard(&self, shard: &Shard, signals: Signals) -> OpenShard {
        let runtime = Arc::new(Runtime::new(&self.host, shard, signals));
        let remembered = Arc::clone(&self.remembered);
        let notes = Arc::new(Notes::new(Arc::clone(&runtime.changed), remembered));
        let open = OpenShard { runtime, notes };
        let running = Running {
            checkpointer: self.checkpointer(&open),
            figures: Arc::clone(&shard.figures),
            chores: Mutex::default(),
        };
        self.running.lock().insert(shard.id, Arc::new(running));
        self.shards.add(open.clone());
        open
    }

    async fn load_shard(&self, shard: &Shard, open: &OpenShard) -> Result<()> {
        if let Some(mark) = shard.progress.clock_mark().await? {
            open.runtime.guard.resume(&mark);
        }
        self.admin.load(open).await?;
        let Some(running) = self.running.lock().get(&shard.id).cloned() else {
            return Err(Error::NotOwner(shard.id));
        };
        running.checkpointer.take_copy_into_use().await?;
        let subscriptions = self.registry.subscriptions_in(shard.id);
        self.attempts.take_up(subscriptions.iter().map(|one| one.id()).collect()).await;
        running.chores.lock().extend(self.start_chores(open, &running));
        for subscription in subscriptions {
            self.push.look_at(&subscription);
            self.export.look_at(&subscription);
        }
        self.dead_letters.resume(shard.id);
        Ok(())
    }

    fn start_chores(&self, shard: &OpenShard, running: &Running) -> [Task; 6] {
        let OpenShard { runtime, notes } = shard.clone();
        let clock = Arc::clone(&runtime.clock);
        let timers = async move {
            notes.timers.run(&*clock, |subscription| subscription.tick()).await;
        };
        let registry = Arc::clone(&self.registry);
        let expirer =
            Expirer { shard: Arc::clone(&runtime), registry, admin: Arc::clone(&self.admin) };
        let forwarder = self.forwarder(shard);
        let counter = Counter::new(&runtime, Arc::clone(&self.registry));
        [
            tasks::spawn("lease expirer", timers),
            tasks::spawn("checkpointer", Arc::clone(&running.checkpointer).run()),
            tasks::spawn("dead letters", Arc::clone(&forwarder).run()),
            tasks::spawn("courier", forwarder.run_far()),
            tasks::spawn("expirer", expirer.run()),
            tasks::spawn("dead letter counter", counter.run()),
        ]
    }

    fn forwarder(&self, shard: &OpenShard) -> Arc<Forwarder> {
        let (notes, registry) = (Arc::clone(&shard.notes), Arc::clone(&self.registry));
        let (attempts, courier) = (Arc::clone(&self.attempts), Arc::clone(&self.courier));
        let access = LogAccess::new(&shard.runtime);
        Arc::new(Forwarder::new(access, notes, registry, attempts, courier))
    }

    fn checkpointer(&self, shard: &OpenShard) -> Arc<Checkpointer> {
        let OpenShard { runtime, notes } = shard.clone();
        Arc::new(Checkpointer {
            shard: runtime.shard,
            access: LogAccess::new(&runtime),
            guard: Arc::clone(&runtime.guard),
            registry: Arc::clone(&self.registry),
            progress: Arc::clone(&runtime.progress),
            attempts: Arc::clone(&self.attempts),
            changed: Arc::clone(&runtime.changed),
            notes,
            changed_letters: Arc::clone(&runtime.changed_letters),
            upkeep: Arc::clone(&runtime.upkeep),
            flush_every: runtime.options.progress_flush,
            planted: runtime.options.planted,
            outdated: Mutex::default(),
        })
    }

    async fn end_shard(&self, shard: &OpenShard, grace: Duration, log: Log) -> Result<()> {
        let OpenShard { runtime, notes } = shard;
        let id = runtime.shard;
        runtime.serving.close();
        self.tail.wake_all(id);
        let subscriptions = self.registry.subscriptions_in(id);
        tokio::join!(
            self.push.let_go(&subscriptions, grace),
            self.export.let_go(&subscriptions, grace),
        );
        self.dead_letters.close(id).await;
        let running = self.running.lock().get(&id).cloned();
        if let Some(running) = &running {
            running.end().await;
        }
        notes.given_up.close();
        let saved = match running {
            Some(running) if log == Log::Works => self.save(runtime, &running).await,
            _ => Ok(()),
        };
        self.admin.unload(id).await;
        self.running.lock().remove(&id);
        saved
    }

    /// Saves all progress of a shard, and releases it.
    async fn save(&self, runtime: &Runtime, running: &Running) -> Result<()> {
        if let Err(error) = self.admin.save_used(runtime).await {
            tracing::warn!(%error, "could not save when subscriptions were last used");
        }
        let saved = running.checkpointer.once(false).await;
        saved.and(runtime.log.close().await.map_err(Error::from))
    }
}

//! The broker as others see it: starting, stopping and calling its parts. The rules are in the
//! parts.

mod calls;
mod membership;
mod operating;
mod sharding;
mod starting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::tasks::Task;
use domain::ShardId;
use parking_lot::Mutex;
use storage::Engine;

use self::sharding::Running;
use crate::admin::Admin;
use crate::alerts::Alerts;
use crate::courier::Courier;
use crate::dead_letter_admin::DeadLetterAdmin;
use crate::directory::Directory;
use crate::error::Result;
use crate::export::Exports;
use crate::live::Live;
use crate::maintenance::ClockWatcher;
use crate::peek::Peeker;
use crate::push::attempts::Attempts;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::remembered::Remembered;
use crate::runtime::Host;
use crate::schema::Schemas;
use crate::seek::Seeker;
use crate::shards::{OpenShard, OpenShards};
use crate::status::Observer;
use crate::subscription::Subscription;
use crate::tail::Tail;

/// The running broker: one node, and the shards it runs.
pub struct Broker {
    engine: Engine,
    host: Arc<Host>,
    tail: Arc<Tail>,
    registry: Arc<Registry>,
    directory: Arc<Directory>,
    shards: Arc<OpenShards>,
    /// The chores of each open shard.
    running: Mutex<BTreeMap<ShardId, Arc<Running>>>,
    /// Held while a shard is opened or closed.
    moving: tokio::sync::Mutex<()>,
    remembered: Arc<Remembered<Subscription>>,
    admin: Arc<Admin>,
    schemas: Arc<Schemas>,
    seeker: Arc<Seeker>,
    peeker: Peeker,
    dead_letters: Arc<DeadLetterAdmin>,
    courier: Arc<Courier>,
    push: Arc<Scheduler>,
    export: Arc<Exports>,
    attempts: Arc<Attempts>,
    live: Arc<Live>,
    observer: Arc<Observer>,
    alerts: Arc<Alerts>,
    clock_watcher: Arc<ClockWatcher>,
    /// Those that are not of one shard.
    chores: Mutex<Vec<Task>>,
}

/// Topics and their subscriptions know each other. Closing takes them apart; without this, those of
/// a broker that is dropped while it runs would keep each other and the log in memory.
impl Drop for Broker {
    fn drop(&mut self) {
        self.tail.all().iter().for_each(|readers| readers.clear());
        for OpenShard { runtime, notes } in self.shards.all() {
            notes.given_up.close();
            drop((notes.changed.take(), runtime.changed_letters.take()));
        }
    }
}

impl Broker {
    /// Ends every stream and wait, lets pushes and open objects finish within `grace`, saves all
    /// progress, closes the shards and stops the chores.
    pub async fn close(&self, grace: Duration) -> Result<()> {
        self.host.serving.close();
        for shard in self.shards.all() {
            shard.runtime.serving.close();
            self.tail.wake_all(shard.runtime.shard);
        }
        self.live.close();
        tokio::join!(self.push.stop(grace), self.export.stop(grace));
        let mut closed = Ok(());
        for shard in self.shards.all() {
            closed = closed.and(self.close_shard(shard.runtime.shard, Duration::ZERO).await);
        }
        let chores = std::mem::take(&mut *self.chores.lock());
        for chore in chores {
            chore.abort();
            chore.await;
        }
        self.leave().await;
        self.host.transforms.close();
        self.host.delivery_log.flush();
        closed
    }

    /// Cuts the grace time of `close` short.
    pub fn hurry(&self) {
        self.push.hurry();
        self.export.hurry();
    }

    /// Resolves if the log of a store that only this server has ever fails: nothing more is then
    /// accepted or delivered.
    pub async fn failure(&self) -> storage::Error {
        self.host.serving.failure().await
    }

    /// The history of attempts, for adding to it.
    #[cfg(test)]
    pub(crate) fn recorded_attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Saves the attempts that are not saved yet.
    #[cfg(test)]
    pub(crate) async fn flush_attempts(&self) {
        self.attempts.save_all(self.registry.subscriptions_by_id()).await;
    }
}

//! The broker as others see it: starting, stopping and calling its parts. The rules are in the
//! parts.

mod calls;
mod operating;
mod starting;

use clock::tasks::Task;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::LogFigures;

use crate::admin::Admin;
use crate::alerts::Alerts;
use crate::dead_letter_admin::DeadLetterAdmin;
use crate::error::Result;
use crate::export::Exports;
use crate::live::Live;
use crate::maintenance::{Checkpointer, ClockWatcher};
use crate::peek::Peeker;
use crate::push::attempts::Attempts;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::schema::Schemas;
use crate::seek::Seeker;
use crate::status::Observer;
use crate::subscription::Notes;
use crate::tail::Tail;

/// The running broker.
pub struct Broker {
    runtime: Arc<Runtime>,
    notes: Arc<Notes>,
    tail: Arc<Tail>,
    registry: Arc<Registry>,
    admin: Arc<Admin>,
    schemas: Arc<Schemas>,
    seeker: Arc<Seeker>,
    peeker: Peeker,
    dead_letters: Arc<DeadLetterAdmin>,
    push: Arc<Scheduler>,
    export: Arc<Exports>,
    attempts: Arc<Attempts>,
    live: Arc<Live>,
    observer: Arc<Observer>,
    alerts: Arc<Alerts>,
    clock_watcher: Arc<ClockWatcher>,
    checkpointer: Arc<Checkpointer>,
    log_figures: Arc<LogFigures>,
    chores: Mutex<Vec<Task>>,
}

impl Broker {
    /// Ends every stream and wait, lets pushes and open objects finish within `grace`, saves all
    /// progress and stops the chores.
    pub async fn close(&self, grace: Duration) -> Result<()> {
        self.runtime.serving.close();
        self.tail.wake_all();
        self.live.close();
        tokio::join!(self.push.stop(grace), self.export.stop(grace));
        self.dead_letters.close().await;
        let chores = std::mem::take(&mut *self.chores.lock());
        for chore in chores {
            chore.abort();
            // An aborted chore always ends with an error.
            drop(chore.await);
        }
        self.notes.given_up.close();
        self.runtime.transforms.close();
        self.runtime.delivery_log.flush();
        if let Err(error) = self.admin.save_used().await {
            tracing::warn!(%error, "could not save when subscriptions were last used");
        }
        self.checkpointer.once(false).await
    }

    /// Cuts the grace time of `close` short.
    pub fn hurry(&self) {
        self.push.hurry();
        self.export.hurry();
    }

    /// Resolves if the log ever fails: nothing more is then accepted or delivered.
    pub async fn failure(&self) -> storage::Error {
        self.runtime.serving.failure().await
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

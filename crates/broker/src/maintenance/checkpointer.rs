//! Saves progress and attempts each `progress_flush`, and makes room in the log when it asks.

use std::sync::Arc;
use std::time::Duration;

use domain::{Moment, Progress, ShardId, SubscriptionId, TopicId};
use parking_lot::Mutex;
use storage::planted::{Fault, Planted};
use storage::{Checkpoint, Commit, ProgressStore};

use super::retention::Retention;
use crate::changed::{Changed, ChangedList};
use crate::error::Result;
use crate::guard::Guard;
use crate::handled_letters::HandledLetters;
use crate::push::attempts::Attempts;
use crate::registry::Registry;
use crate::runtime::LogAccess;
use crate::subscription::{Cursor, Notes, Readers, Subscription};
use crate::upkeep::Upkeep;

/// How often to check whether retention, which passes on its own, has freed something.
const TRIM_EVERY: Duration = Duration::from_secs(600);

/// How long to wait after a checkpoint or trim that failed, or that left the disk full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Does checkpoints of one shard and trims its log.
pub(crate) struct Checkpointer {
    pub(crate) shard: ShardId,
    pub(crate) access: LogAccess,
    pub(crate) guard: Arc<Guard>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) changed: Arc<Changed>,
    /// Has the subscriptions that changed.
    pub(crate) notes: Arc<Notes>,
    /// Dead letter topics whose letters were handled.
    pub(crate) changed_letters: Arc<ChangedList<HandledLetters>>,
    pub(crate) upkeep: Arc<Upkeep>,
    /// How long changes wait for others to be saved with them.
    pub(crate) flush_every: Duration,
    pub(crate) planted: Planted,
    /// The topics as of the trim before, for a fault that tests plant.
    pub(crate) outdated: Mutex<Vec<Arc<Readers>>>,
}

#[derive(PartialEq, Eq)]
enum Due {
    Checkpoint,
    Trim,
}

impl Checkpointer {
    /// Runs forever. Sleeps while nothing has changed.
    pub(crate) async fn run(self: Arc<Self>) {
        let (clock, changed) = (&self.access.clock, &self.changed);
        let mut trim_at = clock.now().plus(TRIM_EVERY);
        loop {
            let is_due = self.wait_until_due(trim_at).await;
            let pressed = changed.take_pressed();
            // On a full disk any ack may have freed enough to continue.
            let trims = pressed || is_due == Due::Trim || self.access.is_full();
            let done = self.once(trims).await;
            self.upkeep.note(&done, self.access.now());
            if let Err(error) = &done {
                tracing::warn!(%error, "could not save progress or free space in the log");
            }
            if done.is_err() || self.access.is_full() {
                clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
            }
            if done.is_err() && pressed {
                changed.press();
            }
            if trims {
                trim_at = clock.now().plus(TRIM_EVERY);
            }
        }
    }

    /// Waits for a change and then for the flush interval, for the log to ask for room, or for the
    /// next scheduled trim.
    async fn wait_until_due(&self, trim_at: Moment) -> Due {
        let (clock, changed) = (&self.access.clock, &self.changed);
        if changed.is_pressed() {
            return Due::Trim;
        }
        // Times first: there may be changes without end.
        tokio::select! {
            biased;
            () = clock.sleep_until(trim_at) => return Due::Trim,
            () = changed.wake.notified() => {}
            () = self.attempts.wake.notified() => {}
        }
        let flush_at = clock.now().plus(self.flush_every);
        while !changed.is_pressed() {
            tokio::select! {
                biased;
                () = clock.sleep_until(flush_at) => break,
                () = changed.wake.notified() => {}
            }
        }
        Due::Checkpoint
    }

    /// One checkpoint, and a trim if `trims`; then the attempts. They come last so that a log that
    /// asks for room gets it first, but the next checkpoint waits for them.
    pub(crate) async fn once(&self, trims: bool) -> Result<()> {
        let done = self.checkpoint_and_trim(trims).await;
        self.attempts.save_all(self.registry.subscriptions_by_id()).await;
        done
    }

    async fn checkpoint_and_trim(&self, trims: bool) -> Result<()> {
        self.checkpoint().await?;
        if trims {
            let log = Arc::clone(&self.access.log);
            // Listed after the checkpoint: whatever the trim may drop was appended before it.
            let mut topics = self.registry.readers_in(self.shard);
            let mut last_topic = self.registry.last_topic();
            if self.planted.has(Fault::TrimOfUnknown) {
                std::mem::swap(&mut topics, &mut *self.outdated.lock());
                last_topic = Some(TopicId(u64::MAX));
            }
            let now = self.guard.retention_now();
            let retention = Retention::prepare(&*log, topics, last_topic, now).await?;
            let trimmed = log.trim(Arc::new(retention)).await?;
            tracing::debug!(?trimmed, "log trimmed");
        }
        Ok(())
    }

    /// Saves what changed. The position is read before the progress: every frame up to it is
    /// included. The barrier makes sure that nothing is saved that the log does not have.
    async fn checkpoint(&self) -> Result<()> {
        let log = &self.access.log;
        let position = log.position();
        let (taken, progress) = Taken::from(self);
        let forgotten = taken.forgotten.clone();
        let clock = Some(self.guard.mark());
        log.commit(Commit::barrier()).await?;
        let checkpoint = Checkpoint { position, progress, forgotten, clock };
        self.progress.checkpoint(checkpoint).await?;
        taken.note_saved();
        Ok(())
    }
}

/// What a checkpoint has taken off the lists of changes. Until it is saved it belongs there: if the
/// chore is aborted halfway, the next checkpoint, which has a later position, must not miss it.
struct Taken<'chore> {
    chore: &'chore Checkpointer,
    subscriptions: Vec<(Arc<Subscription>, Cursor)>,
    letters: Vec<(Arc<HandledLetters>, Vec<SubscriptionId>)>,
    forgotten: Vec<SubscriptionId>,
}

impl<'chore> Taken<'chore> {
    /// Takes everything, with the progress to save.
    fn from(chore: &'chore Checkpointer) -> (Self, Vec<(SubscriptionId, Progress)>) {
        let subscriptions = chore.notes.changed.take();
        let forgotten = chore.changed.take_forgotten();
        let mut taken = Self { chore, subscriptions: Vec::new(), letters: Vec::new(), forgotten };
        let mut progress = Vec::with_capacity(subscriptions.len());
        for subscription in subscriptions {
            if let Some(state) = subscription.capture() {
                let cursor = Cursor::of(&state, chore.access.clock.wall());
                progress.push((subscription.id(), state));
                taken.subscriptions.push((subscription, cursor));
            }
        }
        for letters in chore.changed_letters.take() {
            let handled = letters.capture();
            taken.letters.push((letters, handled.iter().map(|(id, _)| *id).collect()));
            progress.extend(handled);
        }
        (taken, progress)
    }

    fn note_saved(mut self) {
        for (subscription, cursor) in std::mem::take(&mut self.subscriptions) {
            subscription.mark_saved(cursor);
        }
        self.letters.clear();
        self.forgotten.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Checkpointer { changed, changed_letters, .. } = self.chore;
        for (subscription, _) in std::mem::take(&mut self.subscriptions) {
            subscription.mark_changed();
        }
        for (letters, ids) in std::mem::take(&mut self.letters) {
            letters.mark_changed(changed_letters, ids);
        }
        std::mem::take(&mut self.forgotten).into_iter().for_each(|id| changed.forget(id));
    }
}

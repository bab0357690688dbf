//! Saves progress and attempts each `progress_flush`, and makes room in the log when it asks.

use std::sync::Arc;
use std::time::Duration;

use domain::{Moment, Progress, SubscriptionId};
use futures::FutureExt;
use storage::{Checkpoint, Commit};

use super::retention::Retention;
use crate::broker::Broker;
use crate::dead_letter_admin::Desk;
use crate::error::Result;
use crate::runtime::Runtime;
use crate::subscription::{Cursor, Subscription};

/// Retention passes by itself; this often somebody looks whether it freed something.
const TRIM_EVERY: Duration = Duration::from_secs(600);

/// How long to wait after a checkpoint or trim that failed, or that left the disk full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs for ever. Sleeps while nothing has changed.
pub(crate) async fn run(broker: Arc<Broker>, flush: Duration) {
    let mut trim_at = broker.runtime.clock.now().plus(TRIM_EVERY);
    loop {
        let is_due = wait_until_due(&broker, flush, trim_at).await;
        let pressed = broker.runtime.changed.take_pressed();
        // On a full disk any ack may have freed what it takes to go on.
        let trims = pressed || is_due == Due::Trim || is_full(&broker);
        let done = once(&broker, trims).await;
        broker.runtime.upkeep.note(&done, broker.runtime.now());
        if let Err(error) = &done {
            tracing::warn!(%error, "could not save progress or make room in the log");
        }
        if done.is_err() || is_full(&broker) {
            let retry_at = broker.runtime.clock.now().plus(RETRY_AFTER);
            broker.runtime.clock.sleep_until(retry_at).await;
        }
        if done.is_err() && pressed {
            broker.runtime.changed.press();
        }
        if trims {
            trim_at = broker.runtime.clock.now().plus(TRIM_EVERY);
        }
    }
}

/// Whether the disk is full. A log that only waits for its chores is not.
fn is_full(broker: &Broker) -> bool {
    let log = &broker.runtime.log;
    !log.has_room() && matches!(log.room().now_or_never(), Some(Err(storage::Error::Full)))
}

#[derive(PartialEq, Eq)]
enum Due {
    Checkpoint,
    Trim,
}

/// Waits for a change and then for the flush interval, for the log to ask for room, or for the
/// time of the next trim.
async fn wait_until_due(broker: &Broker, flush: Duration, trim_at: Moment) -> Due {
    let changed = &broker.runtime.changed;
    let clock = &broker.runtime.clock;
    if changed.is_pressed() {
        return Due::Trim;
    }
    tokio::select! {
        () = changed.wake.notified() => {}
        () = broker.runtime.attempts.wake.notified() => {}
        () = clock.sleep_until(trim_at) => return Due::Trim,
    }
    let flush_at = clock.now().plus(flush);
    while !changed.is_pressed() {
        tokio::select! {
            () = changed.wake.notified() => {}
            () = clock.sleep_until(flush_at) => break,
        }
    }
    Due::Checkpoint
}

/// One checkpoint, and a trim if `trims`; then the attempts. They come last so that a log that
/// asks for room gets it first, but the next checkpoint waits for them.
pub(crate) async fn once(broker: &Broker, trims: bool) -> Result<()> {
    let done = checkpoint_and_trim(broker, trims).await;
    broker.flush_attempts().await;
    done
}

async fn checkpoint_and_trim(broker: &Broker, trims: bool) -> Result<()> {
    checkpoint(broker).await?;
    if trims {
        let log = Arc::clone(&broker.runtime.log);
        let retention =
            Retention::prepare(&*log, broker.all_topics(), broker.runtime.retention_now());
        let trimmed = log.trim(Arc::new(retention.await?)).await?;
        tracing::debug!(?trimmed, "log trimmed");
    }
    Ok(())
}

/// Saves what changed. The position is read before the states are: every frame up to it is
/// contained in them. The barrier makes sure that nothing is saved that the log does not have.
async fn checkpoint(broker: &Broker) -> Result<()> {
    let runtime = &broker.runtime;
    let position = runtime.log.position();
    let (taken, progress) = Taken::from(runtime);
    let forgotten = taken.forgotten.clone();
    let clock = Some(runtime.guard.mark(&*runtime.clock));
    save(broker, Checkpoint { position, progress, forgotten, clock }).await?;
    taken.note_saved();
    Ok(())
}

/// What a checkpoint has taken off the lists of what changed. Until it is saved it belongs there:
/// a chore that is ended half-way must not make the next checkpoint, whose position is a later
/// one, leave it out.
struct Taken<'broker> {
    runtime: &'broker Runtime,
    subscriptions: Vec<(Arc<Subscription>, Cursor)>,
    desks: Vec<(Arc<Desk>, Vec<SubscriptionId>)>,
    forgotten: Vec<SubscriptionId>,
}

impl<'broker> Taken<'broker> {
    /// Takes all there is, with the states to be saved.
    fn from(runtime: &'broker Runtime) -> (Self, Vec<(SubscriptionId, Progress)>) {
        let (subscriptions, forgotten) = runtime.changed.take();
        let mut taken = Self { runtime, subscriptions: Vec::new(), desks: Vec::new(), forgotten };
        let mut progress = Vec::with_capacity(subscriptions.len());
        for subscription in subscriptions {
            if let Some(state) = subscription.capture() {
                let cursor = Cursor::of(&state, runtime.clock.wall());
                progress.push((subscription.id(), state));
                taken.subscriptions.push((subscription, cursor));
            }
        }
        for desk in runtime.changed.take_desks() {
            let marks = desk.capture();
            taken.desks.push((desk, marks.iter().map(|(id, _)| *id).collect()));
            progress.extend(marks);
        }
        (taken, progress)
    }

    fn note_saved(mut self) {
        for (subscription, cursor) in std::mem::take(&mut self.subscriptions) {
            subscription.mark_saved(cursor);
        }
        self.desks.clear();
        self.forgotten.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let changed = &self.runtime.changed;
        for (subscription, _) in std::mem::take(&mut self.subscriptions) {
            subscription.mark_changed();
        }
        for (desk, ids) in std::mem::take(&mut self.desks) {
            desk.mark_changed(changed, ids);
        }
        std::mem::take(&mut self.forgotten).into_iter().for_each(|id| changed.forget(id));
    }
}

async fn save(broker: &Broker, checkpoint: Checkpoint) -> Result<()> {
    broker.runtime.log.commit(Commit::barrier()).await?;
    Ok(broker.engine.progress.checkpoint(checkpoint).await?)
}

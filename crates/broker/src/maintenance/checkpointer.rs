//! Saves progress and attempts each `progress_flush`, and makes room in the log when it asks.

use std::sync::Arc;
use std::time::Duration;

use domain::{Moment, Progress, SubscriptionId};
use futures::FutureExt;
use storage::{Checkpoint, Commit};

use super::keeper::Keeper;
use crate::broker::Broker;
use crate::desk::Desk;
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
        let keeper = Keeper::prepare(&*log, broker.all_topics(), broker.runtime.retention_now());
        let trimmed = log.trim(Arc::new(keeper.await?)).await?;
        tracing::debug!(?trimmed, "log trimmed");
    }
    Ok(())
}

/// Saves what changed. The position is read before the states are: every frame up to it is
/// contained in them. The barrier makes sure that nothing is saved that the log does not have.
async fn checkpoint(broker: &Broker) -> Result<()> {
    let runtime = &broker.runtime;
    let position = runtime.log.position();
    let mut taken = Taken::take(runtime);
    let clock = Some(runtime.guard.mark(&*runtime.clock));
    let (progress, forgotten) = (taken.progress(), taken.forgotten.clone());
    save(broker, Checkpoint { position, progress, forgotten, clock }).await?;
    taken.mark_saved();
    Ok(())
}

/// Progress by the ids under which it is kept.
type Captured = Vec<(SubscriptionId, Progress)>;

/// What one checkpoint is to save. Unless it is saved it is put back where it was, also when the
/// checkpoint is broken off half way: the next one moves the position past its frames.
struct Taken<'a> {
    runtime: &'a Runtime,
    subscriptions: Vec<(Arc<Subscription>, Progress)>,
    desks: Vec<(Arc<Desk>, Captured)>,
    forgotten: Vec<SubscriptionId>,
    is_saved: bool,
}

impl<'a> Taken<'a> {
    fn take(runtime: &'a Runtime) -> Self {
        let (subscriptions, forgotten) = runtime.changed.take();
        let captured = subscriptions.into_iter().filter_map(|subscription| {
            let state = subscription.capture()?;
            Some((subscription, state))
        });
        let subscriptions = captured.collect();
        let desks = runtime.changed.take_desks().into_iter();
        let desks = desks.map(|desk| (Arc::clone(&desk), desk.capture())).collect();
        Self { runtime, subscriptions, desks, forgotten, is_saved: false }
    }

    fn progress(&self) -> Captured {
        let states = self.subscriptions.iter().map(|(one, state)| (one.id(), state.clone()));
        states.chain(self.desks.iter().flat_map(|(_, marks)| marks.iter().cloned())).collect()
    }

    fn mark_saved(&mut self) {
        self.is_saved = true;
        let now = self.runtime.clock.wall();
        for (subscription, state) in &self.subscriptions {
            subscription.mark_saved(Cursor::of(state, now));
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.is_saved {
            return;
        }
        let changed = &self.runtime.changed;
        self.subscriptions.iter().for_each(|(subscription, _)| subscription.mark_changed());
        for (desk, marks) in &self.desks {
            desk.mark_changed(changed, marks.iter().map(|(id, _)| *id));
        }
        self.forgotten.drain(..).for_each(|id| changed.forget(id));
    }
}

async fn save(broker: &Broker, checkpoint: Checkpoint) -> Result<()> {
    broker.runtime.log.commit(Commit::barrier()).await?;
    Ok(broker.engine.progress.checkpoint(checkpoint).await?)
}

//! How long the core waits for the store, and how it asks again.

use std::time::Duration;

use clock::tasks;
use futures::future::{Either, select};

use crate::{Error, Future, Result};

/// A store that has not answered for so long does not answer: its shard is stalled.
pub(super) const STALL_AFTER: Duration = Duration::from_secs(1);
/// A call that has not been answered for so long is made again.
const CALL_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often something is asked whose asker can come back later.
const TRIES_MAX: u32 = 6;

/// Whether asking the same again may bring another answer.
pub(super) fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::Indeterminate(_) | Error::Full)
}

/// Pauses between calls, each longer than the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    next: Duration,
    /// How long the store has given no good answer.
    pub waited: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: PAUSE_MIN, waited: Duration::ZERO }
    }
}

impl Pauses {
    /// Waits until it is time to ask again.
    pub(super) async fn pause(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        tasks::sleep(pause).await;
        self.waited += pause;
    }

    /// Waits for the answer to one call. `late` is called once if it takes so long that the store
    /// has not answered for `STALL_AFTER`.
    pub(super) async fn answer<T>(
        &mut self,
        call: Future<Result<T>>,
        late: impl FnOnce(),
    ) -> Result<T> {
        let soon = STALL_AFTER.saturating_sub(self.waited);
        let call = match within(call, soon).await {
            Ok(answer) => return answer,
            Err(call) => call,
        };
        self.waited += soon;
        late();
        match within(call, CALL_MAX).await {
            Ok(answer) => answer,
            Err(_) => {
                self.waited += CALL_MAX;
                let unanswered = std::io::Error::other("the store does not answer");
                Err(Error::Indeterminate(std::sync::Arc::new(unanswered)))
            }
        }
    }
}

/// The answer, or the call if there is none within `time`.
async fn within<T>(mut call: Future<T>, time: Duration) -> Result<T, Future<T>> {
    // Most answers are there at once, or soon: a timer costs more than a look.
    if let std::task::Poll::Ready(answer) = futures::poll!(&mut call) {
        return Ok(answer);
    }
    match select(call, tasks::sleep(time)).await {
        Either::Left((answer, _)) => Ok(answer),
        Either::Right(((), call)) => Err(call),
    }
}

/// Asks a few times.
pub(super) async fn ask<T>(call: impl Fn() -> Future<Result<T>>) -> Result<T> {
    let mut pauses = Pauses::default();
    for _ in 1..TRIES_MAX {
        match pauses.answer(call(), || {}).await {
            Err(error) if may_pass(&error) => pauses.pause().await,
            other => return other,
        }
    }
    pauses.answer(call(), || {}).await
}

//! Whether progress can be saved and room made in the log. If that keeps failing it is reported,
//! and publishers waiting for room are refused: nobody would make any.

use domain::{Moment, Now, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};

/// This many failures in a row are more than bad luck. There is a second between two of them.
const FAILURES_MAX: u32 = 3;

/// The results of the last tries.
#[derive(Default)]
pub(crate) struct Upkeep {
    failing: Mutex<Option<Failing>>,
    /// Notified when there were too many failures.
    stuck: Notify,
}

/// Consecutive failed tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) times: u32,
    pub(crate) since: Timestamp,
    /// The same on the monotonic clock.
    pub(crate) began: Moment,
    /// The last problem.
    pub(crate) problem: String,
}

impl Upkeep {
    /// Notes the result of a try. A full disk does not count: publishers are refused anyway.
    pub(crate) fn note(&self, done: &Result<()>, now: Now) {
        let mut failing = self.failing.lock();
        let error = match done {
            Ok(()) => {
                *failing = None;
                return;
            }
            Err(Error::Full) => return,
            Err(error) => error,
        };
        let problem = error.to_string();
        let times = match &mut *failing {
            Some(before) => {
                before.times += 1;
                before.problem = problem;
                before.times
            }
            none => {
                let (since, began) = (now.wall, now.moment);
                none.insert(Failing { times: 1, since, began, problem }).times
            }
        };
        if times >= FAILURES_MAX {
            self.stuck.notify_waiters();
        }
    }

    /// What keeps failing; `None` = nothing, or the next try may succeed.
    pub(crate) fn failing(&self) -> Option<Failing> {
        self.failing.lock().clone().filter(|failing| failing.times >= FAILURES_MAX)
    }

    /// Resolves with what keeps failing.
    pub(crate) async fn stuck(&self) -> Failing {
        loop {
            let notified = self.stuck.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(failing) = self.failing() {
                return failing;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn now(second: u64) -> Now {
        Now { moment: Moment(second), wall: Timestamp(second) }
    }

    fn failed() -> Result<()> {
        Err(storage::Error::NotFound.into())
    }

    #[test]
    fn a_few_failures_are_nothing_and_more_are_told_until_one_try_succeeds() {
        let upkeep = Upkeep::default();
        for second in 0..2 {
            upkeep.note(&failed(), now(second));
            assert_eq!((upkeep.failing(), upkeep.stuck().now_or_never()), (None, None));
        }
        upkeep.note(&Err(Error::Full), now(2));
        assert_eq!(upkeep.failing(), None, "a full disk is told of elsewhere");
        upkeep.note(&failed(), now(3));
        let (since, began, problem) = (Timestamp(0), Moment(0), "not found".to_owned());
        let failing = Failing { times: 3, since, began, problem };
        assert_eq!(upkeep.failing(), Some(failing.clone()));
        assert_eq!(upkeep.stuck().now_or_never(), Some(failing));
        upkeep.note(&Ok(()), now(4));
        assert_eq!(upkeep.failing(), None);
    }
}

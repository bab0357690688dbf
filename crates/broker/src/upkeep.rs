//! Whether progress can be saved and room made in the log. Where that fails again and again it is
//! told, and whoever waits for room is refused: nobody would come to make it.

use domain::{Moment, Now, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Failures in a row that are more than bad luck. There is a second between two of them.
const FAILURES_MAX: u32 = 3;

/// What came of the last tries.
#[derive(Default)]
pub(crate) struct Upkeep {
    failing: Mutex<Option<Failing>>,
    /// Told when there were too many failures.
    stuck: Notify,
}

/// Tries that failed, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) times: u32,
    pub(crate) since: Timestamp,
    /// The same on the clock that nobody sets.
    pub(crate) began: Moment,
    /// What was wrong the last time.
    pub(crate) problem: String,
}

impl Upkeep {
    /// Notes what came of a try. A full disk is another matter: publishers are refused as it is.
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

    /// What fails again and again; `None` = all is well, or may be with the next try.
    pub(crate) fn failing(&self) -> Option<Failing> {
        self.failing.lock().clone().filter(|failing| failing.times >= FAILURES_MAX)
    }

    /// Resolves with what fails again and again.
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

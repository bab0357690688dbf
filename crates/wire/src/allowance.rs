//! How much memory the call that is polled on this thread may take.
//!
//! Bodies are decoded deep inside the transport, where nobody knows of the server's bounds. So
//! whoever polls a call says before how much it may hold, and asks after how much it does; both
//! cost no more than writing a number.

use std::cell::Cell;

#[derive(Clone, Copy)]
struct Account {
    held: usize,
    max: usize,
}

thread_local! {
    /// Outside of calls there is no bound.
    static ACCOUNT: Cell<Account> = const { Cell::new(Account { held: 0, max: usize::MAX }) };
}

/// There is no memory left for what a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server has no memory left for this request; try again later, or see \
     limits.body_memory and limits.body_memory_per_connection"
)]
pub struct Exhausted;

/// Does `work` for a call that holds `held` bytes and may hold `max`; how many it holds then.
pub fn with<R>(held: usize, max: usize, work: impl FnOnce() -> R) -> (R, usize) {
    let before = ACCOUNT.replace(Account { held, max });
    // Also where the work panics, nobody else inherits its account.
    let _back = Back(before);
    let done = work();
    (done, ACCOUNT.get().held)
}

struct Back(Account);

impl Drop for Back {
    fn drop(&mut self) {
        ACCOUNT.set(self.0);
    }
}

/// Takes so many bytes more.
pub fn take(bytes: usize) -> Result<(), Exhausted> {
    reach(ACCOUNT.get().held.saturating_add(bytes))
}

/// Takes what is missing, so that the call holds `bytes` at least.
pub fn reach(bytes: usize) -> Result<(), Exhausted> {
    let account = ACCOUNT.get();
    if bytes <= account.held {
        return Ok(());
    }
    if bytes > account.max {
        return Err(Exhausted);
    }
    ACCOUNT.set(Account { held: bytes, ..account });
    Ok(())
}

/// How many bytes more there are, at most.
pub fn left() -> usize {
    let account = ACCOUNT.get();
    account.max.saturating_sub(account.held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_what_it_may_and_no_more() {
        let (taken, held) = with(10, 100, || [take(40), take(60), take(50), take(1)]);
        assert_eq!(taken, [Ok(()), Err(Exhausted), Ok(()), Err(Exhausted)]);
        assert_eq!(held, 100);
        let (reached, held) = with(10, 100, || [reach(5), reach(70), reach(60), reach(101)]);
        assert_eq!(reached, [Ok(()), Ok(()), Ok(()), Err(Exhausted)]);
        assert_eq!(held, 70);
    }

    #[test]
    fn accounts_do_not_leak_into_each_other() {
        let ((), held) = with(0, 10, || {
            let (inner, held) = with(5, 1_000, || take(500));
            assert_eq!((inner, held), (Ok(()), 505));
            assert_eq!(take(11), Err(Exhausted));
            assert_eq!(left(), 10);
        });
        assert_eq!(held, 0);
        assert_eq!(take(usize::MAX), Ok(()), "outside there is no bound");
    }
}

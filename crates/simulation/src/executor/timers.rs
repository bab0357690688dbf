//! The time of a world, and who sleeps until when.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use parking_lot::Mutex;

/// The time of a world, in microseconds since it began.
#[derive(Default)]
pub(crate) struct Timers {
    now: AtomicU64,
    next_id: AtomicU64,
    /// By time, and by when they began to sleep.
    sleepers: Mutex<BTreeMap<(u64, u64), Waker>>,
}

impl Timers {
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Resolves at `at`.
    pub(crate) fn sleep_until(self: &Arc<Self>, at: u64) -> BoxFuture<'static, ()> {
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        Box::pin(Sleep { timers: Arc::clone(self), key: (at, id) })
    }

    /// So much time passes.
    pub(super) fn pass(&self, micros: u64) {
        self.set(self.now() + micros);
    }

    /// Goes on to the first sleeper's time, at most to `until`; whether there was one.
    pub(super) fn pass_to_next(&self, until: u64) -> bool {
        let first = self.sleepers.lock().first_key_value().map(|((at, _), _)| *at);
        match first {
            Some(at) if at <= until => {
                self.set(at.max(self.now()));
                true
            }
            _ => {
                self.set(until.max(self.now()));
                false
            }
        }
    }

    fn set(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
        let due = {
            let mut sleepers = self.sleepers.lock();
            if sleepers.first_key_value().is_none_or(|((at, _), _)| *at > now) {
                return;
            }
            let later = sleepers.split_off(&(now + 1, 0));
            std::mem::replace(&mut *sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }
}

struct Sleep {
    timers: Arc<Timers>,
    key: (u64, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.timers.sleepers.lock().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // The waker may be the last owner of something that sleeps itself.
        let dropped = self.timers.sleepers.lock().remove(&self.key);
        drop(dropped);
    }
}

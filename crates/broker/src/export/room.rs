//! How many bytes all exporters together have in memory.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The memory of all exporters.
pub(super) struct Room {
    bytes_max: usize,
    state: Mutex<State>,
    /// Notified when someone waits: whoever holds bytes of an open object completes it.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    bytes: usize,
    waiting: Vec<Waker>,
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), wanted: Notify::new() })
    }

    /// Room for so many bytes; `None`: the waker is called when there may be. Who has nothing may
    /// always have some, so that a message of any size finds its way.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize, waker: &Waker) -> Option<Hold> {
        let mut state = self.state.lock();
        if state.bytes > 0 && state.bytes.saturating_add(bytes) > self.bytes_max {
            if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
                state.waiting.push(waker.clone());
            }
            drop(state);
            self.wanted.notify_waiters();
            return None;
        }
        state.bytes += bytes;
        Some(Hold { room: Arc::clone(self), bytes })
    }

    /// No room at all, to be given some later.
    pub(super) fn nothing(self: &Arc<Self>) -> Hold {
        Hold { room: Arc::clone(self), bytes: 0 }
    }

    /// Resolves when someone waits for room.
    pub(super) async fn wanted(&self) {
        let wanted = self.wanted.notified();
        if self.state.lock().waiting.is_empty() {
            wanted.await;
        }
    }
}

/// Bytes that count as in memory until it is dropped.
pub(super) struct Hold {
    room: Arc<Room>,
    bytes: usize,
}

impl Hold {
    /// It is so many bytes now, which may be more than there was room for.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before == bytes {
            return;
        }
        let mut state = self.room.state.lock();
        state.bytes = (state.bytes + bytes).saturating_sub(before);
        if bytes < before {
            state.waiting.drain(..).for_each(Waker::wake);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn room_is_given_while_there_is_some_and_waited_for_otherwise() {
        let (room, count) = (Room::new(100), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let mut first = room.hold(60, &waker).unwrap();
        assert!(room.wanted().now_or_never().is_none());
        assert!(room.hold(60, &waker).is_none());
        assert!(room.wanted().now_or_never().is_some(), "someone waits");
        first.set(70);
        assert_eq!((count.0.load(Ordering::SeqCst), first.bytes()), (0, 70));
        first.set(10);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        let second = room.hold(60, &waker).unwrap();
        drop((first, second));
        assert_eq!(room.state.lock().bytes, 0);
        assert!(room.hold(1_000, &waker).is_some(), "alone, a large message goes too");
    }
}

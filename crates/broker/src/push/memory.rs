//! A limit on the bytes of all requests in flight.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

/// The memory used by request bodies.
pub(crate) struct Memory {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    waiting: Vec<Waker>,
}

impl Memory {
    /// At most `bytes_max`, though the request that reaches it may exceed it.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default() })
    }

    /// Whether there is room for one more request; if not, the waker is called when there is.
    /// Endpoints that are not proven may fill at most half of it, so that hanging ones do not lock
    /// out the others.
    pub(crate) fn has_room(&self, is_proven: bool, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let bytes_max = if is_proven { self.bytes_max } else { self.bytes_max / 2 };
        if state.bytes < bytes_max {
            return true;
        }
        if !state.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        false
    }

    /// Reserves `bytes` until the returned value is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Hold {
        self.state.lock().bytes += bytes;
        Hold { memory: Arc::clone(self), bytes }
    }
}

/// Reserved memory.
pub(crate) struct Hold {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        let before = state.bytes;
        state.bytes -= self.bytes;
        let bounds = [self.memory.bytes_max, self.memory.bytes_max / 2];
        if bounds.iter().any(|bound| before >= *bound && state.bytes < *bound) {
            state.waiting.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_who_wait_are_woken_when_there_is_room() {
        let memory = Memory::new(100);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let (one, two) = (memory.hold(60), memory.hold(60));
        assert!(!memory.has_room(true, &waker));
        assert!(!memory.has_room(true, &waker));
        drop(one);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(memory.has_room(true, &waker));
        assert!(!memory.has_room(false, &waker), "half is for those that are proven");
        drop(two);
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(memory.has_room(false, &waker));
    }
}

//! How much clients may send that nobody has read yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the protocol grants every connection.
const FLOOR: usize = 65_535;

/// What one connection gets at most: a publish of many messages should not wait for its window.
const CEILING: usize = 4 << 20;

/// A new connection gets one in so many of the bytes that are left, so that the first ones get
/// much and there is always something for the next.
const PART: usize = 16;

/// What connections may be sent unread beyond what the protocol grants each.
pub(super) struct Windows {
    left: AtomicUsize,
}

impl Windows {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        let left = usize::try_from(bytes).unwrap_or(usize::MAX);
        Arc::new(Self { left: AtomicUsize::new(left) })
    }

    /// A window for a new connection.
    pub(super) fn open(self: &Arc<Self>) -> Window {
        let more = |left: usize| (left / PART).min(CEILING).saturating_sub(FLOOR);
        let (relaxed, windows) = (Ordering::Relaxed, Arc::clone(self));
        let taken = self.left.fetch_update(relaxed, relaxed, |left| Some(left - more(left)));
        Window { windows, more: taken.map_or(0, more) }
    }
}

/// What one connection may be sent unread; dropping it gives it back.
pub(super) struct Window {
    windows: Arc<Windows>,
    more: usize,
}

impl Window {
    pub(super) fn bytes(&self) -> u32 {
        u32::try_from(FLOOR + self.more).unwrap_or(u32::MAX)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.windows.left.fetch_add(self.more, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_shrink_with_every_connection_and_are_given_back() {
        let windows = Windows::new(32 << 20);
        let open: Vec<_> = (0..3_000).map(|_| windows.open()).collect();
        assert_eq!(open[0].bytes(), 2 << 20);
        assert!(open.windows(2).all(|pair| pair[0].bytes() >= pair[1].bytes()));
        assert!(open[20].bytes() > 500_000, "{}", open[20].bytes());
        assert_eq!(open[2_999].bytes() as usize, FLOOR);
        let beyond: usize = open.iter().map(|window| window.bytes() as usize - FLOOR).sum();
        assert!(beyond <= 32 << 20);
        drop(open);
        assert_eq!(windows.left.load(Ordering::Relaxed), 32 << 20);
    }

    #[test]
    fn one_connection_gets_no_more_than_the_ceiling() {
        assert_eq!(Windows::new(u64::MAX).open().bytes() as usize, CEILING);
        assert_eq!(Windows::new(0).open().bytes() as usize, FLOOR);
    }
}

//! How many sockets push may have open: connecting, in use and kept between two requests together.
//!
//! The system limits how many files a process can open, and the log needs some of them. A request
//! that needs a socket while all are taken waits; idle connections make room first.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whether this process or this machine is at its limit: not an endpoint's fault.
pub(super) fn are_used_up(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let limits = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    errno.is_some_and(|errno| limits.contains(&errno))
}

/// Whether that is the case right now. For a failed lookup: the system's resolver does not say that
/// it could not open its files.
pub(super) fn are_used_up_now() -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).is_err_and(|error| are_used_up(&error))
}

/// Grants slots for sockets.
pub(super) struct Sockets {
    free: Arc<Semaphore>,
    /// How many are waiting for one.
    wanted: AtomicUsize,
}

/// A slot for one socket, until it is dropped.
pub(super) struct SocketSlot {
    _permit: OwnedSemaphorePermit,
}

impl Sockets {
    /// At most `max`, at least one.
    pub(super) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(max)), wanted: AtomicUsize::new(0) }
    }

    /// A slot that is free right now.
    pub(super) fn try_take(&self) -> Option<SocketSlot> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(SocketSlot { _permit: permit })
    }

    /// Waits for a slot. `make_room` should close idle connections.
    pub(super) async fn take(&self, make_room: impl Fn()) -> Option<SocketSlot> {
        if let Some(place) = self.try_take() {
            return Some(place);
        }
        // Noted before making room: a connection that becomes idle after that is not kept.
        let _wanting = Wanting::begin(&self.wanted);
        make_room();
        // It is never closed.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(SocketSlot { _permit: permit })
    }

    /// Whether someone is waiting for a slot: then no connection is kept idle.
    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }
}

/// Counts one waiter, until it is dropped.
struct Wanting<'a>(&'a AtomicUsize);

impl<'a> Wanting<'a> {
    fn begin(wanted: &'a AtomicUsize) -> Self {
        wanted.fetch_add(1, Ordering::SeqCst);
        Self(wanted)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

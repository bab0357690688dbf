//! How many sockets pushing may have open: those being connected, those in use and those kept
//! between two requests together.
//!
//! The system lets a process open only so many files, and the log needs some of them. Who wants a
//! socket while all are taken waits; connections that nothing is sent on make room first.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whether this process or this machine is at its limit: no fault of an endpoint.
pub(super) fn are_used_up(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let limits = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    errno.is_some_and(|errno| limits.contains(&errno))
}

/// Whether that is so right now. For a lookup that failed: the system's resolver does not say that
/// it could not open its files.
pub(super) fn are_used_up_now() -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).is_err_and(|error| are_used_up(&error))
}

/// Hands out the right to have a socket.
pub(super) struct Sockets {
    free: Arc<Semaphore>,
    /// Who waits for one.
    wanted: AtomicUsize,
}

/// The right to have one socket, until it is dropped.
pub(super) struct SocketSlot {
    _permit: OwnedSemaphorePermit,
}

impl Sockets {
    /// At most `max`, at least one.
    pub(super) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(max)), wanted: AtomicUsize::new(0) }
    }

    /// A place that is free right now.
    pub(super) fn try_take(&self) -> Option<SocketSlot> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(SocketSlot { _permit: permit })
    }

    /// Waits for a place. `make_room` is to close connections that nothing is sent on.
    pub(super) async fn take(&self, make_room: impl Fn()) -> Option<SocketSlot> {
        if let Some(place) = self.try_take() {
            return Some(place);
        }
        // Noted before room is made: a connection that becomes idle behind that is not kept.
        let _wanting = Wanting::begin(&self.wanted);
        make_room();
        // It is never closed.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(SocketSlot { _permit: permit })
    }

    /// Whether someone waits for a place: then no connection is kept idle.
    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }
}

/// Counts one who waits, until it is dropped.
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

//! Connections between two requests. The one used last is taken first, so that those not needed
//! grow old and are closed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use domain::push::Endpoint;
use parking_lot::Mutex;

use super::connection::Connection;
use super::sockets::Sockets;
use clock::tasks;

/// The connections that are kept.
pub(super) struct Pool {
    shelves: Mutex<Shelves>,
    idle_max: usize,
    idle_timeout: Duration,
    sockets: Arc<Sockets>,
    clock: Arc<dyn Clock>,
}

/// Two small maps instead of one, since both are asked with what an endpoint has at hand.
type ByHost = HashMap<Box<str>, Vec<IdleConnection>>;

#[derive(Default)]
struct Shelves {
    /// By whether TLS is spoken, the port, and the host. A host whose connections are all in use
    /// stays until the next sweep, since most come back at once.
    by_port: HashMap<(bool, u16), ByHost>,
    kept: usize,
    is_swept: bool,
}

struct IdleConnection {
    connection: Box<Connection>,
    since: Moment,
}

impl Pool {
    pub(super) fn new(
        idle_max: usize,
        idle_timeout: Duration,
        sockets: Arc<Sockets>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { shelves: Mutex::default(), idle_max, idle_timeout, sockets, clock }
    }

    /// The connection to the endpoint's host that was used last and is still open.
    pub(super) fn take(&self, endpoint: &Endpoint) -> Option<Box<Connection>> {
        loop {
            let mut connection = self.shelves.lock().pop(endpoint)?;
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, unless the endpoint is not through with the last
    /// one, or has said more than was asked.
    pub(super) fn put(self: &Arc<Self>, endpoint: &Endpoint, connection: Box<Connection>) {
        if self.idle_max == 0 || !connection.is_ready() {
            return;
        }
        let since = self.clock.now();
        let mut closed = Vec::new();
        let mut shelves = self.shelves.lock();
        shelves.push(endpoint, IdleConnection { connection, since });
        if shelves.kept > self.idle_max {
            closed = shelves.close_oldest(self.idle_max - self.idle_max / 8);
        } else if self.sockets.are_wanted() {
            closed = shelves.make_room();
        }
        let needs_sweeper = !std::mem::replace(&mut shelves.is_swept, true);
        drop(shelves);
        drop(closed);
        if needs_sweeper {
            tasks::spawn("push connection sweeper", sweep(Arc::downgrade(self)));
        }
    }

    /// Closes some of the connections that were not used for longest: someone wants a socket.
    pub(super) fn make_room(&self) {
        let mut shelves = self.shelves.lock();
        let closed = shelves.make_room();
        drop(shelves);
        drop(closed);
    }

    /// Closes all connections.
    pub(super) fn clear(&self) {
        let mut shelves = self.shelves.lock();
        shelves.kept = 0;
        let closed = std::mem::take(&mut shelves.by_port);
        drop(shelves);
        drop(closed);
    }

    /// Closes what was not used for too long; `false` = nothing is left.
    fn sweep(&self) -> bool {
        let now = self.clock.now();
        let mut shelves = self.shelves.lock();
        let closed = shelves.close(|since| now.since(since) >= self.idle_timeout);
        shelves.is_swept = !shelves.by_port.is_empty();
        let goes_on = shelves.is_swept;
        drop(shelves);
        drop(closed);
        goes_on
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.shelves.lock().kept
    }
}

/// Runs while connections are kept.
async fn sweep(pool: Weak<Pool>) {
    while let Some(present) = pool.upgrade() {
        let next = present.clock.now().plus(present.idle_timeout / 2);
        let sleep = present.clock.sleep_until(next);
        drop(present);
        sleep.await;
        if !pool.upgrade().is_some_and(|pool| pool.sweep()) {
            return;
        }
    }
}

impl Shelves {
    fn pop(&mut self, endpoint: &Endpoint) -> Option<Box<Connection>> {
        let by_host = self.by_port.get_mut(&(endpoint.is_secure(), endpoint.port()))?;
        let kept = by_host.get_mut(endpoint.host())?.pop()?;
        self.kept -= 1;
        Some(kept.connection)
    }

    fn push(&mut self, endpoint: &Endpoint, kept: IdleConnection) {
        let by_host = self.by_port.entry((endpoint.is_secure(), endpoint.port())).or_default();
        match by_host.get_mut(endpoint.host()) {
            Some(shelf) => shelf.push(kept),
            None => drop(by_host.insert(endpoint.host().into(), vec![kept])),
        }
        self.kept += 1;
    }

    /// Takes out an eighth, at least one: whoever wants room now may want more in a moment.
    fn make_room(&mut self) -> Vec<IdleConnection> {
        self.close_oldest(self.kept.saturating_sub((self.kept / 8).max(1)))
    }

    /// Leaves the `left` connections that were used last.
    fn close_oldest(&mut self, left: usize) -> Vec<IdleConnection> {
        let surplus = self.kept.saturating_sub(left);
        let shelves = self.by_port.values().flat_map(HashMap::values).flatten();
        let mut times: Vec<Moment> = shelves.map(|kept| kept.since).collect();
        if surplus == 0 || surplus > times.len() {
            return Vec::new();
        }
        let (_, newest_closed, _) = times.select_nth_unstable(surplus - 1);
        let (newest_closed, mut rest) = (*newest_closed, surplus);
        self.close(|since| {
            let is_closed = since <= newest_closed && rest > 0;
            rest -= usize::from(is_closed);
            is_closed
        })
    }

    /// Takes out the connections last used at times that `is_old`, and hosts without any.
    fn close(&mut self, mut is_old: impl FnMut(Moment) -> bool) -> Vec<IdleConnection> {
        let mut closed = Vec::new();
        self.by_port.retain(|_, by_host| {
            by_host.retain(|_, shelf| {
                // The oldest are at the front.
                let count = shelf.iter().take_while(|kept| is_old(kept.since)).count();
                closed.extend(shelf.drain(..count));
                !shelf.is_empty()
            });
            !by_host.is_empty()
        });
        self.kept -= closed.len();
        closed
    }
}

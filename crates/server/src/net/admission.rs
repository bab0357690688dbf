//! How many connections may be open.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::config::Limits;

/// What became of connections, for whoever asks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    open: AtomicUsize,
    ended: AtomicU64,
}

impl Connections {
    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// How many were ended because they did not read while others waited for memory.
    pub(crate) fn ended(&self) -> u64 {
        self.0.ended.load(Ordering::Relaxed)
    }

    pub(super) fn note_ended(&self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts open connections, all together and by address.
pub(super) struct Admission {
    connections_max: usize,
    per_address_max: usize,
    open: Mutex<Open>,
    told: Connections,
}

#[derive(Default)]
struct Open {
    connections: usize,
    /// Addresses with a connection open. Loopback is not in it: local programs share one address.
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place; dropping it gives the place back.
pub(super) struct ConnectionSlot {
    admission: Arc<Admission>,
    address: Option<IpAddr>,
}

impl Admission {
    pub(super) fn new(limits: &Limits, told: Connections) -> Self {
        Self {
            connections_max: limits.connections_max,
            per_address_max: limits.connections_per_address_max,
            open: Mutex::default(),
            told,
        }
    }

    /// A place for a connection from `address`, or `None` if the limits are reached.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let address = Some(address.to_canonical()).filter(|address| !address.is_loopback());
        let mut open = self.open.lock();
        if open.connections >= self.connections_max {
            return None;
        }
        if let Some(address) = address {
            let count = open.by_address.entry(address).or_default();
            if *count >= self.per_address_max {
                return None;
            }
            *count += 1;
        }
        open.connections += 1;
        self.told.0.open.store(open.connections, Ordering::Relaxed);
        Some(ConnectionSlot { admission: Arc::clone(self), address })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock();
        open.connections -= 1;
        self.admission.told.0.open.store(open.connections, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        if let Some(count) = open.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(connections_max: usize, per_address_max: usize) -> Arc<Admission> {
        let (open, told) = (Mutex::default(), Connections::default());
        Arc::new(Admission { connections_max, per_address_max, open, told })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let admission = admission(2, 10);
        let first = admission.admit(ip("10.0.0.1"));
        let second = admission.admit(ip("10.0.0.2"));
        assert!(first.is_some() && second.is_some());
        assert_eq!(admission.told.open(), 2);
        assert!(admission.admit(ip("127.0.0.1")).is_none());
        drop(first);
        assert!(admission.admit(ip("127.0.0.1")).is_some());
    }

    #[test]
    fn one_address_has_its_own_bound_except_loopback() {
        let admission = admission(100, 1);
        let first = admission.admit(ip("10.0.0.1"));
        assert!(first.is_some());
        assert!(admission.admit(ip("10.0.0.1")).is_none());
        assert!(admission.admit(ip("::ffff:10.0.0.1")).is_none());
        assert!(admission.admit(ip("10.0.0.2")).is_some());
        let local: Vec<_> = (0..10).map(|_| admission.admit(ip("127.0.0.1"))).collect();
        assert!(local.iter().all(Option::is_some));
        drop(first);
        assert!(admission.admit(ip("10.0.0.1")).is_some());
        drop(local);
        assert!(admission.open.lock().by_address.is_empty());
        assert_eq!(admission.open.lock().connections, 0);
    }
}

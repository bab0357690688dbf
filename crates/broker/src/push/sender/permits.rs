//! How many connects may be in progress, in total and to one host.
//!
//! ```text
//!   all: |<---- open to every host ---->|<- proven ->|
//! ```
//!
//! A quarter is reserved for hosts whose last connect succeeded. Hosts that hang hold each permit
//! for as long as a connect may take; healthy ones must not wait behind them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of hosts remembered as proven.
const PROVEN_MAX: usize = 32_768;

/// Grants permits to connect.
pub(super) struct Permits {
    all: Arc<Semaphore>,
    /// How many of all permits hosts that are not proven may have.
    unproven: Arc<Semaphore>,
    hosts: Mutex<HashMap<Box<str>, Host>>,
    proven: Mutex<Proven>,
    per_host_max: usize,
}

/// The hosts whose last connect succeeded, in two generations: when the new one is full, the old
/// one is dropped.
#[derive(Default)]
struct Proven {
    new: HashSet<Box<str>>,
    old: HashSet<Box<str>>,
}

struct Host {
    permits: Arc<Semaphore>,
    /// How many are connecting or waiting. At zero the entry is removed.
    users: usize,
}

/// A permit to connect, until it is dropped.
pub(super) struct Permit<'a> {
    _host: Option<OwnedSemaphorePermit>,
    _unproven: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
    user: User<'a>,
}

struct User<'a> {
    table: &'a Permits,
    host: &'a str,
}

impl Permits {
    pub(super) fn new(all_max: usize, per_host_max: usize) -> Self {
        let all_max = all_max.clamp(1, Semaphore::MAX_PERMITS);
        let per_host_max = per_host_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(all_max)),
            unproven: Arc::new(Semaphore::new(all_max - all_max / 4)),
            hosts: Mutex::default(),
            proven: Mutex::default(),
            per_host_max,
        }
    }

    /// Waits for a permit to connect to `host`. The host's own limit comes first: a request that
    /// waits for a hanging host holds nothing of what all share.
    pub(super) async fn acquire<'a>(&'a self, host: &'a str) -> Permit<'a> {
        let (user, permits) = self.enter(host);
        // None of the semaphores is ever closed.
        let of_host = permits.acquire_owned().await.ok();
        let is_proven = self.proven.lock().contains(host);
        let unproven = match is_proven {
            true => None,
            false => Arc::clone(&self.unproven).acquire_owned().await.ok(),
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Permit { _host: of_host, _unproven: unproven, _all: all, user }
    }

    fn enter<'a>(&'a self, host: &'a str) -> (User<'a>, Arc<Semaphore>) {
        let mut hosts = self.hosts.lock();
        let entry = hosts.entry(host.into()).or_insert_with(|| Host {
            permits: Arc::new(Semaphore::new(self.per_host_max)),
            users: 0,
        });
        entry.users += 1;
        let permits = Arc::clone(&entry.permits);
        (User { table: self, host }, permits)
    }

    #[cfg(test)]
    pub(super) fn hosts(&self) -> usize {
        self.hosts.lock().len()
    }
}

impl Permit<'_> {
    /// Ends the permit, and notes whether the connect succeeded.
    pub(super) fn note(self, is_connected: bool) {
        let mut proven = self.user.table.proven.lock();
        match is_connected {
            true => proven.add(self.user.host),
            false => proven.remove(self.user.host),
        }
    }
}

impl Proven {
    fn contains(&self, host: &str) -> bool {
        self.new.contains(host) || self.old.contains(host)
    }

    fn add(&mut self, host: &str) {
        if self.new.contains(host) {
            return;
        }
        if self.new.len() >= PROVEN_MAX / 2 {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(host.into());
    }

    fn remove(&mut self, host: &str) {
        self.new.remove(host);
        self.old.remove(host);
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let mut hosts = self.table.hosts.lock();
        if let Some(host) = hosts.get_mut(self.host) {
            host.users -= 1;
            if host.users == 0 {
                hosts.remove(self.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proven_hosts_are_bounded_and_the_last_ones_stay() {
        let mut proven = Proven::default();
        for number in 0..2 * PROVEN_MAX {
            proven.add(&number.to_string());
            assert!(proven.new.len() + proven.old.len() <= PROVEN_MAX);
        }
        let last = 2 * PROVEN_MAX - 1;
        assert!(proven.contains(&last.to_string()));
        assert!(proven.contains(&(last - PROVEN_MAX / 2).to_string()));
        assert!(!proven.contains("0"));
        proven.remove(&last.to_string());
        assert!(!proven.contains(&last.to_string()));
    }
}

//! How many connects may be under way, over all and to one host.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Hands out the right to connect.
pub(super) struct Permits {
    all: Arc<Semaphore>,
    hosts: Mutex<HashMap<Box<str>, Host>>,
    per_host_max: usize,
}

struct Host {
    permits: Arc<Semaphore>,
    /// Those who connect and those who wait. At none the entry goes.
    users: usize,
}

/// The right to connect, until it is dropped.
pub(super) struct Permit<'a> {
    _host: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
    _user: User<'a>,
}

struct User<'a> {
    table: &'a Permits,
    host: &'a str,
}

impl Permits {
    pub(super) fn new(all_max: usize, per_host_max: usize) -> Self {
        let all_max = all_max.clamp(1, Semaphore::MAX_PERMITS);
        let per_host_max = per_host_max.clamp(1, Semaphore::MAX_PERMITS);
        Self { all: Arc::new(Semaphore::new(all_max)), hosts: Mutex::default(), per_host_max }
    }

    /// Waits for the right to connect to `host`. That of the host comes first: who waits for a
    /// host that hangs holds nothing of what all share.
    pub(super) async fn acquire<'a>(&'a self, host: &'a str) -> Permit<'a> {
        let (user, permits) = self.enter(host);
        // Neither semaphore is ever closed.
        let host = permits.acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Permit { _host: host, _all: all, _user: user }
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

//! Resolves hosts. The system looks names up, on its own threads, once for everyone waiting, and
//! the result is kept for seconds.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use super::allowance::Allowance;
use super::sockets::{are_used_up, are_used_up_now};
use clock::tasks;

/// How long resolved addresses are valid. Short, since the next answer of the name's owner may
/// differ.
const FOUND_TIME: Duration = Duration::from_secs(5);
/// How long the fact that a name has no address is valid.
const NOT_FOUND_TIME: Duration = Duration::from_secs(1);
/// Maximum number of names known or being looked up.
const NAMES_MAX: usize = 4_096;
/// Lookups at a time. Each holds a thread, and one that hangs cannot be aborted.
const LOOKUPS_MAX: usize = 32;

/// A host's addresses in the order to try them.
pub(super) type Addresses = Arc<[IpAddr]>;

/// Why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAddress {
    /// The system says so.
    Unknown(Arc<str>),
    /// The lookup took too long.
    Late,
    /// It did not start: others were in progress, or the system gives no more sockets.
    Throttled,
}

/// Asks for the addresses of a name.
pub(super) trait Lookup: Send + Sync {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
pub(super) struct System;

impl Lookup for System {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

/// Resolves hosts.
pub(super) struct Resolver {
    lookup: Arc<dyn Lookup>,
    names: Mutex<HashMap<Box<str>, watch::Receiver<State>>>,
    lookups: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
}

/// The state of a lookup.
enum State {
    /// Queued behind others.
    Waiting,
    Begun,
    /// The result, and until when it is valid.
    Known(Result<Addresses, NoAddress>, Moment),
}

impl Resolver {
    pub(super) fn new(lookup: Arc<dyn Lookup>, clock: Arc<dyn Clock>) -> Self {
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup, names: Mutex::default(), lookups, clock }
    }

    /// The addresses of a host, which may itself be an address.
    pub(super) async fn addresses(
        &self,
        host: &str,
        allowance: &mut Allowance<'_>,
    ) -> Result<Addresses, NoAddress> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok([address].into());
        }
        // The lookup continues if its first caller goes away: nobody could abort it, and the next
        // caller finds it in progress instead of taking another thread.
        let mut state = self.known_or_asked(host).ok_or(NoAddress::Throttled)?;
        let begun =
            async { state.wait_for(|state| !matches!(state, State::Waiting)).await.is_ok() };
        allowance.wait(begun).await.ok_or(NoAddress::Throttled)?;
        let known = async {
            let state = state.wait_for(|state| matches!(state, State::Known(..))).await;
            match state.as_deref() {
                Ok(State::Known(found, _)) => found.clone(),
                // The server is stopping.
                Ok(State::Waiting | State::Begun) | Err(_) => Err(NoAddress::Throttled),
            }
        };
        allowance.spend(known).await.unwrap_or(Err(NoAddress::Late))
    }

    /// `None` = there are already too many.
    fn known_or_asked(&self, host: &str) -> Option<watch::Receiver<State>> {
        let now = self.clock.now();
        let mut names = self.names.lock();
        if let Some(state) = names.get(host).filter(|state| is_good(state, now)) {
            return Some(state.clone());
        }
        if names.len() >= NAMES_MAX {
            names.retain(|_, state| is_good(state, now));
        }
        if names.len() >= NAMES_MAX {
            return None;
        }
        let (sender, state) = watch::channel(State::Waiting);
        names.insert(host.into(), state.clone());
        drop(names);
        tasks::spawn("push lookup", self.look_up(host.to_owned(), sender));
        Some(state)
    }

    fn look_up(
        &self,
        host: String,
        state: watch::Sender<State>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (lookup, lookups) = (Arc::clone(&self.lookup), Arc::clone(&self.lookups));
        let clock = Arc::clone(&self.clock);
        async move {
            // It is never closed, and without a permit the lookup would still be correct.
            let _permit = lookups.acquire().await.ok();
            state.send_replace(State::Begun);
            let found = match lookup.lookup(host).await {
                Ok(addresses) if addresses.is_empty() => {
                    Err(NoAddress::Unknown("it has none".into()))
                }
                Ok(addresses) => Ok(interleaved(&addresses).into()),
                Err(error) if are_used_up(&error) || are_used_up_now() => Err(NoAddress::Throttled),
                Err(error) => Err(NoAddress::Unknown(error.to_string().into())),
            };
            let time = if found.is_ok() { FOUND_TIME } else { NOT_FOUND_TIME };
            let until = clock.now().plus(time);
            state.send_replace(State::Known(found, until));
        }
    }
}

/// Whether the result is still valid, or still to come.
fn is_good(state: &watch::Receiver<State>, now: Moment) -> bool {
    match &*state.borrow() {
        State::Known(_, until) => now < *until,
        State::Waiting | State::Begun => state.has_changed().is_ok(),
    }
}

/// Alternates between both families, starting with that of the first: if one family leads nowhere,
/// the second try uses the other one.
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let is_v4_first = addresses.first().is_some_and(IpAddr::is_ipv4);
    let mut first = addresses.iter().filter(|address| address.is_ipv4() == is_v4_first);
    let mut second = addresses.iter().filter(|address| address.is_ipv4() != is_v4_first);
    let mut mixed = Vec::with_capacity(addresses.len());
    while mixed.len() < addresses.len() {
        mixed.extend(first.next());
        mixed.extend(second.next());
    }
    mixed
}

#[cfg(test)]
mod tests;

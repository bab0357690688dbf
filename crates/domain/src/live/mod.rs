//! The rules of live subscriptions: who may register what, how long it lives, and who is told.
//!
//! ```text
//!  register          heartbeat, or a stream is open         a stream is open: never
//! ───────────► registered ───────────► active ◄─┐ heartbeat       expires
//!                  │                     │ └────┘
//!                  │ deadline passed     │ deadline passed
//!                  ▼                     ▼
//!               expired: its id is remembered for five minutes ──► removed
//! ```
//!
//! `Registry` is a state machine without a clock: time goes in, ended subscriptions come out. It is
//! meant to be under one lock. The index of filters is separate: the caller that registers a
//! subscription adds it to the index, tells the registry where (`place`), and removes ended ones
//! from the index. A subscription past its deadline counts as expired from then on, even if
//! `expire` has not been called yet.
//!
//! A heartbeat only stores a later deadline. The wheel brings a subscription up at its old one, the
//! deadline is checked again, and the subscription ends or continues: so nothing can expire between
//! an answered heartbeat and its deadline. The wheel is asked at most once a second.

mod entries;
mod expired;
mod gateways;
mod refusal;
mod request;
mod view;

use std::sync::Arc;
use std::time::Duration;

pub use entries::Handle;
pub use refusal::Refusal;
pub use request::{Request, Spec, collection_path, gateway_id};
pub use view::{Counts, Owned, Page, Query, View};

use crate::delivery::wheel::Wheel;
use crate::limits::{LIVE_TTL_DEFAULT, LIVE_TTL_MAX, LIVE_TTL_MIN};
use crate::matching::Scope;
use crate::time::{Moment, Now, Timestamp};
use entries::{Entries, Entry};
use expired::Expired;
use gateways::Owners;

/// Deadlines come up at whole seconds: at most a second late.
const WHEEL_STEP: Duration = Duration::from_secs(1);
/// Not in the index yet.
const NOWHERE: u32 = u32::MAX;

/// Times and quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For a registration without a TTL.
    pub ttl_default: Duration,
    /// The shortest TTL.
    pub ttl_min: Duration,
    /// The longest TTL.
    pub ttl_max: Duration,
    /// Maximum subscriptions per gateway.
    pub per_gateway_max: usize,
    /// Maximum subscriptions per tenant.
    pub per_tenant_max: usize,
    /// Maximum subscriptions in total; at most `LIVE_SUBSCRIPTIONS_MAX`.
    pub global_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl_default: LIVE_TTL_DEFAULT,
            ttl_min: LIVE_TTL_MIN,
            ttl_max: LIVE_TTL_MAX,
            per_gateway_max: 10_000,
            per_tenant_max: 50_000,
            global_max: 100_000,
        }
    }
}

/// The live subscriptions.
#[derive(Debug, Default)]
pub struct Registry {
    settings: Settings,
    entries: Entries,
    owners: Owners,
    wheel: Wheel,
    expired: Expired,
    active: usize,
}

/// An accepted registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its key in the index.
    pub handle: Handle,
    /// `true` = it already existed with the same content: do not add it to the index.
    pub renewed: bool,
    /// What it listens to.
    pub scope: Arc<Scope>,
    /// When it was first registered.
    pub created: Timestamp,
    /// When it expires without a heartbeat.
    pub expires: Timestamp,
    /// A subscription with the same id that was past its deadline: remove it from the index first.
    pub ended: Option<Ended>,
}

/// A subscription that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its key in the index.
    pub handle: Handle,
    /// Where it was in the index; `None` = it was not in it yet.
    pub group: Option<u32>,
    /// What it listened to.
    pub scope: Arc<Scope>,
    /// Its id.
    pub id: Box<str>,
    /// The gateway that owned it.
    pub gateway: Arc<str>,
    /// Whether it expired; otherwise it was removed.
    pub expired: bool,
}

impl Registry {
    /// An empty registry.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The settings it was created with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Registers a subscription, or renews the existing one with the same content.
    ///
    /// The caller must then add a new one to the index and call `place` or `withdraw`, under the
    /// same lock.
    pub fn register(&mut self, now: Now, spec: &Spec) -> Result<Registered, Refusal> {
        let held = self.entries.find(&spec.subscription);
        if let Some(slot) = held
            && !self.is_over(slot, now.moment)
        {
            return self.register_again(slot, now, spec);
        }
        self.check_quotas(spec, held)?;
        let ended = held.and_then(|slot| self.end(slot, Some(now.moment)));
        let scope = self.owners.join(&spec.tenant, &spec.collection);
        let slot = self.add(now, spec, Arc::clone(&scope));
        let (handle, expires) = (self.entries.handle(slot), now.wall.plus(spec.ttl));
        Ok(Registered { handle, renewed: false, scope, created: now.wall, expires, ended })
    }

    /// Notes where the index put a new subscription.
    pub fn place(&mut self, handle: Handle, group: u32, indexed: bool) {
        if let Some(entry) = self.entry_mut(handle) {
            entry.group = group;
            entry.indexed = indexed;
        }
    }

    /// Undoes the registration of a new subscription that the index refused, as if it had never
    /// happened.
    pub fn withdraw(&mut self, handle: Handle) {
        if let Some(slot) = self.entries.slot(handle) {
            self.end(slot, None);
        }
    }

    /// Renews a subscription by its own TTL. `gateway` is the caller, if known.
    pub fn heartbeat(
        &mut self,
        now: Now,
        id: &str,
        gateway: Option<&str>,
    ) -> Result<Timestamp, Refusal> {
        let slot = self.find(now, id)?;
        self.check_owner(slot, id, gateway)?;
        self.renew(slot, now.moment);
        Ok(self.expires(slot, now))
    }

    /// Renews all subscriptions of a gateway that are not past their deadline; returns how many.
    pub fn heartbeat_gateway(&mut self, now: Now, gateway: &str) -> usize {
        let Some(number) = self.owners.find(gateway) else { return 0 };
        let Some(held) = self.owners.get_mut(number) else { return 0 };
        // Taken out meanwhile, because renewing looks at the gateway too.
        let slots = std::mem::take(&mut held.slots);
        let mut renewed = 0;
        for &slot in &slots {
            if !self.is_over(slot, now.moment) {
                self.renew(slot, now.moment);
                renewed += 1;
            }
        }
        if let Some(held) = self.owners.get_mut(number) {
            held.slots = slots;
        }
        renewed
    }

    /// A stream of the gateway was opened: renews its subscriptions, and while it is open none of
    /// them expires. Those past their deadline are ended and returned.
    pub fn open_stream(&mut self, now: Now, gateway: &str) -> Vec<Ended> {
        let number = self.owners.gateway(gateway);
        self.heartbeat_gateway(now, gateway);
        let slots = self.owners.get_mut(number).map(|held| {
            held.streams += 1;
            held.slots.clone()
        });
        let mut slots = slots.unwrap_or_default();
        // Renewed ones have a deadline later than now.
        slots
            .retain(|slot| self.entries.get(*slot).is_some_and(|held| held.deadline <= now.moment));
        slots.into_iter().filter_map(|slot| self.end(slot, Some(now.moment))).collect()
    }

    /// Whether a stream of the gateway is open.
    pub fn has_stream(&self, gateway: &str) -> bool {
        let held = self.owners.find(gateway).and_then(|number| self.owners.get(number));
        held.is_some_and(|held| held.streams > 0)
    }

    /// A stream of the gateway ended. Its subscriptions live on for their TTL.
    pub fn close_stream(&mut self, now: Now, gateway: &str) {
        let Some(number) = self.owners.find(gateway) else { return };
        self.heartbeat_gateway(now, gateway);
        if let Some(held) = self.owners.get_mut(number) {
            held.streams = held.streams.saturating_sub(1);
        }
        self.owners.drop_if_idle(number);
    }

    /// Removes a subscription; `None` = there was none, which is just as good. Its id is forgotten.
    pub fn delete(&mut self, id: &str, gateway: Option<&str>) -> Result<Option<Ended>, Refusal> {
        let Some(slot) = self.entries.find(id) else {
            self.expired.forget(id);
            return Ok(None);
        };
        self.check_owner(slot, id, gateway)?;
        Ok(self.end(slot, None))
    }

    /// Removes all subscriptions of a gateway, in linear time.
    pub fn close_gateway(&mut self, gateway: &str) -> Vec<Ended> {
        let number = self.owners.find(gateway);
        let slots = number.and_then(|number| self.owners.get(number)).map(|held| &held.slots);
        let slots = slots.cloned().unwrap_or_default();
        // From the end, so that none has to be moved.
        slots.into_iter().rev().filter_map(|slot| self.end(slot, None)).collect()
    }

    /// Ends at most `max` subscriptions that are past their deadline: if there are more,
    /// `next_wake` is in the past.
    pub fn expire(&mut self, now: Moment, max: usize) -> Vec<Ended> {
        self.expired.forget_old(now);
        let mut ended = Vec::new();
        while ended.len() < max
            && let Some(slot) = self.wheel.pop(now)
        {
            if self.is_over(slot, now) {
                ended.extend(self.end(slot, Some(now)));
            } else {
                self.wait(slot, now);
            }
        }
        ended
    }

    /// When to call `expire` next; `None` = nothing left to do.
    pub fn next_wake(&self) -> Option<Moment> {
        // Even without subscriptions there may be something to forget.
        self.wheel.next_wake().or_else(|| self.expired.all_forgotten())
    }

    fn register_again(&mut self, slot: u32, now: Now, spec: &Spec) -> Result<Registered, Refusal> {
        let id = spec.subscription.as_str();
        if self.check_owner(slot, id, Some(&spec.gateway)).is_err() {
            return Err(Refusal::NotOwner(id.to_owned()));
        }
        let Some(entry) = self.entries.get_mut(slot) else {
            return Err(Refusal::NotFound(id.to_owned()));
        };
        let same = *entry.scope.tenant == *spec.tenant
            && *entry.scope.collection == *spec.collection
            && entry.content == spec.content();
        if !same {
            return Err(Refusal::Exists(id.to_owned()));
        }
        entry.ttl_s = ttl_s(spec.ttl);
        let (scope, created) = (Arc::clone(&entry.scope), entry.created);
        entry.deadline = now.moment.plus(spec.ttl);
        // A shorter TTL moves the deadline earlier, so the wheel has to know.
        self.wheel.remove(slot);
        self.wait(slot, now.moment);
        Ok(Registered {
            handle: self.entries.handle(slot),
            renewed: true,
            scope,
            created,
            expires: self.expires(slot, now),
            ended: None,
        })
    }

    fn add(&mut self, now: Now, spec: &Spec, scope: Arc<Scope>) -> u32 {
        self.expired.forget(&spec.subscription);
        let gateway = self.owners.gateway(&spec.gateway);
        let active = self.owners.get(gateway).is_some_and(|held| held.streams > 0);
        let slot = self.entries.insert(Entry {
            id: spec.subscription.as_str().into(),
            scope,
            content: spec.content(),
            created: now.wall,
            deadline: now.moment.plus(spec.ttl),
            gateway,
            place: 0,
            group: NOWHERE,
            ttl_s: ttl_s(spec.ttl),
            listed: spec.listed,
            indexed: false,
            active,
        });
        self.active += usize::from(active);
        let place = self.owners.own(gateway, slot);
        if let Some(entry) = self.entries.get_mut(slot) {
            entry.place = place;
        }
        self.wait(slot, now.moment);
        slot
    }

    /// Removes an entry; `expired_at` = because it expired, which is remembered.
    fn end(&mut self, slot: u32, expired_at: Option<Moment>) -> Option<Ended> {
        let handle = self.entries.handle(slot);
        let entry = self.entries.remove(slot)?;
        let gateway = self.owners.get(entry.gateway).map(|held| Arc::clone(&held.name))?;
        self.owners.disown(entry.gateway, entry.place, &mut self.entries);
        self.owners.leave(&entry.scope);
        self.wheel.remove(slot);
        self.active -= usize::from(entry.active);
        if let Some(now) = expired_at {
            self.expired.remember(now, &entry.id);
        }
        Some(Ended {
            handle,
            group: Some(entry.group).filter(|group| *group != NOWHERE),
            scope: entry.scope,
            id: entry.id,
            gateway,
            expired: expired_at.is_some(),
        })
    }

    /// Quotas count what exists, without `leaving`.
    fn check_quotas(&self, spec: &Spec, leaving: Option<u32>) -> Result<(), Refusal> {
        let leaving = leaving.and_then(|slot| self.entries.get(slot));
        let number = self.owners.find(&spec.gateway);
        let own = number.and_then(|number| self.owners.get(number)).map_or(0, |g| g.slots.len());
        let own = own - usize::from(leaving.is_some_and(|held| Some(held.gateway) == number));
        let Settings { per_gateway_max, per_tenant_max, global_max, .. } = self.settings;
        if own >= per_gateway_max {
            return Err(Refusal::GatewayQuota(spec.gateway.clone(), per_gateway_max));
        }
        let same = leaving.is_some_and(|held| *held.scope.tenant == *spec.tenant);
        if self.owners.tenant_count(&spec.tenant) - usize::from(same) >= per_tenant_max {
            return Err(Refusal::TenantQuota(spec.tenant.clone(), per_tenant_max));
        }
        if self.entries.len() - usize::from(leaving.is_some()) >= global_max {
            return Err(Refusal::GlobalQuota(global_max));
        }
        Ok(())
    }

    fn check_owner(&self, slot: u32, id: &str, gateway: Option<&str>) -> Result<(), Refusal> {
        let Some(gateway) = gateway else { return Ok(()) };
        let owner = self.entries.get(slot).and_then(|entry| self.owners.get(entry.gateway));
        if owner.is_some_and(|owner| *owner.name == *gateway) {
            return Ok(());
        }
        Err(Refusal::NotOwner(id.to_owned()))
    }

    /// The slot of a subscription that is not past its deadline.
    fn find(&self, now: Now, id: &str) -> Result<u32, Refusal> {
        match self.entries.find(id) {
            Some(slot) if !self.is_over(slot, now.moment) => Ok(slot),
            None if !self.expired.has(now.moment, id) => Err(Refusal::NotFound(id.to_owned())),
            _ => Err(Refusal::Expired(id.to_owned())),
        }
    }

    fn is_over(&self, slot: u32, now: Moment) -> bool {
        self.entries.get(slot).is_none_or(|entry| {
            let open = self.owners.get(entry.gateway).is_some_and(|held| held.streams > 0);
            !open && entry.deadline <= now
        })
    }

    fn renew(&mut self, slot: u32, now: Moment) {
        if let Some(entry) = self.entries.get_mut(slot) {
            entry.deadline = now.plus(entry.ttl());
            self.active += usize::from(!entry.active);
            entry.active = true;
        }
    }

    /// Adds an entry to the wheel, which must not already contain it.
    fn wait(&mut self, slot: u32, now: Moment) {
        let Some(entry) = self.entries.get(slot) else { return };
        // While a stream is open the deadline may be long past: check again after a TTL.
        let at = if entry.deadline > now { entry.deadline } else { now.plus(entry.ttl()) };
        let step = WHEEL_STEP.as_micros();
        let at = u128::from(at.0).div_ceil(step) * step;
        self.wheel.insert(slot, Moment(u64::try_from(at).unwrap_or(u64::MAX)));
    }

    /// When an entry expires, on the wall clock as it is now.
    fn expires(&self, slot: u32, now: Now) -> Timestamp {
        self.entries.get(slot).map_or(now.wall, |entry| {
            let open = self.owners.get(entry.gateway).is_some_and(|held| held.streams > 0);
            let left = if open { entry.ttl() } else { entry.deadline.since(now.moment) };
            now.wall.plus(left)
        })
    }

    fn entry_mut(&mut self, handle: Handle) -> Option<&mut Entry> {
        self.entries.slot(handle).and_then(|slot| self.entries.get_mut(slot))
    }
}

/// The TTL is within the limits, so it fits.
fn ttl_s(ttl: Duration) -> u16 {
    u16::try_from(ttl.as_secs()).unwrap_or(u16::MAX)
}

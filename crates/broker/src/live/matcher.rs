//! Matches one message against all live subscriptions: whom to tell, and what.

use std::sync::Arc;

use domain::Record;
use domain::limits::FILTER_DATA_BYTES_MAX;
use domain::live::{Handle, Owned};
use domain::matching::{Scratch, Subject};
use domain::message::{self, Malformed};

use super::Live;
use super::frame::{Change, LiveEvent, LiveIds, LiveMatch, LiveMessage};
use super::session::Session;
use crate::topic::Topic;

/// Attributes that say which tenant and collection a message belongs to, and what was there before.
const TENANT: &str = "tenant";
const COLLECTION: &str = "collection";
const OLD: &str = "old";

/// How many subscriptions are looked up under one lock.
const LOOKED_UP: usize = 1_000;

/// Working memory for matching, kept from message to message.
#[derive(Default)]
pub(super) struct Matcher {
    scratch: Scratch,
    now: Vec<u32>,
    before: Vec<u32>,
    found: Vec<(u32, Option<Change>)>,
    /// By the number of a gateway: its index in `told`, plus one.
    places: Vec<u32>,
    told: Vec<Told>,
}

/// What one gateway is told.
struct Told {
    gateway: u32,
    session: Arc<Session>,
    ids: LiveIds,
    changes: Vec<Change>,
}

/// Whom a message is matched for.
pub(super) enum For<'session> {
    Everybody,
    One(&'session Session),
}

impl Told {
    fn new(gateway: u32, session: Arc<Session>) -> Self {
        Self { gateway, session, ids: LiveIds::default(), changes: Vec::new() }
    }
}

impl For<'_> {
    fn include(&self, owned: &Owned<'_>) -> bool {
        match self {
            Self::Everybody => true,
            Self::One(session) => session.gateway == *owned.name,
        }
    }
}

impl Matcher {
    /// Finds who wants a message, runs `noted` before anyone can register who would be missed, and
    /// hands each gateway's part to `tell`.
    pub(super) fn run(
        &mut self,
        live: &Live,
        topic: &Topic,
        record: &Record,
        whom: &For<'_>,
        noted: impl FnOnce(),
        mut tell: impl FnMut(&Session, LiveEvent),
    ) -> Result<(), Malformed> {
        self.found.clear();
        self.find(live, topic, record, noted)?;
        self.look_up(live, whom);
        if self.told.is_empty() {
            return Ok(());
        }
        let message = Arc::new(LiveMessage::new(topic, record));
        for told in self.told.drain(..) {
            if let Some(place) = self.places.get_mut(told.gateway as usize) {
                *place = 0;
            }
            let changes = (!told.changes.is_empty()).then(|| told.changes.into_boxed_slice());
            let found = LiveMatch { message: Arc::clone(&message), ids: told.ids, changes };
            tell(&told.session, LiveEvent::Message(found));
        }
        Ok(())
    }

    fn find(
        &mut self,
        live: &Live,
        topic: &Topic,
        record: &Record,
        noted: impl FnOnce(),
    ) -> Result<(), Malformed> {
        let Some(collection) = message::attribute(&record.body, COLLECTION)? else {
            noted();
            return Ok(());
        };
        let project;
        let tenant = match message::attribute(&record.body, TENANT)? {
            Some(tenant) => tenant,
            None => {
                project = topic.name().project();
                project.id()
            }
        };
        let old = message::attribute(&record.body, OLD)?;
        let subject = subject(&record.body)?;
        let index = live.shards.of(tenant, collection).read();
        let Self { scratch, now, before, .. } = self;
        now.clear();
        let matched = index.matches(tenant, collection, subject, scratch, now)?;
        // A deleted document has no data, and matches nothing.
        let is_gone = old.is_some() && subject.data.is_empty();
        let mut unreadable = matched.unreadable && !is_gone;
        let mut tells_before = false;
        if let Some(old) = old {
            before.clear();
            let old = Subject { data: old.as_bytes(), ..subject };
            let matched = index.matches(tenant, collection, old, scratch, before)?;
            tells_before = !matched.unreadable;
            unreadable |= matched.unreadable;
        }
        noted();
        drop(index);
        if unreadable {
            live.figures.note_unreadable();
        }
        self.keep_found(is_gone, tells_before);
        Ok(())
    }

    /// Keeps the matches, with their changes if the previous matches are known.
    fn keep_found(&mut self, is_gone: bool, tells_before: bool) {
        if is_gone && tells_before {
            self.now.clear();
        }
        self.found.extend(self.now.iter().map(|handle| (*handle, None)));
        if tells_before {
            self.compare();
        }
    }

    /// Determines for each subscription how the message changes its results.
    fn compare(&mut self) {
        self.now.sort_unstable();
        self.before.sort_unstable();
        self.found.clear();
        for handle in &self.now {
            let was = self.before.binary_search(handle).is_ok();
            let change = if was { Change::Update } else { Change::Enter };
            self.found.push((*handle, Some(change)));
        }
        let left = self.before.iter().filter(|handle| self.now.binary_search(handle).is_err());
        self.found.extend(left.map(|handle| (*handle, Some(Change::Leave))));
    }

    fn look_up(&mut self, live: &Live, whom: &For<'_>) {
        let Self { found, places, told, .. } = self;
        for some in found.chunks(LOOKED_UP) {
            let registrations = live.registrations.lock();
            for (handle, change) in some {
                let owned = registrations.registry.resolve(Handle(*handle));
                let Some(owned) = owned.filter(|owned| whom.include(owned)) else { continue };
                let gateway = owned.gateway as usize;
                if places.len() <= gateway {
                    places.resize(gateway + 1, 0);
                }
                let Some(place) = places.get_mut(gateway) else { continue };
                if *place == 0 {
                    let Some(session) = registrations.session(owned.name) else { continue };
                    told.push(Told::new(owned.gateway, session));
                    *place = u32::try_from(told.len()).unwrap_or(0);
                }
                let told = told.get_mut((*place as usize).wrapping_sub(1));
                // The number may belong to another gateway since the lock was released.
                if let Some(told) = told.filter(|told| told.session.gateway == *owned.name) {
                    told.ids.push(owned.id);
                    told.changes.extend(*change);
                }
            }
        }
    }
}

fn subject(body: &[u8]) -> Result<Subject<'_>, Malformed> {
    let subject = Subject::of(body)?;
    let data = if subject.data.len() > FILTER_DATA_BYTES_MAX { b" " } else { subject.data };
    Ok(Subject { data, ..subject })
}

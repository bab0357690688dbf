//! Who has registered what, and the frames of each gateway: the state behind one short lock.

use std::collections::HashMap;
use std::sync::Arc;

use domain::live::{Ended, Registry, Settings};

use super::session::Session;

pub(super) struct Registrations {
    pub(super) registry: Registry,
    /// Of every gateway that has subscriptions or a stream.
    sessions: HashMap<Arc<str>, Arc<Session>>,
}

impl Registrations {
    pub(super) fn new(settings: Settings) -> Self {
        Self { registry: Registry::new(settings), sessions: HashMap::new() }
    }

    pub(super) fn session(&self, gateway: &str) -> Option<Arc<Session>> {
        self.sessions.get(gateway).cloned()
    }

    /// The session of a gateway that the registry knows, created if missing.
    pub(super) fn session_or(
        &mut self,
        gateway: &str,
        make: impl FnOnce(Arc<str>) -> Session,
    ) -> Option<Arc<Session>> {
        if let Some(session) = self.session(gateway) {
            return Some(session);
        }
        let name = Arc::clone(self.registry.gateway(gateway)?);
        let session = Arc::new(make(Arc::clone(&name)));
        self.sessions.insert(name, Arc::clone(&session));
        Some(session)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.values()
    }

    /// Forgets the frames of gateways that no longer exist.
    pub(super) fn forget_gone<'ended>(&mut self, ended: impl Iterator<Item = &'ended Ended>) {
        let mut last: Option<&Arc<str>> = None;
        for Ended { gateway, .. } in ended {
            if last.is_none_or(|last| !Arc::ptr_eq(last, gateway)) {
                self.forget_if_gone(gateway);
            }
            last = Some(gateway);
        }
    }

    pub(super) fn forget_if_gone(&mut self, gateway: &str) {
        if self.registry.gateway(gateway).is_none() {
            self.sessions.remove(gateway);
        }
    }
}

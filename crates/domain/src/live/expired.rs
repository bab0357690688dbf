//! Remembers the ids of expired subscriptions for a while.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::limits::{EXPIRED_REMEMBERED, EXPIRED_REMEMBERED_MAX};
use crate::time::Moment;

/// Expired ids, so that a late heartbeat learns what happened.
#[derive(Debug, Default)]
pub(super) struct Expired {
    until: HashMap<Arc<str>, Moment>,
    /// In the order they are forgotten; may contain ids that were already forgotten.
    order: VecDeque<(Moment, Arc<str>)>,
}

impl Expired {
    pub(super) fn remember(&mut self, now: Moment, id: &str) {
        self.forget_old(now);
        while self.order.len() >= EXPIRED_REMEMBERED_MAX
            && let Some((at, id)) = self.order.pop_front()
        {
            self.forget_if(&id, at);
        }
        let (id, until): (Arc<str>, _) = (id.into(), now.plus(EXPIRED_REMEMBERED));
        self.until.insert(Arc::clone(&id), until);
        self.order.push_back((until, id));
    }

    pub(super) fn has(&self, now: Moment, id: &str) -> bool {
        self.until.get(id).is_some_and(|until| now < *until)
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.until.remove(id);
    }

    pub(super) fn forget_old(&mut self, now: Moment) {
        while let Some((at, _)) = self.order.front()
            && *at <= now
            && let Some((at, id)) = self.order.pop_front()
        {
            self.forget_if(&id, at);
        }
        if self.order.is_empty() {
            // Release the memory after very many expired at once.
            self.order = VecDeque::new();
            self.until = HashMap::new();
        }
    }

    /// When everything remembered now will be forgotten.
    pub(super) fn all_forgotten(&self) -> Option<Moment> {
        self.order.back().map(|(until, _)| *until)
    }

    pub(super) fn len(&self) -> usize {
        self.until.len()
    }

    fn forget_if(&mut self, id: &str, until: Moment) {
        if self.until.get(id) == Some(&until) {
            self.until.remove(id);
        }
    }
}

//! Makes the requests of a subscription of what was leased.

use std::sync::Arc;
use std::time::Duration;

use domain::TopicId;
use domain::delivery::Lease;
use domain::message::Malformed;

use super::envelope::{Chain, Parcel, Readers, Template};
use super::exchange::Request;
use super::scheduler::Shared;
use super::sender::Sending;
use crate::subscription::Subscription;

/// Makes requests, as the settings of a subscription want them.
pub(super) struct Maker {
    pub(super) shared: Arc<Shared>,
    pub(super) template: Template,
    pub(super) timeout: Duration,
    pub(super) subscription: Arc<Subscription>,
    topic: TopicId,
    readers: Arc<Readers>,
}

/// Why a request cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no token can be signed: {0}")]
    NoToken(#[from] std::io::Error),
}

impl Maker {
    pub(super) fn new(
        shared: &Arc<Shared>,
        subscription: &Arc<Subscription>,
        template: Template,
        timeout: Duration,
    ) -> Self {
        let topic = subscription.topic().id();
        Self {
            shared: Arc::clone(shared),
            template,
            timeout,
            subscription: Arc::clone(subscription),
            topic,
            readers: shared.built.join(topic),
        }
    }

    /// Sends a request with these messages.
    pub(super) fn send(
        &self,
        leases: &[Lease],
        chain: Option<Chain>,
    ) -> Result<Sending, Unsendable> {
        Ok(self.shared.sender.send(self.request(leases, chain)?))
    }

    /// About how many bytes a request with these messages takes.
    pub(super) fn bytes(&self, leases: &[Lease]) -> usize {
        leases.iter().map(|lease| self.template.bytes(&lease.record)).sum()
    }

    fn request(&self, leases: &[Lease], chain: Option<Chain>) -> Result<Request, Unsendable> {
        let (template, shared) = (&self.template, &self.shared);
        let now = shared.runtime.clock.wall();
        let mut messages = Vec::new();
        if template.is_wrapped() && self.readers.are_several() {
            for lease in leases {
                messages.push(shared.built.get_or_build(self.topic, &lease.record)?);
            }
        }
        let token = match template.oidc() {
            Some((email, audience)) => Some(shared.keys.token(email, audience, now)?),
            None => None,
        };
        let parcel = Parcel { leases, messages: &messages, chain };
        Ok(template.request(&parcel, now, token.as_ref(), self.timeout)?)
    }
}

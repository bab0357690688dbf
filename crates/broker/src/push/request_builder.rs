//! Builds the requests of a subscription from its leases.

use std::sync::Arc;
use std::time::Duration;

use domain::TopicId;
use domain::delivery::Lease;
use domain::message::Malformed;

use super::envelope::{Order, Parcel, Readers, Template};
use super::exchange::Request;
use super::scheduler::Shared;
use super::sender::Sending;
use crate::subscription::Subscription;

/// Builds requests according to the settings of a subscription.
pub(super) struct RequestBuilder {
    pub(super) shared: Arc<Shared>,
    pub(super) template: Template,
    pub(super) timeout: Duration,
    pub(super) subscription: Arc<Subscription>,
    topic: TopicId,
    readers: Arc<Readers>,
    /// Why nothing is sent: the token's account is not allowed.
    refused: Option<Arc<str>>,
}

/// Why a request cannot be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsendable {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no token can be signed: {0}")]
    NoToken(#[from] std::io::Error),
    #[error("{0}")]
    Refused(Arc<str>),
}

impl RequestBuilder {
    pub(super) fn new(
        shared: &Arc<Shared>,
        subscription: &Arc<Subscription>,
        template: Template,
        timeout: Duration,
    ) -> Self {
        let topic = subscription.topic().id();
        // It may have been set before the server's settings changed.
        let accounts = &shared.options.oidc_accounts;
        let refused = template.oidc().and_then(|(account, _)| accounts.check(account).err());
        Self {
            refused: refused.map(|why| format!("account {why}").into()),
            shared: Arc::clone(shared),
            template,
            timeout,
            subscription: Arc::clone(subscription),
            topic,
            readers: shared.built.join(topic),
        }
    }

    /// Sends a request with these messages.
    pub(super) fn send(&self, leases: &[Lease], order: &Order) -> Result<Sending, Unsendable> {
        Ok(self.shared.sender.send(self.request(leases, order)?))
    }

    /// Approximate size of a request with these messages.
    pub(super) fn bytes(&self, leases: &[Lease]) -> usize {
        leases.iter().map(|lease| self.template.bytes(&lease.record)).sum()
    }

    fn request(&self, leases: &[Lease], order: &Order) -> Result<Request, Unsendable> {
        if let Some(refused) = &self.refused {
            return Err(Unsendable::Refused(Arc::clone(refused)));
        }
        let (template, shared) = (&self.template, &self.shared);
        let now = shared.runtime.clock.wall();
        let mut messages = Vec::new();
        // What a transform made of a message is of use to nobody else.
        let is_as_stored = leases.iter().all(|lease| lease.stored.is_none());
        if template.is_wrapped() && is_as_stored && self.readers.are_several() {
            for lease in leases {
                messages.push(shared.built.get_or_build(self.topic, &lease.record)?);
            }
        }
        let token = match template.oidc() {
            Some((email, audience)) => Some(shared.keys.token(email, audience, now)?),
            None => None,
        };
        let parcel = Parcel { leases, messages: &messages, order };
        Ok(template.request(&parcel, now, token.as_ref(), self.timeout)?)
    }
}

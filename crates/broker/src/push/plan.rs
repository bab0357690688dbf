//! What a subscription's settings mean for its pusher.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery;
use domain::limits;
use domain::push::BatchSize;

use super::endpoint::Endpoint;
use super::envelope::Template;
use super::rate::Rate;
use super::request_builder::RequestBuilder;
use super::scheduler::Shared;
use crate::consumer::Want;
use crate::subscription::Subscription;

/// A lease outlasts the endpoint's timeout by this much: the pusher ends it, never the deadline.
const LEASE_MARGIN: Duration = Duration::from_secs(600);

/// Records and bytes read from disk at a time for an endpoint that works.
const FETCH_RECORDS: usize = 512;
const FETCH_BYTES: usize = 256 << 10;
/// Bytes per read for any other endpoint.
const FETCH_BYTES_MIN: usize = 64 << 10;

/// Whether messages of a subscription with these settings are pushed.
pub(super) fn is_pushed(settings: &domain::Subscription) -> bool {
    settings.push.is_some() && !settings.detached
}

/// What the settings mean.
pub(super) struct Plan {
    pub(super) settings: Arc<domain::Subscription>,
    pub(super) rules: delivery::Settings,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) builder: Arc<RequestBuilder>,
    pub(super) rate: Option<Rate>,
    pub(super) batch: Option<BatchSize>,
}

impl Plan {
    /// `None` if nothing is pushed.
    pub(super) fn new(shared: &Arc<Shared>, subscription: &Arc<Subscription>) -> Option<Self> {
        let settings = subscription.settings();
        let push = settings.push.as_ref().filter(|_| is_pushed(&settings))?;
        let template = Template::new(&settings, shared.version)?;
        let timeout = settings.push_timeout(shared.options.timeout);
        Some(Self {
            rules: crate::settings::delivery(&settings, &shared.options),
            endpoint: shared.endpoints.get(push.endpoint.text()),
            builder: Arc::new(RequestBuilder::new(shared, subscription, template, timeout)),
            rate: settings.rate_max.map(Rate::new),
            batch: settings.batch.as_ref().map(BatchSize::new),
            settings,
        })
    }

    /// This plan, with the state that carries over from the previous one.
    pub(super) fn after(mut self, before: &mut Self) -> Self {
        if self.settings.rate_max == before.settings.rate_max {
            self.rate = before.rate.take();
        }
        if self.settings.batch == before.settings.batch {
            self.batch = before.batch.take();
        }
        self
    }

    /// What the next request would carry.
    pub(super) fn want(&self) -> Want {
        let batch = self.settings.batch.zip(self.batch.as_ref());
        let (records_max, bytes_max) = match batch {
            Some((batch, size)) => (size.messages(), batch.bytes as usize),
            None => (1, limits::PULL_BYTES_MAX),
        };
        // An endpoint that is not working may hang, and then what was read would be kept for
        // nothing.
        let (fetch_records, fetch_bytes) = match (self.endpoint.is_proven(), batch.is_some()) {
            (true, true) => (FETCH_RECORDS.max(records_max), FETCH_BYTES.max(bytes_max)),
            (true, false) => (FETCH_RECORDS, FETCH_BYTES),
            (false, true) => (records_max, bytes_max),
            (false, false) => (records_max, FETCH_BYTES_MIN),
        };
        Want {
            records_max,
            bytes_max,
            ack_deadline: Some(self.builder.timeout + LEASE_MARGIN),
            fetch_records,
            fetch_bytes,
            is_push: true,
            ..Want::default()
        }
    }
}

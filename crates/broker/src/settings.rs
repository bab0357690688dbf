//! Settings of a subscription in the form its `Delivery` takes.

use std::sync::Arc;

use domain::delivery::Settings;
use domain::limits::DELIVERY_ATTEMPTS_DEFAULT;
use domain::{Backoff, RetryPolicy};

use crate::options::{PushOptions, RetryDefault};

pub(crate) fn delivery(subscription: &domain::Subscription, push: &PushOptions) -> Settings {
    let mut settings = Settings {
        ordering: subscription.ordering(),
        ack_deadline: subscription.ack_deadline,
        exactly_once: subscription.exactly_once,
        lane_by: subscription.lane_by.as_deref().map(Into::into),
        filter: subscription.filter.clone().map(Arc::new),
        retry: subscription.waits(),
        attempts_max: subscription.attempts_allowed(),
        poison: subscription.poison,
        is_paused: subscription.paused,
        is_push: subscription.push.is_some() || subscription.cloud_storage.is_some(),
    };
    let has_policy = subscription.retry_policy.is_some() || subscription.backoff.is_some();
    let is_push = subscription.push.is_some();
    if is_push && !has_policy && push.retry_default == RetryDefault::Source {
        settings.retry = Some(Backoff::Exponential(RetryPolicy::default()));
        settings.attempts_max = settings.attempts_max.or(Some(DELIVERY_ATTEMPTS_DEFAULT));
    }
    settings
}

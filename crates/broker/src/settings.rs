//! Settings of a subscription in the form its `Delivery` takes.

use std::sync::Arc;

use domain::delivery::Settings;

pub(crate) fn delivery(subscription: &domain::Subscription) -> Settings {
    Settings {
        ordering: subscription.ordering(),
        ack_deadline: subscription.ack_deadline,
        exactly_once: subscription.exactly_once,
        lane_by: subscription.lane_by.as_deref().map(Into::into),
        filter: subscription.filter.clone().map(Arc::new),
        retry: subscription.waits(),
        attempts_max: subscription.attempts_allowed(),
        poison: subscription.poison,
        is_paused: subscription.paused,
        is_push: subscription.push.is_some(),
    }
}

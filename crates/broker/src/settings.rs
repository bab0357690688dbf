//! Settings of a subscription in the form its `Delivery` takes.

use domain::delivery::{Ordering, Settings};

pub(crate) fn delivery(subscription: &domain::Subscription) -> Settings {
    Settings {
        ordering: Ordering::None,
        ack_deadline: subscription.ack_deadline,
        exactly_once: false,
    }
}

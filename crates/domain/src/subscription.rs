//! The settings of a subscription, their rules, and how they may be changed.

mod change;
mod checks;
pub mod cloud_storage;
mod deadline;
mod elsewhere;
#[cfg(test)]
mod labels_tests;
mod policies;
mod push_change;
mod push_settings;
mod push_shapes;
mod pushing;
mod settings;
mod shapes;
mod start;
#[cfg(test)]
mod tests;
mod warnings;

use std::time::Duration;

pub use change::Joined;
pub use cloud_storage::CloudStorageChange;
pub use deadline::{ack_deadline, lease_deadline, stream_ack_deadline};
pub use policies::{DeadLetterChange, RetryChange};
pub use push_change::{PushChange, PushRetry, SigningAsk};
pub use settings::{Change, Entry, SETTINGS, Subscription};
pub use start::Start;
pub use warnings::warnings;

use checks::attempts_in_range;

use crate::backoff::Backoff;
use crate::delivery::Ordering;
use crate::error::Invalid;
use crate::limits::{PACE_MAX, PACE_MIN};
use crate::policy::RetryPolicy;
use crate::setting::Resource;

impl Subscription {
    /// Checks every setting, that they fit together, and that reserved labels say the same.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_with(SETTINGS)
    }

    /// Whether its messages are written to objects in a bucket.
    pub fn is_exported(&self) -> bool {
        self.cloud_storage.is_some() && !self.detached
    }

    /// In which order its messages go out.
    pub fn ordering(&self) -> Ordering {
        if self.fifo {
            Ordering::Fifo
        } else if self.message_ordering || self.lane_by.is_some() {
            Ordering::ByKey
        } else {
            Ordering::None
        }
    }

    /// After how many failed attempts a message is exhausted; `None` = never.
    pub fn attempts_allowed(&self) -> Option<u32> {
        let policy = self.dead_letter_policy.as_ref();
        policy.map(|policy| policy.max_delivery_attempts).or(self.attempts_asked())
    }

    /// The attempts from our own settings, as a number or from the number of waits.
    pub fn attempts_asked(&self) -> Option<u32> {
        self.attempts_max.or(self.backoff.as_ref().and_then(Backoff::attempts))
    }

    /// How long a message waits after a failed attempt; `None` = no wait. Where the server itself
    /// delivers, it backs off without a policy too, like an endpoint's breaker.
    pub fn waits(&self) -> Option<Backoff> {
        const PACE: RetryPolicy = RetryPolicy { min: PACE_MIN, max: PACE_MAX };
        let given = self.backoff.clone().or(self.retry_policy.map(Backoff::Exponential));
        let is_sent = self.push.is_some() || self.cloud_storage.is_some();
        given.or(is_sent.then_some(Backoff::Exponential(PACE)))
    }

    /// How long an endpoint has to answer; `default` if the owner did not say.
    pub fn push_timeout(&self, default: Duration) -> Duration {
        let given = self.push.as_ref().and_then(|push| push.timeout);
        given.or(self.is_ack_deadline_given.then_some(self.ack_deadline)).unwrap_or(default)
    }
}

//! What alerts can be told.

use std::time::Duration;

use domain::push::Endpoint;

/// How alerts are watched for.
#[derive(Clone, Debug)]
pub struct AlertOptions {
    /// How often every subscription is looked at.
    pub interval: Duration,
    /// Where alerts are pushed to; `None` = they are only published.
    pub endpoint: Option<Endpoint>,
}

//! How alerts are watched for.

use std::time::Duration;

use broker::AlertOptions;
use domain::push::Endpoint;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Checked, at_least, at_most, units};

/// How alerts are watched for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// Whether they are.
    pub enabled: bool,
    /// How often.
    #[serde(deserialize_with = "units::duration")]
    pub interval: Duration,
    /// Where they are pushed to; `None` = they are only published.
    #[serde(deserialize_with = "endpoint")]
    pub webhook: Option<Endpoint>,
}

impl Alerts {
    pub(super) fn check(&self) -> Checked {
        const KEY: &str = "alerts.interval";
        at_least(KEY, self.interval, Duration::from_millis(100))?;
        at_most(KEY, self.interval, Duration::from_secs(3_600))
    }

    /// What the broker is told.
    pub(crate) fn options(&self) -> Option<AlertOptions> {
        let (interval, endpoint) = (self.interval, self.webhook.clone());
        self.enabled.then_some(AlertOptions { interval, endpoint })
    }
}

/// An HTTP address; the empty text is none.
fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Endpoint>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    Endpoint::parse("alerts.webhook", &text).map(Some).map_err(|bad| D::Error::custom(bad.problem))
}

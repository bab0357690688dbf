//! An alert as it is shown and told.

use domain::alert::{Alert, RuleName, Severity, State};
use domain::{SubscriptionName, Timestamp};
use serde::{Serialize, Serializer};

/// An alert as it is shown and told; as JSON it has these fields.
#[derive(Clone, Debug, Serialize)]
pub struct AlertView {
    /// By which rule.
    #[serde(serialize_with = "rule")]
    pub rule: RuleName,
    /// How bad it is.
    #[serde(serialize_with = "severity")]
    pub severity: Severity,
    /// Where it stands.
    #[serde(serialize_with = "state")]
    pub state: State,
    /// With which subscription something is wrong; `None` = with the server itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Since when.
    #[serde(serialize_with = "time")]
    pub since: Timestamp,
    /// The value last seen: seconds, a number, or a share from 0 to 1.
    pub value: f64,
    /// What it may be at most.
    pub threshold: f64,
    /// What is wrong, in words.
    pub summary: String,
    /// Where it says what to do.
    pub runbook: String,
}

impl AlertView {
    pub(super) fn new(name: Option<&SubscriptionName>, alert: &Alert) -> Self {
        Self {
            rule: alert.rule,
            severity: alert.severity,
            state: alert.state,
            subscription: name.map(ToString::to_string),
            since: alert.since,
            value: rounded(alert.value),
            threshold: alert.level.bound(),
            summary: alert.summary(),
            runbook: alert.rule.runbook(),
        }
    }
}

/// No more digits behind the point than anyone reads.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn rule<S: Serializer>(rule: &RuleName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.as_str())
}

fn severity<S: Serializer>(severity: &Severity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(severity.as_str())
}

fn state<S: Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

fn time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339_micros())
}

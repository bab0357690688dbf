//! The settings of a topic, their rules, and how they may be changed.

mod elsewhere;
mod ingestion;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use elsewhere::{ingestion_warning, warnings};
pub use schema::{SchemaChange, SchemaSettings};
pub use settings::{Change, Entry, LIVE_LABEL, SETTINGS, Topic};

use crate::error::Invalid;
use crate::setting::Resource;

impl Topic {
    /// Whether its label asks for its messages to be matched against live subscriptions.
    pub fn is_live(&self) -> bool {
        self.labels.get(LIVE_LABEL).is_some_and(|value| value == "true")
    }

    /// Checks every setting, and that reserved labels say the same.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_with(SETTINGS)
    }
}

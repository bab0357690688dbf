//! Alerts: what someone must know about a subscription, and since when it is so.
//!
//! `RULES` is the one table of them. A rule has levels; a level is a measure, a bound and a time.
//! `Watch` looks at the samples of one subscription and says what begins and ends. The same table
//! makes the rule file for Prometheus and the pages that say what to do.

mod history;
pub mod json;
mod measure;
mod rules;
mod settings;
#[cfg(test)]
mod tests;
mod watch;

pub use measure::{Counts, Measure, Sample};
pub use rules::{Level, Part, RULES, Rule, RuleName};
pub use settings::{Adjusted, Settings};
pub use watch::{Alert, State, Transition, Watch};

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Someone should look at it today.
    Warning,
    /// Someone must look at it now.
    Critical,
}

impl Severity {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

//! The stored form of how the rules of alerts differ for a subscription.

use std::time::Duration;

use domain::Invalid;
use domain::alert::{Adjusted, Rule, RuleName, Settings};
use serde::{Deserialize, Serialize};

use super::{Unreadable, millis};

/// One level of one rule; without a time and a bound it is off.
#[derive(Serialize, Deserialize)]
pub(super) struct AlertForm {
    rule: String,
    level: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<u32>,
}

pub(super) fn forms(settings: &Settings) -> Vec<AlertForm> {
    let form = |(rule, part, adjusted): (RuleName, domain::alert::Part, Adjusted)| {
        let (time, above) = match adjusted {
            Adjusted::Off => (None, None),
            Adjusted::To { time, above } => (time, above),
        };
        let (rule, level) = (rule.as_str().to_owned(), part.as_str().to_owned());
        AlertForm { rule, level, time_ms: time.map(millis), above }
    };
    settings.adjusted().map(form).collect()
}

pub(super) fn read(forms: Vec<AlertForm>) -> Result<Settings, Unreadable> {
    let mut settings = Settings::default();
    for AlertForm { rule, level, time_ms, above } in forms {
        let name = RuleName::parse("alerts.rule", &rule)?;
        let rule = Rule::of(name).ok_or_else(|| Invalid::new("alerts.rule", "no such rule"))?;
        let part = rule.parse_part("alerts.level", &level)?;
        let adjusted = match (time_ms, above) {
            (None, None) => Adjusted::Off,
            (time_ms, above) => Adjusted::To { time: time_ms.map(Duration::from_millis), above },
        };
        settings.adjust(name, part, adjusted);
    }
    Ok(settings)
}

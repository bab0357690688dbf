//! `postrider.alerts`: how the rules of alerts differ for a subscription, as JSON.
//!
//! `"off"`, or rule by rule `"off"` or its levels: `{"dead_letters": "off",
//! "oldest_unacked_age": {"warning": "10m", "critical": "1h"},
//! "push_5xx": {"warning": {"percent": 2, "for": "10m"}, "sustained": "off"}}`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Adjusted, Level, Part, RULES, Rule, RuleName, Settings};
use crate::backoff::{parse_wait, show_wait};
use crate::error::Invalid;

const OFF: &str = "off";
/// Millionths in one per cent.
const PERCENT: f64 = 10_000.0;

/// Reads the object; nothing at all means that nothing differs.
pub fn read(field: &str, value: &Value) -> Result<Settings, Invalid> {
    let rules = match value {
        Value::Null => return Ok(Settings::default()),
        Value::String(text) if text == OFF => return Ok(Settings::off()),
        Value::Object(rules) => rules,
        _ => return Err(Invalid::new(field, r#"expected "off" or an object with rules"#)),
    };
    let mut settings = Settings::default();
    for (name, value) in rules {
        let field = shortened(format!("{field}.{name}"));
        let name = rule_name(&field, name)?;
        let Some(rule) = Rule::of(name) else { continue };
        match value {
            Value::Null => {}
            Value::String(text) if text == OFF => settings.turn_off(rule),
            Value::Object(levels) => read_levels(&field, rule, levels, &mut settings)?,
            _ => return Err(Invalid::new(field, r#"expected "off" or an object with levels"#)),
        }
    }
    Ok(settings)
}

/// The name in snake case, as it is shown, or in camel case, as most of REST is.
fn rule_name(field: &str, text: &str) -> Result<RuleName, Invalid> {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let found = RULES.iter().find(|rule| plain(rule.name.as_str()) == plain(text));
    found.map_or_else(|| RuleName::parse(field, text), |rule| Ok(rule.name))
}

fn read_levels(
    place: &str,
    rule: &Rule,
    levels: &Map<String, Value>,
    settings: &mut Settings,
) -> Result<(), Invalid> {
    for (name, value) in levels {
        let field = shortened(format!("{place}.{name}"));
        let part = rule.parse_part(&field, name)?;
        let Some(level) = rule.level(part) else { continue };
        let adjusted = match value {
            Value::Null => continue,
            Value::String(text) if text == OFF => Adjusted::Off,
            Value::String(text) => {
                Adjusted::To { time: Some(parse_wait(&field, text)?), above: None }
            }
            Value::Object(parts) => read_parts(&field, level, parts)?,
            _ => {
                let problem = r#"expected "off", a time such as "10m", or an object"#;
                return Err(Invalid::new(field, problem));
            }
        };
        settings.adjust(rule.name, part, adjusted);
    }
    Ok(())
}

/// `{"percent": 2, "for": "10m"}` or `{"count": 20, "within": "5m"}`.
fn read_parts(place: &str, level: &Level, parts: &Map<String, Value>) -> Result<Adjusted, Invalid> {
    let (mut time, mut above) = (None, None);
    for (name, value) in parts {
        let field = shortened(format!("{place}.{name}"));
        let is_share = level.measure.is_share();
        match name.as_str() {
            "percent" if is_share => above = Some(percent(&field, value)?),
            "count" if !is_share && !level.measure.is_time() => {
                above = Some(count(&field, value)?);
            }
            "for" | "within" if name == time_word(level) => time = Some(wait(&field, value)?),
            _ => return Err(Invalid::new(field, "unknown field")),
        }
    }
    if time.is_none() && above.is_none() {
        return Err(Invalid::new(place, r#"is empty; to turn it off, use "off""#));
    }
    Ok(Adjusted::To { time, above })
}

/// What a level's time is called.
fn time_word(level: &Level) -> &'static str {
    if level.part == Part::Burst { "within" } else { "for" }
}

fn wait(field: &str, value: &Value) -> Result<Duration, Invalid> {
    match value {
        Value::String(text) => parse_wait(field, text),
        _ => Err(Invalid::new(field, r#"expected a time such as "10m""#)),
    }
}

fn count(field: &str, value: &Value) -> Result<u32, Invalid> {
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    count.ok_or_else(|| Invalid::new(field, "expected a whole number"))
}

fn percent(field: &str, value: &Value) -> Result<u32, Invalid> {
    let millionths = value.as_f64().map(|percent| (percent * PERCENT).round());
    match millionths.filter(|millionths| (0.0..100.0 * PERCENT).contains(millionths)) {
        #[expect(clippy::cast_possible_truncation, reason = "below a million")]
        #[expect(clippy::cast_sign_loss, reason = "not below zero")]
        Some(millionths) => Ok(millionths as u32),
        None => Err(Invalid::new(field, "expected a number from 0 to below 100")),
    }
}

/// A name of a megabyte must not come back in the answer.
fn shortened(field: String) -> String {
    const SHOWN: usize = 100;
    field.chars().take(SHOWN).collect()
}

/// The settings as they are read.
pub fn show(settings: &Settings) -> Value {
    if RULES.iter().all(|rule| settings.is_off(rule)) {
        return json!(OFF);
    }
    let mut shown = Map::new();
    for rule in &RULES {
        let levels = show_levels(rule, settings);
        if settings.is_off(rule) {
            shown.insert(rule.name.to_string(), json!(OFF));
        } else if !levels.is_empty() {
            shown.insert(rule.name.to_string(), Value::Object(levels));
        }
    }
    Value::Object(shown)
}

fn show_levels(rule: &Rule, settings: &Settings) -> Map<String, Value> {
    let adjusted = settings.adjusted().filter(|(name, ..)| *name == rule.name);
    let shown = adjusted.filter_map(|(_, part, adjusted)| {
        Some((part.as_str().to_owned(), show_level(rule.level(part)?, adjusted)))
    });
    shown.collect()
}

fn show_level(level: &Level, adjusted: Adjusted) -> Value {
    match adjusted {
        Adjusted::Off => json!(OFF),
        Adjusted::To { time: Some(time), above: None } => json!(show_wait(time)),
        Adjusted::To { time, above } => {
            let mut shown = Map::new();
            if let Some(above) = above {
                let (name, above) = if level.measure.is_share() {
                    ("percent", json!(f64::from(above) / PERCENT))
                } else {
                    ("count", json!(above))
                };
                shown.insert(name.to_owned(), above);
            }
            if let Some(time) = time {
                shown.insert(time_word(level).to_owned(), json!(show_wait(time)));
            }
            Value::Object(shown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_sent_back() {
        for value in [
            json!("off"),
            json!({}),
            json!({"dead_letters": "off"}),
            json!({"oldest_unacked_age": {"warning": "10m", "critical": "1h"}}),
            json!({"push_5xx": {"warning": {"percent": 2.5, "for": "10m"}, "sustained": "off"}}),
            json!({"push_4xx": {"critical": {"percent": 0.0}}}),
            json!({"dead_letters": {"burst": {"count": 20, "within": "5m"}}}),
            json!({"backlog_growing": {"warning": "2s", "critical": {"count": 9, "for": "1m"}}}),
        ] {
            let settings = read("alerts", &value).unwrap();
            assert_eq!(settings.validate(), Ok(()));
            assert_eq!(show(&settings), value);
        }
        assert_eq!(read("alerts", &Value::Null), Ok(Settings::default()));
        let all_levels = json!({"fifo_blocked": {"warning": "off"}});
        let shown = show(&read("alerts", &all_levels).unwrap());
        assert_eq!(shown, json!({"fifo_blocked": "off"}));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (value, field) in [
            (json!(5), "a"),
            (json!("on"), "a"),
            (json!({"colour": "off"}), "a.colour"),
            (json!({"dead_letters": true}), "a.dead_letters"),
            (json!({"dead_letters": "5m"}), "a.dead_letters"),
            (json!({"dead_letters": {"urgent": "5m"}}), "a.dead_letters.urgent"),
            (json!({"dead_letters": {"warning": 5}}), "a.dead_letters.warning"),
            (json!({"dead_letters": {"warning": "soon"}}), "a.dead_letters.warning"),
            (json!({"dead_letters": {"warning": {}}}), "a.dead_letters.warning"),
            (json!({"dead_letters": {"burst": {"for": "5m"}}}), "a.dead_letters.burst.for"),
            (json!({"push_4xx": {"warning": {"count": 1}}}), "a.push_4xx.warning.count"),
            (json!({"push_4xx": {"warning": {"percent": 100}}}), "a.push_4xx.warning.percent"),
            (json!({"push_4xx": {"warning": {"percent": "2"}}}), "a.push_4xx.warning.percent"),
            (json!({"fifo_blocked": {"warning": {"count": 1}}}), "a.fifo_blocked.warning.count"),
        ] {
            assert_eq!(read("a", &value).unwrap_err().field, field);
        }
    }
}

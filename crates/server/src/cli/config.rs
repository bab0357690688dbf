//! `postrider config show`.

use serde_json::{Map, Value, json};

use super::{Failure, Settings, print, print_json, warn};
use crate::config::{self, DEFAULTS, Merged};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider config show --default > postrider.toml   a file to start from, with all comments
  postrider config show --config postrider.toml      what is in force with this file
  postrider config show --json                       the same for programs";

pub(super) fn show(default: bool, is_json: bool, settings: Settings) -> Result<(), Failure> {
    if default {
        return print(DEFAULTS);
    }
    let loaded = config::load(settings.into_sources()).map_err(Failure::usage)?;
    if is_json {
        loaded.merged.warnings.iter().for_each(|warning| warn(warning));
        return print_json(&as_json(&loaded.merged));
    }
    let mut text = String::new();
    for warning in &loaded.merged.warnings {
        text.push_str(&format!("# warning: {warning}\n"));
    }
    text.push_str(&loaded.merged.show());
    print(&text)
}

/// Each key with its value and where that comes from.
fn as_json(merged: &Merged) -> Value {
    let shown = |(key, value): (String, toml::Value)| {
        let source = merged.origins.get(&key).map_or("default", String::as_str);
        let value = json!({"value": value, "source": source});
        (key, value)
    };
    Value::Object(merged.settings().into_iter().map(shown).collect::<Map<String, Value>>())
}

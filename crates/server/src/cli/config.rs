//! `postrider config show`.

use super::{Failure, Settings, print};
use crate::config::{self, DEFAULTS};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider config show --default > postrider.toml   a file to start from, with all comments
  postrider config show --config postrider.toml      what is in force with this file";

pub(super) fn show(default: bool, settings: Settings) -> Result<(), Failure> {
    if default {
        return print(DEFAULTS);
    }
    let loaded = config::load(settings.into_sources()).map_err(Failure::usage)?;
    let mut text = String::new();
    for warning in &loaded.merged.warnings {
        text.push_str(&format!("# warning: {warning}\n"));
    }
    text.push_str(&loaded.merged.show());
    print(&text)
}

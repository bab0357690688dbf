//! Any text as a file of settings.

use std::path::Path;

use super::Merged;

/// What is wrong with it, or nothing.
pub fn config(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let mut merged = match Merged::built_in() {
        Ok(merged) => merged,
        Err(error) => panic!("{error}"),
    };
    if let Err(error) = merged.take_text(Path::new("fuzzed.toml"), &text) {
        return error.to_string();
    }
    match merged.typed() {
        Err(error) => error.to_string(),
        Ok(config) => match config.check() {
            Err((key, problem)) => format!("{key}: {problem}"),
            Ok(()) => "read".to_owned(),
        },
    }
}

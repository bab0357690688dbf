//! Where settings come from, and which source wins.
//!
//! The built-in file is complete, so it also is the list of known keys: whatever another source
//! names must be in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::{subscription, topic};
use toml::{Table, Value};

use super::Error;
use super::resources::{SCHEMA_KEYS, keys};

/// The built-in settings, which are the manual too.
pub const DEFAULTS: &str = include_str!("../../config.default.toml");

/// The file looked for in the working folder when none is named.
const USUAL_FILE: &str = "postrider.toml";

/// What every variable for us begins with.
const PREFIX: &str = "POSTRIDER_";

/// The variable that names the file, instead of `--config`.
pub const FILE_VARIABLE: &str = "POSTRIDER_CONFIG";

/// Variables that are for commands that ask a server, and no settings of one.
const COMMAND_VARIABLES: [&str; 2] = ["POSTRIDER_SERVER", "POSTRIDER_PROJECT"];

/// Lists whose entries are not in the built-in file.
const LISTS: [&str; 3] = ["schemas", "topics", "subscriptions"];

/// The keys that an entry of a list may have.
fn entry_keys(list: &str) -> Vec<&'static str> {
    match list {
        "schemas" => SCHEMA_KEYS.to_vec(),
        "topics" => keys(topic::SETTINGS),
        _ => keys(subscription::SETTINGS),
    }
}

/// Everything besides the built-in settings that may hold some.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file named by the user; `None` = `postrider.toml` in the working folder, if there.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// Keys set by flags: key, value, the flag's name.
    pub flags: Vec<(&'static str, Value, &'static str)>,
}

/// All settings, each with the source it comes from.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The settings.
    pub table: Table,
    /// The file that was read, if there was one.
    pub file: Option<PathBuf>,
    /// Key → source, for keys that are not at their default.
    pub origins: BTreeMap<String, String>,
    /// What is odd but no error.
    pub warnings: Vec<String>,
}

fn usual_file() -> Option<PathBuf> {
    let path = Path::new(USUAL_FILE);
    path.is_file().then(|| path.to_owned())
}

impl Merged {
    /// The built-in settings alone.
    pub(super) fn built_in() -> Result<Self, Error> {
        let table: Table =
            DEFAULTS.parse().map_err(|error: toml::de::Error| Error::BuiltIn(error.to_string()))?;
        Ok(Self { table, file: None, origins: BTreeMap::new(), warnings: Vec::new() })
    }

    /// Lays the file over what is there: the one named, or the usual one if it exists.
    pub(super) fn take_named_file(&mut self, file: Option<PathBuf>) -> Result<(), Error> {
        file.or_else(usual_file).map_or(Ok(()), |path| self.take_file(&path))
    }

    /// Lays the environment over what is there.
    pub(super) fn take_environment(&mut self, variables: &[(String, String)]) -> Result<(), Error> {
        variables.iter().try_for_each(|(name, value)| self.take_variable(name, value))
    }

    /// Lays the flags over what is there.
    pub(super) fn take_flags(&mut self, flags: Vec<(&'static str, Value, &'static str)>) {
        for (key, value, flag) in flags {
            self.set(key, value, flag);
        }
    }

    fn take_file(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { file: path.to_owned(), source })?;
        self.take_text(path, &text)
    }

    /// Lays the text of the file `path` over what is there.
    pub(super) fn take_text(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| Error::Syntax {
            file: path.to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        })?;
        self.file = Some(path.to_owned());
        let source = path.display().to_string();
        for (key, value) in leaves(&table) {
            if matches!(value, Value::Table(_)) && self.is_section(&key) {
                continue;
            }
            self.check_known(&key, &value, path)?;
            self.set(&key, value, &source);
        }
        Ok(())
    }

    fn is_section(&self, key: &str) -> bool {
        matches!(find(&self.table, key), Some(Value::Table(_)))
    }

    fn check_known(&self, key: &str, value: &Value, file: &Path) -> Result<(), Error> {
        if LISTS.contains(&key) {
            return check_entries(key, &entry_keys(key), value, file);
        }
        let known = known_keys(&self.table);
        if known.iter().any(|other| other == key) {
            return Ok(());
        }
        Err(unknown_key(file, key, known.iter().map(String::as_str)))
    }

    fn take_variable(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let is_ours = name.starts_with(PREFIX) && name != FILE_VARIABLE;
        if !is_ours || COMMAND_VARIABLES.contains(&name) {
            return Ok(());
        }
        let known = known_keys(&self.table);
        let Some(key) = known.iter().find(|key| variable(key) == name) else {
            let names: Vec<String> = known.iter().map(|key| variable(key)).collect();
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            self.warnings.push(format!("environment variable {name} is not a setting{hint}"));
            return Ok(());
        };
        let value = typed_like(find(&self.table, key), text).map_err(|problem| Error::Value {
            key: key.clone(),
            origin: name.to_owned(),
            problem,
        })?;
        self.set(key, value, name);
        Ok(())
    }

    fn set(&mut self, key: &str, value: Value, origin: &str) {
        let mut table = &mut self.table;
        let mut rest = key;
        while let Some((section, below)) = rest.split_once('.') {
            let entry = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = entry else { return };
            (table, rest) = (inner, below);
        }
        table.insert(rest.to_owned(), value);
        self.origins.insert(key.to_owned(), origin.to_owned());
    }

    /// The settings in force: key with dots, value.
    pub fn settings(&self) -> Vec<(String, Value)> {
        leaves(&self.table)
    }

    /// The settings in force, one line each, with the source of those not at their default.
    pub fn show(&self) -> String {
        let mut lines = String::new();
        for (key, value) in leaves(&self.table) {
            let origin = match self.origins.get(&key) {
                Some(origin) => format!("  # {origin}"),
                None => String::new(),
            };
            lines.push_str(&format!("{key} = {value}{origin}\n"));
        }
        lines
    }
}

fn check_entries(list: &str, keys: &[&str], value: &Value, file: &Path) -> Result<(), Error> {
    for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
        for key in entry.as_table().into_iter().flat_map(Table::keys) {
            if !keys.contains(&key.as_str()) {
                let place = format!("{list}[{index}].{key}");
                let hint = did_you_mean(key, keys.iter().copied());
                return Err(Error::UnknownKey { file: file.to_owned(), key: place, hint });
            }
        }
    }
    Ok(())
}

fn unknown_key<'known>(file: &Path, key: &str, known: impl Iterator<Item = &'known str>) -> Error {
    let hint = did_you_mean(key, known);
    Error::UnknownKey { file: file.to_owned(), key: key.to_owned(), hint }
}

/// The keys of the built-in file, with dots.
fn known_keys(table: &Table) -> Vec<String> {
    let keys = leaves(table).into_iter().map(|(key, _)| key);
    keys.filter(|key| !LISTS.contains(&key.as_str())).collect()
}

/// Every key that holds something other than a section, and empty sections, with dots.
fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) if !inner.is_empty() => found.extend(
                leaves(inner).into_iter().map(|(below, value)| (format!("{key}.{below}"), value)),
            ),
            other => found.push((key.clone(), other.clone())),
        }
    }
    found
}

fn find<'table>(table: &'table Table, key: &str) -> Option<&'table Value> {
    match key.split_once('.') {
        Some((section, below)) => find(table.get(section)?.as_table()?, below),
        None => table.get(key),
    }
}

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// A variable's text as a value of the same kind as the default has.
fn typed_like(default: Option<&Value>, text: &str) -> Result<Value, String> {
    match default {
        Some(Value::Integer(_)) => text
            .trim()
            .parse()
            .map(Value::Integer)
            .map_err(|_| format!("{text:?} is not a whole number")),
        Some(Value::Boolean(_)) => match text.trim() {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => Err(format!("{text:?} is not true or false")),
        },
        Some(Value::Array(_)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Ok(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// ` (did you mean x?)`, or nothing if no known name is near.
fn did_you_mean<'known>(name: &str, known: impl Iterator<Item = &'known str>) -> String {
    let nearest = known.map(|other| (distance(name, other), other)).min();
    match nearest {
        Some((distance, other)) if distance <= (other.len() / 3).max(2) => {
            format!(" (did you mean {other}?)")
        }
        _ => String::new(),
    }
}

/// How many letters must be put in, left out or changed to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (right, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let changed = diagonal + usize::from(left != *right);
            diagonal = *cell;
            before = changed.min(before + 1).min(diagonal + 1);
            *cell = before;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_changes() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("durabilty", "durability"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn a_list_in_a_variable_has_commas() {
        let list = Value::Array(Vec::new());
        let read = |text| typed_like(Some(&list), text).unwrap().to_string();
        assert_eq!(read("10.0.0.0/8, ::1"), r#"["10.0.0.0/8", "::1"]"#);
        assert_eq!(read(""), "[]");
    }

    #[test]
    fn far_names_get_no_hint() {
        assert_eq!(did_you_mean("lisen", ["listen"].into_iter()), " (did you mean listen?)");
        assert_eq!(did_you_mean("colour", ["listen"].into_iter()), "");
    }
}

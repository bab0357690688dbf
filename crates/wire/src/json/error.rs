//! What is wrong with a piece of JSON, and where.

use std::fmt::{Display, Formatter, Result as FmtResult};

use serde::de::{self, Expected, Unexpected};

/// At most so many characters of what the sender wrote are repeated to him.
const QUOTE_CHARS_MAX: usize = 64;

/// What is wrong with a piece of JSON. Shown as one line: `messages[2].data: invalid base64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The field, such as `messages[2].data`; empty for the whole.
    pub path: String,
    /// What is wrong with it: one line, lower case, no final stop.
    pub message: String,
}

impl JsonError {
    /// Something wrong with the whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    /// Something wrong with the named field.
    pub fn at(field: &str, message: impl Into<String>) -> Self {
        Self::new(message).in_member(field)
    }

    /// The same error, seen from the object that holds the thing under `name`.
    pub(super) fn in_member(self, name: &str) -> Self {
        let mut path = String::new();
        push_member(&mut path, name);
        self.below(path)
    }

    /// The same error, seen from the array that holds the thing.
    pub(super) fn in_item(self, index: usize) -> Self {
        self.below(format!("[{index}]"))
    }

    fn below(mut self, mut path: String) -> Self {
        if !self.path.is_empty() && !self.path.starts_with('[') {
            path.push('.');
        }
        path.push_str(&self.path);
        self.path = path;
        self
    }

    pub(super) fn wrong_type(expected: &str, found: Unexpected<'_>) -> Self {
        Self::new(format!("expected {expected}, found {}", describe(found)))
    }
}

/// Adds a member's name to a path; names that are no plain words are quoted, so that the path
/// stays one readable line whatever was sent.
fn push_member(path: &mut String, name: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let dotted = name.split('.').all(|part| !part.is_empty() && part.chars().all(plain));
    if dotted && name.len() <= QUOTE_CHARS_MAX {
        path.push_str(name);
    } else {
        path.push_str(&format!("[{}]", quote(name)));
    }
}

/// Text of the sender's in quotes, escaped and cut short.
pub(super) fn quote(text: &str) -> String {
    let cut: String = text.chars().take(QUOTE_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(flag) => flag.to_string(),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Signed(number) => format!("the number {number}"),
        // The debug form writes huge numbers with an exponent and not with 300 digits.
        Unexpected::Float(number) => format!("the number {number:?}"),
        Unexpected::Str(text) => quote(text),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

impl Display for JsonError {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for JsonError {}

impl de::Error for JsonError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        // What the generated code for enums expects begins with the word itself.
        Self::wrong_type(expected.trim_start_matches("expected "), found)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let expected = expected.join(", ");
        Self::new(format!("unknown value {}, expected one of {expected}", quote(variant)))
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self::new("unknown field")
    }

    fn duplicate_field(field: &'static str) -> Self {
        // The tree has each name once, so this is either both spellings of one field or two
        // fields of which a message holds only one.
        Self::at(field, "given twice, or together with a field that excludes it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_from_the_inside() {
        let error = JsonError::new("wrong").in_member("data").in_item(2).in_member("messages");
        assert_eq!(error.to_string(), "messages[2].data: wrong");
        let error = JsonError::new("wrong").in_member("a b\n").in_member("labels");
        assert_eq!(error.to_string(), r#"labels["a b\n"]: wrong"#);
    }

    #[test]
    fn what_was_sent_is_cut_short() {
        let long = "x".repeat(10_000);
        let error = <JsonError as de::Error>::invalid_type(Unexpected::Str(&long), &"a number");
        assert!(error.message.len() < 200, "{}", error.message);
        assert!(JsonError::at(&long, "wrong").path.len() < 200);
    }
}

//! What is wrong with a definition or a message, and where.

use std::fmt;

use crate::limits::PROBLEM_CHARS_MAX;

/// What is wrong with a definition or a message, in words for the person who wrote it. Shown as
/// `INVALID_ARGUMENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, lower case, no final stop.
    pub what: String,
    /// Where.
    pub place: Location,
}

/// Where in a definition or a message. Whatever is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Line and column of a text, both from 1.
    pub line: Option<(usize, usize)>,
    /// Byte of a binary message, from 0.
    pub byte: Option<usize>,
    /// Names and indices on the way there: `order.items[3].price`.
    pub path: String,
}

impl Problem {
    /// A problem of the whole.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: shortened(what.into()), place: Location::default() }
    }

    /// A problem at a line and column, both from 1.
    pub(crate) fn at_line(what: impl Into<String>, line: usize, column: usize) -> Self {
        let mut problem = Self::new(what);
        problem.place.line = Some((line, column));
        problem
    }

    /// A problem at a byte of a text.
    pub(crate) fn in_text(what: impl Into<String>, text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self::at_line(what, line, column)
    }

    /// A problem at a byte of a message.
    pub(crate) fn at_byte(what: impl Into<String>, byte: usize) -> Self {
        let mut problem = Self::new(what);
        problem.place.byte = Some(byte);
        problem
    }

    /// The same problem, in the part of that name or index of something larger.
    #[must_use]
    pub(crate) fn inside(mut self, part: &str) -> Self {
        let path = &self.place.path;
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        if path.len() + part.len() < PROBLEM_CHARS_MAX {
            self.place.path = format!("{part}{dot}{path}");
        } else if !path.starts_with('…') {
            self.place.path = format!("…{dot}{path}");
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        if let Some((line, column)) = place.line {
            write!(f, "line {line}, column {column}: ")?;
        }
        if let Some(byte) = place.byte {
            write!(f, "byte {byte}: ")?;
        }
        if !place.path.is_empty() {
            write!(f, "{}: ", place.path)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// A text in quotes, shortened, as part of a problem.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}…", text.get(..cut).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

fn shortened(mut text: String) -> String {
    if let Some((cut, _)) = text.char_indices().nth(PROBLEM_CHARS_MAX) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_it_is() {
        let problem = Problem::at_byte("too short", 7).inside("price").inside("[3]");
        assert_eq!(problem.inside("items").to_string(), "byte 7: items[3].price: too short");
        let problem = Problem::in_text("bad", "a\nbä!", 5);
        assert_eq!(problem.to_string(), "line 2, column 3: bad");
    }

    #[test]
    fn texts_and_paths_of_any_length_are_cut() {
        let mut problem = Problem::new("ä".repeat(10_000));
        for _ in 0..1_000 {
            problem = problem.inside(&"part".repeat(10));
        }
        assert!(problem.to_string().chars().count() < 700, "{problem}");
        assert!(quoted(&"x".repeat(1_000)).len() < 80);
    }
}

//! The words of a command, and of its reply.

use std::str::FromStr;
use std::time::Duration;

use domain::{Offset, OffsetRange};

/// The arguments of a command.
pub(crate) struct Words<'text>(pub(crate) &'text str);

impl<'text> Words<'text> {
    pub(crate) fn word(&self, place: usize) -> &'text str {
        self.0.split_whitespace().nth(place).unwrap_or_else(|| panic!("too short: {}", self.0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn number(&self, place: usize) -> u64 {
        read(self.word(place))
    }

    pub(crate) fn offset(&self, place: usize) -> Offset {
        Offset(self.number(place))
    }

    pub(crate) fn seconds(&self, place: usize) -> Duration {
        seconds(self.word(place))
    }

    /// `A..B`, or one offset.
    pub(crate) fn range(&self, place: usize) -> OffsetRange {
        match self.word(place).split_once("..") {
            Some((from, to)) => OffsetRange { from: Offset(read(from)), to: Offset(read(to)) },
            None => OffsetRange::one(self.offset(place)),
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&'text str> {
        self.0.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn named_or<T: FromStr>(&self, name: &str, otherwise: T) -> T {
        self.named(name).map_or(otherwise, read)
    }
}

pub(crate) fn read<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("cannot read {text:?}"))
}

pub(crate) fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(read(text))
}

pub(crate) fn written(range: OffsetRange) -> String {
    if range.len() == 1 { range.from.to_string() } else { format!("{}..{}", range.from, range.to) }
}

/// `AlreadySettled` as `already settled`.
pub(crate) fn readable(outcome: &impl std::fmt::Debug) -> String {
    let mut words = String::new();
    for letter in format!("{outcome:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

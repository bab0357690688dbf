//! What is said of schemas where they are only named.

use std::fmt;

use crate::error::Invalid;

/// The id of a revision: eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionId(pub u32);

impl RevisionId {
    /// Reads an id; `field` is the request's field that holds it.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == 8 && text.bytes().all(is_digit);
        let id = is_id.then(|| u32::from_str_radix(text, 16).ok()).flatten();
        let problem = "a revision id is eight hexadecimal digits";
        id.map(Self).ok_or_else(|| Invalid::new(field, problem))
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As JSON: Avro's JSON encoding, or Protobuf's.
    Json,
    /// In the language's own binary form.
    Binary,
}

impl Encoding {
    /// Google's words for them.
    pub const WORDS: [&str; 2] = ["JSON", "BINARY"];

    /// Google's word for it, which delivered messages carry in `googclient_schemaencoding`.
    pub fn as_str(self) -> &'static str {
        let [json, binary] = Self::WORDS;
        match self {
            Self::Json => json,
            Self::Binary => binary,
        }
    }

    /// Reads one of the words; `field` is what holds it.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let known = [Self::Json, Self::Binary].into_iter().find(|one| one.as_str() == text);
        known.ok_or_else(|| Invalid::new(field, "must be JSON or BINARY"))
    }
}

//! JSON as filters see it: one pass, no tree, no recursion.
//!
//! A body is looked at once per message and mostly for a field or two, so nothing is built of it.
//! `Members` goes through an object and steps over what is inside its values; who wants to see
//! more goes through the part again. Stepping over a value checks it completely: what ends well
//! was JSON (RFC 8259). Of a key that an object has twice the last one counts, and who goes
//! through the members has to see to that.
//!
//! Depth costs one bit a level and is bounded, so that a body of a million brackets is refused
//! and not gone into.

mod number;
mod scan;
#[cfg(test)]
mod tests;
mod text;

pub use number::Number;
pub use scan::{Elements, Members};
pub use text::Text;

/// Lists and objects inside each other, at most.
pub const NESTING_MAX: u32 = 128;

/// The text is not JSON, or is nested too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON, or more than {NESTING_MAX} levels deep")]
pub struct NotJson;

/// A value, still as text. Lists and objects keep their text from bracket to bracket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'text> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, by its value.
    Number(Number),
    /// A string.
    Text(Text<'text>),
    /// A list.
    List(&'text str),
    /// An object.
    Object(&'text str),
}

/// Reads a whole text as one value, and checks all of it.
pub fn read(text: &str) -> Result<Value<'_>, NotJson> {
    scan::whole(text)
}

/// The members of the object that `bytes` are; `None` = they are another value. Bytes that are
/// not JSON may show only once the last member was asked for.
pub fn open(bytes: &[u8]) -> Result<Option<Members<'_>>, NotJson> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotJson)?;
    match scan::object(text) {
        Some(members) => Ok(Some(members)),
        None => read(text).map(|_| None),
    }
}

impl<'text> Value<'text> {
    /// What is at `path` inside this value; `None` = nothing is.
    pub fn find(self, path: &[impl AsRef<str>]) -> Option<Value<'text>> {
        path.iter().try_fold(self, |value, segment| value.member(segment.as_ref()))
    }

    /// The member of this name, if this is an object that has one.
    fn member(self, name: &str) -> Option<Value<'text>> {
        let Self::Object(text) = self else { return None };
        let mut found = None;
        for member in scan::object(text)? {
            // This text was checked when it was stepped over.
            let (key, value) = member.ok()?;
            if key.is(name) {
                found = Some(value);
            }
        }
        found
    }

    /// The elements of a list; of any other value none.
    pub fn elements(self) -> Elements<'text> {
        match self {
            Self::List(text) => scan::list(text),
            _ => Elements::none(),
        }
    }
}

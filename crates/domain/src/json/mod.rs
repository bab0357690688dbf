//! JSON as filters see it: one pass, no tree, no recursion.
//!
//! A body is read once per message, mostly for a field or two, so no tree is built. `Members` walks
//! an object and skips the insides of its values; a caller that wants more walks that part again.
//! Skipping a value validates it completely: if it ends without an error it was JSON (RFC 8259). If
//! an object has a key twice the last one counts, and whoever walks the members must ensure that.
//!
//! Depth costs one bit per level and is bounded, so a body of a million brackets is refused without
//! descending into it.

mod number;
mod scan;
#[cfg(test)]
mod tests;
mod text;

pub use number::Number;
pub use scan::{Elements, Members};
pub use text::Text;

/// Maximum nesting of lists and objects.
pub const NESTING_MAX: u32 = 128;

/// The text is not JSON, or is nested too deeply.
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

/// Reads a whole text as one value, and validates all of it.
pub fn read(text: &str) -> Result<Value<'_>, NotJson> {
    scan::whole(text)
}

/// The members of the object in `bytes`; `None` = they hold another kind of value. Invalid JSON may
/// only show once the last member has been read.
pub fn open(bytes: &[u8]) -> Result<Option<Members<'_>>, NotJson> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotJson)?;
    match scan::object(text) {
        Some(members) => Ok(Some(members)),
        None => read(text).map(|_| None),
    }
}

impl<'text> Value<'text> {
    /// The value at `path` inside this one; `None` = there is none.
    pub fn find(self, path: &[impl AsRef<str>]) -> Option<Value<'text>> {
        path.iter().try_fold(self, |value, segment| value.member(segment.as_ref()))
    }

    /// The member with this name, if this is an object that has one.
    fn member(self, name: &str) -> Option<Value<'text>> {
        let Self::Object(text) = self else { return None };
        let mut found = None;
        for member in scan::object(text)? {
            // This text was validated when it was skipped.
            let (key, value) = member.ok()?;
            if key.is(name) {
                found = Some(value);
            }
        }
        found
    }

    /// The elements of a list; empty for any other value.
    pub fn elements(self) -> Elements<'text> {
        match self {
            Self::List(text) => scan::list(text),
            _ => Elements::none(),
        }
    }
}

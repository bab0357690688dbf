//! What is wrong with a function, or went wrong with a message.

use std::fmt;
use std::sync::Arc;

use crate::text::cleaned;

/// A field of a transform, as the API spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `javascript_udf.function_name`.
    FunctionName,
    /// `javascript_udf.code`.
    Code,
    /// `message_transforms`: the list itself.
    Transforms,
}

impl Field {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::FunctionName => "function_name",
            Self::Code => "code",
            Self::Transforms => "message_transforms",
        }
    }
}

/// Why a function or a list of them was refused. Shown as `INVALID_ARGUMENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The field at fault.
    pub field: Field,
    /// What is wrong, lower case, no final stop; at most `TEXT_BYTES_MAX` bytes on one line.
    pub what: String,
    /// Line and column of the code, both from 1, where they are known.
    pub line: Option<(u32, u32)>,
}

impl Invalid {
    pub(crate) fn new(field: Field, what: &str) -> Self {
        Self { field, what: cleaned(what), line: None }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.field.name())?;
        if let Some((line, column)) = self.line {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Invalid {}

/// Why a message did not get through its transforms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which transform of the list it was, from 0, disabled ones counted.
    pub index: usize,
    /// Its function.
    pub function: Arc<str>,
    /// What kind of failure.
    pub cause: Cause,
    /// What went wrong, lower case where it is our text; at most `TEXT_BYTES_MAX` bytes on one
    /// line.
    pub what: String,
    /// The line of the code, from 1, where it is known.
    pub line: Option<u32>,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The data is not UTF-8, so no function can see it.
    NotUtf8,
    /// The script threw, or did not load.
    Threw,
    /// The script returned something that is not a message.
    BadResult,
    /// The script took too long.
    TooSlow,
    /// The script took too much memory.
    OutOfMemory,
    /// The script took the helper with it, or there was no helper to be had.
    Crashed,
    /// The message did not get through before the workers were closed.
    Closed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name can be as long as the code that it is in.
        let shown: String = self.function.chars().take(60).collect();
        write!(f, "message_transforms[{}] ({shown}): {}", self.index, self.what)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

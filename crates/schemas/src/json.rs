//! JSON messages, walked while they are parsed: nothing is built.

use std::cell::RefCell;
use std::fmt;

use serde::de::DeserializeSeed;

use crate::problem::Problem;

/// Where in a message a check is. Only a check that fails writes here, on its way back, so that
/// knowing the place costs a good message nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    parts: RefCell<Vec<String>>,
}

impl Trace {
    /// Notes the part that a failed check was in; hands the error on.
    pub(crate) fn inside<E>(&self, part: impl fmt::Display) -> impl FnOnce(E) -> E {
        move |error| {
            self.parts.borrow_mut().push(part.to_string());
            error
        }
    }
}

/// Parses a message along a seed. The parser bounds nesting to 128 brackets.
pub(crate) fn check<'m, S>(message: &'m [u8], trace: &Trace, seed: S) -> Result<(), Problem>
where
    S: DeserializeSeed<'m, Value = ()>,
{
    let mut parser = serde_json::Deserializer::from_slice(message);
    let done = seed.deserialize(&mut parser).and_then(|()| parser.end());
    done.map_err(|error| {
        let parts = trace.parts.borrow();
        parts.iter().fold(problem(&error), |problem, part| problem.inside(part))
    })
}

/// A parser's error as a problem: its text ends with the place, which has a field of its own.
pub(crate) fn problem(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let what = text.strip_suffix(&place).unwrap_or(&text);
    Problem::at_line(what, line, column)
}

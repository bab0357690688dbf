//! What a script threw, in words.

use std::sync::Arc;

use rquickjs::{Ctx, Value};

use super::read::kind;
use crate::chain::Udf;
use crate::clock::Deadline;
use crate::error::{Cause, Failure};
use crate::text::cleaned;

/// The file that scripts are told they are in.
pub(super) const NAME_OF_FILE: &str = "code";

/// What went wrong in a function.
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    pub(crate) what: String,
    /// Line and column, both from 1.
    pub(crate) line: Option<(u32, u32)>,
}

impl Fault {
    pub(super) fn out_of_memory() -> Self {
        Self { cause: Cause::OutOfMemory, what: "took too much memory".to_owned(), line: None }
    }

    pub(super) fn bad_result(what: &str) -> Self {
        Self { cause: Cause::BadResult, what: what.to_owned(), line: None }
    }

    /// What stands behind an error of the interpreter.
    pub(super) fn caught(ctx: &Ctx<'_>, error: &rquickjs::Error, deadline: &Deadline) -> Self {
        let thrown = ctx.catch();
        if deadline.is_over() {
            return Self::too_slow();
        }
        if matches!(error, rquickjs::Error::Allocation) {
            return Self::out_of_memory();
        }
        let fault = Self::thrown(&thrown);
        // To read what was thrown may have run code, which may have thrown or taken too long.
        drop(ctx.catch());
        if deadline.is_over() {
            return Self::too_slow();
        }
        // Errors of the interpreter can be told apart by their text only, and where there is no
        // memory for a text it throws null. A script that throws the same costs itself its sandbox.
        if thrown.is_null() {
            let what = "threw null, or took too much memory".to_owned();
            return Self { what, ..Self::out_of_memory() };
        }
        match fault.what.as_str() {
            "InternalError: out of memory" => Self::out_of_memory(),
            _ => fault,
        }
    }

    fn too_slow() -> Self {
        Self { cause: Cause::TooSlow, what: "took too long".to_owned(), line: None }
    }

    fn thrown(thrown: &Value<'_>) -> Self {
        let (what, line) = match thrown.as_object() {
            Some(error) => {
                let part = |key: &str| error.get(key).ok().as_ref().and_then(text);
                let (name, message) = (part("name"), part("message"));
                let what = match (name, message) {
                    (Some(name), Some(message)) if message.is_empty() => name,
                    (Some(name), Some(message)) => format!("{name}: {message}"),
                    (None, Some(message)) => message,
                    _ => "threw an object".to_owned(),
                };
                (what, part("stack").as_deref().and_then(line))
            }
            None => match text(thrown) {
                Some(text) => (format!("threw {text}"), None),
                None => (format!("threw {}", kind(thrown)), None),
            },
        };
        Self { cause: Cause::Threw, what: cleaned(&what), line }
    }

    /// The same, of the function at `index`.
    pub(super) fn into_failure(self, index: usize, udf: &Udf) -> Failure {
        let function = Arc::clone(udf.function_name());
        let line = self.line.map(|(line, _)| line);
        Failure { index, function, cause: self.cause, what: cleaned(&self.what), line }
    }
}

/// The text of a value that is one, or a number. Nothing is converted: that would run code.
fn text(value: &Value<'_>) -> Option<String> {
    if let Some(number) = value.as_number() {
        return Some(number.to_string());
    }
    value.as_string()?.to_string().ok()
}

/// The first place in our file that a stack names: `    at f (code:3:14)`.
fn line(stack: &str) -> Option<(u32, u32)> {
    let places = stack.split(NAME_OF_FILE).skip(1).filter_map(|rest| rest.strip_prefix(':'));
    places.map(|place| place.split(|letter: char| !letter.is_ascii_digit())).find_map(
        |mut numbers| {
            let line = numbers.next()?.parse().ok()?;
            Some((line, numbers.next().and_then(|column| column.parse().ok()).unwrap_or(1)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_stacks() {
        assert_eq!(line("    at f (code:3:14)\n    at g (code:9:1)\n"), Some((3, 14)));
        assert_eq!(line("    at code (native)\n    at code:7\n"), Some((7, 1)));
        assert_eq!(line("code:99999999999999:1"), None);
        assert_eq!(line(""), None);
    }
}

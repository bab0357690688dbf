//! Which messages a subscription wants: Google's filter language.
//!
//! ```text
//! expression = operand { "AND" operand } | operand { "OR" operand }
//! operand    = ( "NOT" | "-" ) operand | "(" expression ")" | term
//! term       = "attributes" ":" key
//!            | "attributes" "." key ( "=" | "!=" ) string
//!            | "hasPrefix" "(" "attributes" "." key "," string ")"
//! key        = string | letters, digits, "-" and "_"
//! string     = text in double quotes, with escapes (see `literal.rs`)
//! ```
//!
//! Space may stand between any two parts. AND and OR stand side by side only with parentheses
//! around one of them, as Google's documentation demands.

mod ast;
mod evaluate;
mod literal;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use ast::{Condition, Expression, Field, Term};

use crate::error::Invalid;
use crate::limits::FILTER_BYTES_MAX;
use crate::message::Malformed;
use evaluate::Plan;
use parse::Fault;

/// A filter that was read and understood. It keeps its text, so that it can be shown as it was
/// given.
///
/// Keys and values are compared byte for byte. The empty text is no filter: who takes a filter
/// from a request treats it as none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    expression: Expression,
    plan: Plan,
}

impl Filter {
    /// Reads a filter of at most `FILTER_BYTES_MAX` bytes. A refusal names `field`, the place of
    /// the fault and what is wrong: `filter: at 14: expected a string in double quotes`. Places
    /// count characters from 1; the end of the text is one behind the last character.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let expression = short_enough(text).and_then(|()| parse::expression(text));
        let expression = expression.map_err(|fault| {
            Invalid::new(field, format!("at {}: {}", fault.position, fault.problem))
        })?;
        let plan = Plan::new(&expression);
        Ok(Self { text: text.to_owned(), expression, plan })
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the text says.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether the message in a record body, in the layout of `message::encode`, is wanted.
    ///
    /// Goes through the body's fields once, skips the data, allocates nothing. Of a body that
    /// names an attribute twice the last one counts, as for `message::decode`.
    pub fn matches(&self, body: &[u8]) -> Result<bool, Malformed> {
        self.plan.matches(&self.expression, body)
    }

    /// Whether a message with these attributes is wanted: the same answer as `matches`, found in
    /// the plainest way.
    pub fn matches_attributes(&self, attributes: &BTreeMap<String, String>) -> bool {
        evaluate::matches_attributes(&self.expression, attributes)
    }
}

fn short_enough(text: &str) -> Result<(), Fault> {
    let bytes = text.len();
    if bytes <= FILTER_BYTES_MAX {
        return Ok(());
    }
    let fitting = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= FILTER_BYTES_MAX);
    Err(Fault {
        position: fitting.count() + 1,
        problem: format!("{bytes} bytes, at most {FILTER_BYTES_MAX} are allowed"),
    })
}

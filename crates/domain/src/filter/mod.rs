//! Which messages a subscription wants: one tree, three spellings.
//!
//! `ast` is the tree and defines what each condition means. It is parsed from Google's language
//! (below), from the CEL spelling (`cel`) and from the list form (`list`). A missing field makes
//! every comparison false, even `!=`, except Google's own `!=`. Data that is not JSON matches no
//! filter that tests the data.
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
//! Whitespace is allowed between any two parts. AND and OR can be mixed only with parentheses
//! around one of them, as Google's documentation requires.

mod ast;
mod canonical;
mod cel;
mod cel_text;
mod evaluate;
mod list;
mod literal;
mod parse;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use ast::{Condition, Expression, Field, Order, Scalar, Term};
pub use list::Clause;
pub(crate) use seen::ScalarRef;
pub use seen::Seen;

use crate::error::Invalid;
use crate::limits::{FILTER_BYTES_MAX, LIVE_FILTER_BYTES_MAX, LIVE_FILTER_TERMS_MAX};
use crate::message::Malformed;
use evaluate::Plan;
use parse::Fault;

/// A parsed filter. It keeps its text so that it can be shown as it was given.
///
/// Keys and values are compared byte for byte. Empty text is not a filter: callers that take a
/// filter from a request treat it as none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    expression: Expression,
    plan: Plan,
    is_cel: bool,
}

impl Filter {
    /// Parses a filter of at most `FILTER_BYTES_MAX` bytes. An error names `field`, the position
    /// and the problem: `filter: at 14: expected a string in double quotes`. Positions count
    /// characters from 1; the end of the text is one past the last character.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        short_enough(text, FILTER_BYTES_MAX)
            .and_then(|()| parse::expression(text))
            .map(|expression| Self { is_cel: false, ..Self::new(text.to_owned(), expression) })
            .map_err(|fault| fault.invalid(field))
    }

    /// Parses a filter in the CEL spelling, of at most `LIVE_FILTER_BYTES_MAX` bytes and
    /// `LIVE_FILTER_TERMS_MAX` terms. Errors are like those of `parse`.
    pub fn parse_cel(field: &str, text: &str) -> Result<Self, Refusal> {
        short_enough(text, LIVE_FILTER_BYTES_MAX)
            .and_then(|()| cel::expression(text))
            .map(|expression| Self::new(text.to_owned(), expression))
            .map_err(|fault| match fault.too_complex {
                true => Refusal::TooComplex(fault.invalid(field)),
                false => Refusal::Wrong(fault.invalid(field)),
            })
    }

    /// Parses the list form; `None` = no clauses, no filter. An error names the part at fault:
    /// `filters[1].op`. The text of such a filter is its CEL spelling, which is what the limits of
    /// `parse_cel` apply to.
    pub fn from_clauses(field: &str, clauses: &[Clause]) -> Result<Option<Self>, Refusal> {
        let count = clauses.len();
        if count > LIVE_FILTER_TERMS_MAX {
            let problem = format!("{count} clauses, at most {LIVE_FILTER_TERMS_MAX} are allowed");
            return Err(Refusal::TooComplex(Invalid::new(field, problem)));
        }
        let mut terms = list::terms(field, clauses).map_err(Refusal::Wrong)?;
        let expression = match terms.pop() {
            None => return Ok(None),
            Some(only) if terms.is_empty() => only,
            Some(last) => {
                terms.push(last);
                Expression::All(terms)
            }
        };
        let text = expression.cel();
        if text.len() > LIVE_FILTER_BYTES_MAX {
            let bytes = text.len();
            let problem = format!("{bytes} bytes, at most {LIVE_FILTER_BYTES_MAX} are allowed");
            return Err(Refusal::TooComplex(Invalid::new(field, problem)));
        }
        Ok(Some(Self::new(text, expression)))
    }

    fn new(text: String, expression: Expression) -> Self {
        let plan = Plan::new(&expression);
        Self { text, expression, plan, is_cel: true }
    }

    /// The form in which filters that mean the same in a different order or spelling are equal.
    pub fn canonical(&self) -> Expression {
        canonical::canonical(&self.expression)
    }

    /// The filter in the list form; `None` = a list cannot express it.
    pub fn clauses(&self) -> Option<Vec<Clause>> {
        self.expression.clauses()
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text is in the CEL spelling rather than Google's.
    pub fn is_cel(&self) -> bool {
        self.is_cel
    }

    /// The parsed text.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Whether the message in a record body, in the layout of `message::encode`, matches.
    ///
    /// Makes one pass over the body's fields, skips the data unless a term tests it, and allocates
    /// nothing except for strings in the data that have escapes. If a body names an attribute twice
    /// the last one counts, as in `message::decode`. Data that is not JSON matches no filter that
    /// tests it.
    pub fn matches(&self, body: &[u8]) -> Result<bool, Malformed> {
        self.plan.matches(&self.expression, body)
    }

    /// Whether a message with these attributes and no data matches: the same answer as `matches`,
    /// computed the simplest way.
    pub fn matches_attributes(&self, attributes: &BTreeMap<String, String>) -> bool {
        !self.expression.needs_data() && evaluate::matches_attributes(&self.expression, attributes)
    }
}

/// Why a filter in the CEL spelling or the list form is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not a filter.
    #[error(transparent)]
    Wrong(Invalid),
    /// It is one, but exceeds a limit.
    #[error(transparent)]
    TooComplex(Invalid),
}

impl Refusal {
    /// The field at fault and what is wrong with it.
    pub fn invalid(&self) -> &Invalid {
        let (Self::Wrong(invalid) | Self::TooComplex(invalid)) = self;
        invalid
    }
}

fn short_enough(text: &str, bytes_max: usize) -> Result<(), Fault> {
    let bytes = text.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    let fitting = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= bytes_max);
    Err(Fault {
        position: fitting.count() + 1,
        problem: format!("{bytes} bytes, at most {bytes_max} are allowed"),
        too_complex: true,
    })
}

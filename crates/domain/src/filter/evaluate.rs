//! Whether a message matches: a fast path for a record body, a simple one for a map.

use std::collections::BTreeMap;

use super::ast::{Expression, Field, Term};
use super::seen::Seen;
use crate::json;
use crate::limits::{FILTER_BYTES_MAX, FILTER_DATA_BYTES_MAX, LIVE_FILTER_TERMS_MAX};
use crate::message::{self, Malformed};

const _: () = assert!(LIVE_FILTER_TERMS_MAX <= Truths::MAX);
/// In Google's language every term contains the word `attributes` and at least one mark after it.
const TERM_BYTES_MIN: usize = "attributes:".len();
const _: () = assert!(FILTER_BYTES_MAX / TERM_BYTES_MIN <= Truths::MAX);

/// Computed once per filter, so that a message costs one pass over its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The terms in tree order, side by side instead of behind pointers.
    terms: Vec<Term>,
    /// The values of the terms for a message that has none of their attributes.
    without: Truths,
    /// Whether such a message matches.
    matches_without: bool,
    /// Whether any term tests the data.
    needs_data: bool,
}

impl Plan {
    pub(super) fn new(expression: &Expression) -> Self {
        let terms: Vec<Term> = expression.terms().into_iter().cloned().collect();
        assert!(terms.len() <= Truths::MAX, "a filter's text has no room for more terms");
        let mut without = Truths::default();
        for (place, term) in terms.iter().enumerate() {
            without.set(place, term.condition.holds(None));
        }
        let matches_without = holds(expression, without);
        Self { terms, without, matches_without, needs_data: expression.needs_data() }
    }

    /// `expression` must be the one this plan was made for.
    pub(super) fn matches(&self, expression: &Expression, body: &[u8]) -> Result<bool, Malformed> {
        let mut truths = self.without;
        for attribute in message::attributes(body) {
            let (key, value) = attribute?;
            self.learn(key, value, &mut truths);
        }
        if self.needs_data && !self.learn_data(message::data(body)?, &mut truths) {
            return Ok(false);
        }
        if truths == self.without {
            return Ok(self.matches_without);
        }
        Ok(holds(expression, truths))
    }

    fn learn(&self, key: &[u8], value: &[u8], truths: &mut Truths) {
        for (place, term) in self.terms.iter().enumerate() {
            if matches!(&term.field, Field::Attribute(wanted) if wanted.as_bytes() == key) {
                truths.set(place, term.condition.holds(Some(Seen::Text(value))));
            }
        }
    }

    /// Returns whether the data is JSON: if not, no filter that tests the data matches.
    fn learn_data(&self, data: &[u8], truths: &mut Truths) -> bool {
        if data.len() > FILTER_DATA_BYTES_MAX {
            return false;
        }
        let mut firsts = [None; Truths::MAX];
        if self.find_firsts(data, &mut firsts).is_err() {
            return false;
        }
        for ((place, term), first) in self.terms.iter().enumerate().zip(firsts) {
            if let Field::Data(path) = &term.field {
                let rest = path.get(1..).unwrap_or_default();
                let mut buffer = String::new();
                let value = first.and_then(|value| value.find(rest));
                let seen = value.map(|value| Seen::new(value, &mut buffer));
                truths.set(place, term.condition.holds(seen));
            }
        }
        true
    }

    /// Finds the value of the first name of each term's path, all in one pass.
    fn find_firsts<'data>(
        &self,
        data: &'data [u8],
        firsts: &mut [Option<json::Value<'data>>],
    ) -> Result<(), json::NotJson> {
        let Some(members) = json::open(data)? else { return Ok(()) };
        for member in members {
            let (key, value) = member?;
            for (term, first) in self.terms.iter().zip(firsts.iter_mut()) {
                let Field::Data(path) = &term.field else { continue };
                if path.first().is_some_and(|name| key.is(name)) {
                    *first = Some(value);
                }
            }
        }
        Ok(())
    }
}

/// Whether each term is true, the first one in the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truths(u64);

impl Truths {
    const MAX: usize = 64;

    fn set(&mut self, place: usize, truth: bool) {
        let bit = 1 << place;
        self.0 = if truth { self.0 | bit } else { self.0 & !bit };
    }

    fn take_next(&mut self) -> bool {
        let truth = self.0 & 1 == 1;
        self.0 >>= 1;
        truth
    }
}

fn holds(expression: &Expression, mut truths: Truths) -> bool {
    take(expression, &mut truths)
}

/// Evaluates every part even when the outcome is known, because each term takes its own bit.
fn take(expression: &Expression, truths: &mut Truths) -> bool {
    match expression {
        Expression::Term(_) => truths.take_next(),
        Expression::Not(part) => !take(part, truths),
        Expression::All(parts) => parts.iter().fold(true, |all, part| take(part, truths) & all),
        Expression::Any(parts) => parts.iter().fold(false, |any, part| take(part, truths) | any),
    }
}

/// For filters that do not test the data.
pub(super) fn matches_attributes(
    expression: &Expression,
    attributes: &BTreeMap<String, String>,
) -> bool {
    match expression {
        Expression::Term(Term { field, condition }) => {
            let value = match field {
                Field::Attribute(key) => attributes.get(key),
                Field::Data(_) => None,
            };
            condition.holds(value.map(|value| Seen::Text(value.as_bytes())))
        }
        Expression::Not(part) => !matches_attributes(part, attributes),
        Expression::All(parts) => parts.iter().all(|part| matches_attributes(part, attributes)),
        Expression::Any(parts) => parts.iter().any(|part| matches_attributes(part, attributes)),
    }
}

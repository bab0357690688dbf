//! How a filter can be found without scanning all of them.

use super::program::{NEEDS_DATA, RESIDUAL, SEVERAL};
use crate::filter::{Condition, Expression, Field, Order, Scalar, Term};

/// Maximum number of alternatives of a filter that are filed one by one.
const ALTERNATIVES_MAX: usize = 16;
/// Maximum number of values of an `in` that are filed one by one.
const VALUES_MAX: usize = 16;

/// What a canonical filter requires: one of its alternatives, each a list of terms that must all
/// hold.
#[derive(Debug)]
pub(crate) struct Plan<'filter> {
    pub(crate) alternatives: Vec<Alternative<'filter>>,
    pub(super) flags: u8,
}

/// Terms that must all hold, as far as they help to find the filter.
#[derive(Debug, Default)]
pub(crate) struct Alternative<'filter> {
    /// Fields, each with the values it must have one of.
    pub(crate) equalities: Vec<(&'filter Field, &'filter [Scalar])>,
    /// The first order comparison.
    pub(super) ordered: Option<(&'filter Field, Order, &'filter Scalar)>,
    /// How many terms there are, including those that do not help.
    pub(super) terms: usize,
}

impl<'filter> Plan<'filter> {
    /// `None` = no filter.
    pub(crate) fn new(filter: Option<&'filter Expression>) -> Self {
        let Some(filter) = filter else {
            return Self { alternatives: vec![Alternative::default()], flags: 0 };
        };
        let alternatives: Vec<_> = alternatives(filter)
            .unwrap_or_default()
            .iter()
            .map(|terms| Alternative::new(terms))
            .collect();
        let several = alternatives.len() > 1;
        let found = |one: &Alternative<'_>| {
            !one.equalities.is_empty() || (one.ordered.is_some() && !several)
        };
        let indexed = !alternatives.is_empty() && alternatives.iter().all(found);
        let mut flags = if filter.needs_data() { NEEDS_DATA } else { 0 };
        flags |= if indexed { 0 } else { RESIDUAL };
        flags |= if several && indexed { SEVERAL } else { 0 };
        Self { alternatives, flags }
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.flags & RESIDUAL == 0
    }
}

impl<'filter> Alternative<'filter> {
    fn new(terms: &[&'filter Expression]) -> Self {
        let mut alternative = Self { terms: terms.len(), ..Self::default() };
        for term in terms {
            let Expression::Term(Term { field, condition }) = term else { continue };
            match condition {
                Condition::Equals(value) => {
                    alternative.equalities.push((field, std::slice::from_ref(value)));
                }
                Condition::In(values) if values.len() <= VALUES_MAX => {
                    alternative.equalities.push((field, values));
                }
                Condition::Ordered(order, bound) => {
                    alternative.ordered.get_or_insert((field, *order, bound));
                }
                _ => {}
            }
        }
        alternative
    }
}

/// The alternatives of a canonical filter; `None` = there are too many.
fn alternatives(expression: &Expression) -> Option<Vec<Vec<&Expression>>> {
    match expression {
        Expression::Term(_) | Expression::Not(_) => Some(vec![vec![expression]]),
        Expression::Any(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(alternatives(part)?);
                if all.len() > ALTERNATIVES_MAX {
                    return None;
                }
            }
            Some(all)
        }
        Expression::All(parts) => parts.iter().try_fold(vec![Vec::new()], |so_far, part| {
            let more = alternatives(part)?;
            if so_far.len() * more.len() > ALTERNATIVES_MAX {
                return None;
            }
            let both = so_far.iter().flat_map(|one: &Vec<&Expression>| {
                more.iter().map(move |two| one.iter().chain(two).copied().collect())
            });
            Some(both.collect())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Filter;

    fn shape(text: &str) -> (usize, bool) {
        let canonical = Filter::parse_cel("filter", text).unwrap().canonical();
        let plan = Plan::new(Some(&canonical));
        (plan.alternatives.len(), plan.is_indexed())
    }

    #[test]
    fn filters_are_found_by_a_value_or_a_bound() {
        let cases = [
            ("data.a == 1", (1, true)),
            ("data.a in [1, 2] && has(data.b)", (1, true)),
            ("data.a > 1 && !has(data.b)", (1, true)),
            ("data.a == 1 || data.b == 2", (2, true)),
            ("(data.a == 1 || data.a == 2) && (data.b == 1 || data.b == 2)", (4, true)),
            ("data.a == 1 || data.b > 2", (2, false)),
            ("data.a != 1", (1, false)),
            ("has(data.a)", (1, false)),
            ("!(data.a == 1)", (1, false)),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(text), expected, "{text}");
        }
        let many = |count: i32| {
            let terms: Vec<_> = (0..count).map(|value| format!("data.a{value} == 1")).collect();
            terms.join(" || ")
        };
        assert_eq!((shape(&many(16)), shape(&many(17))), ((16, true), (0, false)));
        let long: Vec<_> = (0..17).map(|value| value.to_string()).collect();
        assert_eq!(shape(&format!("data.a in [{}]", long.join(","))), (1, false));
    }
}

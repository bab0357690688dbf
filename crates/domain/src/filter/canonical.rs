//! One form for all filters that mean the same in a different order or spelling.

use super::ast::{Condition, Expression, Term};

/// The same filter with negations only on terms, and parts flattened, sorted and deduplicated.
/// Filters with equal canonical forms match the same messages; the reverse is not guaranteed.
pub(super) fn canonical(expression: &Expression) -> Expression {
    form(expression, false)
}

fn form(expression: &Expression, negated: bool) -> Expression {
    match (expression, negated) {
        (Expression::Term(term), _) => term_form(term, negated),
        (Expression::Not(part), _) => form(part, !negated),
        (Expression::All(parts), false) | (Expression::Any(parts), true) => {
            joined(parts, negated, true)
        }
        (Expression::Any(parts), false) | (Expression::All(parts), true) => {
            joined(parts, negated, false)
        }
    }
}

fn term_form(term: &Term, negated: bool) -> Expression {
    let (condition, negated) = match &term.condition {
        // Missing, or another value: exactly a negated equality.
        Condition::Differs(value) => (Condition::Equals(value.clone()), !negated),
        Condition::In(values) => {
            let mut values = values.clone();
            values.sort();
            values.dedup();
            match values.pop() {
                Some(only) if values.is_empty() => (Condition::Equals(only), negated),
                last => {
                    values.extend(last);
                    (Condition::In(values), negated)
                }
            }
        }
        same => (same.clone(), negated),
    };
    let term = Expression::Term(Term { field: term.field.clone(), condition });
    if negated { Expression::Not(Box::new(term)) } else { term }
}

fn joined(parts: &[Expression], negated: bool, all: bool) -> Expression {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match (form(part, negated), all) {
            (Expression::All(inner), true) | (Expression::Any(inner), false) => flat.extend(inner),
            (other, _) => flat.push(other),
        }
    }
    flat.sort();
    flat.dedup();
    match flat.pop() {
        Some(only) if flat.is_empty() => only,
        last => {
            flat.extend(last);
            if all { Expression::All(flat) } else { Expression::Any(flat) }
        }
    }
}

//! What a filter means, said in the plainest way and with another JSON library.

use std::cmp::Ordering;

use domain::filter::{Condition, Expression, Field, Order, Scalar, Term};
use serde_json::Value;

use crate::generate::Sent;

/// The data of a message; `None` = it is not JSON.
pub(crate) fn read(sent: &Sent) -> Option<Value> {
    serde_json::from_slice(&sent.data).ok()
}

/// Whether `sent` is wanted.
pub(crate) fn matches(expression: &Expression, sent: &Sent) -> bool {
    matches_read(expression, sent, read(sent).as_ref())
}

/// Whether `sent`, whose data was read, is wanted.
pub(crate) fn matches_read(expression: &Expression, sent: &Sent, data: Option<&Value>) -> bool {
    if data.is_none() && expression.needs_data() {
        return false;
    }
    holds(expression, sent, data)
}

fn holds(expression: &Expression, sent: &Sent, data: Option<&Value>) -> bool {
    match expression {
        Expression::Term(one) => term(one, sent, data),
        Expression::Not(part) => !holds(part, sent, data),
        Expression::All(parts) => parts.iter().all(|part| holds(part, sent, data)),
        Expression::Any(parts) => parts.iter().any(|part| holds(part, sent, data)),
    }
}

fn term(Term { field, condition }: &Term, sent: &Sent, data: Option<&Value>) -> bool {
    let found = match field {
        Field::Attribute(key) => sent.attributes.get(key).map(|text| Value::from(text.as_str())),
        Field::Data(path) => path
            .iter()
            .try_fold(data, |at, name| at?.as_object()?.get(name).map(Some))
            .flatten()
            .cloned(),
    };
    let Some(found) = found else { return matches!(condition, Condition::Differs(_)) };
    match condition {
        Condition::Present => true,
        Condition::Equals(wanted) => equal(&found, wanted),
        Condition::Differs(wanted) | Condition::Unequal(wanted) => !equal(&found, wanted),
        Condition::Ordered(order, bound) => match compare(&found, bound) {
            None => false,
            Some(found) => match order {
                Order::Above => found == Ordering::Greater,
                Order::AtLeast => found != Ordering::Less,
                Order::Below => found == Ordering::Less,
                Order::AtMost => found != Ordering::Greater,
            },
        },
        Condition::In(wanted) => wanted.iter().any(|wanted| equal(&found, wanted)),
        Condition::StartsWith(prefix) => {
            found.as_str().is_some_and(|text| text.starts_with(prefix.as_str()))
        }
        Condition::Contains(part) => match (&found, part) {
            (Value::String(text), Scalar::Text(part)) => text.contains(part.as_str()),
            _ => includes(&found, part),
        },
        Condition::Includes(element) => includes(&found, element),
    }
}

fn includes(found: &Value, element: &Scalar) -> bool {
    found.as_array().is_some_and(|list| list.iter().any(|one| equal(one, element)))
}

fn equal(found: &Value, wanted: &Scalar) -> bool {
    match (found, wanted) {
        (Value::Null, Scalar::Null) => true,
        (Value::Bool(one), Scalar::Bool(two)) => one == two,
        _ => compare(found, wanted) == Some(Ordering::Equal),
    }
}

fn compare(found: &Value, bound: &Scalar) -> Option<Ordering> {
    match (found, bound) {
        // Code point by code point.
        (Value::String(one), Scalar::Text(two)) => Some(one.chars().cmp(two.chars())),
        (Value::Number(one), Scalar::Number(two)) => {
            let two: serde_json::Number = serde_json::from_str(&two.to_string()).unwrap();
            match (one.as_i128(), two.as_i128()) {
                (Some(one), Some(two)) => Some(one.cmp(&two)),
                _ => one.as_f64()?.partial_cmp(&two.as_f64()?),
            }
        }
        _ => None,
    }
}

//! Parses the list form of a filter: clauses of field, operator and value that must all hold.

use super::ast::{Condition, Expression, Field, Scalar, Term};
use super::cel::COMPARISONS;
use super::literal;
use super::parse::Cursor;
use crate::error::Invalid;
use crate::json::{self, NotJson};
use crate::limits::FIELD_SEGMENTS_MAX;

/// One line of the list form: `{"field": "data.status", "op": "==", "value": "active"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// `data.` and a path, or `attributes.` and a key. Names with characters other than letters,
    /// digits, `-` and `_` may be written as `["…"]`.
    pub field: String,
    /// `==`, `!=`, `>`, `>=`, `<`, `<=`, `in` or `contains`.
    pub op: String,
    /// The value as JSON text: a string, number, boolean or null; for `in` a list of them.
    pub value: String,
}

/// The terms of the clauses. An error names the part at fault after `field`: `filters[1].op`.
pub(super) fn terms(field: &str, clauses: &[Clause]) -> Result<Vec<Expression>, Invalid> {
    let terms = clauses.iter().enumerate().map(|(index, clause)| {
        let part = |part, problem| Invalid::new(format!("{field}[{index}].{part}"), problem);
        term(clause).map(Expression::Term).map_err(|(name, problem)| part(name, problem))
    });
    terms.collect()
}

/// The part of a clause at fault, and what is wrong with it.
type Fault = (&'static str, String);

fn term(clause: &Clause) -> Result<Term, Fault> {
    let field = read_field(&clause.field).map_err(|problem| ("field", problem))?;
    Ok(Term { field, condition: condition(&clause.op, &clause.value)? })
}

fn condition(op: &str, value: &str) -> Result<Condition, Fault> {
    let in_value = |problem: &str| ("value", problem.to_owned());
    if let Some((_, comparison)) = COMPARISONS.iter().find(|(mark, _)| *mark == op) {
        return comparison.with(scalar(value)?).map_err(in_value);
    }
    match op {
        "in" => match read(value)? {
            list @ json::Value::List(_) => {
                let values: Vec<Scalar> =
                    list.elements().map(as_scalar).collect::<Result<_, _>>()?;
                if values.is_empty() {
                    return Err(in_value("the list is empty, give at least one value"));
                }
                Ok(Condition::In(values))
            }
            _ => Err(in_value("in takes a list of values")),
        },
        "contains" => scalar(value).map(Condition::Contains),
        _ => Err(("op", format!("{op:?} is not one of ==, !=, >, >=, <, <=, in, contains"))),
    }
}

fn read(value: &str) -> Result<json::Value<'_>, Fault> {
    json::read(value).map_err(|error: NotJson| ("value", error.to_string()))
}

fn scalar(value: &str) -> Result<Scalar, Fault> {
    as_scalar(read(value)?)
}

fn as_scalar(value: json::Value<'_>) -> Result<Scalar, Fault> {
    Ok(match value {
        json::Value::Null => Scalar::Null,
        json::Value::Bool(bool) => Scalar::Bool(bool),
        json::Value::Text(text) => Scalar::Text(text.chars().collect()),
        json::Value::Number(number) => {
            Scalar::Number(number.finite().ok_or(("value", "number too large".to_owned()))?)
        }
        json::Value::List(_) | json::Value::Object(_) => {
            let problem = "expected a string, a number, true, false or null";
            return Err(("value", problem.to_owned()));
        }
    })
}

fn read_field(text: &str) -> Result<Field, String> {
    let shape = || "a field is data. and a path, or attributes. and a key".to_owned();
    if let Some(rest) = text.strip_prefix("attributes") {
        // A key may contain dots, so all of the rest is the key.
        if let Some(key) = rest.strip_prefix('.') {
            return if key.is_empty() {
                Err(shape())
            } else {
                Ok(Field::Attribute(key.to_owned()))
            };
        }
        return match segments(rest)? {
            path if path.len() == 1 => {
                path.into_iter().next().map(Field::Attribute).ok_or_else(shape)
            }
            _ => Err(shape()),
        };
    }
    match text.strip_prefix("data").map(segments).transpose()? {
        Some(path) if !path.is_empty() => Ok(Field::Data(path)),
        _ => Err(shape()),
    }
}

/// `.name` and `["…"]`, any number of them.
fn segments(text: &str) -> Result<Vec<String>, String> {
    let mut cursor = Cursor { text, rest: text };
    let mut path = Vec::new();
    while !cursor.rest.is_empty() {
        if cursor.take("[") {
            path.push(literal::string(&mut cursor).map_err(|fault| fault.problem)?);
            if !cursor.take("]") {
                return Err("expected ] after a quoted name".to_owned());
            }
        } else if cursor.take(".") {
            let name = cursor.rest.split(['.', '[']).next().unwrap_or_default();
            if name.is_empty() || name.contains(|c: char| c.is_control() || "\"'[]".contains(c)) {
                return Err("only plain names may stand between dots, put others in \
                            [\"…\"]"
                    .to_owned());
            }
            cursor.take(name);
            path.push(name.to_owned());
        } else {
            return Err("a field is data. and a path, or attributes. and a key".to_owned());
        }
        if path.len() > FIELD_SEGMENTS_MAX {
            return Err(format!("more than {FIELD_SEGMENTS_MAX} names in a path"));
        }
    }
    Ok(path)
}

/// The clauses that mean the same as `expression`; `None` = a list cannot express it.
pub(super) fn clauses(expression: &Expression) -> Option<Vec<Clause>> {
    match expression {
        Expression::Term(term) => clause(term).map(|clause| vec![clause]),
        Expression::All(parts) => parts
            .iter()
            .map(|part| match part {
                Expression::Term(term) => clause(term),
                _ => None,
            })
            .collect(),
        Expression::Not(_) | Expression::Any(_) => None,
    }
}

fn clause(term: &Term) -> Option<Clause> {
    let (op, value) = match &term.condition {
        Condition::Equals(value) => ("==".to_owned(), json_text(value)),
        Condition::Unequal(value) => ("!=".to_owned(), json_text(value)),
        Condition::Ordered(order, value) => (order.to_string(), json_text(value)),
        Condition::Contains(value) => ("contains".to_owned(), json_text(value)),
        Condition::In(values) => {
            let values: Vec<String> = values.iter().map(json_text).collect();
            ("in".to_owned(), format!("[{}]", values.join(",")))
        }
        _ => return None,
    };
    Some(Clause { field: field_text(&term.field), op, value })
}

/// Spelled for the list form, where an attribute's key is taken literally.
fn field_text(field: &Field) -> String {
    match field {
        Field::Attribute(key) if !key.is_empty() => format!("attributes.{key}"),
        _ => field.to_string(),
    }
}

/// Quoted strings in filters use only escapes that JSON has.
fn json_text(value: &Scalar) -> String {
    value.to_string()
}

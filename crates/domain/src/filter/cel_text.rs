//! A filter's tree as text in the CEL spelling.

use std::fmt::{self, Display};

use super::ast::{Condition, Expression, Field, Order, Quoted, Scalar, Term};

/// Displays a tree so that `cel::expression` parses it back to one with the same meaning.
pub(super) struct Cel<'tree>(pub(super) &'tree Expression);

impl Display for Cel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expression::Term(one) => term(f, one),
            Expression::Not(part) => write!(f, "!({})", Cel(part)),
            Expression::All(parts) => joined(f, parts, " && "),
            Expression::Any(parts) => joined(f, parts, " || "),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Expression], between: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        match part {
            Expression::All(_) | Expression::Any(_) => write!(f, "({})", Cel(part))?,
            Expression::Term(_) | Expression::Not(_) => write!(f, "{}", Cel(part))?,
        }
    }
    Ok(())
}

/// One term.
pub(super) fn term(f: &mut fmt::Formatter<'_>, term: &Term) -> fmt::Result {
    let field = &term.field;
    match &term.condition {
        Condition::Present => write!(f, "has({field})"),
        Condition::Equals(value) => write!(f, "{field} == {value}"),
        Condition::Differs(value) => write!(f, "!({field} == {value})"),
        Condition::Unequal(value) => write!(f, "{field} != {value}"),
        Condition::Ordered(order, value) => write!(f, "{field} {order} {value}"),
        Condition::In(values) => write!(f, "{field} in [{}]", List(values)),
        Condition::StartsWith(prefix) => write!(f, "{field}.startsWith({})", Quoted(prefix)),
        Condition::Contains(part) => write!(f, "{field}.contains({part})"),
        Condition::Includes(element) => write!(f, "{element} in {field}"),
    }
}

struct List<'tree>(&'tree [Scalar]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.0.iter().enumerate() {
            let between = if index > 0 { ", " } else { "" };
            write!(f, "{between}{value}")?;
        }
        Ok(())
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        })
    }
}

impl Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(bool) => write!(f, "{bool}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
        }
    }
}

/// As both the list form and the CEL spelling read it: `data.a["b c"]`.
impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, path) = match self {
            Self::Attribute(key) => ("attributes", std::slice::from_ref(key)),
            Self::Data(path) => ("data", path.as_slice()),
        };
        f.write_str(root)?;
        for segment in path {
            if is_identifier(segment) {
                write!(f, ".{segment}")?;
            } else {
                write!(f, "[{}]", Quoted(segment))?;
            }
        }
        Ok(())
    }
}

/// Whether `text` may follow a dot.
pub(super) fn is_identifier(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(word)
        && !matches!(text, "in" | "true" | "false" | "null")
}

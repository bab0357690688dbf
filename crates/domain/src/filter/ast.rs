//! The tree of a filter, and its canonical text.

use std::fmt::{self, Write};

use super::cel_text;
use super::list::{self, Clause};
use super::seen::{ScalarRef, Seen};
use crate::json::Number;

/// A filter, or a part of one in parentheses.
///
/// Displays as text in Google's language that parses back to the same tree. That text can be longer
/// than the original, and so longer than a filter may be. Anything that Google's language cannot
/// express is displayed in the CEL spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expression {
    /// True when the term is.
    Term(Term),
    /// True when the part is not.
    Not(Box<Expression>),
    /// True when every part is; two parts or more.
    All(Vec<Expression>),
    /// True when at least one part is; two parts or more.
    Any(Vec<Expression>),
}

/// One test on one field of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The field to test.
    pub field: Field,
    /// The condition it must meet.
    pub condition: Condition,
}

/// A part of a message that a term can test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The attribute with this key.
    Attribute(String),
    /// The value at this path in the data, read as JSON; at least one name.
    Data(Vec<String>),
}

/// A constant in a filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; never one outside the range of a double.
    Number(Number),
    /// A string.
    Text(String),
}

/// What a term requires of its field.
///
/// Nothing is converted: values of different types are unequal and unordered, strings are ordered
/// by code point, and numbers compare by value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The field exists, with any value: `:`, `has`.
    Present,
    /// The field exists and has this value: `=`, `==`.
    Equals(Scalar),
    /// The field has another value or does not exist: Google's `!=`.
    Differs(Scalar),
    /// The field exists and has another value: `!=` of the list form and the CEL spelling.
    Unequal(Scalar),
    /// The field exists and compares this way with a number or a string: `>`, `>=`, `<`, `<=`.
    Ordered(Order, Scalar),
    /// The field exists and has one of these values, at least one: `in`.
    In(Vec<Scalar>),
    /// The field is a string with this prefix: `hasPrefix`, `startsWith`.
    StartsWith(String),
    /// The field is a string that contains this one, or a list with this element: `contains`.
    Contains(Scalar),
    /// The field is a list with this element: a value `in` a field.
    Includes(Scalar),
}

/// How a field compares with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Expression {
    /// The terms, in text order.
    pub fn terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        self.gather(&mut terms);
        terms
    }

    /// Whether any term tests the data.
    pub fn needs_data(&self) -> bool {
        self.terms().iter().any(|term| matches!(term.field, Field::Data(_)))
    }

    /// The same in the CEL spelling, which parses back to a tree with the same meaning.
    pub fn cel(&self) -> String {
        cel_text::Cel(self).to_string()
    }

    /// The same in the list form; `None` = a list cannot express it.
    pub fn clauses(&self) -> Option<Vec<Clause>> {
        list::clauses(self)
    }

    fn gather<'tree>(&'tree self, terms: &mut Vec<&'tree Term>) {
        match self {
            Self::Term(term) => terms.push(term),
            Self::Not(part) => part.gather(terms),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.gather(terms));
            }
        }
    }
}

impl Condition {
    /// Whether this holds for a field with this value; `None` = the field does not exist.
    pub fn holds(&self, seen: Option<Seen<'_>>) -> bool {
        let Some(seen) = seen else { return matches!(self, Self::Differs(_)) };
        match self {
            Self::Present => true,
            Self::Equals(wanted) => seen.equals(wanted.borrow()),
            Self::Differs(unwanted) | Self::Unequal(unwanted) => !seen.equals(unwanted.borrow()),
            Self::Ordered(order, bound) => seen.stands(*order, bound.borrow()),
            Self::In(wanted) => wanted.iter().any(|wanted| seen.equals(wanted.borrow())),
            Self::StartsWith(prefix) => seen.starts_with(prefix.as_bytes()),
            Self::Contains(part) => seen.contains(part.borrow()),
            Self::Includes(element) => seen.includes(element.borrow()),
        }
    }
}

impl Scalar {
    pub(crate) fn borrow(&self) -> ScalarRef<'_> {
        match self {
            Self::Null => ScalarRef::Null,
            Self::Bool(bool) => ScalarRef::Bool(*bool),
            Self::Number(number) => ScalarRef::Number(*number),
            Self::Text(text) => ScalarRef::Text(text.as_bytes()),
        }
    }
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Term(term) => write!(f, "{term}"),
            Self::Not(part) => write!(f, "NOT {}", Operand(part)),
            Self::All(parts) => joined(f, parts, " AND "),
            Self::Any(parts) => joined(f, parts, " OR "),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Expression], between: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        write!(f, "{}", Operand(part))?;
    }
    Ok(())
}

/// A part of a larger expression, in parentheses if it needs them.
struct Operand<'tree>(&'tree Expression);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expression::Term(_) | Expression::Not(_) => write!(f, "{}", self.0),
            Expression::All(_) | Expression::Any(_) => write!(f, "({})", self.0),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Field::Attribute(key) = &self.field else { return cel_text::term(f, self) };
        let key = Key(key);
        match &self.condition {
            Condition::Present => write!(f, "attributes:{key}"),
            Condition::Equals(Scalar::Text(value)) => {
                write!(f, "attributes.{key} = {}", Quoted(value))
            }
            Condition::Differs(Scalar::Text(value)) => {
                write!(f, "attributes.{key} != {}", Quoted(value))
            }
            Condition::StartsWith(prefix) => {
                write!(f, "hasPrefix(attributes.{key}, {})", Quoted(prefix))
            }
            _ => cel_text::term(f, self),
        }
    }
}

/// A key, quoted wherever any parser might need it.
struct Key<'tree>(&'tree str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && self.0.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !matches!(self.0, "AND" | "OR" | "NOT");
        if plain { f.write_str(self.0) } else { write!(f, "{}", Quoted(self.0)) }
    }
}

/// A string in double quotes, readable in all spellings.
pub(super) struct Quoted<'tree>(pub(super) &'tree str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                _ if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

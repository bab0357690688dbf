//! What a filter says, as a tree, and its canonical text.

use std::fmt::{self, Write};

use super::cel_text;
use super::list::{self, Clause};
use super::seen::{ScalarRef, Seen};
use crate::json::Number;

/// A filter, or a part of one in parentheses.
///
/// Displayed, it is a text in Google's language, which reads back as the same tree. That text can
/// be longer than the one it was read from, and so than a filter may be. What Google's language
/// cannot say is displayed in the CEL spelling.
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

/// One question about one field of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// What is looked at.
    pub field: Field,
    /// What must hold for it.
    pub condition: Condition,
}

/// A part of a message that a term can look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The attribute of this key.
    Attribute(String),
    /// What is at this path in the data, read as JSON; one name at least.
    Data(Vec<String>),
}

/// A value that a filter names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number; never one beyond the doubles.
    Number(Number),
    /// A string.
    Text(String),
}

/// What a term asks of its field.
///
/// Nothing is converted: values of different types are unequal and in no order, strings are
/// ordered by code point, numbers compared by value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// The field is there, with whatever value: `:`, `has`.
    Present,
    /// The field is there and has this value: `=`, `==`.
    Equals(Scalar),
    /// The field has another value or is not there: Google's `!=`.
    Differs(Scalar),
    /// The field is there and has another value: `!=` of the list form and the CEL spelling.
    Unequal(Scalar),
    /// The field is there and stands so to a number or a string: `>`, `>=`, `<`, `<=`.
    Ordered(Order, Scalar),
    /// The field is there and has one of these values, of which there is one: `in`.
    In(Vec<Scalar>),
    /// The field is a string that begins so: `hasPrefix`, `startsWith`.
    StartsWith(String),
    /// The field is a string with this one inside, or a list with this element: `contains`.
    Contains(Scalar),
    /// The field is a list with this element: a value `in` a field.
    Includes(Scalar),
}

/// How a field stands to a value.
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
    /// The terms, in the order of the text.
    pub fn terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        self.gather(&mut terms);
        terms
    }

    /// Whether a term looks at the data.
    pub fn needs_data(&self) -> bool {
        self.terms().iter().any(|term| matches!(term.field, Field::Data(_)))
    }

    /// The same in the CEL spelling, which reads back as a tree of the same meaning.
    pub fn cel(&self) -> String {
        cel_text::Cel(self).to_string()
    }

    /// The same in the list form; `None` = a list cannot say it.
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
    /// Whether this holds for a field with this value; `None` = the field is not there.
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

/// A part of a larger expression: it has parentheses if it needs them there.
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

/// A key, in quotes wherever a reader of any make might need them.
struct Key<'tree>(&'tree str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && self.0.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !matches!(self.0, "AND" | "OR" | "NOT");
        if plain { f.write_str(self.0) } else { write!(f, "{}", Quoted(self.0)) }
    }
}

/// A string in double quotes, as all spellings read it.
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

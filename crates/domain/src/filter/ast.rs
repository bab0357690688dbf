//! What a filter says, as a tree, and its canonical text.

use std::fmt::{self, Write};

/// A filter, or a part of one in parentheses.
///
/// Displayed, it is the canonical text, which reads back as the same tree. That text can be longer
/// than the one it was read from, and so than a filter may be.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// What is looked at.
    pub field: Field,
    /// What must hold for it.
    pub condition: Condition,
}

/// A part of a message that a term can look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The attribute of this key.
    Attribute(String),
}

/// What a term asks of its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The field is there, with whatever value: `:`.
    Present,
    /// The field is there and has this value: `=`.
    Equals(String),
    /// The field has another value or is not there: `!=`.
    Differs(String),
    /// The field is there and its value begins so: `hasPrefix`.
    StartsWith(String),
}

impl Expression {
    /// The terms, in the order of the text.
    pub fn terms(&self) -> Vec<&Term> {
        let mut terms = Vec::new();
        self.gather(&mut terms);
        terms
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
    pub fn holds(&self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Present => value.is_some(),
            Self::Equals(wanted) => value == Some(wanted.as_bytes()),
            Self::Differs(unwanted) => value != Some(unwanted.as_bytes()),
            Self::StartsWith(prefix) => {
                value.is_some_and(|value| value.starts_with(prefix.as_bytes()))
            }
        }
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
        let Field::Attribute(key) = &self.field;
        let key = Key(key);
        match &self.condition {
            Condition::Present => write!(f, "attributes:{key}"),
            Condition::Equals(value) => write!(f, "attributes.{key} = {}", Quoted(value)),
            Condition::Differs(value) => write!(f, "attributes.{key} != {}", Quoted(value)),
            Condition::StartsWith(prefix) => {
                write!(f, "hasPrefix(attributes.{key}, {})", Quoted(prefix))
            }
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

struct Quoted<'tree>(&'tree str);

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

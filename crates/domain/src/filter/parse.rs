//! Parses a filter's text into its tree.

use super::ast::{Condition, Expression, Field, Term};
use super::literal;
use crate::error::Invalid;
use crate::limits::FILTER_NESTING_MAX;

/// What is wrong with a text, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// In characters, from 1; the end of the text is one past the last.
    pub(super) position: usize,
    pub(super) problem: String,
    /// Whether the text is valid but exceeds a limit.
    pub(super) too_complex: bool,
}

impl Fault {
    /// As an error about `field`.
    pub(super) fn invalid(&self, field: &str) -> Invalid {
        Invalid::new(field, format!("at {}: {}", self.position, self.problem))
    }

    /// The same fault, marked as exceeding a limit.
    pub(super) fn too_complex(self) -> Self {
        Self { too_complex: true, ..self }
    }
}

/// Parses a whole text. Uses stack for at most `FILTER_NESTING_MAX` levels.
pub(super) fn expression(text: &str) -> Result<Expression, Fault> {
    let mut parser = Parser { cursor: Cursor { text, rest: text }, nesting: 0 };
    let expression = parser.expression()?;
    parser.cursor.skip_space();
    if parser.cursor.rest.is_empty() {
        return Ok(expression);
    }
    Err(parser.expected_joint("the end"))
}

const CAPITALS: &str = "AND, OR and NOT must be uppercase";

/// The operator between operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

struct Parser<'text> {
    cursor: Cursor<'text>,
    /// How many parentheses and negations are open.
    nesting: usize,
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<Expression, Fault> {
        let first = self.operand()?;
        let Some(joint) = self.take_joint() else { return Ok(first) };
        let mut parts = vec![first, self.operand()?];
        loop {
            self.cursor.skip_space();
            let before = self.cursor.rest;
            match self.take_joint() {
                None => break,
                Some(next) if next == joint => parts.push(self.operand()?),
                Some(_) => {
                    let problem = "AND and OR together need parentheses around one of them";
                    return Err(self.cursor.fault_at(before, problem));
                }
            }
        }
        Ok(match joint {
            Joint::And => Expression::All(parts),
            Joint::Or => Expression::Any(parts),
        })
    }

    fn take_joint(&mut self) -> Option<Joint> {
        self.cursor.skip_space();
        if self.cursor.take_word("AND") {
            return Some(Joint::And);
        }
        self.cursor.take_word("OR").then_some(Joint::Or)
    }

    fn operand(&mut self) -> Result<Expression, Fault> {
        self.cursor.skip_space();
        let start = self.cursor.rest;
        if self.cursor.take("(") {
            return self.nested(start, Self::group);
        }
        if self.cursor.take("-") || self.cursor.take_word("NOT") {
            return self.nested(start, Self::negation);
        }
        if self.cursor.take_word("attributes") {
            return self.comparison();
        }
        if self.cursor.take_word("hasPrefix") {
            return self.prefix();
        }
        let problem = if self.cursor.word().eq_ignore_ascii_case("NOT") {
            CAPITALS
        } else {
            "expected attributes, hasPrefix, NOT or ("
        };
        Err(self.cursor.fault(problem))
    }

    fn nested(
        &mut self,
        start: &str,
        inner: fn(&mut Self) -> Result<Expression, Fault>,
    ) -> Result<Expression, Fault> {
        if self.nesting == FILTER_NESTING_MAX {
            return Err(self.cursor.too_deep(start));
        }
        self.nesting += 1;
        let expression = inner(self)?;
        self.nesting -= 1;
        Ok(expression)
    }

    fn group(&mut self) -> Result<Expression, Fault> {
        let expression = self.expression()?;
        if self.cursor.take_next(")") {
            return Ok(expression);
        }
        Err(self.expected_joint(")"))
    }

    fn negation(&mut self) -> Result<Expression, Fault> {
        Ok(Expression::Not(Box::new(self.operand()?)))
    }

    /// What follows `attributes`.
    fn comparison(&mut self) -> Result<Expression, Fault> {
        if self.cursor.take_next(":") {
            return Ok(term(self.key()?, Condition::Present));
        }
        if !self.cursor.take_next(".") {
            return Err(self.cursor.fault("expected : or ."));
        }
        let key = self.key()?;
        if self.cursor.take_next("=") {
            return Ok(term(key, Condition::Equals(self.string()?.into())));
        }
        if self.cursor.take_next("!=") {
            return Ok(term(key, Condition::Differs(self.string()?.into())));
        }
        Err(self.cursor.fault("expected = or !="))
    }

    /// What follows `hasPrefix`.
    fn prefix(&mut self) -> Result<Expression, Fault> {
        self.expect("(")?;
        self.cursor.skip_space();
        if !self.cursor.take_word("attributes") {
            return Err(self.cursor.fault("expected attributes"));
        }
        self.expect(".")?;
        let key = self.key()?;
        self.expect(",")?;
        let prefix = self.string()?;
        self.expect(")")?;
        Ok(term(key, Condition::StartsWith(prefix)))
    }

    fn key(&mut self) -> Result<String, Fault> {
        self.cursor.skip_space();
        if self.cursor.rest.starts_with('"') {
            return literal::string(&mut self.cursor);
        }
        let key = self.cursor.word();
        if key.is_empty() {
            let problem = "expected a key: a string in double quotes, or letters, digits, - and _";
            return Err(self.cursor.fault(problem));
        }
        self.cursor.take(key);
        match self.cursor.rest.chars().next() {
            Some(next) if !ends_key(next) => Err(self.cursor.fault(format!(
                "a key containing {next:?} must be in double \
                                               quotes"
            ))),
            _ => Ok(key.to_owned()),
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.cursor.skip_space();
        literal::string(&mut self.cursor)
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.cursor.take_next(mark) {
            return Ok(());
        }
        Err(self.cursor.fault(format!("expected {mark}")))
    }

    fn expected_joint(&self, end: &str) -> Fault {
        let word = self.cursor.word();
        if word.eq_ignore_ascii_case("AND") || word.eq_ignore_ascii_case("OR") {
            return self.cursor.fault(CAPITALS);
        }
        self.cursor.fault(format!("expected AND, OR or {end}"))
    }
}

fn term(key: String, condition: Condition) -> Expression {
    Expression::Term(Term { field: Field::Attribute(key), condition })
}

/// What may directly follow an unquoted key.
fn ends_key(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '=' | '!' | ',' | ')')
}

/// Google says alphanumeric without naming a script, so letters of every script are accepted.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

/// A place in a text.
pub(super) struct Cursor<'text> {
    pub(super) text: &'text str,
    /// The unread rest.
    pub(super) rest: &'text str,
}

impl<'text> Cursor<'text> {
    /// Consumes the next character and returns it; `None` at the end.
    pub(super) fn next_char(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    /// Consumes `mark` if it is next.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Skips whitespace, then consumes `mark` if it is next.
    pub(super) fn take_next(&mut self, mark: &str) -> bool {
        self.skip_space();
        self.take(mark)
    }

    /// Consumes `word` if it is next as a whole word.
    fn take_word(&mut self, word: &str) -> bool {
        self.word() == word && self.take(word)
    }

    /// The next word; empty = there is none.
    fn word(&self) -> &'text str {
        self.rest.split(|c| !is_word_char(c)).next().unwrap_or_default()
    }

    pub(super) fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    }

    /// One more level would be too many at `rest`.
    pub(super) fn too_deep(&self, rest: &str) -> Fault {
        let problem = format!("more than {FILTER_NESTING_MAX} nested parentheses and negations");
        self.fault_at(rest, problem).too_complex()
    }

    /// A fault here.
    pub(super) fn fault(&self, problem: impl Into<String>) -> Fault {
        self.fault_at(self.rest, problem)
    }

    /// A fault at the position where `rest` begins.
    pub(super) fn fault_at(&self, rest: &str, problem: impl Into<String>) -> Fault {
        let position = self.text.chars().count() - rest.chars().count() + 1;
        Fault { position, problem: problem.into(), too_complex: false }
    }
}

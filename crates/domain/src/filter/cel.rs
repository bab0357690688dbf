//! Parses the CEL spelling of a filter.
//!
//! ```text
//! expression = both { "||" both }          both = operand { "&&" operand }
//! operand    = "!" operand | "(" expression ")" | term
//! term       = "has" "(" field ")"
//!            | field ( "==" | "!=" | ">" | ">=" | "<" | "<=" ) value, or value first
//!            | field "in" "[" value { "," value } "]"  |  value "in" field
//!            | field ".startsWith" "(" string ")"  |  field ".contains" "(" value ")"
//!            | field                                    short for: field == true
//! field      = "data" segment { segment } | "attributes" segment
//! segment    = "." name | "[" string "]"
//! value      = string | number | "true" | "false" | "null"
//! ```
//!
//! A value is always just a value: nothing in a string can become part of the expression.

use super::ast::{Condition, Expression, Field, Order, Scalar, Term};
use super::cel_text::is_identifier;
use super::literal;
use super::parse::{Cursor, Fault};
use crate::json;
use crate::limits::{FIELD_SEGMENTS_MAX, FILTER_NESTING_MAX, LIVE_FILTER_TERMS_MAX};

/// Parses a whole text. Uses stack for at most `FILTER_NESTING_MAX` levels.
pub(super) fn expression(text: &str) -> Result<Expression, Fault> {
    let mut parser = Parser { cursor: Cursor { text, rest: text }, nesting: 0, terms: 0 };
    let expression = parser.expression()?;
    parser.cursor.skip_space();
    if parser.cursor.rest.is_empty() {
        return Ok(expression);
    }
    Err(parser.cursor.fault("expected &&, || or the end"))
}

/// Parses a number, `true`, `false` or `null`; `None` if none of them is next.
pub(super) fn plain_value(cursor: &mut Cursor<'_>) -> Result<Option<Scalar>, Fault> {
    let start = cursor.rest;
    let in_value = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    // The sign of an exponent belongs to the number too.
    let end = start.char_indices().find(|&(at, c)| {
        let exponent = start.get(..at).is_some_and(|before| before.ends_with(['e', 'E']));
        !in_value(c) && !(matches!(c, '-' | '+') && (at == 0 || exponent))
    });
    let word = start.get(..end.map_or(start.len(), |(at, _)| at)).unwrap_or_default();
    let numeric = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let value = match word {
        "null" => Scalar::Null,
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        _ if numeric => match json::read(word) {
            Ok(json::Value::Number(number)) => {
                let number = number.finite().ok_or_else(|| cursor.fault("number too large"))?;
                Scalar::Number(number)
            }
            _ => return Err(cursor.fault("not a number: write digits, a fraction, an exponent")),
        },
        _ => return Ok(None),
    };
    cursor.take(word);
    Ok(Some(value))
}

struct Parser<'text> {
    cursor: Cursor<'text>,
    /// How many parentheses and negations are open.
    nesting: usize,
    terms: usize,
}

/// What follows a field.
enum Call {
    StartsWith,
    Contains,
}

impl<'text> Parser<'text> {
    fn expression(&mut self) -> Result<Expression, Fault> {
        self.joined("||", Self::both, Expression::Any)
    }

    fn both(&mut self) -> Result<Expression, Fault> {
        self.joined("&&", Self::operand, Expression::All)
    }

    fn joined(
        &mut self,
        joint: &str,
        part: fn(&mut Self) -> Result<Expression, Fault>,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Result<Expression, Fault> {
        let first = part(self)?;
        if !self.cursor.take_next(joint) {
            return Ok(first);
        }
        let mut parts = vec![first, part(self)?];
        while self.cursor.take_next(joint) {
            parts.push(part(self)?);
        }
        Ok(join(parts))
    }

    fn operand(&mut self) -> Result<Expression, Fault> {
        self.cursor.skip_space();
        let start = self.cursor.rest;
        let (group, negation) = (start.starts_with('('), start.starts_with('!'));
        if !group && !negation {
            return self.term(start).map(Expression::Term);
        }
        if self.nesting == FILTER_NESTING_MAX {
            return Err(self.cursor.too_deep(start));
        }
        self.cursor.next_char();
        self.nesting += 1;
        let expression = if group {
            let inner = self.expression()?;
            self.expect(")", "expected &&, || or )")?;
            inner
        } else {
            Expression::Not(Box::new(self.operand()?))
        };
        self.nesting -= 1;
        Ok(expression)
    }

    fn term(&mut self, start: &'text str) -> Result<Term, Fault> {
        if self.terms == LIVE_FILTER_TERMS_MAX {
            let problem = format!("more than {LIVE_FILTER_TERMS_MAX} comparisons");
            return Err(self.cursor.fault_at(start, problem).too_complex());
        }
        self.terms += 1;
        if self.name() == "has" {
            return self.has();
        }
        if matches!(self.name(), "data" | "attributes") {
            return self.field_first();
        }
        match self.value()? {
            Some(value) => self.value_first(value),
            None => Err(self.cursor.fault("expected data, attributes, has, a value, ! or (")),
        }
    }

    fn has(&mut self) -> Result<Term, Fault> {
        self.cursor.take("has");
        self.expect("(", "expected (")?;
        self.cursor.skip_space();
        let (field, call) = self.field()?;
        if call.is_some() {
            return Err(self.cursor.fault("has takes a field"));
        }
        self.expect(")", "expected )")?;
        Ok(Term { field, condition: Condition::Present })
    }

    fn field_first(&mut self) -> Result<Term, Fault> {
        let (field, call) = self.field()?;
        let condition = match call {
            Some(call) => self.call(&call)?,
            None => self.relation(&field)?,
        };
        Ok(Term { field, condition })
    }

    fn call(&mut self, call: &Call) -> Result<Condition, Fault> {
        self.cursor.take("(");
        self.cursor.skip_space();
        let before = self.cursor.rest;
        let condition = match (call, self.needed_value()?) {
            (Call::Contains, value) => Condition::Contains(value),
            (Call::StartsWith, Scalar::Text(prefix)) => Condition::StartsWith(prefix),
            (Call::StartsWith, _) => {
                return Err(self.cursor.fault_at(before, "expected a string"));
            }
        };
        self.expect(")", "expected )")?;
        Ok(condition)
    }

    /// What follows a field that is not called.
    fn relation(&mut self, field: &Field) -> Result<Condition, Fault> {
        self.cursor.skip_space();
        if self.name() == "in" {
            self.cursor.take("in");
            return self.list().map(Condition::In);
        }
        match self.comparison()? {
            Some(condition) => {
                self.cursor.skip_space();
                let before = self.cursor.rest;
                let value = self.needed_value()?;
                self.compared(condition, value, before)
            }
            None if matches!(field, Field::Data(_)) => Ok(Condition::Equals(Scalar::Bool(true))),
            None => Err(self.cursor.fault("expected ==, !=, >, >=, <, <= or in")),
        }
    }

    fn value_first(&mut self, value: Scalar) -> Result<Term, Fault> {
        self.cursor.skip_space();
        if self.name() == "in" {
            self.cursor.take("in");
            let field = self.needed_field()?;
            return Ok(Term { field, condition: Condition::Includes(value) });
        }
        let before = self.cursor.rest;
        let Some(comparison) = self.comparison()? else {
            return Err(self.cursor.fault("expected ==, !=, >, >=, <, <= or in"));
        };
        let condition = self.compared(comparison.turned(), value, before)?;
        Ok(Term { field: self.needed_field()?, condition })
    }

    fn compared(
        &self,
        comparison: Comparison,
        value: Scalar,
        place: &str,
    ) -> Result<Condition, Fault> {
        comparison.with(value).map_err(|problem| self.cursor.fault_at(place, problem))
    }

    fn comparison(&mut self) -> Result<Option<Comparison>, Fault> {
        for (mark, comparison) in COMPARISONS {
            if self.cursor.take(mark) {
                return Ok(Some(comparison));
            }
        }
        if self.cursor.rest.starts_with('=') {
            return Err(self.cursor.fault("equality is written =="));
        }
        Ok(None)
    }

    fn list(&mut self) -> Result<Vec<Scalar>, Fault> {
        self.expect("[", "expected a list in brackets")?;
        let mut values = Vec::new();
        loop {
            self.cursor.skip_space();
            values.push(self.needed_value()?);
            if !self.cursor.take_next(",") {
                break;
            }
        }
        self.expect("]", "expected , or ]")?;
        Ok(values)
    }

    fn needed_field(&mut self) -> Result<Field, Fault> {
        self.cursor.skip_space();
        match self.field()? {
            (field, None) => Ok(field),
            (_, Some(_)) => Err(self.cursor.fault("expected a field, not a call")),
        }
    }

    /// Parses a field, up to the parenthesis if it is called.
    fn field(&mut self) -> Result<(Field, Option<Call>), Fault> {
        let attribute = self.cursor.take("attributes");
        if !attribute && !self.cursor.take("data") {
            return Err(self.cursor.fault("expected data or attributes"));
        }
        let mut path = Vec::new();
        let mut call = None;
        while call.is_none() {
            let before = self.cursor.rest;
            let Some(segment) = self.segment()? else { break };
            let named = before.trim_start().starts_with('.');
            if named && self.cursor.rest.trim_start().starts_with('(') {
                self.cursor.skip_space();
                call = Some(self.called(&segment, before)?);
            } else if attribute && !path.is_empty() {
                let problem = "an attribute has no fields; write attributes[\"a.b\"]";
                return Err(self.cursor.fault_at(before, problem));
            } else if path.len() == FIELD_SEGMENTS_MAX {
                let problem = format!("more than {FIELD_SEGMENTS_MAX} names in a path");
                return Err(self.cursor.fault_at(before, problem).too_complex());
            } else {
                path.push(segment);
            }
        }
        match (attribute, path.len()) {
            (_, 0) => Err(self.cursor.fault("expected . and a name, or [")),
            (true, _) => Ok((Field::Attribute(path.swap_remove(0)), call)),
            (false, _) => Ok((Field::Data(path), call)),
        }
    }

    fn called(&self, name: &str, place: &str) -> Result<Call, Fault> {
        match name {
            "startsWith" => Ok(Call::StartsWith),
            "contains" => Ok(Call::Contains),
            _ => {
                let problem = "there are only the calls startsWith and contains";
                Err(self.cursor.fault_at(place, problem))
            }
        }
    }

    fn segment(&mut self) -> Result<Option<String>, Fault> {
        if self.cursor.take_next(".") {
            self.cursor.skip_space();
            let name = self.name();
            if !is_identifier(name) {
                return Err(self.cursor.fault("expected a name; others are written [\"…\"]"));
            }
            self.cursor.take(name);
            return Ok(Some(name.to_owned()));
        }
        if self.cursor.take_next("[") {
            self.cursor.skip_space();
            if !self.cursor.rest.starts_with(['"', '\'']) {
                return Err(self.cursor.fault("expected a name in quotes"));
            }
            let name = literal::quoted(&mut self.cursor)?;
            self.expect("]", "expected ]")?;
            return Ok(Some(name));
        }
        Ok(None)
    }

    /// The next name; empty = there is none.
    fn name(&self) -> &'text str {
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        self.cursor.rest.split(end).next().unwrap_or_default()
    }

    fn value(&mut self) -> Result<Option<Scalar>, Fault> {
        if self.cursor.rest.starts_with(['"', '\'']) {
            return literal::quoted(&mut self.cursor).map(|text| Some(Scalar::Text(text)));
        }
        plain_value(&mut self.cursor)
    }

    fn needed_value(&mut self) -> Result<Scalar, Fault> {
        match self.value()? {
            Some(value) => Ok(value),
            None => Err(self.cursor.fault("expected a string, a number, true, false or null")),
        }
    }

    fn expect(&mut self, mark: &str, problem: &str) -> Result<(), Fault> {
        if self.cursor.take_next(mark) { Ok(()) } else { Err(self.cursor.fault(problem)) }
    }
}

/// How a field is compared with a value.
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equals,
    Unequal,
    Ordered(Order),
}

/// Longer operators first.
pub(super) const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equals),
    ("!=", Comparison::Unequal),
    (">=", Comparison::Ordered(Order::AtLeast)),
    ("<=", Comparison::Ordered(Order::AtMost)),
    (">", Comparison::Ordered(Order::Above)),
    ("<", Comparison::Ordered(Order::Below)),
];

impl Comparison {
    /// With the sides swapped.
    fn turned(self) -> Self {
        match self {
            Self::Ordered(Order::Above) => Self::Ordered(Order::Below),
            Self::Ordered(Order::AtLeast) => Self::Ordered(Order::AtMost),
            Self::Ordered(Order::Below) => Self::Ordered(Order::Above),
            Self::Ordered(Order::AtMost) => Self::Ordered(Order::AtLeast),
            same => same,
        }
    }

    /// Compares with this value, or says why that is not possible.
    pub(super) fn with(self, value: Scalar) -> Result<Condition, &'static str> {
        match (self, value) {
            (Self::Equals, value) => Ok(Condition::Equals(value)),
            (Self::Unequal, value) => Ok(Condition::Unequal(value)),
            (Self::Ordered(order), value @ (Scalar::Number(_) | Scalar::Text(_))) => {
                Ok(Condition::Ordered(order, value))
            }
            (Self::Ordered(_), _) => Err("only numbers and strings have an order"),
        }
    }
}

//! A canonical filter in few bytes, for running it and for comparing it with others.
//!
//! ```text
//! program = flags [ node ]                no node: everything matches
//! node    = ALL length { node } | ANY length { node } | NOT term | term
//! term    = condition path value …
//! ```
//!
//! Fields are numbers of `Paths`. Equal filters of one collection have equal programs.

use super::paths::Paths;
use super::scratch::Look;
use crate::filter::{Condition, Expression, Order, Scalar, ScalarRef, Seen, Term};
use crate::json::Number;
use crate::message::{put_varint, take_varint};

/// The filter tests the data.
pub(super) const NEEDS_DATA: u8 = 1;
/// The filter is filed in several places, and may be met more than once.
pub(super) const SEVERAL: u8 = 2;
/// The filter cannot be found by a value or a bound.
pub(super) const RESIDUAL: u8 = 4;

const ALL: u8 = 1;
const ANY: u8 = 2;
const NOT: u8 = 3;
const PRESENT: u8 = 4;
const EQUALS: u8 = 5;
const UNEQUAL: u8 = 6;
const ABOVE: u8 = 7;
const AT_LEAST: u8 = 8;
const BELOW: u8 = 9;
const AT_MOST: u8 = 10;
const IN: u8 = 11;
const STARTS_WITH: u8 = 12;
const CONTAINS: u8 = 13;
const INCLUDES: u8 = 14;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const TEXT: u8 = 3;
const DOUBLE: u8 = 4;
/// Whole numbers from zero up, followed by those below zero.
const WHOLE: u8 = 5;
const NEGATIVE: u8 = 6;

/// Writes the program of a canonical filter, whose fields it acquires; `None` = no filter.
pub(super) fn write(filter: Option<&Expression>, flags: u8, paths: &mut Paths) -> Vec<u8> {
    let mut program = vec![flags];
    if let Some(expression) = filter {
        node(expression, paths, &mut program);
    }
    program
}

fn node(expression: &Expression, paths: &mut Paths, out: &mut Vec<u8>) {
    match expression {
        Expression::Not(part) => {
            out.push(NOT);
            node(part, paths, out);
        }
        Expression::All(parts) => joined(ALL, parts, paths, out),
        Expression::Any(parts) => joined(ANY, parts, paths, out),
        Expression::Term(term) => {
            out.push(tag(&term.condition));
            put_varint(out, u64::from(paths.acquire(&term.field)));
            values(&term.condition, out);
        }
    }
}

fn joined(tag: u8, parts: &[Expression], paths: &mut Paths, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    for part in parts {
        node(part, paths, &mut inner);
    }
    out.push(tag);
    put_varint(out, inner.len() as u64);
    out.extend(inner);
}

fn tag(condition: &Condition) -> u8 {
    match condition {
        Condition::Present => PRESENT,
        Condition::Equals(_) => EQUALS,
        Condition::Differs(_) | Condition::Unequal(_) => UNEQUAL,
        Condition::Ordered(Order::Above, _) => ABOVE,
        Condition::Ordered(Order::AtLeast, _) => AT_LEAST,
        Condition::Ordered(Order::Below, _) => BELOW,
        Condition::Ordered(Order::AtMost, _) => AT_MOST,
        Condition::In(_) => IN,
        Condition::StartsWith(_) => STARTS_WITH,
        Condition::Contains(_) => CONTAINS,
        Condition::Includes(_) => INCLUDES,
    }
}

fn values(condition: &Condition, out: &mut Vec<u8>) {
    match condition {
        Condition::Present => {}
        Condition::Equals(value)
        | Condition::Differs(value)
        | Condition::Unequal(value)
        | Condition::Ordered(_, value)
        | Condition::Contains(value)
        | Condition::Includes(value) => put_scalar(value.borrow(), out),
        Condition::In(values) => {
            put_varint(out, values.len() as u64);
            values.iter().for_each(|value| put_scalar(value.borrow(), out));
        }
        Condition::StartsWith(prefix) => put_scalar(ScalarRef::Text(prefix.as_bytes()), out),
    }
}

/// Appends a value: equal bytes for equal values, and only for them.
pub(super) fn put_scalar(value: ScalarRef<'_>, out: &mut Vec<u8>) {
    match value {
        ScalarRef::Null => out.push(NULL),
        ScalarRef::Bool(false) => out.push(FALSE),
        ScalarRef::Bool(true) => out.push(TRUE),
        ScalarRef::Text(text) => {
            out.push(TEXT);
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
        ScalarRef::Number(number) => match number.to_bits() {
            (0, bits) => {
                out.push(WHOLE);
                put_varint(out, bits);
            }
            (1, bits) => {
                out.push(NEGATIVE);
                put_varint(out, !bits);
            }
            (_, bits) => {
                out.push(DOUBLE);
                out.extend_from_slice(&bits.to_le_bytes());
            }
        },
    }
}

/// Whether a message matches.
pub(super) fn run(program: &[u8], look: &Look<'_>) -> bool {
    let Some((flags, nodes)) = program.split_first() else { return false };
    if flags & NEEDS_DATA != 0 && !look.is_readable() {
        return false;
    }
    // Programs are our own: an unreadable one cannot occur, and would match nothing.
    nodes.is_empty() || run_node(&mut Reader(nodes), look).unwrap_or(false)
}

fn run_node(reader: &mut Reader<'_>, look: &Look<'_>) -> Option<bool> {
    match reader.byte()? {
        NOT => run_node(reader, look).map(|holds| !holds),
        tag @ (ALL | ANY) => {
            let mut inner = reader.part()?;
            let wanted = tag == ALL;
            while !inner.0.is_empty() {
                if run_node(&mut inner, look)? != wanted {
                    return Some(!wanted);
                }
            }
            Some(wanted)
        }
        tag => {
            let seen = look.get(reader.path()?);
            run_term(tag, seen, reader)
        }
    }
}

/// Reads the whole term even when the answer is known.
fn run_term(tag: u8, seen: Option<Seen<'_>>, reader: &mut Reader<'_>) -> Option<bool> {
    if tag == PRESENT {
        return Some(seen.is_some());
    }
    if tag == IN {
        let mut found = false;
        for _ in 0..reader.varint()? {
            let value = reader.scalar()?;
            found |= seen.is_some_and(|seen| seen.equals(value));
        }
        return Some(found);
    }
    let value = reader.scalar()?;
    let Some(seen) = seen else { return Some(false) };
    Some(match (tag, value) {
        (EQUALS, _) => seen.equals(value),
        (UNEQUAL, _) => !seen.equals(value),
        (STARTS_WITH, ScalarRef::Text(prefix)) => seen.starts_with(prefix),
        (CONTAINS, _) => seen.contains(value),
        (INCLUDES, _) => seen.includes(value),
        _ => seen.stands(order(tag)?, value),
    })
}

fn order(tag: u8) -> Option<Order> {
    Some(match tag {
        ABOVE => Order::Above,
        AT_LEAST => Order::AtLeast,
        BELOW => Order::Below,
        AT_MOST => Order::AtMost,
        _ => return None,
    })
}

/// The first order comparison that must hold for the program to match.
pub(super) fn first_ordered(program: &[u8]) -> Option<(u32, Order, ScalarRef<'_>)> {
    let mut reader = Reader(program.get(1..)?);
    if reader.0.first() == Some(&ALL) {
        reader.byte()?;
        reader = reader.part()?;
    }
    while !reader.0.is_empty() {
        let tag = reader.byte()?;
        if matches!(tag, ALL | ANY) {
            reader.part()?;
            continue;
        }
        let negated = tag == NOT;
        let tag = if negated { reader.byte()? } else { tag };
        let path = reader.path()?;
        match order(tag) {
            Some(order) if !negated => return Some((path, order, reader.scalar()?)),
            _ => reader.skip_values(tag)?,
        }
    }
    None
}

/// The filter a program was written from; `None` = no filter.
pub(super) fn read(program: &[u8], paths: &Paths) -> Option<Expression> {
    read_node(&mut Reader(program.get(1..)?), paths)
}

fn read_node(reader: &mut Reader<'_>, paths: &Paths) -> Option<Expression> {
    match reader.byte()? {
        NOT => Some(Expression::Not(Box::new(read_node(reader, paths)?))),
        tag @ (ALL | ANY) => {
            let mut inner = reader.part()?;
            let mut parts = Vec::new();
            while !inner.0.is_empty() {
                parts.push(read_node(&mut inner, paths)?);
            }
            Some(if tag == ALL { Expression::All(parts) } else { Expression::Any(parts) })
        }
        tag => {
            let field = paths.field(reader.path()?)?;
            Some(Expression::Term(Term { field, condition: read_condition(tag, reader)? }))
        }
    }
}

fn read_condition(tag: u8, reader: &mut Reader<'_>) -> Option<Condition> {
    if tag == PRESENT {
        return Some(Condition::Present);
    }
    if tag == IN {
        let count = reader.varint()?;
        let values = (0..count).map(|_| reader.scalar().map(owned));
        return values.collect::<Option<_>>().map(Condition::In);
    }
    let value = owned(reader.scalar()?);
    Some(match (tag, value) {
        (EQUALS, value) => Condition::Equals(value),
        (UNEQUAL, value) => Condition::Unequal(value),
        (CONTAINS, value) => Condition::Contains(value),
        (INCLUDES, value) => Condition::Includes(value),
        (STARTS_WITH, Scalar::Text(prefix)) => Condition::StartsWith(prefix),
        (_, value) => Condition::Ordered(order(tag)?, value),
    })
}

fn owned(value: ScalarRef<'_>) -> Scalar {
    match value {
        ScalarRef::Null => Scalar::Null,
        ScalarRef::Bool(bool) => Scalar::Bool(bool),
        ScalarRef::Number(number) => Scalar::Number(number),
        ScalarRef::Text(text) => Scalar::Text(String::from_utf8_lossy(text).into_owned()),
    }
}

/// The fields that a program names, with repeats.
pub(super) fn paths(program: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut reader = Reader(program.get(1..).unwrap_or_default());
    while gather(&mut reader, &mut found).is_some() {}
    found
}

fn gather(reader: &mut Reader<'_>, found: &mut Vec<u32>) -> Option<()> {
    match reader.byte()? {
        NOT => Some(()),
        // Continuing after the length enters the part.
        ALL | ANY => reader.varint().map(|_| ()),
        tag => {
            found.push(reader.path()?);
            reader.skip_values(tag)
        }
    }
}

struct Reader<'program>(&'program [u8]);

impl<'program> Reader<'program> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, rest) = take_varint(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    fn path(&mut self) -> Option<u32> {
        self.varint().and_then(|path| u32::try_from(path).ok())
    }

    fn take(&mut self, length: u64) -> Option<&'program [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// A part that is preceded by its length.
    fn part(&mut self) -> Option<Self> {
        let length = self.varint()?;
        self.take(length).map(Self)
    }

    fn scalar(&mut self) -> Option<ScalarRef<'program>> {
        Some(match self.byte()? {
            NULL => ScalarRef::Null,
            FALSE => ScalarRef::Bool(false),
            TRUE => ScalarRef::Bool(true),
            TEXT => {
                let length = self.varint()?;
                ScalarRef::Text(self.take(length)?)
            }
            DOUBLE => {
                let bytes = self.take(8)?.try_into().ok()?;
                ScalarRef::Number(Number::from_bits(2, u64::from_le_bytes(bytes)))
            }
            WHOLE => ScalarRef::Number(Number::from_bits(0, self.varint()?)),
            NEGATIVE => ScalarRef::Number(Number::from_bits(1, !self.varint()?)),
            _ => return None,
        })
    }

    fn skip_values(&mut self, tag: u8) -> Option<()> {
        let count = match tag {
            PRESENT => 0,
            IN => self.varint()?,
            _ => 1,
        };
        for _ in 0..count {
            self.scalar()?;
        }
        Some(())
    }
}

//! How a value in a message compares with one in a filter, defined only here.

use std::cmp::Ordering;

use super::ast::Order;
use crate::json::{self, Number};

/// A constant in a filter, wherever it is stored. Strings are UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarRef<'filter> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'filter [u8]),
}

/// A value found in a message. Strings are UTF-8, so byte order is code point order.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'message> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string; an attribute always is one.
    Text(&'message [u8]),
    /// A list, as validated JSON.
    List(&'message str),
    /// An object.
    Object,
}

impl<'message> Seen<'message> {
    /// Converts a JSON value; `buffer`, which must be empty, receives a string that had escapes.
    pub fn new(value: json::Value<'message>, buffer: &'message mut String) -> Self {
        match value {
            json::Value::Null => Self::Null,
            json::Value::Bool(bool) => Self::Bool(bool),
            json::Value::Number(number) => Self::Number(number),
            json::Value::List(text) => Self::List(text),
            json::Value::Object(_) => Self::Object,
            json::Value::Text(text) => match text.plain() {
                Some(plain) => Self::Text(plain.as_bytes()),
                None => {
                    text.append_to(buffer);
                    Self::Text(buffer.as_bytes())
                }
            },
        }
    }

    pub(crate) fn equals(self, wanted: ScalarRef<'_>) -> bool {
        match (self, wanted) {
            (Self::Null, ScalarRef::Null) => true,
            (Self::Bool(one), ScalarRef::Bool(two)) => one == two,
            (Self::Number(one), ScalarRef::Number(two)) => one == two,
            (Self::Text(one), ScalarRef::Text(two)) => one == two,
            _ => false,
        }
    }

    pub(crate) fn stands(self, order: Order, bound: ScalarRef<'_>) -> bool {
        let found = match (self, bound) {
            (Self::Number(one), ScalarRef::Number(two)) => one.cmp(&two),
            (Self::Text(one), ScalarRef::Text(two)) => one.cmp(two),
            _ => return false,
        };
        match order {
            Order::Above => found == Ordering::Greater,
            Order::AtLeast => found != Ordering::Less,
            Order::Below => found == Ordering::Less,
            Order::AtMost => found != Ordering::Greater,
        }
    }

    pub(crate) fn starts_with(self, prefix: &[u8]) -> bool {
        matches!(self, Self::Text(text) if text.starts_with(prefix))
    }

    pub(crate) fn contains(self, part: ScalarRef<'_>) -> bool {
        match (self, part) {
            (Self::Text(text), ScalarRef::Text(part)) => {
                // Both are UTF-8: validating them costs less than searching byte by byte.
                match (std::str::from_utf8(text), std::str::from_utf8(part)) {
                    (Ok(text), Ok(part)) => text.contains(part),
                    _ => false,
                }
            }
            _ => self.includes(part),
        }
    }

    pub(crate) fn includes(self, element: ScalarRef<'_>) -> bool {
        let Self::List(text) = self else { return false };
        json::Value::List(text).elements().any(|value| is(value, element))
    }
}

fn is(value: json::Value<'_>, wanted: ScalarRef<'_>) -> bool {
    match (value, wanted) {
        (json::Value::Null, ScalarRef::Null) => true,
        (json::Value::Bool(one), ScalarRef::Bool(two)) => one == two,
        (json::Value::Number(one), ScalarRef::Number(two)) => one == two,
        (json::Value::Text(one), ScalarRef::Text(two)) => {
            std::str::from_utf8(two).is_ok_and(|two| one.is(two))
        }
        _ => false,
    }
}

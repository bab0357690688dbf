//! A document's field: where its value comes from, and what it must be.

use domain::{Invalid, Timestamp};
use serde_json::Value as Json;

use super::settings::{FieldSettings, Type};
use super::source::{Seen, Source};
use super::template::Template;
use crate::effects::Value;
use crate::{Failure, clock};

/// A field, ready.
#[derive(Clone, Debug)]
pub(super) struct Field {
    from: From,
    kind: Option<Type>,
    is_optional: bool,
}

#[derive(Clone, Debug)]
enum From {
    Source(Source),
    Template(Template),
    Constant(Value),
}

impl Field {
    /// Checks a field. A refusal names `field`.
    pub(super) fn new(field: &str, settings: FieldSettings) -> Result<Self, Invalid> {
        let FieldSettings { from, template, constant, kind, optional } = settings;
        let wrong = |problem: &str| Err(Invalid::new(field, problem));
        let from = match (from, template, constant) {
            (Some(place), None, None) => From::Source(Source::parse(field, &place)?),
            (None, Some(text), None) => From::Template(Template::parse(field, &text)?),
            (None, None, Some(value)) => From::Constant(constant_value(field, value)?),
            _ => return wrong("needs exactly one of from, template and constant"),
        };
        match (&from, kind) {
            (From::Template(_), Some(kind)) if kind != Type::Text => {
                return wrong("a template makes text: leave out type, or use from");
            }
            (From::Constant(_), Some(_)) => return wrong("a constant has its type already"),
            _ => {}
        }
        if optional && !matches!(from, From::Source(_)) {
            return wrong("only a field with from can be optional");
        }
        Ok(Self { from, kind, is_optional: optional })
    }

    /// Whether what it makes is always a number.
    pub(super) fn is_number(&self) -> bool {
        match &self.from {
            From::Source(_) => matches!(self.kind, Some(Type::Integer | Type::Double)),
            From::Template(_) => false,
            From::Constant(value) => matches!(value, Value::Integer(_) | Value::Double(_)),
        }
    }

    /// The value for a message; `None` = it is left out.
    pub(super) fn value(&self, seen: &Seen<'_>) -> Result<Option<Value>, Failure> {
        match &self.from {
            From::Constant(value) => Ok(Some(value.clone())),
            From::Template(template) => template.render(seen).map(|text| Some(Value::Text(text))),
            From::Source(source) => match source.find(seen)? {
                Some(found) => typed(source, self.kind, found).map(Some),
                None if self.is_optional => Ok(None),
                None => source.get(seen).map(|_| None),
            },
        }
    }
}

/// The time at `source`, which must be there.
pub(super) fn time(source: &Source, kind: Type, seen: &Seen<'_>) -> Result<Timestamp, Failure> {
    match typed(source, Some(kind), source.get(seen)?)? {
        Value::Time(at) => Ok(at),
        _ => Err(wrong_type(source, Type::Time)),
    }
}

/// What is made of a value that must be of this type.
fn typed(source: &Source, kind: Option<Type>, found: Json) -> Result<Value, Failure> {
    let Some(kind) = kind else { return Ok(any(found)) };
    let value = match (kind, &found) {
        (Type::Text, Json::String(text)) => Some(Value::Text(text.clone())),
        (Type::Integer, Json::Number(number)) => number.as_i64().map(Value::Integer),
        (Type::Integer, Json::String(text)) => text.parse().ok().map(Value::Integer),
        (Type::Double, Json::Number(number)) => number.as_f64().map(Value::Double),
        (Type::Double, Json::String(text)) => {
            text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double)
        }
        (Type::Bool, Json::Bool(value)) => Some(Value::Bool(*value)),
        (Type::Bool, Json::String(text)) => text.parse().ok().map(Value::Bool),
        (Type::Time, Json::String(text)) => clock::parse(text).map(Value::Time),
        (Type::TimeSeconds, _) => whole(&found).and_then(|n| n.checked_mul(1_000_000)).map(at),
        (Type::TimeMillis, _) => whole(&found).and_then(|n| n.checked_mul(1_000)).map(at),
        (Type::List, Json::Array(_)) | (Type::Map, Json::Object(_)) => Some(any(found)),
        _ => None,
    };
    value.ok_or_else(|| wrong_type(source, kind))
}

fn at(micros: u64) -> Value {
    Value::Time(Timestamp(micros))
}

fn whole(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.as_u64(),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn wrong_type(source: &Source, kind: Type) -> Failure {
    Failure {
        kind: "WrongType".to_owned(),
        code: None,
        message: format!("{source}: must be of type {}", kind.as_str()),
    }
}

/// The value as it is. A whole number beyond 64 bits becomes a double.
fn any(value: Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Integer(whole),
            None => Value::Double(number.as_f64().unwrap_or(f64::INFINITY)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(values) => Value::List(values.into_iter().map(any).collect()),
        Json::Object(values) => {
            Value::Map(values.into_iter().map(|(name, value)| (name, any(value))).collect())
        }
    }
}

fn constant_value(field: &str, value: toml::Value) -> Result<Value, Invalid> {
    Ok(match value {
        toml::Value::String(text) => Value::Text(text),
        toml::Value::Integer(number) => Value::Integer(number),
        toml::Value::Float(number) => Value::Double(number),
        toml::Value::Boolean(value) => Value::Bool(value),
        toml::Value::Datetime(time) => {
            let at = clock::parse(&time.to_string()).ok_or_else(|| {
                Invalid::new(field, "a constant time needs date, time and offset, since 1970")
            })?;
            Value::Time(at)
        }
        toml::Value::Array(values) => {
            let each = values.into_iter().map(|value| constant_value(field, value));
            Value::List(each.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(values) => {
            let each =
                values.into_iter().map(|(name, value)| Ok((name, constant_value(field, value)?)));
            Value::Map(each.collect::<Result<_, Invalid>>()?)
        }
    })
}

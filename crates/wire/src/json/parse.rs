//! From JSON text to a tree.

use std::fmt::{Formatter, Result as FmtResult};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, JsonError, VALUES_MAX};

/// Reads JSON text into a tree. Names given twice in one object, nesting beyond [`DEPTH_MAX`], more
/// than [`VALUES_MAX`] values and anything after the value are errors; those of syntax say line and
/// column.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let mut path = Vec::new();
    let mut values_left = VALUES_MAX;
    let node = Node { path: &mut path, values_left: &mut values_left };
    let parsed = node.deserialize(&mut reader);
    let parsed = parsed.and_then(|value| reader.end().map(|()| value));
    parsed.map_err(|error| locate(&error, &path))
}

fn locate(error: &serde_json::Error, path: &[Step]) -> JsonError {
    let message = if error.is_eof() {
        format!("text ends early at line {} column {}", error.line(), error.column())
    } else {
        error.to_string()
    };
    path.iter().rev().fold(JsonError::new(message), |error, step| match step {
        Step::Member(name) => error.in_member(name),
        Step::Item(index) => error.in_item(*index),
    })
}

/// One step from the whole towards the place that is read.
enum Step {
    Member(String),
    Item(usize),
}

/// Reads one value. `path` leads to it; after an error it leads to the place of the error.
struct Node<'a> {
    path: &'a mut Vec<Step>,
    /// How many values more there may be: three bytes of text are ten times as many here.
    values_left: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let Some(left) = self.values_left.checked_sub(1) else {
            return Err(D::Error::custom(format_args!("more than {VALUES_MAX} values")));
        };
        *self.values_left = left;
        reader.deserialize_any(self)
    }
}

impl Node<'_> {
    /// What reads a value inside of this one.
    fn inner(&mut self) -> Node<'_> {
        Node { path: self.path, values_left: self.values_left }
    }

    fn check_depth<E: Error>(&self) -> Result<(), E> {
        if self.path.len() >= DEPTH_MAX {
            return Err(E::custom(format_args!("nested more than {DEPTH_MAX} levels deep")));
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut values = Vec::new();
        loop {
            self.path.push(Step::Item(values.len()));
            let item = items.next_element_seed(self.inner())?;
            self.path.pop();
            match item {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut values = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let duplicate = values.contains_key(&name);
            self.path.push(Step::Member(name.clone()));
            if duplicate {
                return Err(A::Error::custom("given twice"));
            }
            let value = members.next_value_seed(self.inner())?;
            self.path.pop();
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

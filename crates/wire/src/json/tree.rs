//! From a JSON tree to a message.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, JsonError};

/// A value of the tree and how deep it lies.
pub(super) struct Tree {
    value: Value,
    depth: usize,
}

impl Tree {
    pub(super) fn new(value: Value) -> Self {
        Self { value, depth: 0 }
    }

    /// The depth of what lies inside.
    fn depth_inside(&self) -> Result<usize, JsonError> {
        if self.depth >= DEPTH_MAX {
            return Err(JsonError::new(format!("nested more than {DEPTH_MAX} levels deep")));
        }
        Ok(self.depth + 1)
    }

    fn into_members(
        self,
        of_message: Option<&'static [&'static str]>,
    ) -> Result<Members, JsonError> {
        let depth = self.depth_inside()?;
        match self.value {
            Value::Object(members) => Ok(Members {
                members: members.into_iter(),
                pending: None,
                message_fields: of_message,
                depth,
            }),
            other => Err(JsonError::wrong_type("an object", unexpected(&other))),
        }
    }

    fn into_items(self) -> Result<Items, JsonError> {
        let depth = self.depth_inside()?;
        match self.value {
            Value::Array(items) => Ok(Items { items: items.into_iter().enumerate(), depth }),
            other => Err(JsonError::wrong_type("an array", unexpected(&other))),
        }
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(flag) => Unexpected::Bool(*flag),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, JsonError> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => visitor.visit_u64(number),
        (None, Some(number)) => visitor.visit_i64(number),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

impl<'de> Deserializer<'de> for Tree {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::String(text) => visitor.visit_string(text),
            Value::Number(number) => visit_number(&number, visitor),
            Value::Array(_) => visitor.visit_seq(self.into_items()?),
            Value::Object(_) => visitor.visit_map(self.into_members(None)?),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_seq(self.into_items()?)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_map(self.into_members(None)?)
    }

    /// Messages ask for a struct, maps and `Struct` for a map: only in messages is null absent.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_map(self.into_members(Some(fields))?)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// The items of an array.
struct Items {
    items: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    depth: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, JsonError> {
        let Some((index, value)) = self.items.next() else {
            return Ok(None);
        };
        let item = Tree { value, depth: self.depth };
        seed.deserialize(item).map(Some).map_err(|error| error.in_item(index))
    }
}

/// The members of an object.
struct Members {
    members: <Map<String, Value> as IntoIterator>::IntoIter,
    /// The member whose name has been handed out and whose value has not.
    pending: Option<(String, Value)>,
    /// The fields of the message that is read, if it is one.
    message_fields: Option<&'static [&'static str]>,
    depth: usize,
}

impl Members {
    fn next_given(&mut self) -> Option<(String, Value)> {
        let fields = self.message_fields;
        // An unknown field is handed on even if null, so that it is refused.
        let absent = |name: &str, value: &Value| {
            value.is_null() && fields.is_some_and(|fields| fields.contains(&name))
        };
        self.members.find(|(name, value)| !absent(name, value))
    }
}

impl<'de> MapAccess<'de> for Members {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, JsonError> {
        let Some((name, value)) = self.next_given() else {
            return Ok(None);
        };
        let reader: StrDeserializer<'_, JsonError> = name.as_str().into_deserializer();
        let key = seed.deserialize(reader).map_err(|error| error.in_member(&name))?;
        self.pending = Some((name, value));
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        let Some((name, value)) = self.pending.take() else {
            return Err(JsonError::new("value asked for before its name"));
        };
        let member = Tree { value, depth: self.depth };
        seed.deserialize(member).map_err(|error| error.in_member(&name))
    }
}

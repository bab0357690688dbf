//! `google.protobuf.Struct`, `Value` and `ListValue`: JSON inside a message.

use std::collections::BTreeMap;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error, Serialize, Serializer};

/// A JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// Its members.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A JSON array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Its items.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

/// Any JSON value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// The value; none is malformed and has no JSON form.
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<Kind>,
}

/// The kinds of JSON values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// `null`; the number is always 0.
    #[prost(int32, tag = "1")]
    NullValue(i32),
    /// A number.
    #[prost(double, tag = "2")]
    NumberValue(f64),
    /// A string.
    #[prost(string, tag = "3")]
    StringValue(String),
    /// `true` or `false`.
    #[prost(bool, tag = "4")]
    BoolValue(bool),
    /// An object.
    #[prost(message, tag = "5")]
    StructValue(Struct),
    /// An array.
    #[prost(message, tag = "6")]
    ListValue(ListValue),
}

impl From<Kind> for Value {
    fn from(kind: Kind) -> Self {
        Self { kind: Some(kind) }
    }
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { fields: BTreeMap::deserialize(deserializer)? })
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None => Err(S::Error::custom("value is not set")),
            Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::NumberValue(number)) if !number.is_finite() => {
                Err(S::Error::custom("value is not a finite number"))
            }
            Some(Kind::NumberValue(number)) => serialize_number(*number, serializer),
            Some(Kind::StringValue(text)) => serializer.serialize_str(text),
            Some(Kind::BoolValue(flag)) => serializer.serialize_bool(*flag),
            Some(Kind::StructValue(object)) => object.serialize(serializer),
            Some(Kind::ListValue(list)) => list.values.serialize(serializer),
        }
    }
}

/// Writes whole numbers without a point, as they were most likely given.
fn serialize_number<S: Serializer>(number: f64, serializer: S) -> Result<S::Ok, S::Error> {
    match crate::json::scalar::whole_number(number) {
        Some(whole) => serializer.serialize_i64(whole),
        None => serializer.serialize_f64(number),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self::from)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Kind, E> {
        Ok(Kind::NullValue(0))
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Kind, E> {
        Ok(Kind::BoolValue(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Kind, E> {
        Ok(Kind::StringValue(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(Kind::ListValue(ListValue { values }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Kind, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = members.next_entry()? {
            fields.insert(name, value);
        }
        Ok(Kind::StructValue(Struct { fields }))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    const TEXT: &str = r#"{"a":null,"b":[1,2.5,"x",true],"c":{"d":-3}}"#;

    #[test]
    fn json_goes_there_and_back_with_its_nulls() {
        let read: Struct = crate::json::from_slice(TEXT.as_bytes()).unwrap();
        assert_eq!(read.fields["a"], Value::from(Kind::NullValue(0)));
        assert_eq!(serde_json::to_string(&read).unwrap(), TEXT);
    }

    #[test]
    fn what_json_may_nest_can_be_decoded_again() {
        let depth = crate::json::DEPTH_MAX;
        let text = format!("{}{}", r#"{"a":"#.repeat(depth - 1) + "{}", "}".repeat(depth - 1));
        let read: Struct = crate::json::from_slice(text.as_bytes()).unwrap();
        assert_eq!(Struct::decode(read.encode_to_vec().as_slice()).unwrap(), read);
    }

    #[test]
    fn values_without_a_json_form_are_not_written() {
        for kind in
            [None, Some(Kind::NumberValue(f64::NAN)), Some(Kind::NumberValue(f64::INFINITY))]
        {
            assert!(serde_json::to_string(&Value { kind }).is_err());
        }
    }
}

//! Values and field paths as Firestore has them.

use std::collections::BTreeMap;

use domain::Timestamp;

use super::api;
use super::api::value::ValueType;
use crate::effects::Value;

/// The value as Firestore has it.
pub fn to_api(value: &Value) -> api::Value {
    let kind = match value {
        Value::Null => ValueType::NullValue(0),
        Value::Bool(value) => ValueType::BooleanValue(*value),
        Value::Integer(value) => ValueType::IntegerValue(*value),
        Value::Double(value) => ValueType::DoubleValue(*value),
        Value::Text(value) => ValueType::StringValue(value.clone()),
        Value::Time(at) => ValueType::TimestampValue(time_to_api(*at)),
        Value::List(values) => {
            let values = values.iter().map(to_api).collect();
            ValueType::ArrayValue(api::ArrayValue { values })
        }
        Value::Map(values) => ValueType::MapValue(api::MapValue { fields: fields(values) }),
    };
    api::Value { value_type: Some(kind) }
}

/// Fields as Firestore has them.
pub(super) fn fields(values: &BTreeMap<String, Value>) -> BTreeMap<String, api::Value> {
    values.iter().map(|(name, value)| (name.clone(), to_api(value))).collect()
}

/// The value as this crate has it; `None` = a kind that no effect writes: bytes, a reference, a
/// place, or a time before 1970.
pub fn from_api(value: &api::Value) -> Option<Value> {
    Some(match value.value_type.as_ref()? {
        ValueType::NullValue(_) => Value::Null,
        ValueType::BooleanValue(value) => Value::Bool(*value),
        ValueType::IntegerValue(value) => Value::Integer(*value),
        ValueType::DoubleValue(value) => Value::Double(*value),
        ValueType::StringValue(value) => Value::Text(value.clone()),
        ValueType::TimestampValue(at) => Value::Time(time_from_api(at)?),
        ValueType::ArrayValue(list) => {
            Value::List(list.values.iter().map(from_api).collect::<Option<_>>()?)
        }
        ValueType::MapValue(map) => {
            let value = |(name, value): (&String, _)| Some((name.clone(), from_api(value)?));
            Value::Map(map.fields.iter().map(value).collect::<Option<_>>()?)
        }
        ValueType::BytesValue(_) | ValueType::ReferenceValue(_) | ValueType::GeoPointValue(_) => {
            return None;
        }
    })
}

/// Firestore keeps microseconds, as we do.
pub(super) fn time_to_api(at: Timestamp) -> prost_types::Timestamp {
    let seconds = i64::try_from(at.seconds()).unwrap_or(i64::MAX);
    // Below one thousand million by construction.
    let nanos = i32::try_from(at.subsecond_nanos()).unwrap_or_default();
    prost_types::Timestamp { seconds, nanos }
}

pub(super) fn time_from_api(at: &prost_types::Timestamp) -> Option<Timestamp> {
    let seconds = u64::try_from(at.seconds).ok()?;
    let micros = u64::try_from(at.nanos).ok()? / 1_000;
    Some(Timestamp(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

/// A field's name as a path has it: in backticks unless it is a plain word.
pub(super) fn field_path(name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins_well && name.chars().all(is_word) {
        return name.to_owned();
    }
    let escaped = name.replace('\\', "\\\\").replace('`', "\\`");
    format!("`{escaped}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_went() {
        let map = BTreeMap::from([("a.b".to_owned(), Value::Double(0.5))]);
        let values = Value::List(vec![
            Value::Null,
            Value::Bool(true),
            Value::Integer(i64::MIN),
            Value::Text("ü".to_owned()),
            Value::Time(Timestamp(1_800_000_000_123_456)),
            Value::Map(map),
        ]);
        assert_eq!(from_api(&to_api(&values)), Some(values));
        let bytes = api::Value { value_type: Some(ValueType::BytesValue("x".into())) };
        assert_eq!(from_api(&bytes), None);
        let early = prost_types::Timestamp { seconds: -1, nanos: 0 };
        assert_eq!(time_from_api(&early), None);
    }

    #[test]
    fn names_that_are_no_words_are_quoted_in_paths() {
        for (name, path) in [
            ("plain_1", "plain_1"),
            ("1st", "`1st`"),
            ("a.b", "`a.b`"),
            ("a`b\\c", "`a\\`b\\\\c`"),
            ("", "``"),
        ] {
            assert_eq!(field_path(name), path);
        }
    }
}

//! Fields as JSON, for stores that keep JSON. Times become text, and stay text.

use serde_json::{Map, Number, Value as Json};

use super::document::Fields;
use super::{StoreError, Value};
use crate::{Failure, clock};

/// The fields as a JSON object.
pub(super) fn write(fields: &Fields) -> Result<Json, StoreError> {
    Ok(Json::Object(object(fields)?))
}

/// The fields of a JSON object.
pub(super) fn read(json: Json) -> Result<Fields, StoreError> {
    match json {
        Json::Object(object) => {
            Ok(object.into_iter().map(|(name, json)| (name, value(json))).collect())
        }
        _ => {
            let problem = "the stored body is not a JSON object; something else wrote it";
            Err(StoreError::Config(Failure::new("BrokenDocument", problem)))
        }
    }
}

fn object(fields: &Fields) -> Result<Map<String, Json>, StoreError> {
    fields.iter().map(|(name, value)| Ok((name.clone(), json(name, value)?))).collect()
}

fn json(name: &str, value: &Value) -> Result<Json, StoreError> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Integer(number) => Json::Number((*number).into()),
        Value::Double(number) => {
            let problem = || {
                let problem = format!("{name}: {number} cannot be written as JSON");
                StoreError::Refused(Failure::new("NotFinite", problem))
            };
            Json::Number(Number::from_f64(*number).ok_or_else(problem)?)
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::Time(time) => Json::String(clock::text(*time)),
        Value::List(values) => {
            Json::Array(values.iter().map(|value| json(name, value)).collect::<Result<_, _>>()?)
        }
        Value::Map(fields) => Json::Object(object(fields)?),
    })
}

fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Integer(whole),
            None => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(values) => Value::List(values.into_iter().map(value).collect()),
        Json::Object(object) => {
            Value::Map(object.into_iter().map(|(name, json)| (name, value(json))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    #[test]
    fn fields_come_back_as_they_were_but_times_as_text() {
        let inner = Fields::from([("b".to_owned(), Value::Bool(true))]);
        let fields = Fields::from([
            ("double".to_owned(), Value::Double(1.0)),
            ("integer".to_owned(), Value::Integer(i64::MIN)),
            ("list".to_owned(), Value::List(vec![Value::Null, Value::Map(inner)])),
            ("text".to_owned(), Value::Text("ü\0".to_owned())),
        ]);
        assert_eq!(read(write(&fields).unwrap()).unwrap(), fields);
        let time = Fields::from([("t".to_owned(), Value::Time(Timestamp(0)))]);
        let back = read(write(&time).unwrap()).unwrap();
        assert_eq!(back["t"], Value::Text("1970-01-01T00:00:00Z".to_owned()));
        let odd = Fields::from([("x".to_owned(), Value::Double(f64::NAN))]);
        assert!(matches!(write(&odd), Err(StoreError::Refused(_))));
    }
}

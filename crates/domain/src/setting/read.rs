//! Reading JSON values, with errors that name the field. `null` is "not given" throughout.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::backoff::parse_wait;
use crate::error::Invalid;

/// `true` or `false`.
pub fn switch(field: &str, value: &Value) -> Result<Option<bool>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(given) => Ok(Some(*given)),
        _ => Err(Invalid::new(field, "expected true or false")),
    }
}

/// A whole number from 0 up.
pub fn number(field: &str, value: &Value) -> Result<Option<u32>, Invalid> {
    match value {
        Value::Null => Ok(None),
        _ => match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Invalid::new(field, "expected a whole number")),
        },
    }
}

/// A whole number within bounds; `unit` is what it counts.
pub fn number_between(
    field: &str,
    value: &Value,
    (min, max): (u32, u32),
    unit: &str,
) -> Result<Option<u32>, Invalid> {
    let number = number(field, value)?;
    if let Some(number) = number {
        between(field, number, min, max, unit)?;
    }
    Ok(number)
}

/// Checks that a number is within its bounds; `unit` is what it counts, with a space before it.
pub fn between(field: &str, given: u32, min: u32, max: u32, unit: &str) -> Result<(), Invalid> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{given}{unit}, {min} to {max} are allowed")))
}

/// Text.
pub fn text(field: &str, value: &Value) -> Result<Option<String>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(Invalid::new(field, "expected text")),
    }
}

/// Text by key.
pub fn pairs(field: &str, value: &Value) -> Result<Option<BTreeMap<String, String>>, Invalid> {
    let wrong = || Invalid::new(field, "expected an object with string values");
    match value {
        Value::Null => Ok(None),
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| match value {
                Value::String(text) => Ok((key.clone(), text.clone())),
                _ => Err(wrong()),
            });
            Ok(Some(pairs.collect::<Result<_, _>>()?))
        }
        _ => Err(wrong()),
    }
}

/// A time with its unit: `250ms`, `5s`, `30m`, `2h`.
pub fn wait(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    text(field, value)?.map(|text| parse_wait(field, &text)).transpose()
}

/// A time as Google's JSON has it: `600s`, `1.5s`.
pub fn google_time(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    let Some(text) = text(field, value)? else { return Ok(None) };
    let time = text.ends_with('s').then(|| parse_wait(field, &text)).and_then(Result::ok);
    match time.filter(|_| !text.ends_with("ms")) {
        Some(time) => Ok(Some(time)),
        None => Err(Invalid::new(field, "negative, or not a valid duration")),
    }
}

/// The time as Google's JSON has it.
pub fn show_google_time(time: Duration) -> Value {
    let seconds = time.as_secs();
    match time.subsec_nanos() {
        0 => format!("{seconds}s").into(),
        nanos => format!("{seconds}.{nanos:09}s").into(),
    }
}

/// An object.
pub fn object<'v>(
    field: &str,
    value: &'v Value,
) -> Result<Option<&'v Map<String, Value>>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        _ => Err(Invalid::new(field, "expected an object")),
    }
}

/// What must be given.
pub fn needed<T>(field: &str, value: Option<T>) -> Result<T, Invalid> {
    value.ok_or_else(|| Invalid::new(field, "must be given"))
}

/// Why a field that nobody knows is refused. A name of a megabyte does not come back.
pub fn unknown(field: &str) -> Invalid {
    let shown: String = field.chars().take(100).collect();
    Invalid::new(shown, "unknown field")
}

/// Why two spellings of one setting are refused.
pub fn disagrees(field: &str) -> Invalid {
    Invalid::new(field, "conflicts with another spelling of this setting")
}

/// Digits only: `parse` alone would also take a sign.
pub fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_google_are_seconds() {
        let read = |text: &str| google_time("f", &json!(text));
        for (text, time) in [
            ("600s", Duration::from_secs(600)),
            ("1.5s", Duration::from_millis(1_500)),
            ("0.000000001s", Duration::from_nanos(1)),
        ] {
            assert_eq!(read(text), Ok(Some(time)));
            assert_eq!(google_time("f", &show_google_time(time)), Ok(Some(time)));
        }
        for bad in ["-1s", "10m", "250ms", "1", ""] {
            assert_eq!(read(bad).unwrap_err().field, "f", "{bad}");
        }
        assert_eq!(google_time("f", &Value::Null), Ok(None));
    }

    #[test]
    fn what_is_of_another_kind_is_named() {
        assert!(switch("f", &json!(1)).is_err() && text("f", &json!(1)).is_err());
        assert!(number("f", &json!(-1)).is_err() && number("f", &json!(1.5)).is_err());
        assert!(pairs("f", &json!({"a": 1})).is_err() && pairs("f", &json!([])).is_err());
        assert!(object("f", &json!("x")).is_err() && wait("f", &json!("soon")).is_err());
        assert_eq!(number_between("f", &json!(5), (1, 5), ""), Ok(Some(5)));
        assert!(number_between("f", &json!(6), (1, 5), "").is_err());
    }
}

//! The well-known types of `google.protobuf` that the definitions use, with the JSON form that
//! protobuf prescribes for each.

mod duration;
mod field_mask;
mod timestamp;
mod value;

use serde::{Deserialize, Serialize};

pub use duration::Duration;
pub use field_mask::FieldMask;
pub use timestamp::Timestamp;
pub use value::{Kind, ListValue, Struct, Value};

/// `google.protobuf.Empty`: the answer of a call that has nothing to say; `{}` in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// A value outside what its type can hold, such as a negative span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("value is out of range")
    }
}

impl std::error::Error for OutOfRange {}

const NANOS_PER_SECOND: i32 = 1_000_000_000;

/// The digits after the point: none, three, six or nine, as many as `nanos` needs.
fn write_fraction(nanos: u32, text: &mut String) {
    if nanos == 0 {
        return;
    }
    let parts = [nanos / 1_000_000, nanos / 1_000 % 1_000, nanos % 1_000].map(digits);
    let [[_, a, b, c], [_, d, e, f], [_, g, h, i]] = parts;
    let all = [b'.', a, b, c, d, e, f, g, h, i];
    let kept = match nanos {
        n if n.is_multiple_of(1_000_000) => 4,
        n if n.is_multiple_of(1_000) => 7,
        _ => 10,
    };
    text.push_str(str::from_utf8(&all[..kept]).unwrap_or_default());
}

/// The last four decimal digits of `number`.
fn digits(number: u32) -> [u8; 4] {
    [1_000, 100, 10, 1].map(|unit| b'0' + (number / unit % 10) as u8)
}

/// Reads one to nine digits after the point as nanoseconds.
fn parse_fraction(digits: &str) -> Option<i32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let read = parse_digits(digits)?;
    let missing = 9 - u32::try_from(digits.len()).ok()?;
    i32::try_from(read * 10_i64.pow(missing)).ok()
}

/// Reads decimal digits and nothing else: no sign, no blanks. At most 18 of them.
fn parse_digits(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.len() <= 18;
    if !plain || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_an_empty_object() {
        assert_eq!(serde_json::to_string(&Empty {}).unwrap(), "{}");
        assert_eq!(crate::json::from_slice::<Empty>(b"{}").unwrap(), Empty {});
        let error = crate::json::from_slice::<Empty>(br#"{"a":1}"#).unwrap_err();
        assert_eq!(error.to_string(), "a: unknown field");
    }

    #[test]
    fn fractions_have_three_six_or_nine_digits() {
        for (nanos, expected) in
            [(0, ""), (500_000_000, ".500"), (1_000, ".000001"), (1, ".000000001")]
        {
            let mut text = String::new();
            write_fraction(nanos, &mut text);
            assert_eq!(text, expected);
        }
        assert_eq!(parse_fraction("5"), Some(500_000_000));
        assert_eq!(parse_fraction("123456789"), Some(123_456_789));
        for bad in ["", "1234567890", "+5", "-5", " 5", "5x"] {
            assert_eq!(parse_fraction(bad), None, "{bad:?}");
        }
    }
}

//! Times and sizes as people write them: a number and its unit.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads `"250ms"`, `"5s"`, `"10m"`, `"12h"`, `"7d"`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a time; write for instance \"250ms\", \"5s\", \"10m\", \"12h\", \"7d\""
        )
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

/// Reads `"512KiB"`, `"64MiB"`, `"1GiB"`, `"10MB"`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a size; write for instance \"512KiB\", \"64MiB\", \"1GiB\", \"10MB\""
        )
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = match unit {
        "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// The number and the unit behind it; a space between them is fine.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// For `#[serde(deserialize_with)]` on a `Duration`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// For `#[serde(deserialize_with)]` on a number of bytes.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_bytes(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, ms) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("10m", 600_000),
            ("12h", 43_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("5 s", 5_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "5", "s", "-5s", "1.5s", "5 seconds", "5S", "99999999999999999999s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_duration(&format!("{}d", u64::MAX)).is_err());
    }

    #[test]
    fn sizes_have_a_unit() {
        for (text, bytes) in [
            ("1B", 1),
            ("512KiB", 512 * 1024),
            ("64MiB", 64 << 20),
            ("1GiB", 1 << 30),
            ("10MB", 10_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for bad in ["", "64", "MiB", "64M", "64mib", "-1MiB", "17179869184GiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}

//! Well-known types that are a text in JSON.

use std::str::FromStr;

use jiff::civil::Date;

use super::tree::Form;

/// Whether a text is a value of a well-known type.
pub(super) fn is_text_of(form: Form, text: &str) -> bool {
    match form {
        Form::Timestamp => is_timestamp(text),
        Form::Duration => is_duration(text),
        Form::FieldMask => is_field_mask(text),
        _ => false,
    }
}

/// RFC 3339, from year 1 to 9999, with up to nine digits of a second: `2026-01-02T03:04:05.6Z`.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    is_date(date) && is_time(time)
}

fn is_date(date: &str) -> bool {
    let mut parts = date.split('-');
    let year = digits(parts.next(), 4);
    let month = digits(parts.next(), 2);
    let day = digits(parts.next(), 2);
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else {
        return false;
    };
    year >= 1 && Date::new(year, month, day).is_ok()
}

/// `03:04:05.6` with `Z` or an offset behind it.
fn is_time(time: &str) -> bool {
    let zone = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (Some(clock), Some(zone)) = (time.get(..zone), time.get(zone..)) else { return false };
    let is_zone = match zone.strip_prefix(['+', '-']) {
        Some(offset) => is_clock(offset, 2),
        None => zone == "Z",
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, "0"), |(c, f)| (c, f));
    is_zone && is_clock(clock, 3) && is_fraction(fraction)
}

/// Hours, minutes and, as the third part, seconds.
fn is_clock(clock: &str, count: usize) -> bool {
    let bounds = [23, 59, 59];
    let mut parts = clock.split(':');
    let mut bounds = bounds.iter().take(count);
    bounds.all(|bound| digits::<u8>(parts.next(), 2).is_some_and(|part| part <= *bound))
        && parts.next().is_none()
}

/// Seconds with up to nine digits behind the point, and an `s`; at most 10,000 years.
fn is_duration(text: &str) -> bool {
    const SECONDS_MAX: u64 = 315_576_000_000;
    let Some(number) = text.strip_suffix('s') else { return false };
    let number = number.strip_prefix('-').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_whole = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
    is_whole
        && is_fraction(fraction)
        && whole.parse::<u64>().is_ok_and(|seconds| seconds <= SECONDS_MAX)
}

/// Paths in camel case, separated by commas: an underscore would not come back as it was.
fn is_field_mask(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    text.is_empty() || text.split(',').all(|path| !path.is_empty() && path.bytes().all(is_name))
}

fn is_fraction(digits: &str) -> bool {
    (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn digits<T: FromStr>(text: Option<&str>, count: usize) -> Option<T> {
    let text = text.filter(|text| text.len() == count)?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339() {
        for good in [
            "2026-01-02T03:04:05Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "2024-02-29T00:00:00.1+01:30",
            "2024-02-29T00:00:00-23:59",
        ] {
            assert!(is_timestamp(good), "{good}");
        }
        for bad in [
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04Z",
            "2026-02-29T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05.1234567890Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:05+0100",
            "2026-13-02T03:04:05Z",
            "äöüä",
        ] {
            assert!(!is_timestamp(bad), "{bad}");
        }
    }

    #[test]
    fn durations_are_seconds() {
        for good in ["0s", "1.5s", "-1.000000001s", "315576000000s"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in ["1", "s", ".5s", "1.s", "1.0000000001s", "315576000001s", "1m", "+1s", "--1s"] {
            assert!(!is_duration(bad), "{bad}");
        }
    }

    #[test]
    fn field_masks_are_camel_case_paths() {
        assert!(is_field_mask("") && is_field_mask("a") && is_field_mask("user.displayName,photo"));
        assert!(!is_field_mask("a_b") && !is_field_mask("a,") && !is_field_mask("a b"));
    }
}

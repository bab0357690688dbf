//! Numbers, bytes and keys as Protobuf's JSON has them: a number may be a text too.

use super::tree::Kind;

/// Whether an integer is one of the kind.
pub(super) fn is_signed(kind: Kind, value: i64) -> bool {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => i32::try_from(value).is_ok(),
        Kind::Uint32 | Kind::Fixed32 => u32::try_from(value).is_ok(),
        Kind::Uint64 | Kind::Fixed64 => value >= 0,
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Double | Kind::Float => true,
        _ => false,
    }
}

/// Whether an integer is one of the kind.
pub(super) fn is_unsigned(kind: Kind, value: u64) -> bool {
    match i64::try_from(value) {
        Ok(value) => is_signed(kind, value),
        Err(_) => {
            matches!(kind, Kind::Uint64 | Kind::Fixed64 | Kind::Double | Kind::Float)
        }
    }
}

/// Whether a number with a fraction or an exponent is one of the kind: `1.0` is an integer too.
pub(super) fn is_float(kind: Kind, value: f64) -> bool {
    // Beyond this, neighbouring numbers are more than 1 apart, and what was written is not known.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match kind {
        Kind::Double => true,
        Kind::Float => value.abs() <= f64::from(f32::MAX),
        _ => {
            #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
            let integer = || value as i64;
            value.fract() == 0.0 && value.abs() <= EXACT && is_signed(kind, integer())
        }
    }
}

/// Whether a text is a number of the kind.
pub(super) fn is_number(kind: Kind, text: &str) -> bool {
    if matches!(kind, Kind::Double | Kind::Float)
        && matches!(text, "NaN" | "Infinity" | "-Infinity")
    {
        return true;
    }
    // What Rust reads beyond JSON: signs in front, words.
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if text.starts_with(['+', '.']) || !text.bytes().all(is_plain) {
        return false;
    }
    if let Ok(value) = text.parse::<i64>() {
        return is_signed(kind, value);
    }
    if let Ok(value) = text.parse::<u64>() {
        return is_unsigned(kind, value);
    }
    text.parse::<f64>().is_ok_and(|value| value.is_finite() && is_float(kind, value))
}

/// Whether a text can be the key of a map with keys of the kind.
pub(super) fn is_key(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Text { .. } => true,
        Kind::Bool => matches!(text, "true" | "false"),
        kind => is_number(kind, text),
    }
}

/// Whether a text is base64, in either alphabet, with or without padding.
pub(super) fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    let is_whole = match digits.len() % 4 {
        0 => padding == 0,
        1 => false,
        rest => padding == 0 || padding + rest == 4,
    };
    is_whole && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_kind() {
        for (kind, good, bad) in [
            (Kind::Int32, "2147483647", "2147483648"),
            (Kind::Int32, "-2147483648", "-2147483649"),
            (Kind::Uint32, "4294967295", "-1"),
            (Kind::Uint64, "18446744073709551615", "18446744073709551616"),
            (Kind::Int64, "1e3", "1.5"),
            (Kind::Int64, "1.0", "+1"),
            (Kind::Float, "1e38", "1e39"),
            (Kind::Double, "-Infinity", "inf"),
            (Kind::Double, "1e39", "1e999"),
            (Kind::Int32, "0", ""),
            (Kind::Int32, "-0", " 1"),
        ] {
            assert!(is_number(kind, good), "{kind:?} {good}");
            assert!(!is_number(kind, bad), "{kind:?} {bad}");
        }
    }

    #[test]
    fn base64_may_go_without_padding() {
        for good in ["", "YQ==", "YQ", "YWI=", "YWI", "YWJj", "-_-_", "+/+/"] {
            assert!(is_base64(good), "{good}");
        }
        for bad in ["Y", "YQ=", "YQ===", "YWJj=", "Y Q=", "=", "ä"] {
            assert!(!is_base64(bad), "{bad}");
        }
    }
}

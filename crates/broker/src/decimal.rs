//! Numbers as text. The standard library's formatter costs several times as much, which matters
//! when it runs for every message.

/// Digits of the greatest `u64`.
const DIGITS_MAX: usize = 20;

/// Appends `number` with at least this many digits, zero-padded.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64, digits_min: usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut begin = DIGITS_MAX;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        if number == 0 && DIGITS_MAX - begin >= digits_min.max(1) {
            break;
        }
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        begin = at;
    }
    out.extend_from_slice(digits.get(begin..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(number: u64, digits_min: usize) -> String {
        let mut out = Vec::new();
        put(&mut out, number, digits_min);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_the_formatter_does() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567, u64::MAX - 1, u64::MAX] {
            assert_eq!(text(number, 0), number.to_string());
            assert_eq!(text(number, 6), format!("{number:06}"));
        }
    }

    proptest! {
        #[test]
        fn all_numbers_are(number: u64, digits in 0..20_usize) {
            prop_assert_eq!(text(number, digits), format!("{number:0digits$}"));
        }
    }
}

//! Percent-encoding in paths and query strings.

/// What `%2F` in a path segment means to the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    /// It stays as it is: it is part of a name and does not end a segment.
    Kept,
    /// It is a slash.
    Decoded,
}

/// Decodes percent-encoding. None if a `%` is not followed by two hex digits, or if the bytes
/// are not UTF-8.
pub(super) fn decode(text: &str, slash: Slash) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        rest = tail;
        let decoded = hex_digit(digits[0])? * 16 + hex_digit(digits[1])?;
        if decoded == b'/' && slash == Slash::Kept {
            bytes.push(b'%');
            bytes.extend_from_slice(digits);
        } else {
            bytes.push(decoded);
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode("a%2Bb%c3%A9", Slash::Kept).as_deref(), Some("a+bé"));
        assert_eq!(decode("a%2Fb", Slash::Kept).as_deref(), Some("a%2Fb"));
        assert_eq!(decode("a%2fb", Slash::Decoded).as_deref(), Some("a/b"));
        assert_eq!(decode("%252F", Slash::Kept).as_deref(), Some("%2F"));
    }

    #[test]
    fn malformed_escapes_are_refused() {
        for text in ["%", "%2", "a%zz", "%+1", "%ff", "%é0"] {
            assert_eq!(decode(text, Slash::Kept), None, "{text}");
        }
    }
}

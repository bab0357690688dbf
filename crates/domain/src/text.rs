//! Shortens texts that are too long to keep whole.

use std::borrow::Cow;

/// Replaces the omitted middle.
const LEFT_OUT: &str = "…";

/// `text` in at most `bytes_max` bytes. A longer one loses its middle: the beginning of an error
/// says what is wrong, and its end what to do about it.
pub fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let Some(room) = bytes_max.checked_sub(LEFT_OUT.len()) else {
        return Cow::Borrowed(text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default());
    };
    let begin = text.get(..text.floor_char_boundary(room - room / 2)).unwrap_or_default();
    let end = text.get(text.ceil_char_boundary(text.len() - room / 2)..).unwrap_or_default();
    Cow::Owned(format!("{begin}{LEFT_OUT}{end}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn beginning_and_end_of_a_long_text_stay() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("what is wrong: what to do", 13), "what …to do");
        assert_eq!(shortened("äöü", 3), "…");
        assert_eq!(shortened("äöü", 1), "");
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_bound(text: String, bytes_max in 0_usize..40) {
            let short = shortened(&text, bytes_max);
            prop_assert!(short.len() <= bytes_max);
            prop_assert_eq!(text.len() <= bytes_max, short == text);
        }
    }
}

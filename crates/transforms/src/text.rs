//! Texts that quote strangers.

use crate::limits::TEXT_BYTES_MAX;

/// What a text ends with when it was cut.
const CUT: &str = "…";

/// A text of at most `TEXT_BYTES_MAX` bytes on one line: control characters are spaces.
pub(crate) fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(TEXT_BYTES_MAX));
    for letter in text.chars() {
        let letter = if is_invisible(letter) { ' ' } else { letter };
        if clean.len() + letter.len_utf8() + CUT.len() > TEXT_BYTES_MAX {
            clean.push_str(CUT);
            break;
        }
        clean.push(letter);
    }
    clean
}

/// A piece of a stranger's text in quotes, shortened.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}{CUT}", text.get(..cut).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Control characters, and those that change the direction of a line or end it.
fn is_invisible(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    letter.is_control() || turns || matches!(letter, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for letter in ["x", "ä", "€", "🦀"] {
            let text = cleaned(&letter.repeat(1_000));
            assert!(text.len() <= TEXT_BYTES_MAX && text.len() > TEXT_BYTES_MAX - 8, "{letter}");
        }
        assert_eq!(cleaned("a\nb\0c\u{1b}[0m\u{202e}"), "a b c [0m ");
        assert!(quoted(&"\u{1}".repeat(1_000)).len() < TEXT_BYTES_MAX);
    }
}

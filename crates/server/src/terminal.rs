//! Text that others wrote, made harmless for the terminals that show it.
//!
//! A message, an error of an endpoint or a name may hold anything: sequences that move the cursor,
//! set the title or answer in the user's place, and marks that turn text around. Whatever steers
//! instead of being shown is written as JSON writes it, `\u001b`, so that it can be read.

use std::borrow::Cow;
use std::io;

/// Whether a character steers a terminal or the direction of text: the control characters of
/// ASCII and Latin-1 (C0, DEL, C1), line separators, and what orders text from right to left.
pub(crate) fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

/// Lines of text: their ends and tabs stay. JSON stays JSON that means the same, since in it such
/// characters stand within texts only.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Text that must stay within its line.
pub(crate) fn harmless_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Bytes that are text at least in part: what is no UTF-8 is written as `\xff`.
pub(crate) fn harmless_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&harmless(chunk.valid()));
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_meant = |c: char| is_steering(c) && !stays(c);
    if !text.contains(is_meant) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !is_meant(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            // All of them fit into four digits.
            _ => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(shown)
}

/// Writes only what is harmless. Each call must bring whole lines, as those who log do.
#[derive(Debug)]
pub(crate) struct Harmless<W>(pub(crate) W);

impl<W: io::Write> io::Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(harmless_bytes(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    /// Everything that could steer a terminal, with something to see around each.
    fn hostile() -> String {
        let all = (0..=char::MAX as u32).filter_map(char::from_u32).filter(|c| is_steering(*c));
        all.map(|c| format!("x{c}")).collect()
    }

    #[test]
    fn nothing_that_steers_is_left() {
        for named in ['\u{1b}', '\u{7f}', '\u{9b}', '\u{9d}', '\r', '\u{8}', '\u{202e}'] {
            assert!(is_steering(named), "{named:?}");
        }
        let left = |text: &str| text.chars().filter(|c| is_steering(*c)).collect::<String>();
        assert_eq!(left(&harmless_line(&hostile())), "");
        assert_eq!(left(&harmless(&hostile())), "\t\n");
        assert_eq!(harmless_line("a\u{1b}[2J\u{9b}b\n"), r"a\u001b[2J\u009bb\n");
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in ["", "plain", "ü → 注文 👩‍🚀", "two\n\tlines\n"] {
            assert!(matches!(harmless(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = json!({ hostile(): [hostile()] });
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = harmless(&text);
            assert_ne!(shown, text);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_one_by_one() {
        assert_eq!(harmless_bytes(b"a\xff\x9b31m\xc2\x9b\n"), "a\\xff\\x9b31m\\u009b\n");
        let mut out = Harmless(Vec::new());
        out.write_all("{\"a\":\"\u{7f}\"}\n".as_bytes()).unwrap();
        assert_eq!(out.0, b"{\"a\":\"\\u007f\"}\n");
    }
}

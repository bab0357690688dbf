//! How deep the brackets of a definition nest, found before it is parsed.
//!
//! The parser calls itself for each of them. It has a bound of its own for messages within
//! messages, and none is known for the values of options; a stack that overflows ends the process.

use crate::limits::DEFINITION_DEPTH_MAX;
use crate::problem::Problem;

/// Refuses a definition whose brackets nest too deep. Those in comments and texts do not count.
pub(super) fn check(definition: &str) -> Result<(), Problem> {
    let bytes = definition.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = bytes.get(at + 1);
        match (byte, next) {
            (b'/', Some(b'/')) => at = line_end(bytes, at),
            (b'/', Some(b'*')) => at = comment_end(bytes, at + 2),
            (b'"' | b'\'', _) => at = text_end(bytes, at),
            (b'{' | b'[' | b'(' | b'<', _) => depth += 1,
            (b'}' | b']' | b')' | b'>', _) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEFINITION_DEPTH_MAX {
            let what = format!("brackets nest deeper than {DEFINITION_DEPTH_MAX}");
            return Err(Problem::in_text(what, definition, at));
        }
        at += 1;
    }
    Ok(())
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, |rest| rest.starts_with(b"\n"))
}

fn comment_end(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, |rest| rest.starts_with(b"*/")).saturating_add(1)
}

/// The quote that ends a text. A text ends with its line at the latest: an open one is an error,
/// and must not hide the brackets behind it.
fn text_end(bytes: &[u8], from: usize) -> usize {
    let quote = bytes.get(from).copied().unwrap_or_default();
    let mut at = from + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return at,
            byte if *byte == quote => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

fn find(bytes: &[u8], from: usize, is_it: impl Fn(&[u8]) -> bool) -> usize {
    let found = (from..bytes.len()).find(|at| bytes.get(*at..).is_some_and(&is_it));
    found.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_comments_and_texts_do_not_count() {
        let many = "{".repeat(1_000);
        assert!(check(&format!("// {many}\n/* {many} */ '{many}' \"{many}\\\"{many}\"")).is_ok());
        assert!(check(&many).is_err());
        assert!(check(&format!("// \n{many}")).is_err());
        assert!(check(&format!("\"open\n{many}")).is_err());
        assert!(check(&"{}".repeat(1_000)).is_ok());
    }
}

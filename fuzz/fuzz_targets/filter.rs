//! Any text as a filter, and any bytes behind its first line break as a record body.
#![no_main]

use bytes::Bytes;
use domain::limits::FILTER_BYTES_MAX;
use domain::{Filter, message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or_default();
    let filter = match Filter::parse("filter", &text) {
        Ok(filter) => filter,
        Err(invalid) => return check_place(&invalid.problem, &text),
    };
    let canonical = filter.expression().to_string();
    if canonical.len() <= FILTER_BYTES_MAX {
        let again = Filter::parse("filter", &canonical).expect("canonical text is a filter");
        assert_eq!(again.expression(), filter.expression());
    }
    let matches = filter.matches(body);
    if let Ok(message) = message::decode(&Bytes::copy_from_slice(body)) {
        assert_eq!(matches, Ok(filter.matches_attributes(&message.attributes)));
    }
});

/// A refusal names a place from the first character to one behind the last.
fn check_place(problem: &str, text: &str) {
    let (position, _) = problem["at ".len()..].split_once(": ").expect("a place");
    let position: usize = position.parse().expect("a number");
    assert!((1..=text.chars().count() + 1).contains(&position), "{problem}");
}

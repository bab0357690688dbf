//! Any text as a filter in the CEL spelling, and any bytes behind its first line break as data.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::filter::Refusal;
use domain::matching::{self, Index, Scope, Scratch, Subject};
use domain::{Filter, Message, Offset, Timestamp, message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
    let data = parts.next().unwrap_or_default();
    let filter = match Filter::parse_cel("filter", &text) {
        Ok(filter) => filter,
        Err(refusal) => return check_place(&refusal, &text),
    };
    let canonical = filter.canonical();
    if let Ok(again) = Filter::parse_cel("filter", &canonical.cel()) {
        assert_eq!(again.canonical(), canonical);
    }
    if let Some(clauses) = filter.clauses()
        && let Ok(listed) = Filter::from_clauses("filters", &clauses)
    {
        assert_eq!(listed.map(|listed| listed.canonical()), Some(canonical.clone()));
    }
    check_match(&filter, data);
});

/// The index, the filter itself and the summary of interest agree.
fn check_match(filter: &Filter, data: &[u8]) {
    let message = Message {
        data: Bytes::copy_from_slice(data),
        attributes: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ordering_key: String::new(),
    };
    let mut record = Vec::new();
    message::encode(&message, Offset(7), Timestamp(1_500_000), &mut record);
    let mut index = Index::default();
    let scope = Arc::new(Scope { tenant: "t".into(), collection: "c".into() });
    index.insert(1, &scope, Some(&filter.canonical())).expect("the first one");
    let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
    let subject = Subject::of(&record).expect("our own record");
    index.matches("t", "c", subject, &mut scratch, &mut out).expect("our own record");
    assert_eq!(filter.matches(&record), Ok(out == [1]));
    matching::keys_of(subject, &mut keys).expect("our own record");
    assert!(out.is_empty() || index.interest("t", "c").may_want(&keys));
}

/// A refusal names a place from the first character to one behind the last.
fn check_place(refusal: &Refusal, text: &str) {
    let problem = &refusal.invalid().problem;
    let (position, _) = problem["at ".len()..].split_once(": ").expect("a place");
    let position: usize = position.parse().expect("a number");
    assert!((1..=text.chars().count() + 1).contains(&position), "{problem}");
}

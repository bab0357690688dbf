//! Filters, and the JSON that they look into.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::filter::{Clause, Refusal};
use domain::limits::FILTER_BYTES_MAX;
use domain::matching::{self, Index, Scope, Scratch, Subject};
use domain::{Filter, Message, Offset, Timestamp, json, message};

/// The text up to the first line break, and the bytes behind it.
fn parts(input: &[u8]) -> (String, &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    (text, parts.next().unwrap_or_default())
}

/// A refusal names a place from the first character to one behind the last.
fn check_place(problem: &str, text: &str) {
    let place = problem.strip_prefix("at ").and_then(|rest| rest.split_once(": "));
    let position = place.and_then(|(position, _)| position.parse::<usize>().ok());
    let is_inside =
        position.is_some_and(|position| (1..=text.chars().count() + 1).contains(&position));
    assert!(is_inside, "{problem}");
}

/// Any text as a filter in Google's language, and any bytes behind its first line break as a body.
pub(super) fn google(input: &[u8]) -> String {
    let (text, body) = parts(input);
    let filter = match Filter::parse("filter", &text) {
        Ok(filter) => filter,
        Err(invalid) => {
            check_place(&invalid.problem, &text);
            return invalid.problem;
        }
    };
    let canonical = filter.expression().to_string();
    if canonical.len() <= FILTER_BYTES_MAX {
        let again = Filter::parse("filter", &canonical);
        let again = again.as_ref().map(Filter::expression);
        assert_eq!(again.ok(), Some(filter.expression()), "canonical text is the filter");
    }
    let matches = filter.matches(body);
    if let Ok(message) = message::decode(&Bytes::copy_from_slice(body)) {
        assert_eq!(matches, Ok(filter.matches_attributes(&message.attributes)));
    }
    "read".to_owned()
}

/// Any text as a filter in the CEL spelling, and any bytes behind its first line break as data.
pub(super) fn cel(input: &[u8]) -> String {
    let (text, data) = parts(input);
    let filter = match Filter::parse_cel("filter", &text) {
        Ok(filter) => filter,
        Err(refusal) => return refused(&refusal, &text),
    };
    let canonical = filter.canonical();
    if let Ok(again) = Filter::parse_cel("filter", &canonical.cel()) {
        assert_eq!(again.canonical(), canonical);
    }
    if let Some(clauses) = filter.clauses()
        && let Ok(listed) = Filter::from_clauses("filters", &clauses)
    {
        assert_eq!(listed.map(|listed| listed.canonical()), Some(canonical));
    }
    check_match(&filter, data);
    "read".to_owned()
}

fn refused(refusal: &Refusal, text: &str) -> String {
    let problem = refusal.invalid().problem.clone();
    check_place(&problem, text);
    problem
}

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
    assert!(index.insert(1, &scope, Some(&filter.canonical())).is_ok(), "the first one");
    let (mut scratch, mut out, mut keys) = (Scratch::default(), Vec::new(), Vec::new());
    let Ok(subject) = Subject::of(&record) else { panic!("our own record") };
    let matched = index.matches("t", "c", subject, &mut scratch, &mut out);
    assert!(matched.is_ok(), "our own record");
    assert_eq!(filter.matches(&record), Ok(out == [1]));
    assert!(matching::keys_of(subject, &mut keys).is_ok(), "our own record");
    assert!(out.is_empty() || index.interest("t", "c").may_want(&keys));
}

/// Any bytes as JSON: read or refused, in the same way however they are gone through, and as
/// another library does.
pub(super) fn json(input: &[u8]) -> String {
    let text = std::str::from_utf8(input);
    let read = text.map_err(|_| json::NotJson).and_then(json::read);
    match serde_json::from_slice::<serde_json::Value>(input) {
        Ok(_) => assert!(read.is_ok(), "refused though it is JSON"),
        Err(error) => {
            let said = error.to_string();
            // It refuses numbers that no double holds, which are JSON, and one level less.
            let others = ["number out of range", "recursion limit"];
            let is_other = others.iter().any(|other| said.contains(other));
            assert!(is_other || read.is_err(), "read, but {said}");
        }
    }
    match json::open(input) {
        Err(_) => assert!(read.is_err()),
        Ok(None) => assert!(!matches!(read, Err(_) | Ok(json::Value::Object(_)))),
        Ok(Some(members)) => {
            let all = members.clone().all(|member| member.is_ok());
            assert_eq!(all, read.is_ok());
            for (name, _) in members.flatten() {
                let mut text = String::new();
                name.append_to(&mut text);
                assert!(name.is(&text));
            }
        }
    }
    let is_read = read.is_ok();
    if let Ok(value) = read {
        value.elements().for_each(drop);
    }
    let taken = ["==", ">", "in", "contains"].map(|op| check_clauses(op, input));
    format!("{is_read} {taken:?}")
}

fn check_clauses(op: &str, input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input).into_owned();
    let clause = Clause { field: text.clone(), op: op.to_owned(), value: text };
    let data = Clause { field: "data.a".to_owned(), ..clause.clone() };
    let mut is_taken = false;
    for clause in [clause, data] {
        if let Ok(Some(filter)) = Filter::from_clauses("filters", &[clause]) {
            let again = Filter::parse_cel("filter", filter.text());
            let again = again.as_ref().map(Filter::expression).ok();
            assert_eq!(again, Some(filter.expression()), "its own text");
            is_taken = true;
        }
    }
    is_taken
}

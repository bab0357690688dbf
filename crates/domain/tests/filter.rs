//! Filters of every shape on messages of every kind, and texts that are no filters.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::filter::{Condition, Expression, Field, Scalar, Term};
use domain::limits::FILTER_BYTES_MAX;
use domain::{Filter, Invalid, Message, Offset, Timestamp, message};
use proptest::prelude::*;

type Attributes = BTreeMap<String, String>;

/// Few and alike, so that filters and messages often name the same ones.
const KEYS: [&str; 10] =
    ["a", "b", "ab", "A", "", "-", "AND", "iana.org/x", "みんな", "q\"\\\n\u{7f}"];
const VALUES: [&str; 8] = ["", "a", "ab", "abc", "b", "é", "\u{0}\t'\"", "\\"];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&VALUES[..]).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        Just(Condition::Present),
        value().prop_map(|value| Condition::Equals(value.into())),
        value().prop_map(|value| Condition::Differs(value.into())),
        value().prop_map(Condition::StartsWith),
    ]
}

fn term() -> impl Strategy<Value = Expression> {
    (key(), condition())
        .prop_map(|(key, condition)| Term { field: Field::Attribute(key), condition })
        .prop_map(Expression::Term)
}

/// Trees whose canonical text is short enough to be a filter.
fn expression() -> impl Strategy<Value = Expression> {
    let tree = term().prop_recursive(4, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Expression::Not(Box::new(part))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::All),
            prop::collection::vec(inner, 2..4).prop_map(Expression::Any),
        ]
    });
    tree.prop_filter("longer than a filter may be", |tree| {
        tree.to_string().len() <= FILTER_BYTES_MAX
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    (
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::btree_map(key(), value(), 0..7),
        ".{0,4}",
    )
        .prop_map(|(data, attributes, ordering_key)| Message {
            data: Bytes::from(data),
            attributes,
            ordering_key,
        })
}

/// What the documentation says, word for word, and nothing shared with the code.
fn naive(expression: &Expression, attributes: &Attributes) -> bool {
    match expression {
        Expression::Not(part) => !naive(part, attributes),
        Expression::All(parts) => !parts.iter().any(|part| !naive(part, attributes)),
        Expression::Any(parts) => parts.iter().any(|part| naive(part, attributes)),
        Expression::Term(Term { field: Field::Attribute(key), condition }) => {
            match (condition, attributes.get(key)) {
                (Condition::Present, found) => found.is_some(),
                (Condition::Differs(_), None) => true,
                (_, None) => false,
                (Condition::Equals(Scalar::Text(wanted)), Some(value)) => value == wanted,
                (Condition::Differs(Scalar::Text(unwanted)), Some(value)) => value != unwanted,
                (Condition::StartsWith(prefix), Some(value)) => value.starts_with(prefix.as_str()),
                (other, _) => panic!("Google's language has no {other:?}"),
            }
        }
        Expression::Term(term) => panic!("Google's language has no {term:?}"),
    }
}

fn body(message: &Message) -> Vec<u8> {
    let mut body = Vec::new();
    message::encode(message, Offset(u64::MAX), Timestamp(1_500_000), &mut body);
    body
}

fn parse(text: &str) -> Result<Filter, Invalid> {
    Filter::parse("filter", text)
}

/// Reads `text`. What it is refused for must have a place in it; what is read must be kept as
/// given and mean the same in its canonical text.
fn read_anything(text: &str) {
    let filter = match parse(text) {
        Ok(filter) => filter,
        Err(invalid) => return assert!(has_place(&invalid, text), "{invalid} in {text:?}"),
    };
    assert_eq!(filter.text(), text);
    let canonical = filter.expression().to_string();
    if canonical.len() <= FILTER_BYTES_MAX {
        assert_eq!(parse(&canonical).unwrap().expression(), filter.expression(), "{text:?}");
    }
    let nothing = Message::default();
    let expected = naive(filter.expression(), &nothing.attributes);
    assert_eq!(filter.matches(&body(&nothing)), Ok(expected), "{text:?}");
}

/// A refusal names the field, and a place from the first character to one behind the last.
fn has_place(invalid: &Invalid, text: &str) -> bool {
    let place = invalid.problem.strip_prefix("at ").and_then(|rest| rest.split_once(": "));
    let Some((position, problem)) = place else { return false };
    let position: usize = position.parse().unwrap();
    invalid.field == "filter"
        && (1..=text.chars().count() + 1).contains(&position)
        && !problem.is_empty()
}

/// Texts made of the language's own parts, which get further than any other.
fn near_filter() -> impl Strategy<Value = String> {
    const PARTS: [&str; 24] = [
        "attributes",
        ":",
        ".",
        "=",
        "!=",
        "!",
        "hasPrefix",
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "-",
        " ",
        "\t",
        "\"a\"",
        "\"",
        "\\",
        "\\u00e9",
        "a",
        "é",
        "and",
        "attributes:a",
    ];
    prop::collection::vec(prop::sample::select(&PARTS[..]), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn canonical_text_reads_back_as_the_same_tree(expression in expression()) {
        let text = expression.to_string();
        let filter = parse(&text).unwrap();
        prop_assert_eq!(filter.text(), &text);
        prop_assert_eq!(filter.expression(), &expression, "{}", text);
        prop_assert_eq!(filter.expression().to_string(), text);
    }

    #[test]
    fn both_ways_of_matching_do_what_the_documentation_says(
        expression in expression(),
        messages in prop::collection::vec(any_message(), 1..8),
    ) {
        let filter = parse(&expression.to_string()).unwrap();
        for message in messages {
            let expected = naive(&expression, &message.attributes);
            prop_assert_eq!(filter.matches(&body(&message)), Ok(expected), "{:?}", message);
            prop_assert_eq!(filter.matches_attributes(&message.attributes), expected);
        }
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_place(text in "\\PC{0,300}") {
        read_anything(&text);
    }

    #[test]
    fn any_bytes_are_read_or_refused_with_a_place(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        read_anything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_nearly_a_filter_is_read_or_refused_with_a_place(text in near_filter()) {
        read_anything(&text);
    }

    #[test]
    fn a_filter_with_one_character_changed_is_read_or_refused_with_a_place(
        expression in expression(),
        place: prop::sample::Index,
        other in proptest::option::of(any::<char>()),
    ) {
        let mut chars: Vec<char> = expression.to_string().chars().collect();
        let place = place.index(chars.len());
        chars.splice(place..=place, other);
        read_anything(&String::from_iter(chars));
    }

    #[test]
    fn a_body_of_any_bytes_never_panics_and_agrees_with_decode(
        expression in expression(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let filter = parse(&expression.to_string()).unwrap();
        let matches = filter.matches(&bytes);
        if let Ok(message) = message::decode(&Bytes::from(bytes)) {
            prop_assert_eq!(matches, Ok(naive(&expression, &message.attributes)));
        }
    }
}

#[test]
fn long_and_deep_texts_are_refused_with_a_place() {
    let unit = "NOT (attributes:é AND -(";
    for part in ["(", "-", "NOT ", "\"", "\\", "é", "😀", " ", unit, "attributes:a AND "] {
        for bytes in [FILTER_BYTES_MAX, FILTER_BYTES_MAX + 1, 10_240, 1_000_000] {
            let text = part.repeat(bytes / part.len());
            assert!(parse(&text).is_err(), "{part} for {bytes} bytes");
            read_anything(&text);
        }
    }
}

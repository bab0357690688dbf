#![allow(clippy::indexing_slicing, reason = "a panic is a failed test")]
#![allow(clippy::cast_possible_truncation, reason = "checked before")]

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

fn number(text: &str) -> Number {
    match read(text) {
        Ok(Value::Number(number)) => number,
        other => panic!("{text}: {other:?}"),
    }
}

/// The same value in another library's types, last member first.
fn tree(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(bool) => bool.into(),
        Value::Number(number) => serde_json::from_str(&number.to_string()).unwrap(),
        Value::Text(text) => text.chars().collect::<String>().into(),
        Value::List(_) => value.elements().map(tree).collect(),
        Value::Object(text) => {
            let members = scan::object(text).unwrap().map(|member| {
                let (key, value) = member.unwrap();
                (key.chars().collect::<String>(), tree(value))
            });
            serde_json::Value::Object(members.collect())
        }
    }
}

/// Equal, with numbers compared as doubles: the other library distinguishes 1 from 1.0, and may be
/// slightly off in the last place.
fn alike(one: &serde_json::Value, two: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, two) {
        (Number(one), Number(two)) => {
            let (one, two) = (one.as_f64().unwrap(), two.as_f64().unwrap());
            one.to_bits().abs_diff(two.to_bits()) <= 4 || one == two
        }
        (Array(one), Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| alike(one, two))
        }
        (Object(one), Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, value)| two.get(key).is_some_and(|two| alike(value, two)))
        }
        _ => one == two,
    }
}

/// Accepts what another library accepts, and refuses what it refuses.
fn compare(text: &str) {
    let ours = read(text);
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(theirs) => {
            let ours = tree(ours.unwrap_or_else(|_| panic!("refused: {text}")));
            assert!(alike(&ours, &theirs), "{text}: {ours} but {theirs}");
        }
        // The other library also refuses numbers that no double can hold, which are valid JSON.
        Err(error) if error.to_string().contains("number out of range") => {}
        Err(error) => assert_eq!(ours, Err(NotJson), "{text:?}: {error}"),
    }
    if let Ok(Some(mut members)) = open(text.as_bytes()) {
        assert_eq!(members.all(|member| member.is_ok()), ours.is_ok(), "{text:?}");
    }
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        ".{0,6}".prop_map(serde_json::Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((".{0,3}", inner), 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts made of JSON's own parts, which get further into the parser than random ones.
fn near_json() -> impl Strategy<Value = String> {
    const PARTS: [&str; 26] = [
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"a\":1", "\"", "\\", "\\u00e9", "\\ud83d",
        "\\ude00", "\\n", "1", "-", ".", "e", "0", "true", "false", "null", " ", "\n", "\t", "é",
    ];
    prop::collection::vec(prop::sample::select(&PARTS[..]), 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_document_reads_as_another_library_reads_it(value in any_value(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        compare(&text);
    }

    #[test]
    fn what_is_nearly_json_is_read_or_refused_as_by_another_library(text in near_json()) {
        compare(&text);
    }

    #[test]
    fn a_document_with_one_character_changed_is_too(
        value in any_value(),
        place: prop::sample::Index,
        other in proptest::option::of(any::<char>()),
    ) {
        let mut chars: Vec<char> = value.to_string().chars().collect();
        let place = place.index(chars.len());
        chars.splice(place..=place, other);
        compare(&String::from_iter(chars));
    }

    #[test]
    fn any_bytes_are_opened_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(Some(members)) = open(&bytes) {
            members.for_each(drop);
        }
    }

    #[test]
    fn whole_numbers_and_doubles_are_ordered_by_value(one: i64, two: f64, three: u64) {
        prop_assume!(two.is_finite());
        let (double, whole) = (number(&format!("{two:e}")), number(&three.to_string()));
        prop_assert_eq!(number(&one.to_string()).cmp(&whole), i128::from(one).cmp(&three.into()));
        // A double of this magnitude has no fraction, and below it the difference is exact enough.
        let expected = if two.abs() >= 9e18 {
            0.0_f64.total_cmp(&two)
        } else {
            i128::from(one).cmp(&(two.floor() as i128)).then_with(|| {
                if two.fract() == 0.0 { Ordering::Equal } else { Ordering::Less }
            })
        };
        prop_assert_eq!(number(&one.to_string()).cmp(&double), expected);
        prop_assert_eq!(double.cmp(&number(&one.to_string())), expected.reverse());
    }

    #[test]
    fn a_number_reads_back_from_its_text_and_its_bits(double: f64) {
        prop_assume!(double.is_finite());
        let number = number(&format!("{double:e}"));
        let text = number.to_string();
        prop_assert_eq!(read(&text), Ok(Value::Number(number)));
        let (kind, bits) = number.to_bits();
        prop_assert_eq!(Number::from_bits(kind, bits), number);
    }
}

#[test]
fn numbers_are_equal_by_value_however_they_are_written() {
    for same in [
        &["1", "1.0", "10e-1", "0.1e1", "1E0"][..],
        &["0", "-0", "0.0", "-0.0", "0e9"],
        &["1000000", "1e6", "1.0e+6"],
        &["9223372036854775808", "9.223372036854775808e18"],
        &["-9223372036854775808", "-9.223372036854775808e18"],
    ] {
        for text in same {
            assert_eq!(number(text), number(same[0]), "{text}");
        }
    }
    assert_ne!(number("9007199254740993"), number("9007199254740992"));
    assert_ne!(number("18446744073709551615"), number("18446744073709551616"));
    assert!(number("1e999") > number("1e308"));
    assert_eq!(number("1e999").finite(), None);
    assert!(number("9007199254740993") > number("9007199254740992.0"));
    assert!(number("5.5") > number("5") && number("-5.5") < number("-5"));
}

#[test]
fn depth_is_bounded_and_costs_no_stack() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for text in [lists(128), objects(128)] {
        assert!(read(&text).is_ok());
    }
    for text in [lists(129), objects(129), lists(1_000_000), objects(1_000_000)] {
        assert_eq!(read(&text), Err(NotJson));
    }
    assert_eq!(read(&"[".repeat(1_000_000)), Err(NotJson));
    let inside = format!("{{\"a\":1,\"b\":{}}}", lists(1_000_000));
    let members: Vec<_> = open(inside.as_bytes()).unwrap().unwrap().collect();
    assert_eq!(members.len(), 2);
    assert_eq!(members[1], Err(NotJson));
}

#[test]
fn the_last_member_of_a_name_counts() {
    let text = r#"{"a": {"b": 1}, "\u0061": {"c": 2}}"#;
    let value = read(text).unwrap();
    assert_eq!(value.find(&["a", "b"]), None);
    assert_eq!(value.find(&["a", "c"]), Some(Value::Number(number("2"))));
    assert_eq!(value.find(&["x"]), None);
    assert_eq!(value.find(&["a", "c", "d"]), None);
}

#[test]
fn what_stands_behind_an_object_is_looked_at() {
    for text in ["{} x", "{\"a\":1}}", "{\"a\":1} 2", "{\"a\":1,}", "{,}", "{\"a\" 1}", "{a:1}"] {
        let last = open(text.as_bytes()).unwrap().unwrap().last();
        assert_eq!(last, Some(Err(NotJson)), "{text}");
    }
    assert_eq!(open(b"\xff{}").map(|_| ()), Err(NotJson));
    assert!(open(b"").is_err() && open(b" 12 ").unwrap().is_none());
}

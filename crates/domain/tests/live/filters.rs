//! The list form and the CEL spelling: what they mean, what they refuse and where.

use domain::Filter;
use domain::filter::{Clause, Expression, Refusal};
use domain::limits::{LIVE_FILTER_BYTES_MAX, LIVE_FILTER_TERMS_MAX};
use testkit::Random;

use crate::generate::{self, Sent};
use crate::naive;

fn cel(text: &str) -> Filter {
    Filter::parse_cel("filter", text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

fn clause(field: &str, op: &str, value: &str) -> Clause {
    Clause { field: field.to_owned(), op: op.to_owned(), value: value.to_owned() }
}

fn list(clauses: &[Clause]) -> Filter {
    Filter::from_clauses("filters", clauses).unwrap().unwrap()
}

fn data(text: &str) -> Sent {
    Sent { attributes: [("kind".to_owned(), "new".to_owned())].into(), data: text.into() }
}

fn matches(filter: &Filter, text: &str) -> bool {
    let sent = data(text);
    let matches = filter.matches(&sent.body()).unwrap();
    assert_eq!(matches, naive::matches(filter.expression(), &sent), "{} on {text}", filter.text());
    matches
}

#[test]
fn both_spellings_of_the_source_example_say_the_same() {
    let text = cel(r#"data.status == "active" && data.priority > 5"#);
    let clauses = [clause("data.status", "==", r#""active""#), clause("data.priority", ">", "5")];
    let listed = list(&clauses);
    assert_eq!(text.canonical(), listed.canonical());
    assert_eq!(listed.clauses().unwrap(), clauses);
    for filter in [&text, &listed] {
        assert!(matches(filter, r#"{"status": "active", "priority": 6}"#));
        assert!(!matches(filter, r#"{"status": "active", "priority": 5}"#));
        assert!(!matches(filter, r#"{"status": "active"}"#));
        assert!(!matches(filter, r#"{"priority": 6}"#));
        assert!(!matches(filter, "not JSON"));
    }
}

#[test]
fn every_operator_means_what_is_written_down() {
    let cases: [(&str, &[&str], &[&str]); 24] = [
        ("data.a == 1", &[r#"{"a":1}"#, r#"{"a":1.0}"#], &[r#"{"a":"1"}"#, "{}", r#"{"a":[1]}"#]),
        // A missing field is not unequal; another type is.
        ("data.a != 1", &[r#"{"a":2}"#, r#"{"a":"1"}"#, r#"{"a":null}"#], &[r#"{"a":1}"#, "{}"]),
        ("!(data.a == 1)", &[r#"{"a":2}"#, "{}", "[]", "3"], &[r#"{"a":1e0}"#, "x"]),
        ("data.a > 1", &[r#"{"a":1.5}"#], &[r#"{"a":1}"#, r#"{"a":"2"}"#, "{}"]),
        ("data.a >= 1", &[r#"{"a":1}"#, r#"{"a":2}"#], &[r#"{"a":0.5}"#]),
        ("data.a < 1", &[r#"{"a":-1}"#], &[r#"{"a":1}"#, r#"{"a":null}"#]),
        ("1 < data.a", &[r#"{"a":2}"#], &[r#"{"a":1}"#]),
        ("data.a <= 'b'", &[r#"{"a":"a"}"#, r#"{"a":"b"}"#], &[r#"{"a":"c"}"#, r#"{"a":1}"#]),
        // By code point: U+FFFF is before U+10000, though its UTF-16 is behind.
        ("data.a > '\\uffff'", &["{\"a\":\"\u{10000}\"}"], &["{\"a\":\"\u{ffff}\"}"]),
        ("data.a in [1, 'x', null]", &[r#"{"a":"x"}"#, r#"{"a":null}"#], &[r#"{"a":2}"#, "{}"]),
        ("'x' in data.a", &[r#"{"a":["x"]}"#], &[r#"{"a":"x"}"#, r#"{"a":[["x"]]}"#]),
        ("data.a.contains('x')", &[r#"{"a":["x"]}"#, r#"{"a":"axe"}"#], &[r#"{"a":"a"}"#]),
        ("data.a.contains(1)", &[r#"{"a":[1.0]}"#], &[r#"{"a":"1"}"#, r#"{"a":1}"#]),
        ("data.a.startsWith('x')", &[r#"{"a":"xy"}"#], &[r#"{"a":"yx"}"#, r#"{"a":["x"]}"#]),
        ("has(data.a)", &[r#"{"a":null}"#], &["{}", "7"]),
        ("has(data.a.b)", &[r#"{"a":{"b":0}}"#], &[r#"{"a":{}}"#, r#"{"a":[{"b":0}]}"#]),
        ("data.a == null", &[r#"{"a":null}"#], &["{}", r#"{"a":0}"#]),
        ("data.a", &[r#"{"a":true}"#], &[r#"{"a":1}"#, r#"{"a":false}"#, "{}"]),
        ("!data.a && has(data.a)", &[r#"{"a":false}"#], &[r#"{"a":true}"#, "{}"]),
        (r#"data["a b"].c == 1"#, &[r#"{"a b":{"c":1}}"#], &[r#"{"a":{"b":{"c":1}}}"#]),
        ("data.a == 'é'", &[r#"{"a":"\u00e9"}"#, r#"{"\u0061":"é"}"#], &[r#"{"a":"e"}"#]),
        ("attributes.kind == 'new'", &["", "{}", "no JSON"], &[]),
        ("attributes['kind'] != 'new'", &[], &["", "{}"]),
        // Both, and then all: and binds tighter than or.
        ("data.a == 1 && data.b == 1 || data.c == 1", &[r#"{"c":1}"#], &[r#"{"a":1}"#]),
    ];
    for (text, wanted, unwanted) in cases {
        let filter = cel(text);
        for body in wanted {
            assert!(matches(&filter, body), "{text} on {body}");
        }
        for body in unwanted {
            assert!(!matches(&filter, body), "{text} on {body}");
        }
    }
}

/// Defect 12 of the source: values were pasted into an expression.
#[test]
fn a_value_is_never_part_of_the_expression() {
    for hostile in
        ["' || true || '", "\\' || data.a == \\'", "\"", "\\", "\") || has(data.a) || (\""]
    {
        let value = serde_json::Value::from(hostile).to_string();
        let filter = list(&[clause("data.a", "==", &value)]);
        assert_eq!(filter.expression().terms().len(), 1);
        assert_eq!(cel(filter.text()).expression(), filter.expression(), "{hostile}");
        assert!(matches(&filter, &format!("{{\"a\":{value}}}")));
        assert!(!matches(&filter, r#"{"a":"other"}"#));
    }
    let field = clause("data.a == 1 || data.b", "==", "1");
    let filter = list(&[field]);
    assert_eq!(filter.expression().terms().len(), 1);
    assert!(!matches(&filter, r#"{"a":1,"b":1}"#));
}

#[test]
fn faults_are_named_with_their_place() {
    let cases = [
        ("", "at 1: expected data, attributes, has, a value, ! or ("),
        ("data", "at 5: expected . and a name, or ["),
        ("data.a = 1", "at 8: equality is written =="),
        ("data.a == ", "at 11: expected a string, a number, true, false or null"),
        ("data.a == 1 &&", "at 15: expected data, attributes, has, a value, ! or ("),
        ("data.a == 1 and data.b == 2", "at 13: expected &&, || or the end"),
        ("(data.a == 1", "at 13: expected &&, || or )"),
        ("data.a == 1)", "at 12: expected &&, || or the end"),
        ("data.a > true", "at 10: only numbers and strings have an order"),
        ("null < data.a", "at 6: only numbers and strings have an order"),
        ("data.a == 1x", "at 11: not a number: write digits, a fraction, an exponent"),
        ("data.a == 1e999", "at 11: number too large"),
        ("data.a in 1", "at 11: expected a list in brackets"),
        ("data.a in []", "at 12: expected a string, a number, true, false or null"),
        ("data.a.size() > 1", "at 7: there are only the calls startsWith and contains"),
        ("data.a.startsWith(1)", "at 19: expected a string"),
        ("has(data.a.contains(1))", "at 20: has takes a field"),
        ("has(x)", "at 5: expected data or attributes"),
        ("attributes.a.b == 'x'", "at 13: an attribute has no fields; write attributes[\"a.b\"]"),
        ("attributes.a", "at 13: expected ==, !=, >, >=, <, <= or in"),
        ("data[a] == 1", "at 6: expected a name in quotes"),
        ("data.a == 'x", "at 11: this string has no closing quote"),
        ("true", "at 5: expected ==, !=, >, >=, <, <= or in"),
        ("doc.a == 1", "at 1: expected data, attributes, has, a value, ! or ("),
    ];
    for (text, problem) in cases {
        let refusal = Filter::parse_cel("filter", text).expect_err(text);
        assert_eq!(refusal.to_string(), format!("filter: {problem}"), "{text}");
        assert!(matches!(refusal, Refusal::Wrong(_)), "{text}");
    }
}

#[test]
fn faults_of_the_list_form_name_the_part() {
    let good = clause("data.a", "==", "1");
    let cases = [
        (clause("data.b", "~", "1"), "filters[1].op"),
        (clause("data.b", "", "1"), "filters[1].op"),
        (clause("b", "==", "1"), "filters[1].field"),
        (clause("", "==", "1"), "filters[1].field"),
        (clause("data", "==", "1"), "filters[1].field"),
        (clause("data.", "==", "1"), "filters[1].field"),
        (clause("data.a..b", "==", "1"), "filters[1].field"),
        (clause("data.a[0]", "==", "1"), "filters[1].field"),
        (clause("database.a", "==", "1"), "filters[1].field"),
        (clause("attributes.", "==", "1"), "filters[1].field"),
        (clause(&format!("data{}", ".a".repeat(17)), "==", "1"), "filters[1].field"),
        (clause("data.b", "==", "[1]"), "filters[1].value"),
        (clause("data.b", "==", "{}"), "filters[1].value"),
        (clause("data.b", "==", ""), "filters[1].value"),
        (clause("data.b", ">", "null"), "filters[1].value"),
        (clause("data.b", "in", "1"), "filters[1].value"),
        (clause("data.b", "in", "[]"), "filters[1].value"),
        (clause("data.b", "in", "[[1]]"), "filters[1].value"),
        (clause("data.b", "contains", "[1]"), "filters[1].value"),
        (clause("data.b", "==", "1e999"), "filters[1].value"),
    ];
    for (bad, field) in cases {
        let refusal =
            Filter::from_clauses("filters", &[good.clone(), bad.clone()]).expect_err(field);
        assert_eq!(refusal.invalid().field, field, "{bad:?}: {refusal}");
        assert!(matches!(refusal, Refusal::Wrong(_)), "{bad:?}");
    }
    assert_eq!(Filter::from_clauses("filters", &[]), Ok(None));
    let dotted = list(&[clause("attributes.x.y/z", "==", "\"v\"")]);
    assert_eq!(dotted.text(), r#"attributes["x.y/z"] == "v""#);
    assert_eq!(dotted.clauses().unwrap()[0].field, "attributes.x.y/z");
}

#[test]
fn a_filter_bomb_is_too_complex_and_said_so() {
    let terms = |count: usize| vec!["data.a == 1"; count].join(" && ");
    assert!(Filter::parse_cel("filter", &terms(LIVE_FILTER_TERMS_MAX)).is_ok());
    let long = format!("data.a == '{}'", "x".repeat(LIVE_FILTER_BYTES_MAX));
    let nested = |depth: usize| format!("{}data.a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Filter::parse_cel("filter", &nested(64)).is_ok());
    let path = |names: usize| format!("has(data{})", ".a".repeat(names));
    assert!(Filter::parse_cel("filter", &path(16)).is_ok());
    for text in [terms(33), long, nested(65), path(17), "!".repeat(4_000), "(".repeat(4_000)] {
        let refusal = Filter::parse_cel("filter", &text).unwrap_err();
        assert!(matches!(refusal, Refusal::TooComplex(_)), "{refusal}");
    }
    let clauses = vec![clause("data.a", "==", "1"); 33];
    let refusal = Filter::from_clauses("filters", &clauses).unwrap_err();
    assert!(matches!(refusal, Refusal::TooComplex(_)) && refusal.invalid().field == "filters");
    let value = serde_json::Value::from("x".repeat(5_000)).to_string();
    let refusal = Filter::from_clauses("filters", &[clause("data.a", "==", &value)]).unwrap_err();
    assert!(matches!(refusal, Refusal::TooComplex(_)), "{refusal}");
}

#[test]
fn filters_that_say_the_same_have_one_canonical_form() {
    let same: [&[&str]; 5] = [
        &[
            "data.a == 1 && data.b > 2",
            "data.b > 2.0 && data.a == 1e0",
            "(data.a == 1 && (data.b > 2)) && data.a == 1",
            "2 < data.b && 1 == data.a",
            "!(!(data.a == 1) || !(data.b > 2))",
            "data.a in [1] && data['b'] > 2",
        ],
        &["data.a in [1, 2]", "data.a in [2.0, 1, 1]"],
        &["!(data.a == 1 && data.b == 2)", "!(data.b == 2) || !(data.a == 1)"],
        &["data.a || (data.b || data.c)", "data.c == true || data.a || data.b || data.a"],
        &["!has(data.a)", "!!!has(data.a)"],
    ];
    for texts in same {
        for text in texts {
            assert_eq!(cel(text).canonical(), cel(texts[0]).canonical(), "{text}");
        }
    }
    for (one, other) in [("data.a != 1", "!(data.a == 1)"), ("data.a == 1", "data.a == '1'")] {
        assert_ne!(cel(one).canonical(), cel(other).canonical());
    }
    let google = Filter::parse("filter", r#"attributes.a != "b""#).unwrap();
    assert_eq!(google.canonical(), cel("!(attributes.a == 'b')").canonical());
}

#[test]
fn random_filters_read_back_and_mean_what_the_naive_evaluator_says() {
    let mut random = Random::seeded(17);
    let mut matched = 0;
    for _ in 0..4_000 {
        let expression = generate::expression(&mut random, 3);
        let text = expression.cel();
        if expression.terms().len() > LIVE_FILTER_TERMS_MAX || text.len() > LIVE_FILTER_BYTES_MAX {
            continue;
        }
        let filter = cel(&text);
        let canonical = filter.canonical();
        assert_eq!(canonical, cel(&canonical.cel()).canonical(), "{text}");
        for _ in 0..10 {
            let sent = generate::sent(&mut random);
            let expected = naive::matches(&expression, &sent);
            assert_eq!(filter.matches(&sent.body()), Ok(expected), "{text} on {sent:?}");
            assert_eq!(naive::matches(&canonical, &sent), expected, "{text} on {sent:?}");
            matched += usize::from(expected);
        }
        check_list(&filter);
    }
    assert!(matched > 4_000, "{matched} of 40,000 matched");
}

/// What a list can say reads back as the same.
fn check_list(filter: &Filter) {
    if let Some(clauses) = filter.clauses() {
        assert_eq!(list(&clauses).canonical(), filter.canonical(), "{clauses:?}");
    }
}

#[test]
fn texts_that_are_nearly_filters_are_read_or_refused_with_a_place() {
    const PARTS: [&str; 34] = [
        "data",
        "attributes",
        ".",
        "a",
        "[",
        "]",
        "\"a\"",
        "'",
        "\"",
        "==",
        "!=",
        ">",
        "<=",
        "=",
        "in",
        "has",
        "(",
        ")",
        "startsWith",
        "contains",
        "&&",
        "||",
        "!",
        ",",
        "1",
        "-",
        "e",
        "0.5",
        "true",
        "null",
        " ",
        "\t",
        "é",
        "data.a == 1",
    ];
    let mut random = Random::seeded(5);
    for _ in 0..20_000 {
        let count = random.index(24);
        let text: String = (0..count).map(|_| random.pick(&PARTS)).collect();
        match Filter::parse_cel("filter", &text) {
            Ok(filter) => {
                let again = cel(&filter.expression().cel());
                assert_eq!(again.canonical(), filter.canonical(), "{text}");
            }
            Err(refusal) => assert!(has_place(&refusal, &text), "{refusal} in {text:?}"),
        }
    }
}

fn has_place(refusal: &Refusal, text: &str) -> bool {
    let place =
        refusal.invalid().problem.strip_prefix("at ").and_then(|rest| rest.split_once(": "));
    let position = place.and_then(|(position, _)| position.parse::<usize>().ok());
    position.is_some_and(|position| (1..=text.chars().count() + 1).contains(&position))
}

#[test]
fn an_expression_tells_whether_it_needs_the_data() {
    assert!(cel("attributes.a == 'x' || has(data.a)").expression().needs_data());
    assert!(!cel("attributes.a == 'x'").expression().needs_data());
    assert!(matches!(cel("has(data.a)").expression(), Expression::Term(_)));
}

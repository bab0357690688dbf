//! The language by example: what is documented, what is refused and where, and the limits.

use bytes::Bytes;

use super::*;
use crate::message::{self, Message};
use crate::offset::Offset;
use crate::time::Timestamp;

fn filter(text: &str) -> Filter {
    Filter::parse("filter", text).unwrap_or_else(|invalid| panic!("{text}: {invalid}"))
}

fn refusal(text: &str) -> String {
    Filter::parse("filter", text).expect_err(text).to_string()
}

/// The attributes of a message.
type Pairs<'test> = &'test [(&'test str, &'test str)];

fn attributes(pairs: Pairs<'_>) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn body(pairs: Pairs<'_>) -> Vec<u8> {
    let data = Bytes::from_static(b"attributes");
    let message = Message { data, attributes: attributes(pairs), ordering_key: "k".to_owned() };
    let mut body = Vec::new();
    message::encode(&message, Offset(7), Timestamp(1_500_000), &mut body);
    body
}

/// Both ways of matching; they must agree.
fn matches(text: &str, pairs: Pairs<'_>) -> bool {
    let filter = filter(text);
    let matches = filter.matches(&body(pairs)).unwrap();
    assert_eq!(matches, filter.matches_attributes(&attributes(pairs)), "{text} on {pairs:?}");
    matches
}

/// The key of a filter that only tests whether an attribute exists.
fn key_of(text: &str) -> String {
    let filter = filter(text);
    let Expression::Term(Term { field: Field::Attribute(key), .. }) = filter.expression() else {
        panic!("{text} is more than a term")
    };
    key.clone()
}

const TAG: &str = "iana.org/language_tag";

#[test]
fn documented_filters_match_what_the_documentation_says() {
    let com = [("name", "com")];
    let org = [("name", "org")];
    let tagged = [(TAG, "en")];
    let none: [(&str, &str); 0] = [];
    let cases: [(&str, &[Pairs<'_>], &[Pairs<'_>]); 11] = [
        ("attributes:name", &[&com, &org], &[&tagged, &none]),
        ("NOT attributes:name", &[&tagged, &none], &[&com, &org]),
        (r#"attributes.name = "com""#, &[&com], &[&org, &tagged, &none]),
        (r#"attributes.name != "com""#, &[&org, &tagged, &none], &[&com]),
        (r#"hasPrefix(attributes.name, "co")"#, &[&com], &[&org, &tagged, &none]),
        (r#"NOT hasPrefix(attributes.name, "co")"#, &[&org, &tagged, &none], &[&com]),
        (r#"attributes."iana.org/language_tag" = "en""#, &[&tagged], &[&com, &none]),
        (r#"attributes:"\u307F\u3093\u306A""#, &[&[("みんな", "")]], &[&com, &none]),
        (
            r#"attributes:"iana.org/language_tag" AND NOT attributes.name = "com""#,
            &[&tagged, &[(TAG, ""), ("name", "org")]],
            &[&none, &com, &[(TAG, "en"), ("name", "com")]],
        ),
        (
            r#"attributes:"iana.org/language_tag" AND (attributes.name = "net" OR attributes.name = "org")"#,
            &[&[(TAG, ""), ("name", "net")], &[(TAG, ""), ("name", "org")]],
            &[&org, &tagged, &[(TAG, ""), ("name", "com")]],
        ),
        (
            r#"attributes.name = "com" AND -attributes:"iana.org/language_tag""#,
            &[&com, &[("name", "com"), ("other", "")]],
            &[&org, &none, &[("name", "com"), (TAG, "en")]],
        ),
    ];
    for (text, wanted, unwanted) in cases {
        for pairs in wanted {
            assert!(matches(text, pairs), "{text} on {pairs:?}");
        }
        for pairs in unwanted {
            assert!(!matches(text, pairs), "{text} on {pairs:?}");
        }
    }
}

#[test]
fn documented_mistakes_are_refused_where_they_are() {
    let cases = [
        (r#""com" = attributes.name"#, "filter: at 1: expected attributes, hasPrefix, NOT or ("),
        (
            "attributes.name = attributes.website",
            "filter: at 19: expected a string in double quotes",
        ),
        (
            r"attributes:\u307F\u3093\u306A",
            "filter: at 12: expected a key: a string in double quotes, or letters, digits, - and _",
        ),
        (
            r#"attributes:"iana.org/language_tag" AND attributes.name = "net" OR attributes.name = "org""#,
            "filter: at 64: AND and OR together need parentheses around one of them",
        ),
        (
            r#"attributes.name = "com" AND ("net" OR "org")"#,
            "filter: at 30: expected attributes, hasPrefix, NOT or (",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

#[test]
fn keys_and_values_are_case_sensitive_and_matched_whole() {
    assert!(!matches("attributes:name", &[("Name", ""), ("names", ""), ("nam", "")]));
    for value in ["Com", "com ", "co", ""] {
        assert!(!matches(r#"attributes.name = "com""#, &[("name", value)]), "{value}");
        assert!(matches(r#"attributes.name != "com""#, &[("name", value)]), "{value}");
    }
    assert!(matches(r#"attributes.name = """#, &[("name", "")]));
    assert!(!matches(r#"attributes.name = """#, &[]));
}

#[test]
fn a_prefix_is_the_beginning_and_may_be_all_or_nothing() {
    let text = r#"hasPrefix(attributes.name, "co")"#;
    assert!(matches(text, &[("name", "co")]));
    for value in ["c", "Co", "aco", ""] {
        assert!(!matches(text, &[("name", value)]), "{value}");
    }
    assert!(matches(r#"hasPrefix(attributes.name, "")"#, &[("name", "")]));
    assert!(!matches(r#"hasPrefix(attributes.name, "")"#, &[]));
}

#[test]
fn not_binds_to_the_next_operand_only() {
    let text = "NOT attributes:a AND attributes:b";
    assert!(matches(text, &[("b", "")]));
    assert!(!matches(text, &[]));
    assert!(matches("-(attributes:a AND attributes:b)", &[]));
    assert!(matches("NOT NOT --attributes:a", &[("a", "")]));
}

#[test]
fn canonical_text_is_plain_and_reads_back() {
    let cases = [
        ("attributes:a", "attributes:a"),
        (r#"( ( attributes : "a" ) )"#, "attributes:a"),
        ("\tattributes\n.a\r=\"b\" ", r#"attributes.a = "b""#),
        (r#"attributes.a!="b""#, r#"attributes.a != "b""#),
        (r#"hasPrefix ( attributes . a , "b" )"#, r#"hasPrefix(attributes.a, "b")"#),
        ("--attributes:a", "NOT NOT attributes:a"),
        ("NOT(attributes:a)", "NOT attributes:a"),
        (
            "(attributes:a)AND(attributes:b)AND -(attributes:c OR attributes:d)",
            "attributes:a AND attributes:b AND NOT (attributes:c OR attributes:d)",
        ),
        (
            "(attributes:a AND attributes:b) AND attributes:c",
            "(attributes:a AND attributes:b) AND attributes:c",
        ),
        ("attributes:a-b_9", "attributes:a-b_9"),
        ("attributes:9 OR attributes:_", "attributes:9 OR attributes:_"),
        ("attributes:-a", r#"attributes:"-a""#),
        ("attributes:größe", r#"attributes:"größe""#),
        (r#"attributes:"" "#, r#"attributes:"""#),
        (r#"attributes."a.b" = "\"\\\'""#, r#"attributes."a.b" = "\"\\'""#),
        ("attributes:AND AND attributes:NOT", r#"attributes:"AND" AND attributes:"NOT""#),
        (r#"attributes:OR"#, r#"attributes:"OR""#),
    ];
    for (text, canonical) in cases {
        let filter = filter(text);
        assert_eq!(filter.text(), text);
        assert_eq!(filter.expression().to_string(), canonical, "{text}");
        assert_eq!(parse::expression(canonical).as_ref(), Ok(filter.expression()), "{text}");
    }
}

#[test]
fn escapes_stand_for_their_characters() {
    let cases = [
        (r#""\"\'\\""#, "\"'\\"),
        (r#""\a\b\f\n\r\t\v""#, "\u{7}\u{8}\u{c}\n\r\t\u{b}"),
        (r#""\x41\X7e\x00""#, "A~\0"),
        (r#""\101\0\12a\1777""#, "A\0\na\u{7f}7"),
        (r#""\u00e9\u00E9\uFFFD""#, "éé\u{fffd}"),
        (r#""\U0001F600\U0010ffff""#, "😀\u{10ffff}"),
        (r#""😀é'""#, "😀é'"),
    ];
    for (literal, value) in cases {
        let text = format!("attributes:{literal}");
        assert_eq!(key_of(&text), value, "{text}");
        let canonical = filter(&text).expression().to_string();
        assert_eq!(key_of(&canonical), value, "{canonical}");
    }
}

#[test]
fn bad_strings_are_refused_where_they_are_bad() {
    let cases = [
        (r#"attributes:"ab"#, "at 12: this string has no closing quote"),
        (r#"attributes:"ab\"#, r#"at 15: not an escape, there are \""#),
        (r#"attributes:"é\q""#, r#"at 14: not an escape, there are \""#),
        (r#"attributes:"\8""#, r#"at 13: not an escape, there are \""#),
        ("attributes:\"a\tb\"", r"at 14: a control character is written as an escape: \u0009"),
        ("attributes:\"\u{85}\"", r"at 13: a control character is written as an escape: \u0085"),
        (r#"attributes:"\u30g0""#, "at 17: expected 4 hexadecimal digits"),
        (r#"attributes:"\U0001F60""#, "at 22: expected 8 hexadecimal digits"),
        (r#"attributes:"\x4"#, "at 16: expected 2 hexadecimal digits"),
        (r#"attributes:"\uD83D""#, "at 13: there is no character with this number"),
        (r#"attributes:"\U00110000""#, "at 13: there is no character with this number"),
        (r#"attributes:"\x80""#, r"at 13: above \x7f, write the character itself or \uXXXX"),
        (r#"attributes:"\200""#, r"at 13: above \x7f, write the character itself or \uXXXX"),
        (r#"attributes:"\777""#, r"at 13: above \x7f, write the character itself or \uXXXX"),
    ];
    for (text, expected) in cases {
        let refusal = refusal(text);
        assert!(refusal.starts_with(&format!("filter: {expected}")), "{text}: {refusal}");
    }
}

#[test]
fn refusals_say_what_was_expected_and_where() {
    const OPERAND: &str = "expected attributes, hasPrefix, NOT or (";
    const CAPITALS: &str = "AND, OR and NOT must be uppercase";
    let cases = [
        ("", 1, OPERAND),
        ("  ", 3, OPERAND),
        ("name", 1, OPERAND),
        ("attributesname", 1, OPERAND),
        ("hasSuffix(attributes.a, \"b\")", 1, OPERAND),
        ("NOTattributes:a", 1, OPERAND),
        ("not attributes:a", 1, CAPITALS),
        ("attributes:a and attributes:b", 14, CAPITALS),
        ("(attributes:a Or attributes:b)", 15, CAPITALS),
        ("attributes", 11, "expected : or ."),
        ("attributes = \"a\"", 12, "expected : or ."),
        ("attributes.a", 13, "expected = or !="),
        ("attributes.a : \"b\"", 14, "expected = or !="),
        ("attributes.a ! \"b\"", 14, "expected = or !="),
        ("attributes.a = 'b'", 16, "expected a string in double quotes"),
        ("attributes.a == \"b\"", 15, "expected a string in double quotes"),
        ("attributes.a != ", 17, "expected a string in double quotes"),
        ("attributes.iana.org = \"b\"", 16, "a key containing '.' must be in double quotes"),
        ("attributes:a/b", 13, "a key containing '/' must be in double quotes"),
        ("hasPrefix attributes.a, \"b\"", 11, "expected ("),
        ("hasPrefix(\"b\", attributes.a)", 11, "expected attributes"),
        ("hasPrefix(attributes:a, \"b\")", 21, "expected ."),
        ("hasPrefix(attributes.a \"b\")", 24, "expected ,"),
        ("hasPrefix(attributes.a, b)", 25, "expected a string in double quotes"),
        ("hasPrefix(attributes.a, \"b\"", 28, "expected )"),
        ("attributes:a AND", 17, OPERAND),
        ("attributes:a OR OR", 17, OPERAND),
        ("attributes:a attributes:b", 14, "expected AND, OR or the end"),
        ("attributes:a = \"b\"", 14, "expected AND, OR or the end"),
        ("attributes:a)", 13, "expected AND, OR or the end"),
        ("(attributes:a", 14, "expected AND, OR or )"),
        ("(attributes:\"é\" attributes:b)", 17, "expected AND, OR or )"),
        (
            "attributes:a OR attributes:b AND attributes:c",
            30,
            "AND and OR together need parentheses around one of them",
        ),
    ];
    for (text, position, problem) in cases {
        assert_eq!(refusal(text), format!("filter: at {position}: {problem}"), "{text}");
    }
    assert_eq!(Filter::parse("subscription.filter", "").unwrap_err().field, "subscription.filter");
}

#[test]
fn a_filter_has_at_most_256_bytes() {
    let of_bytes = |bytes: usize| format!("attributes:{}", "a".repeat(bytes - 11));
    assert_eq!(filter(&of_bytes(256)).text().len(), 256);
    let expected = "filter: at 257: 257 bytes, at most 256 are allowed";
    assert_eq!(refusal(&of_bytes(257)), expected);
    // The fault is at the first character that does not fit completely.
    let wide = format!("attributes:{}", "é".repeat(123));
    assert_eq!(refusal(&wide), "filter: at 134: 257 bytes, at most 256 are allowed");
}

#[test]
fn nesting_is_bounded_wherever_it_comes_from() {
    let groups = |depth| format!("{}attributes:a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(matches(&groups(64), &[("a", "")]));
    let expected = "filter: at 65: more than 64 nested parentheses and negations";
    assert_eq!(refusal(&groups(65)), expected);
    assert_eq!(refusal(&"(".repeat(256)), expected);
    assert_eq!(refusal(&"-".repeat(256)), expected);
    assert!(matches(&format!("{}attributes:a", "-".repeat(64)), &[("a", "")]));
    // Closed groups do not count.
    assert!(matches(&format!("{} AND {}", groups(40), groups(40)), &[("a", "")]));
    let deep = format!("{}attributes:a", "NOT ".repeat(1_000_000));
    assert_eq!(parse::expression(&deep).unwrap_err().position, 64 * 4 + 1);
}

#[test]
fn each_of_the_most_terms_that_fit_is_looked_at() {
    let keys: Vec<String> = ('a'..='p').map(String::from).collect();
    let terms: Vec<String> = keys.iter().map(|key| format!("attributes:{key}")).collect();
    let text = terms.join(" OR ");
    assert_eq!(text.len(), 252);
    for key in &keys {
        assert!(matches(&text, &[(key, ""), ("z", "")]), "{key}");
    }
    assert!(!matches(&text, &[("z", "")]));
}

#[test]
fn a_body_that_names_an_attribute_twice_means_the_last() {
    let pair = |value: u8| [0x12, 6, 0x0a, 1, b'a', 0x12, 1, value];
    let body = [pair(b'1'), pair(b'2')].concat();
    assert_eq!(filter(r#"attributes.a = "2""#).matches(&body), Ok(true));
    assert_eq!(filter(r#"attributes.a = "1""#).matches(&body), Ok(false));
}

#[test]
fn a_malformed_body_is_an_error_whatever_was_seen_before() {
    let filter = filter("attributes:a OR NOT attributes:a");
    let whole = body(&[("a", "1")]);
    assert_eq!(filter.matches(&whole), Ok(true));
    assert_eq!(filter.matches(&[]), Ok(true));
    for cut in [1, whole.len() - 1] {
        assert_eq!(filter.matches(whole.get(..cut).unwrap()), Err(Malformed), "{cut}");
    }
    let bad_pair = [0x12, 3, 0x1a, 1, b'a'];
    assert_eq!(filter.matches(&bad_pair), Err(Malformed));
}

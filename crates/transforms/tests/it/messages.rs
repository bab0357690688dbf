//! What functions make of messages.

use bytes::Bytes;
use transforms::{Cause, Chain, Input, Outcome, Transform, Udf, run};

use crate::support::{body, chain, function, input, message, ran};

#[test]
fn messages_are_changed_as_the_function_says() {
    let unchanged = || message(r#"{"n":1}"#, &[("a", "b")]);
    let long = "v".repeat(1_024);
    for (code, expected) in [
        ("return message;", unchanged()),
        ("return { data: message.data, attributes: message.attributes };", unchanged()),
        ("return null;", Outcome::Filtered),
        ("return undefined;", Outcome::Filtered),
        ("", Outcome::Filtered),
        ("return JSON.parse(message.data).n > 5 ? message : null;", Outcome::Filtered),
        ("return { data: 'x' };", message("x", &[])),
        ("return { data: 'x', attributes: {} };", message("x", &[])),
        ("return { data: 'x', attributes: null };", message("x", &[])),
        ("return { data: '', attributes: { k: 'v' } };", message("", &[("k", "v")])),
        ("return { data: 'x', attributes: { k: '' } };", message("x", &[("k", "")])),
        ("return { data: 'x', more: 5, attributes: {} };", message("x", &[])),
        (
            "const d = JSON.parse(message.data); d.m = 2; message.data = JSON.stringify(d);
             message.attributes.c = 'd'; return message;",
            message(r#"{"n":1,"m":2}"#, &[("a", "b"), ("c", "d")]),
        ),
        ("delete message.attributes.a; return message;", message(r#"{"n":1}"#, &[])),
        ("return { data: 'ä€🦀\\u0000\\n' };", message("ä€🦀\0\n", &[])),
        ("return { data: '🦀'.split('').join('') };", message("🦀", &[])),
        ("return { data: 'x', attributes: { 'ä🦀': '€' } };", message("x", &[("ä🦀", "€")])),
        (
            "return { data: 'x', attributes: { ['__proto__']: 'p' } };",
            message("x", &[("__proto__", "p")]),
        ),
        ("return { data: 'x', attributes: { [Symbol()]: 5 } };", message("x", &[])),
        ("return { data: 'x', attributes: Object.create({ far: 'y' }) };", message("x", &[])),
        (
            "return new class { get data() { return 'x' } get attributes() { return {k:'v'} } };",
            message("x", &[("k", "v")]),
        ),
        ("return new Proxy(message, {});", unchanged()),
        (
            "return { data: 'x', attributes: new Proxy({}, { ownKeys: () => ['k'],
             getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
             get: () => 'v' }) };",
            message("x", &[("k", "v")]),
        ),
        ("return { data: metadata.message_id };", message("7", &[])),
        ("return { data: metadata.publish_time };", message("2026-11-16T20:00:00Z", &[])),
        ("return { data: typeof metadata.ordering_key };", message("undefined", &[])),
        ("return { data: Object.keys(message).join() };", message("data,attributes", &[])),
        (
            "return { data: 'x', attributes: { k: 'v'.repeat(1024) } };",
            message("x", &[("k", &long)]),
        ),
        ("return { data: String(this === globalThis) };", message("true", &[])),
        ("try { null.x } catch { return { data: 'caught' } }", message("caught", &[])),
        ("return { data: [3,1,2].toSorted().map(n => n * 2).join() };", message("2,4,6", &[])),
        (
            "return { data: message.data?.replaceAll(/\\d/g, '#') ?? '' };",
            message("{\"n\":#}", &[]),
        ),
        ("return { data: String(eval('1 + 1') + Function('return 2')()) };", message("4", &[])),
        (
            "return { data: new Date(metadata.publish_time).toISOString() };",
            message("2026-11-16T20:00:00.000Z", &[]),
        ),
    ] {
        assert_eq!(ran(code), Ok(expected), "{code}");
    }
}

#[test]
fn what_is_no_message_is_a_failure_that_says_why() {
    use Cause::{BadResult, Threw};
    let key = "k".repeat(257);
    for (code, cause, said) in [
        ("return 5;", BadResult, "returned a number; a message or null is expected"),
        ("return 'x';", BadResult, "returned a string;"),
        ("return true;", BadResult, "returned a boolean;"),
        ("return 5n;", BadResult, "returned a big integer;"),
        ("return Symbol();", BadResult, "returned a symbol;"),
        ("return [];", BadResult, "data is undefined, not a string"),
        ("return {};", BadResult, "returned a message whose data is undefined, not a string"),
        ("return { data: 5 };", BadResult, "data is a number"),
        ("return { data: null };", BadResult, "data is null"),
        ("return { data: {} };", BadResult, "data is an object"),
        ("return { data: new String('x') };", BadResult, "data is an object"),
        ("return { data: new Uint8Array(5) };", BadResult, "data is an object"),
        ("return { data: '' };", BadResult, "neither data nor attributes"),
        ("return { data: '\\ud800' };", BadResult, "half of a surrogate pair"),
        ("return { data: 'x', attributes: [] };", BadResult, "attributes that are an array"),
        ("return { data: 'x', attributes: 'k' };", BadResult, "attributes that are a string"),
        ("return { data: 'x', attributes: { k: 5 } };", BadResult, "attribute \"k\" as a number"),
        ("return { data: 'x', attributes: { k: null } };", BadResult, "attribute \"k\" as null"),
        ("return { data: 'x', attributes: { k: {} } };", BadResult, "\"k\" as an object, not a"),
        ("return { data: 'x', attributes: { '': 'v' } };", BadResult, "without a key"),
        ("return { data: 'x', attributes: { k: '\\udc00' } };", BadResult, "\"k\" with half"),
        ("return { data: 'x', attributes: { '\\udc00': '' } };", BadResult, "key has half"),
        ("return { data: 'x', attributes: { k: 'v'.repeat(1025) } };", BadResult, "1025 bytes"),
        (
            "const a = {}; for (let i = 0; i < 101; i++) a[i] = 'x'; return { data: 'x', attributes: a };",
            BadResult,
            "more than 100 attributes",
        ),
        ("return { data: 'x'.repeat(10000001) };", BadResult, "10000001 bytes of data"),
        ("throw new Error('no');", Threw, "Error: no (line 1)"),
        ("throw new TypeError();", Threw, "TypeError (line 1)"),
        ("\n\nnull.x;", Threw, "TypeError: cannot read property 'x' of null (line 3)"),
        ("throw 'a text';", Threw, "threw a text"),
        ("throw 5;", Threw, "threw 5"),
        ("throw undefined;", Threw, "threw undefined"),
        ("return JSON.parse('{');", Threw, "SyntaxError"),
        ("return Promise.resolve(message);", BadResult, "returned a promise"),
        ("return (async () => message)();", BadResult, "returned a promise"),
        ("return (function* () { yield message; })();", BadResult, "data is undefined"),
        ("return { get data() { throw new RangeError('got') } };", Threw, "RangeError: got"),
        ("return new Proxy({}, { get() { throw 'trap' } });", Threw, "threw trap"),
        ("throw { get message() { throw 1 }, name: 'N' };", Threw, "threw an object"),
        ("const r = Proxy.revocable({}, {}); r.revoke(); return r.proxy;", Threw, "TypeError"),
        ("'use strict'; undeclared = 5;", Threw, "ReferenceError"),
    ] {
        let failure = ran(code).unwrap_err();
        assert_eq!((failure.cause, failure.index, &*failure.function), (cause, 0, "f"), "{code}");
        let text = failure.to_string();
        assert!(text.starts_with("message_transforms[0] (f): "), "{code}: {text}");
        assert!(text.contains(said), "{code}: {text}");
    }
    let failure = ran(&format!("return {{ data: 'x', attributes: {{ {key}: '' }} }};"));
    assert!(failure.unwrap_err().what.contains("a key of 257 bytes"));
}

#[test]
fn data_that_is_not_utf8_fails_before_any_function() {
    let input = Input { data: Bytes::from_static(b"ab\xff"), ..Input::default() };
    let failure = run(&body("return message;"), &input).unwrap_err();
    assert_eq!(failure.cause, Cause::NotUtf8);
    let said = "message_transforms[0] (f): the data is not UTF-8 from byte 2 on";
    assert_eq!(failure.to_string(), said);
    // Without a function there is nothing that would have to see it.
    let outcome = run(&Chain::new(vec![]).unwrap(), &input).unwrap();
    assert_eq!(outcome, Outcome::Message { data: input.data, attributes: input.attributes });
}

#[test]
fn empty_data_and_keys_of_every_kind_come_in_whole() {
    let keys = [("__proto__", "1"), ("constructor", "2"), ("0", "3"), ("a b", ""), ("ä", "🦀")];
    let given = input("", &keys);
    assert_eq!(run(&body("return message;"), &given), Ok(message("", &keys)));
    let code = "return { data: message.data + JSON.stringify(Object.keys(message.attributes)) };";
    let seen = r#"["0","__proto__","a b","constructor","ä"]"#;
    assert_eq!(run(&body(code), &given), Ok(message(seen, &[])));
    let nul = input("a\0b", &[("k", "\0")]);
    assert_eq!(run(&body("return message;"), &nul), Ok(message("a\0b", &[("k", "\0")])));
}

#[test]
fn functions_run_in_their_order_without_the_disabled_ones() {
    let adds = |what: &str| {
        Udf::compile("f", &function(&format!("message.data += '{what}'; return message;"))).unwrap()
    };
    let list =
        ["a", "b", "c", "d"].map(|what| Transform { udf: adds(what), disabled: what == "b" });
    let chain = Chain::new(list.to_vec()).unwrap();
    assert_eq!(run(&chain, &input("-", &[])), Ok(message("-acd", &[])));
    let all_off = list.map(|it| Transform { disabled: true, ..it });
    let chain = Chain::new(all_off.to_vec()).unwrap();
    assert!(chain.is_empty());
    assert_eq!(run(&chain, &input("-", &[])), Ok(message("-", &[])));
}

#[test]
fn the_first_function_that_filters_or_fails_is_the_last_to_run() {
    let throws = function("throw new Error(message.data);");
    let filters = function("return message.data === 'drop' ? null : message;");
    let chain = chain(&[&function("return message;"), &filters, &throws]);
    assert_eq!(run(&chain, &input("drop", &[])), Ok(Outcome::Filtered));
    let failure = run(&chain, &input("keep", &[])).unwrap_err();
    assert_eq!(failure.to_string(), "message_transforms[2] (f): Error: keep (line 1)");
}

#[test]
fn metadata_cannot_be_changed_for_the_next_function() {
    let changes = function("metadata.message_id = 'x'; metadata.more = 'y'; return message;");
    let shows = function("return { data: JSON.stringify(metadata) };");
    let outcome = run(&chain(&[&changes, &shows]), &input("-", &[])).unwrap();
    let seen = r#"{"message_id":"7","publish_time":"2026-11-16T20:00:00Z"}"#;
    assert_eq!(outcome, message(seen, &[]));
}

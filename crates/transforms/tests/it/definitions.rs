//! Functions that are taken, and those that are not.

use transforms::limits::{CODE_BYTES_MAX, TEXT_BYTES_MAX};
use transforms::{Chain, Field, Transform, Udf};

#[test]
fn functions_of_every_spelling_are_found() {
    for (name, code) in [
        ("f", "function f(message, metadata) { return message; }"),
        ("f", "const f = (message) => message;"),
        ("f", "let f = function (message) { return message; };"),
        ("f", "var f = message => message"),
        ("f", "'use strict'; const f = m => m;"),
        ("f", "class A { static g(m) { return m; } } const f = A.g;"),
        ("f", "globalThis.f = m => m;"),
        ("$_9", "function $_9() {}"),
        ("größe", "function größe() {}"),
        ("f", "function g() { return null; } function f(m) { return g(m); }"),
        ("parseInt", "function parseInt(m) { return m; }"),
        ("f", "// only a comment before\n\n\nfunction f() {}"),
        ("f", "function* f() {}"),
    ] {
        let compiled = Udf::compile(name, code);
        assert!(compiled.is_ok(), "{code}: {compiled:?}");
    }
}

#[test]
fn names_that_are_no_functions_are_refused() {
    let code = "function f() {} const n = 5; { function inner() {} let hidden = f; }";
    for name in [
        "",
        " f",
        "f ",
        "f()",
        "1f",
        "f.g",
        "f,f",
        "f;f",
        "a b",
        "n",
        "g",
        "hidden",
        "while",
        "class",
        "null",
        "this",
        "undefined",
        "parseInt",
        "Object",
        "eval",
        "f\n",
        "💥",
        "f//",
    ] {
        let refused = Udf::compile(name, code).unwrap_err();
        assert_eq!(refused.field, Field::FunctionName, "{name:?}: {refused}");
        assert!(refused.to_string().starts_with("function_name: "), "{refused}");
    }
    let refused = Udf::compile("g", code).unwrap_err().to_string();
    let said = r#"function_name: the code does not define a function "g" at its top level"#;
    assert_eq!(refused, said);
}

#[test]
fn code_that_does_not_load_is_refused_with_its_place() {
    for (code, line, what) in [
        ("function f( {", Some((1, 14)), "SyntaxError"),
        ("function f() {}\n\nlet x = ;", Some((3, 9)), "SyntaxError"),
        ("export function f() {}", Some((1, 1)), "SyntaxError"),
        ("import x from 'y';\nfunction f() {}", Some((1, 8)), "SyntaxError"),
        ("function f() {}\n  throw new Error('no');", Some((2, 13)), "Error: no"),
        ("function f() {}\nmissing();", Some((2, 1)), "ReferenceError: missing is not defined"),
        ("function f() {} require('fs')", Some((1, 17)), "ReferenceError: require is not"),
        ("function f() {} throw 'a text'", None, "threw a text"),
        ("function f() {} throw null", None, "threw null"),
        ("function f() {} throw {}", None, "threw an object"),
        ("const f = m => m; const f = 1;", Some((1, 27)), "SyntaxError"),
        ("function f() {} while (true);", None, "took too long"),
        ("function f() {} new Uint8Array(2 ** 30);", None, "too much memory"),
        ("function g() { g() + 1 } g(); function f() {}", Some((1, 15)), "call stack size"),
        ("function f() {}\0", None, "NUL"),
        ("", None, "must be set"),
    ] {
        let refused = Udf::compile("f", code).unwrap_err();
        assert_eq!(refused.field, Field::Code, "{code}: {refused}");
        assert!(refused.what.contains(what), "{code}: {refused}");
        assert_eq!(refused.line, line, "{code}: {refused}");
    }
}

#[test]
fn code_has_at_most_20_kib() {
    let code = |bytes: usize| {
        let start = "function f() {} //";
        format!("{start}{}", "x".repeat(bytes - start.len()))
    };
    assert!(Udf::compile("f", &code(CODE_BYTES_MAX)).is_ok());
    let refused = Udf::compile("f", &code(CODE_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(refused.to_string(), "code: has 20481 bytes, at most 20480 are allowed");
}

#[test]
fn a_chain_has_at_most_five_transforms() {
    let transform = Transform::from(Udf::compile("f", "function f() {}").unwrap());
    assert!(Chain::new(vec![transform.clone(); 5]).is_ok());
    let refused = Chain::new(vec![transform; 6]).unwrap_err();
    assert_eq!(refused.to_string(), "message_transforms: 6 transforms, at most 5 are allowed");
}

#[test]
fn texts_are_short_and_on_one_line() {
    for code in [
        "throw new Error('\\n\\u0000\\u001b\\u202e'.repeat(9999))",
        "throw 'ä'.repeat(99999)",
        "throw { name: 'x'.repeat(9999), message: 'y'.repeat(9999), stack: 'code:1:1' }",
    ] {
        let refused = Udf::compile("f", code).unwrap_err();
        assert!(refused.what.len() <= TEXT_BYTES_MAX, "{refused}");
        assert!(!refused.what.chars().any(char::is_control), "{refused}");
    }
}

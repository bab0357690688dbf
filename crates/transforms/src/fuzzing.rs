//! Entry points for fuzzing: what scripts return, and what helpers answer.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use domain::limits;
use prost::Message as _;

use crate::chain::{Chain, Udf};
use crate::helper::protocol::Response;
use crate::limits::{Bounds, TEXT_BYTES_MAX};
use crate::message::{Input, Outcome};
use crate::sandbox::Sandbox;
use crate::{Failure, Invalid};

/// Any bytes as the recipe of what a function returns: values, getters and proxies in each other.
pub fn returned(input: &[u8]) -> String {
    let mut recipe = input.iter().copied();
    let mut code = String::from("function f(message) { return ");
    value(&mut recipe, &mut code, 5);
    code.push_str("; }");
    let udf = Udf::known("f", &code).unwrap_or_else(|invalid| unreachable!("{invalid}"));
    let bounds = Bounds { time: Duration::from_secs(1), ..Bounds::default() };
    let mut sandbox = Sandbox::new(&Chain::of([(0, udf)].into()), bounds);
    let message = Input { data: Bytes::from_static(b"{}"), ..Input::default() };
    let first = said(&sandbox.run(&message));
    assert_eq!(first, said(&sandbox.run(&message)), "{code}");
    first
}

/// Any bytes as the answer of a helper that a script has taken over.
pub fn answered(input: &[u8]) -> String {
    let Ok(response) = Response::decode(Bytes::copy_from_slice(input)) else {
        return "no answer".to_owned();
    };
    let compiled = match response.clone().into_compiled() {
        Some(Err(Invalid { what, .. })) => checked(what),
        Some(Ok(())) => "compiled".to_owned(),
        None => "no sense".to_owned(),
    };
    let udfs = ["f", "g"].iter().enumerate();
    let udfs = udfs.filter_map(|(at, name)| Some((at, Udf::known(name, "code").ok()?)));
    let Some(results) = response.into_results(&udfs.collect::<Vec<_>>()) else {
        return format!("{compiled}; no sense");
    };
    results.iter().fold(compiled, |all, result| format!("{all}; {}", said(result)))
}

fn said(result: &Result<Outcome, Failure>) -> String {
    match result {
        Ok(Outcome::Message { data, attributes }) => {
            assert!(data.len() <= limits::MESSAGE_DATA_BYTES_MAX);
            assert!(attributes.len() <= limits::ATTRIBUTES_MAX);
            for (key, value) in attributes {
                assert!(key.len() <= limits::ATTRIBUTE_KEY_BYTES_MAX, "{key}");
                assert!(value.len() <= limits::ATTRIBUTE_VALUE_BYTES_MAX, "{key}");
            }
            format!("message, {} attributes", attributes.len())
        }
        Ok(Outcome::Filtered) => "filtered".to_owned(),
        Err(failure) => checked(failure.what.clone()),
    }
}

fn checked(what: String) -> String {
    assert!(what.len() <= TEXT_BYTES_MAX && !what.chars().any(char::is_control), "{what:?}");
    what
}

/// Values without parts.
const PLAIN: [&str; 16] = [
    "null",
    "undefined",
    "message",
    "message.data",
    "5",
    "-0.5e300",
    "'text'",
    "''",
    "'\\ud83e'",
    "'x'.repeat(1025)",
    "Symbol()",
    "10n",
    "(() => 1)",
    "Promise.resolve(1)",
    "new Uint8Array(3)",
    "true",
];

/// Keys of objects.
const KEYS: [&str; 8] =
    ["data", "attributes", "__proto__", "['__proto__']", "'\\udc00'", "k", "''", "toString"];

/// Appends an expression.
fn value(recipe: &mut impl Iterator<Item = u8>, code: &mut String, depth: usize) {
    let byte = recipe.next().unwrap_or(0);
    if depth == 0 || code.len() > 8_000 || byte < 64 {
        code.push_str(PLAIN.get(usize::from(byte) % PLAIN.len()).unwrap_or(&"null"));
        return;
    }
    let (before, after) = match byte % 8 {
        0 => ("new Proxy(Object(", "), {})"),
        1 => ("new Proxy({}, { get: (t, k) => (", ") })"),
        2 => ("Object.create(Object(", "))"),
        3 => ("[", "]"),
        4 => (
            "new Proxy({}, { ownKeys: () => ['k'], getOwnPropertyDescriptor: () => \
             ({ enumerable: true, configurable: true }), get: () => (",
            ") })",
        ),
        _ => return object(recipe, code, depth),
    };
    code.push_str(before);
    value(recipe, code, depth - 1);
    code.push_str(after);
}

/// Appends an object with some properties, of which some are getters.
fn object(recipe: &mut impl Iterator<Item = u8>, code: &mut String, depth: usize) {
    code.push_str("({ ");
    let count = recipe.next().unwrap_or(0) % 5;
    for _ in 0..count {
        let byte = recipe.next().unwrap_or(0);
        let key = KEYS.get(usize::from(byte) % KEYS.len()).unwrap_or(&"k");
        let (before, after) = if byte < 128 { ("() { return ", "; }") } else { ("", "") };
        let (get, colon) = if byte < 128 { ("get ", "") } else { ("", ": ") };
        // Two that set the prototype are an error of syntax.
        let key = if *key == "__proto__" { "[`p${1}`]" } else { key };
        write!(code, "{get}{key}{colon}{before}").unwrap_or_default();
        value(recipe, code, depth - 1);
        write!(code, "{after}, ").unwrap_or_default();
    }
    code.push_str("})");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn recipes_and_answers_are_read() {
        let recipe = b"\x45\x02\x80\x06\x81\x45\x01\x85\x06";
        assert_eq!(returned(recipe), "message, 1 attributes");
        let answer = b"\x0a\x0b\x0a\x01x\x12\x06\x0a\x01k\x12\x01v";
        assert_eq!(answered(answer), "compiled; message, 1 attributes");
        assert_eq!(answered(b"\x12\x07\x10\x01\x1a\x01e\x20\x03"), "e");
        assert_eq!(answered(b"\x12\x07\x10\x09\x1a\x01e\x20\x03"), "no sense");
    }

    #[test]
    fn recipes_lead_everywhere() {
        let mut state = 20_261_116_u64;
        let mut answers = BTreeSet::new();
        for _ in 0..1_500 {
            let bytes: Vec<u8> = std::iter::from_fn(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                Some(state.to_be_bytes()[0])
            })
            .take(24)
            .collect();
            answers.insert(returned(&bytes));
            answered(&bytes);
        }
        assert!(answers.len() > 15, "{answers:#?}");
        for part in ["message, ", "filtered", "attribute", "promise", "SyntaxError"] {
            let found = answers.iter().any(|answer| answer.contains(part));
            assert_eq!(found, part != "SyntaxError", "{part}: {answers:#?}");
        }
    }
}

//! Chains and messages for tests.

use std::collections::BTreeMap;

use transforms::{Chain, Failure, Input, Metadata, Outcome, Udf, run};

/// A chain of functions `f`, each with this code.
pub(crate) fn chain(codes: &[&str]) -> Chain {
    let udfs = codes.iter().map(|code| Udf::compile("f", code).unwrap().into());
    Chain::new(udfs.collect()).unwrap()
}

/// A function `f` with this body.
pub(crate) fn function(body: &str) -> String {
    format!("function f(message, metadata) {{ {body} }}")
}

/// A chain of one function with this body.
pub(crate) fn body(body: &str) -> Chain {
    chain(&[&function(body)])
}

pub(crate) fn input(data: &str, attributes: &[(&str, &str)]) -> Input {
    let metadata = Metadata {
        message_id: Some("7".to_owned()),
        publish_time: Some("2026-11-16T20:00:00Z".to_owned()),
        ordering_key: None,
    };
    Input { data: data.to_owned().into(), attributes: map(attributes), metadata }
}

pub(crate) fn map(attributes: &[(&str, &str)]) -> BTreeMap<String, String> {
    attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn message(data: &str, attributes: &[(&str, &str)]) -> Outcome {
    Outcome::Message { data: data.to_owned().into(), attributes: map(attributes) }
}

/// What a function with this body makes of the message `{"n":1}` with the attribute `a`.
pub(crate) fn ran(code: &str) -> Result<Outcome, Failure> {
    run(&body(code), &input(r#"{"n":1}"#, &[("a", "b")]))
}

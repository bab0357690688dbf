//! Writes what other programs compare us by: the descriptor set, and the table of REST methods
//! as JSON.
//!
//! `cargo run -p postrider-wire --example descriptor_set -- descriptors.bin [rest.json]`

use std::error::Error;
use std::fs;

use wire::rest::{Body, METHODS, Method};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let descriptors = arguments.next().ok_or("name the file to write the descriptor set to")?;
    fs::write(descriptors, wire::FILE_DESCRIPTOR_SET)?;
    if let Some(rest) = arguments.next() {
        let methods: Vec<_> = METHODS.iter().map(describe).collect();
        fs::write(rest, serde_json::to_vec_pretty(&methods)?)?;
    }
    Ok(())
}

fn describe(method: &Method) -> serde_json::Value {
    let body = match method.body {
        Body::None => None,
        Body::All => Some("*"),
        Body::Field(field) => Some(field),
    };
    serde_json::json!({
        "verb": method.verb.as_str(),
        "path": method.path,
        "rpc": method.rpc(),
        "body": body,
    })
}

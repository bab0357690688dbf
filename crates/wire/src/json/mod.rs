//! The JSON form of messages, by the rules of protobuf, read strictly: unknown fields, fields
//! given twice, wrong types and trailing text are errors that name the field.
//!
//! Reading goes through a tree: [`parse`] checks the text, [`from_value`] makes the message. A
//! member that is `null` counts as absent.

mod error;
mod parse;
pub(crate) mod scalar;
mod tree;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::JsonError;
pub use parse::parse;

/// How deep objects and arrays may nest. No message needs a third of it; the free-form `Struct`
/// inside a topic takes three levels of protobuf for each of JSON, and decoders stop at 100.
pub const DEPTH_MAX: usize = 32;

/// How many values one text may hold, objects and lists among them. The largest publish that is
/// allowed, 1,000 messages with 100 attributes each, has half of it.
pub const VALUES_MAX: usize = 210_000;

/// Reads a message from JSON text.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    from_value(parse(text)?)
}

/// Reads a message from a JSON tree.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, JsonError> {
    T::deserialize(tree::Tree::new(value))
}

/// Writes a message as compact JSON text; fields with default values are left out.
///
/// Fails for what has no JSON form, such as a timestamp out of range or an unknown enum number.
pub fn to_vec<T: Serialize>(message: &T) -> Result<Vec<u8>, JsonError> {
    serde_json::to_vec(message).map_err(|error| JsonError::new(error.to_string()))
}

#[cfg(test)]
mod tests;

//! Avro: definitions as a tree, and messages walked along it.
//!
//! `read` makes the `tree` of a definition, `defaults` checks the defaults in it, `binary` and
//! `json` check messages, `convert` writes one form as the other, `compatible` compares two trees.

mod binary;
mod compatible;
mod convert;
mod defaults;
mod json;
mod names;
mod read;
mod tree;

pub(crate) use binary::check as check_binary;
pub(crate) use compatible::check as check_compatible;
pub(crate) use convert::json_to_binary;
pub(crate) use json::check as check_json;
pub(crate) use tree::Tree;

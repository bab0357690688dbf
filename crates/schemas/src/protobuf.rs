//! Protocol Buffers: definitions as a tree, and messages walked along it.
//!
//! `read` compiles a definition with protox and makes the `tree` of it, `binary` and `json` check
//! messages (`well_known` has the types with a JSON form of their own), `compatible` compares two
//! trees.

mod binary;
mod compatible;
mod json;
mod json_names;
mod nesting;
mod read;
mod scalars;
mod tree;
mod well_known;

pub(crate) use binary::check as check_binary;
pub(crate) use compatible::check as check_compatible;
pub(crate) use json::check as check_json;
pub(crate) use tree::Tree;

//! What the generated JSON code calls, by the names that it calls it: ours says what is wrong with
//! a number, and does not need a second runtime crate.

pub(crate) use crate::json::scalar::{Base64 as BytesDeserialize, Integer as NumberDeserialize};

/// Bytes as text.
pub(crate) mod base64 {
    pub(crate) use crate::json::scalar::base64_text as encode;
}

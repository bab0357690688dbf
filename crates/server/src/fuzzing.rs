//! Bytes that nobody of ours wrote, given to the readers of settings, paths and bodies. For
//! fuzzing alone.

pub use crate::api::fuzzing::page_token;
pub use crate::config::fuzzing::config;
pub use crate::live_api::fuzzing::live;
pub use crate::rest::fuzzing::rest;

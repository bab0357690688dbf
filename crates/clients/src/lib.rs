//! Nothing but tests: Google's client for Rust against the built program. They are a crate of their
//! own because that client takes minutes to build into anything else.

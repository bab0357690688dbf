//! The arguments of one command on their own, for its tests.

use std::ffi::OsString;

use clap::{Args, Parser};

#[derive(Parser)]
struct Alone<A: Args> {
    #[command(flatten)]
    arguments: A,
}

/// What a command makes of these words; the first is its name.
pub(super) fn parse<A: Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<A, clap::Error> {
    Alone::try_parse_from(words).map(|alone| alone.arguments)
}

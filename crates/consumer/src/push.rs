//! The push server: messages come as HTTP requests, and the status settles them.

mod answer;
mod envelope;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod server;
mod signature;
mod token;
mod unwrapped;

use std::time::Duration;

use domain::push::Secret;

use crate::{Consumer, Handler, StartError};

pub use server::Server;
pub use signature::Verifier;
pub use token::{Keys, Oidc};

/// How pushes are taken.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path that messages are posted to.
    pub path: String,
    /// What a request looks like.
    pub form: Form,
    /// Bytes of a request, at most; more is answered 413. Google's messages have up to 10 MB, and
    /// a third more in base64.
    pub body_bytes_max: usize,
    /// How long a request may take to come.
    pub body_timeout: Duration,
    /// At most this many requests at a time; more are answered 503 with `retry-after`.
    pub requests_max: usize,
    /// At most this many connections at a time; more wait. For `Server` only.
    pub connections_max: usize,
    /// The token that each request must carry; `None` = none is looked at.
    pub oidc: Option<Oidc>,
    /// Secrets, one of which each request must be signed with; none = it is not looked at.
    pub secrets: Vec<Secret>,
    /// How long requests may continue once the server is stopped.
    pub shutdown_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: "/pubsub/push".to_owned(),
            form: Form::default(),
            body_bytes_max: 15 << 20,
            body_timeout: Duration::from_secs(30),
            requests_max: 256,
            connections_max: 1_024,
            oidc: None,
            secrets: Vec::new(),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// What a request looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Unwrapped if it names its message in a header, wrapped otherwise. Where requests must be
    /// signed an unwrapped one is refused: a signature covers the body and not that header.
    #[default]
    Either,
    /// The message in Google's JSON envelope.
    Wrapped,
    /// The data alone, all else in headers (`noWrapper` with `writeMetadata`). Of a signed request
    /// only the data is signed.
    Unwrapped,
}

/// The routes of a push consumer, for your own server: messages are posted to
/// `Options::path`.
pub fn router<H: Handler>(
    consumer: Consumer<H>,
    options: Options,
) -> Result<axum::Router, StartError> {
    gate::router(consumer, options)
}

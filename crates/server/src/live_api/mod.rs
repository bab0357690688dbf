//! Live subscriptions over HTTP: what gateways and producers call under `/internal/v1`.
//!
//! | File | Holds |
//! |---|---|
//! | `paths` | which call a verb and a path mean |
//! | `query`, `read` | query strings and bodies, read strictly |
//! | `calls` | the calls |
//! | `show`, `fault` | answers, frames and refusals as JSON |
//! | `stream` | where a stream begins; Server-Sent Events |
//! | `socket` | the same over WebSocket |
//! | `interest` | what producers may drop |

mod calls;
mod fault;
pub(crate) mod fuzzing;
mod interest;
mod paths;
mod query;
mod read;
mod show;
mod socket;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use http::header::CONTENT_ENCODING;
use http::{Request, Response};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;
use tonic::body::Body;

use crate::api::Api;
use crate::net::{Paced, Phase};
use crate::rest;
use fault::Fault;
use paths::Call;

/// What every path of these begins with.
const PREFIX: &str = "/internal/v1/";

type Result<T, E = Fault> = std::result::Result<T, E>;

/// Whether a path is one of these.
pub(crate) fn is_live(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// The face of the server towards gateways. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LiveApi(Arc<Inner>);

struct Inner {
    api: Api,
    body_timeout: Duration,
    phase: watch::Receiver<Phase>,
    /// When this server started: versions of summaries begin anew then.
    started: Timestamp,
}

impl LiveApi {
    pub(crate) fn new(api: Api, body_timeout: Duration, phase: watch::Receiver<Phase>) -> Self {
        let started = api.now();
        Self(Arc::new(Inner { api, body_timeout, phase, started }))
    }

    /// Answers one request; a refusal is an answer too.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let answered = self.reply(request).await;
        answered.unwrap_or_else(|fault| fault.response())
    }

    async fn reply(&self, mut request: Request<Incoming>) -> Result<Response<Body>> {
        let call = paths::find(request.method().as_str(), request.uri().path())?;
        if let Call::Stream(gateway) = &call {
            return self.open(gateway, &mut request);
        }
        let (head, body) = request.into_parts();
        if head.headers.contains_key(CONTENT_ENCODING) {
            return Err(Fault::argument("content-encoding", "compressed bodies are not accepted"));
        }
        let body = rest::read(Paced::new(body, Some(self.0.body_timeout))).await?;
        let body = if body.is_empty() { None } else { Some(wire::json::parse(&body)?) };
        calls::call(&self.0, call, &head, body).await
    }

    /// Opens a gateway's stream, the way it asks for.
    fn open(&self, gateway: &str, request: &mut Request<Incoming>) -> Result<Response<Body>> {
        let start = stream::start(request.uri().query(), request.headers())?;
        let key = socket::key(request)?;
        let live = self.0.api.live();
        let opened = live.open(gateway, &start).map_err(crate::status::Refusal::from)?;
        Ok(match key {
            None => stream::events(opened),
            Some(key) => {
                let heartbeat = live.options().heartbeat;
                socket::upgrade(&key, request, opened, heartbeat, self.0.phase.clone())
            }
        })
    }
}

/// A body is not expected; nothing and an empty object are fine.
fn no_body(body: Option<Value>) -> Result<()> {
    match body {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(members)) if members.is_empty() => Ok(()),
        Some(_) => Err(Fault::argument("body", "this call takes no body")),
    }
}

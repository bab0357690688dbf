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

use domain::Timestamp;
use domain::web::Caller;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;
use tonic::body::Body;

use crate::api::Api;
use crate::net::{Charge, Pace, Paced, Phase};
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
    pace: Pace,
    phase: watch::Receiver<Phase>,
    /// When this server started: versions of summaries restart then.
    started: Timestamp,
}

impl LiveApi {
    pub(crate) fn new(api: Api, pace: Pace, phase: watch::Receiver<Phase>) -> Self {
        let started = api.now();
        Self(Arc::new(Inner { api, pace, phase, started }))
    }

    /// Answers one request; a refusal is an answer too.
    pub(crate) async fn answer(self, request: Request<Incoming>, caller: Caller) -> Response<Body> {
        let answered = self.reply(request, caller).await;
        answered.unwrap_or_else(|fault| fault.response())
    }

    async fn reply(
        &self,
        mut request: Request<Incoming>,
        caller: Caller,
    ) -> Result<Response<Body>> {
        let call = paths::find(request.method().as_str(), request.uri().path())?;
        if let Call::Stream(gateway) = &call {
            return self.open(gateway, &mut request, caller);
        }
        let (head, body) = request.into_parts();
        let text = rest::read_text(&head.headers, Paced::plain(body, self.0.pace)).await?;
        let body = text.map(|text| wire::json::parse(&text)).transpose()?;
        calls::call(&self.0, call, &head, body).await
    }

    /// Opens a gateway's stream, the way it asks for. A page elsewhere does not end one that is
    /// open: any page may name any gateway.
    fn open(
        &self,
        gateway: &str,
        request: &mut Request<Incoming>,
        caller: Caller,
    ) -> Result<Response<Body>> {
        let start = stream::start(request.uri().query(), request.headers())?;
        let key = socket::key(request)?;
        let live = self.0.api.live();
        let opened = match caller {
            Caller::Own => live.open(gateway, &start),
            Caller::Page | Caller::Visit => live.open_if_free(gateway, &start),
        };
        let opened = opened.map_err(crate::status::Refusal::from)?;
        Ok(match key {
            None => stream::events(opened),
            Some(key) => {
                let heartbeat = live.options().heartbeat;
                socket::upgrade(&key, request, opened, heartbeat, self.0.phase.clone())
            }
        })
    }
}

/// How many live subscriptions there are: `total`, `active` and `expired`.
pub(crate) fn counts(api: &Api) -> Value {
    show::counts(&api.live().figures(0).counts)
}

/// A stream of events takes its place for as long as it is open, others until they are answered.
pub(crate) fn keep_while_open(
    response: Response<Body>,
    charge: &mut Option<Charge>,
) -> Response<Body> {
    if charge.is_none() || response.headers().get(CONTENT_TYPE) != Some(&stream::EVENTS) {
        return response;
    }
    let charge = charge.take();
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            // Dropped with the body.
            let _held = &charge;
            frame
        }))
    })
}

/// A refusal in the words of these paths.
pub(crate) fn refused(refusal: crate::status::Refusal) -> Response<Body> {
    Fault::from(refusal).response()
}

/// A body is not expected; nothing and an empty object are fine.
fn no_body(body: Option<Value>) -> Result<()> {
    match body {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(members)) if members.is_empty() => Ok(()),
        Some(_) => Err(Fault::argument("body", "this call takes no body")),
    }
}

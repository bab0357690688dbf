//! One request: let in, read, handled, answered.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use super::answer::response;
use super::signature::Verifier;
use super::token::{Gatekeeper, Refusal};
use super::{Form, Options, envelope, unwrapped};
use crate::consumer::{Settled, refused};
use crate::rules::{Settle, Way};
use crate::{Consumer, Failure, Handled, Handler, Message, Outcome, StartError, clock};

const UNSAID_FORM: &str = "a signature does not cover the headers of an unwrapped message: to \
                           accept those, set the form to unwrapped";

const UNAUTHORIZED: u16 = 401;
const REQUEST_TIMEOUT: u16 = 408;
const CONTENT_TOO_LARGE: u16 = 413;
const SERVICE_UNAVAILABLE: u16 = 503;

/// What all requests share.
struct Gate<H> {
    consumer: Consumer<H>,
    options: Options,
    places: Semaphore,
    gatekeeper: Option<Gatekeeper>,
    verifier: Option<Verifier>,
}

pub(super) fn router<H: Handler>(
    consumer: Consumer<H>,
    options: Options,
) -> Result<Router, StartError> {
    let refused = |field, problem| StartError::Setting { field, problem };
    if !options.path.starts_with('/') || options.path.contains(['{', '}', '*', '?']) {
        let problem = format!("{:?} is not a path such as /pubsub/push", options.path);
        return Err(refused("path", problem));
    }
    if options.requests_max == 0 || options.requests_max > Semaphore::MAX_PERMITS {
        return Err(refused("requests_max", "must be 1 or more".to_owned()));
    }
    let gatekeeper = options.oidc.clone().map(Gatekeeper::new).transpose();
    let gatekeeper = gatekeeper.map_err(|problem| refused("oidc.keys", problem))?;
    let gate = Gate {
        places: Semaphore::new(options.requests_max),
        verifier: Verifier::new(&options.secrets),
        gatekeeper,
        consumer,
        options,
    };
    let path = gate.options.path.clone();
    Ok(Router::new().route(&path, post(take::<H>)).with_state(Arc::new(gate)))
}

async fn take<H: Handler>(State(gate): State<Arc<Gate<H>>>, request: Request) -> Response {
    let response = gate.take(request).await;
    gate.consumer.flush_lines();
    response
}

/// Why a request is not handled.
struct Refused {
    message: Message,
    outcome: Outcome,
    /// The status; `None` = what the rules say of the outcome.
    status: Option<u16>,
}

impl Refused {
    fn with(status: u16, outcome: Outcome) -> Box<Self> {
        Box::new(Self { message: Message::default(), outcome, status: Some(status) })
    }

    fn poison(message: Message, failure: Failure) -> Box<Self> {
        Box::new(Self { message, outcome: Outcome::Poison(failure), status: None })
    }
}

impl<H: Handler> Gate<H> {
    async fn take(&self, request: Request) -> Response {
        let Ok(_place) = self.places.try_acquire() else {
            let failure = Failure::new("Overloaded", "too many requests at a time");
            let refusal = Refused::with(SERVICE_UNAVAILABLE, Outcome::Transient(failure));
            return self.refuse(*refusal).await;
        };
        let (parts, body) = request.into_parts();
        match self.let_in(&parts.headers, body).await {
            Ok(message) => {
                let done = self.consumer.run(&message, Way::Push).await;
                answer(done.answer.settle, &done.handled.outcome)
            }
            Err(refusal) => self.refuse(*refusal).await,
        }
    }

    /// Reads the message of a request that may come in.
    async fn let_in(&self, headers: &HeaderMap, body: Body) -> Result<Message, Box<Refused>> {
        let now = clock::wall();
        if let Some(gatekeeper) = &self.gatekeeper {
            gatekeeper.check(headers, now).await.map_err(not_let_in)?;
        }
        let body = self.read_body(body).await?;
        if let Some(verifier) = &self.verifier {
            let checked = verifier.check(headers, &body, now);
            checked.map_err(|why| not_let_in(Refusal::Bad(why)))?;
            // Nobody signs the header that tells the forms apart: whoever adds it to a request
            // that was signed would say what the message is.
            if self.options.form == Form::Either && unwrapped::is_unwrapped(headers) {
                return Err(not_let_in(Refusal::Bad(UNSAID_FORM)));
            }
        }
        self.read(headers, body)
    }

    async fn read_body(&self, body: Body) -> Result<Bytes, Box<Refused>> {
        let limited = Limited::new(body, self.options.body_bytes_max);
        let read = tokio::time::timeout(self.options.body_timeout, limited.collect()).await;
        match read {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let max = self.options.body_bytes_max;
                let problem = format!("the body has more than {max} bytes; raise body_bytes_max");
                let failure = Failure::new("BodyTooLarge", problem);
                Err(Refused::with(CONTENT_TOO_LARGE, Outcome::Poison(failure)))
            }
            Ok(Err(error)) => {
                let failure = Failure::new("BodyLost", format!("the body broke off: {error}"));
                Err(Refused::with(REQUEST_TIMEOUT, Outcome::Transient(failure)))
            }
            Err(_) => {
                let failure = Failure::new("BodyLost", "the body did not arrive in time");
                Err(Refused::with(REQUEST_TIMEOUT, Outcome::Transient(failure)))
            }
        }
    }

    fn read(&self, headers: &HeaderMap, body: Bytes) -> Result<Message, Box<Refused>> {
        let is_unwrapped = match self.options.form {
            Form::Either => unwrapped::is_unwrapped(headers),
            Form::Wrapped => false,
            Form::Unwrapped => true,
        };
        if is_unwrapped {
            return unwrapped::read(headers, body)
                .map_err(|failure| Refused::poison(Message::default(), failure));
        }
        envelope::read(&body).map_err(|broken| Refused::poison(broken.message, broken.failure))
    }

    /// Answers a request that no handler has seen, and tells of it as of any other.
    async fn refuse(&self, refusal: Refused) -> Response {
        let Refused { message, outcome, status } = refusal;
        let (way, took, handled) = (Way::Push, Duration::ZERO, Handled::from(outcome));
        let Some(status) = status else {
            let done = self.consumer.finish(&message, way, handled, took, None).await;
            return answer(done.answer.settle, &done.handled.outcome);
        };
        let answered = refused(Settle::Status(status));
        let retryable = !matches!(handled.outcome, Outcome::Poison(_));
        let answered = crate::rules::Answer { retryable, ..answered };
        let settled = Settled { message: &message, way, handled: &handled, answer: answered, took };
        self.consumer.tell(&settled);
        response(status, &handled.outcome)
    }
}

fn not_let_in(refusal: Refusal) -> Box<Refused> {
    match refusal {
        Refusal::Bad(why) => {
            let failure = Failure::new("Unauthenticated", why);
            Refused::with(UNAUTHORIZED, Outcome::Config(failure))
        }
        Refusal::NoKeys(why) => {
            let failure = Failure::new("NoKeys", why);
            Refused::with(SERVICE_UNAVAILABLE, Outcome::Transient(failure))
        }
    }
}

fn answer(settle: Settle, outcome: &Outcome) -> Response {
    match settle {
        Settle::Status(status) => response(status, outcome),
        Settle::Ack => response(204, outcome),
        Settle::Nack => response(500, outcome),
    }
}

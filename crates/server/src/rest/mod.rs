//! REST: Google's paths and verbs with JSON bodies, and the few paths that are ours.

mod attempts;
mod backups;
mod body;
mod calls;
mod clock;
mod figures;
pub(crate) mod fuzzing;
mod health;
mod keys;
mod lanes;
mod letters;
mod messages;
mod metrics;
mod obstacles;
mod pages;
mod paths;
mod postrider;
mod secrets;
mod transforms;

use std::sync::Arc;

use bytes::Bytes;
use domain::Invalid;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::{Value, json};
use tonic::Code;
use tonic::body::Body;
use wire::json;
use wire::rest::{Match, NoRoute, route};

pub(crate) use body::read_text;
pub(crate) use postrider::show_time;
#[cfg(test)]
pub(crate) use postrider::{show_ours, take_with};

use crate::api::Api;
use crate::metrics::Metrics;
use crate::net::{Pace, Paced, Phase};
use crate::status::{Refusal, Result};

/// The REST face of the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rest(Arc<Inner>);

struct Inner {
    api: Api,
    metrics: Arc<Metrics>,
    pace: Pace,
    phase: tokio::sync::watch::Receiver<Phase>,
    health: tokio::sync::watch::Receiver<bool>,
    /// Where others find this server, without a final slash.
    url: String,
}

/// What is sent back, before it is made bytes.
enum Reply {
    Json(Vec<u8>),
    Text(StatusCode, &'static str),
    /// Something of that media type.
    Typed(HeaderValue, Vec<u8>),
}

impl Rest {
    pub(crate) fn new(
        api: Api,
        metrics: Arc<Metrics>,
        pace: Pace,
        phase: tokio::sync::watch::Receiver<Phase>,
        health: tokio::sync::watch::Receiver<bool>,
        url: String,
    ) -> Self {
        Self(Arc::new(Inner { api, metrics, pace, phase, health, url }))
    }

    /// Whether the server takes calls.
    fn is_ready(&self) -> bool {
        *self.0.phase.borrow() == Phase::Serving && *self.0.health.borrow()
    }

    /// Answers one request; a refusal is an answer too.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match self.reply(request).await {
            Ok(Reply::Json(body)) => json_response(StatusCode::OK, body),
            Ok(Reply::Text(code, text)) => response(code, TEXT, text),
            Ok(Reply::Typed(kind, body)) => response(StatusCode::OK, kind, body),
            Err(refusal) => refused(&refusal),
        }
    }

    async fn reply(self, request: Request<Incoming>) -> Result<Reply> {
        let (head, body) = request.into_parts();
        let (verb, path) = (verb(&head), head.uri.path());
        if let Some(reply) = pages::find(&self, verb, path)? {
            return Ok(reply);
        }
        if let Some(reply) = figures::find(&self, verb, path)? {
            return Ok(reply);
        }
        if let Some(reply) = keys::find(&self, verb, path).await? {
            return Ok(reply);
        }
        if let Some(reply) = metrics::find(&self, verb, path, &head.headers).await? {
            return Ok(reply);
        }
        let found = match paths::find(verb, path)? {
            Some(found) => found,
            None => route(verb, path).map_err(|none| no_route(none, path))?,
        };
        let text = read_text(&head.headers, Paced::plain(body, self.0.pace)).await?;
        let body = text.map(|text| json::parse(&text)).transpose()?;
        check_path_field(&found, body.as_ref())?;
        let call = found.request(head.uri.query().unwrap_or_default(), body)?;
        Ok(Reply::Json(calls::call(&self.0.api, found.method, call).await?))
    }
}

/// The verb that a request means. Programs that can send no PATCH say so in a header of a POST;
/// other headers of that name mean nothing.
fn verb(head: &Parts) -> &str {
    const OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");
    let meant = head.headers.get(OVERRIDE).filter(|_| head.method == Method::POST);
    let known = [Method::PATCH, Method::PUT, Method::DELETE];
    let meant = meant.and_then(|meant| meant.to_str().ok());
    let meant = meant.filter(|meant| known.iter().any(|verb| verb.as_str() == *meant));
    meant.unwrap_or_else(|| head.method.as_str())
}

/// A known path with another verb is not found either, as Google answers it.
fn no_route(none: NoRoute, path: &str) -> Refusal {
    let shown: String = path.chars().take(200).collect();
    match none {
        NoRoute::NotFound => Refusal::new(Code::NotFound, format!("no such path: {shown:?}")),
        NoRoute::WrongVerb(verbs) => {
            let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
            let problem = format!("{shown:?} can only be used with {}", verbs.join(", "));
            Refusal::new(Code::NotFound, problem)
        }
        NoRoute::Malformed => {
            Refusal::new(Code::InvalidArgument, format!("path is not well-formed: {shown:?}"))
        }
    }
}

/// A body that names another resource than the path does is a mistake worth telling.
fn check_path_field(found: &Match, body: Option<&Value>) -> Result<()> {
    let mut value = body;
    for part in found.field.split('.') {
        value = value.and_then(|value| value.get(part));
    }
    match value {
        Some(Value::String(text)) if !text.is_empty() && *text != found.value => {
            let problem = format!("differs from the path, which says {:?}", found.value);
            Err(Invalid::new(found.field, problem).into())
        }
        _ => Ok(()),
    }
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=UTF-8");

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=UTF-8");

/// An answer with a body of that media type.
pub(crate) fn response(
    code: StatusCode,
    kind: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(body.into())));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// An answer in JSON. Its last line has an end, as whoever reads it with curl wants.
pub(crate) fn json_response(code: StatusCode, body: impl Into<Vec<u8>>) -> Response<Body> {
    let mut body = body.into();
    body.push(b'\n');
    response(code, JSON, body)
}

/// Google's error body.
pub(crate) fn refused(refusal: &Refusal) -> Response<Body> {
    let code = refusal.http_code();
    let mut error = json!({
        "code": code.as_u16(),
        "message": refusal.rest_message(),
        "status": refusal.code_name(),
    });
    if let (Some(info), Value::Object(fields)) = (refusal.info(), &mut error) {
        fields.insert("details".to_owned(), json!([info]));
    }
    json_response(code, json!({ "error": error }).to_string())
}

/// An object of what is known; what is `None` is left out.
fn known<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}

/// A number that a query gives as text; empty = zero.
fn number(field: &str, text: &str) -> Result<i32, Invalid> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| Invalid::new(field, "expected a number"))
}

/// An answer as JSON text.
fn to_json<T: Serialize>(answer: &T) -> Result<Vec<u8>> {
    json::to_vec(answer).map_err(|error| Refusal::new(Code::Internal, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: &str, path: &str, body: Value) -> Result<()> {
        check_path_field(&route(verb, path).unwrap(), Some(&body))
    }

    #[test]
    fn a_name_in_the_body_must_agree_with_the_path() {
        let path = "/v1/projects/p/topics/one";
        assert!(check("PUT", path, json!({"name": "projects/p/topics/one"})).is_ok());
        assert!(check("PUT", path, json!({"labels": {}})).is_ok());
        let refusal = check("PUT", path, json!({"name": "projects/p/topics/two"})).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.to_string().starts_with("name: "), "{refusal}");
        let other = json!({"topic": {"name": "projects/p/topics/two"}});
        let refusal = check("PATCH", path, other).unwrap_err();
        assert!(refusal.to_string().starts_with("topic.name: "), "{refusal}");
    }
}

//! The request that carries messages: method, headers, body.

mod built;
mod json;
mod metadata;
mod name;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::delivery::Lease;
use domain::message::Malformed;
use domain::push::{Endpoint, Form, is_reserved_header, is_secret_header};
use domain::{Offset, Record, Subscription, Timestamp};
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

pub(crate) use built::{Built, Readers};
pub(crate) use json::{Spelling, message_json};

use super::exchange::Request;
use super::signature::Signer;
use metadata::Metadata;

const SEQUENCE: &str = "postrider-sequence";
const PREVIOUS_SEQUENCE: &str = "postrider-previous-sequence";
const EPOCH: &str = "postrider-epoch";
const BATCH_SIZE: &str = "postrider-batch-size";
const BATCH_ID: &str = "postrider-batch-id";
const SIGNED_ID: HeaderName = HeaderName::from_static("webhook-id");
const SIGNED_TIME: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The messages of one request: at least one, and more only with batches enabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel<'a> {
    /// The messages to send.
    pub(crate) leases: &'a [Lease],
    /// The JSON of each (`message_json`) if available; otherwise it is built here.
    pub(crate) messages: &'a [Bytes],
    /// Their positions in their lanes.
    pub(crate) order: &'a Order,
}

/// The positions of a request's messages in their lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// The position of the first; `None` = it is in no lane.
    pub(crate) chain: Option<Chain>,
    /// The position of each, if they are in several lanes; otherwise empty.
    pub(crate) links: Vec<Link>,
}

/// The position of one message of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// In no lane.
    Free,
    /// In a lane in which no earlier message is known.
    First,
    /// After this one: acked before, or earlier in the same request.
    After(Offset),
}

/// What lets a receiver verify the order of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The last message of the lane that was acked in this epoch, if any.
    pub(crate) previous: Option<Offset>,
    /// The epoch.
    pub(crate) epoch: u64,
}

/// What all requests of a subscription have in common, prepared once per settings.
pub(crate) struct Template {
    endpoint: Arc<Endpoint>,
    method: Method,
    headers: Arc<HeaderMap>,
    form: Form,
    /// What follows a message in its envelope.
    behind: Vec<u8>,
    has_dead_letter_policy: bool,
    is_batch: bool,
    signer: Option<Signer>,
    /// The account and the audience of a token.
    oidc: Option<(String, String)>,
    metadata: Metadata,
}

impl Template {
    /// Prepares the template for `settings`; `None` if they have no endpoint. `version` is the
    /// server's.
    pub(crate) fn new(settings: &Subscription, version: &str) -> Option<Self> {
        let push = settings.push.as_ref()?;
        let mut behind = b",\"subscription\":".to_vec();
        json::put_string(&mut behind, settings.name.as_str());
        let audience = |given: &str| match given {
            "" => without_password(&push.endpoint),
            given => given.to_owned(),
        };
        Some(Self {
            method: match settings.method {
                domain::push::Method::Post => Method::POST,
                domain::push::Method::Put => Method::PUT,
                domain::push::Method::Patch => Method::PATCH,
            },
            headers: Arc::new(fixed_headers(settings, &push.endpoint, push.form, version)),
            form: push.form,
            behind,
            has_dead_letter_policy: settings.dead_letter_policy.is_some(),
            is_batch: settings.batch.is_some(),
            signer: settings.signing.as_ref().map(Signer::new),
            oidc: push
                .oidc
                .as_ref()
                .map(|oidc| (oidc.service_account_email.clone(), audience(&oidc.audience))),
            metadata: Metadata::new(&settings.name),
            endpoint: Arc::new(push.endpoint.clone()),
        })
    }

    /// The email and the audience of the token to send; `None` = no token.
    pub(crate) fn oidc(&self) -> Option<(&str, &str)> {
        self.oidc.as_ref().map(|(email, audience)| (email.as_str(), audience.as_str()))
    }

    /// Whether a request is an array of messages.
    pub(crate) fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// Whether the JSON of the messages is needed.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.form == Form::Wrapped
    }

    /// The request for `parcel`, sent now. A `token` replaces any other authorization.
    pub(crate) fn request(
        &self,
        parcel: &Parcel<'_>,
        now: Timestamp,
        token: Option<&HeaderValue>,
        timeout: Duration,
    ) -> Result<Request, Malformed> {
        // Copied only if something is added.
        let mut headers = Arc::clone(&self.headers);
        if let Some(token) = token {
            Arc::make_mut(&mut headers).insert(AUTHORIZATION, token.clone());
        }
        let body = match (self.form, parcel.leases.first()) {
            (Form::Unwrapped { write_metadata }, Some(lease)) => {
                self.unwrapped(lease, write_metadata, Arc::make_mut(&mut headers))?
            }
            _ => self.wrapped(parcel)?,
        };
        let name = if self.is_batch || self.signer.is_some() {
            name::of_request(parcel.leases)
        } else {
            String::new()
        };
        let lines = self.order_lines(parcel, &name);
        self.put_signature(&name, now, &body, &mut headers);
        let (endpoint, method) = (Arc::clone(&self.endpoint), self.method.clone());
        Ok(Request { endpoint, method, headers, lines, body, timeout })
    }

    /// Envelopes; in brackets if batches are enabled, even around a single one.
    fn wrapped(&self, parcel: &Parcel<'_>) -> Result<Bytes, Malformed> {
        let bytes: usize = parcel.leases.iter().map(|lease| self.bytes(&lease.record)).sum();
        let mut body = Vec::with_capacity(bytes + 2);
        body.extend(self.is_batch.then_some(b'['));
        for (at, lease) in parcel.leases.iter().enumerate() {
            body.extend((at > 0).then_some(b','));
            let link = parcel.order.links.get(at).copied().unwrap_or(Link::Free);
            self.put_envelope(lease, parcel.messages.get(at), link, &mut body)?;
        }
        body.extend(self.is_batch.then_some(b']'));
        Ok(body.into())
    }

    /// Approximate size of a message in a body.
    pub(crate) fn bytes(&self, record: &Record) -> usize {
        const AROUND: usize = 48;
        match self.form {
            Form::Wrapped => json::message_bytes(record) + AROUND + self.behind.len(),
            Form::Unwrapped { .. } => record.body.len(),
        }
    }

    fn put_envelope(
        &self,
        lease: &Lease,
        message: Option<&Bytes>,
        link: Link,
        body: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        body.extend_from_slice(b"{\"message\":");
        match message {
            Some(message) => body.extend_from_slice(message),
            None => json::put_message(body, &lease.record, Spelling::Twice)?,
        }
        body.extend_from_slice(&self.behind);
        if self.has_dead_letter_policy {
            body.extend_from_slice(b",\"deliveryAttempt\":");
            json::put_number(body, u64::from(lease.attempt));
        }
        put_link(link, lease.record.offset, body);
        body.push(b'}');
        Ok(())
    }

    fn unwrapped(
        &self,
        lease: &Lease,
        write_metadata: bool,
        headers: &mut HeaderMap,
    ) -> Result<Bytes, Malformed> {
        if write_metadata {
            let attempt = self.has_dead_letter_policy.then_some(lease.attempt);
            self.metadata.put(&lease.record, attempt, headers)?;
        }
        headers.entry(CONTENT_TYPE).or_insert(OCTETS);
        json::data(&lease.record)
    }

    /// Header lines, formatted directly since all ordered messages have them. Nobody else may set
    /// these headers.
    fn order_lines(&self, parcel: &Parcel<'_>, name: &str) -> Vec<u8> {
        const BYTES: usize = 128;
        let chain = parcel.order.chain;
        let Some(first) = parcel.leases.first().filter(|_| self.is_batch || chain.is_some()) else {
            return Vec::new();
        };
        let mut lines = Vec::with_capacity(BYTES);
        if self.is_batch {
            put_line(&mut lines, BATCH_SIZE, parcel.leases.len() as u64);
            for piece in [BATCH_ID, ": ", name, "\r\n"] {
                lines.extend_from_slice(piece.as_bytes());
            }
        }
        if let Some(chain) = chain {
            put_line(&mut lines, SEQUENCE, first.record.offset.0);
            put_line(&mut lines, EPOCH, chain.epoch);
            if let Some(previous) = chain.previous {
                put_line(&mut lines, PREVIOUS_SEQUENCE, previous.0);
            }
        }
        lines
    }

    fn put_signature(&self, name: &str, now: Timestamp, body: &[u8], headers: &mut Arc<HeaderMap>) {
        if let (Some(signer), Ok(id)) = (&self.signer, HeaderValue::from_str(name)) {
            let headers = Arc::make_mut(headers);
            headers.insert(SIGNATURE, signer.header(id.as_bytes(), now, body));
            headers.insert(SIGNED_TIME, HeaderValue::from(now.seconds()));
            headers.insert(SIGNED_ID, id);
        }
    }
}

fn put_line(lines: &mut Vec<u8>, name: &str, number: u64) {
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    json::put_number(lines, number);
    lines.extend_from_slice(b"\r\n");
}

/// Writes to the body what the headers say about a first message, for messages of several lanes.
fn put_link(link: Link, sequence: Offset, body: &mut Vec<u8>) {
    let previous = match link {
        Link::Free => return,
        Link::First => None,
        Link::After(previous) => Some(previous),
    };
    body.extend_from_slice(b",\"postrider\":{\"sequence\":\"");
    json::put_number(body, sequence.0);
    if let Some(previous) = previous {
        body.extend_from_slice(b"\",\"previousSequence\":\"");
        json::put_number(body, previous.0);
    }
    body.extend_from_slice(b"\"}");
}

/// The headers that are the same for every request.
fn fixed_headers(
    settings: &Subscription,
    endpoint: &Endpoint,
    form: Form,
    version: &str,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        if let (Ok(name), Ok(mut value)) =
            (name.parse::<HeaderName>(), HeaderValue::from_str(value))
            && !is_reserved_header(&name)
        {
            value.set_sensitive(is_secret_header(&name));
            headers.insert(name, value);
        }
    }
    if form == Form::Wrapped {
        headers.entry(CONTENT_TYPE).or_insert(JSON);
    }
    if let Some(basic) = basic_authorization(endpoint) {
        headers.entry(AUTHORIZATION).or_insert(basic);
    }
    if let Ok(agent) = HeaderValue::try_from(format!("postrider-push/{version}")) {
        headers.insert(USER_AGENT, agent);
    }
    headers
}

/// The header for `user:password@` in front of the host.
fn basic_authorization(endpoint: &Endpoint) -> Option<HeaderValue> {
    let (user, _) = endpoint.uri().authority()?.as_str().rsplit_once('@')?;
    let credentials = percent_decoded(if user.contains(':') { user } else { return None });
    let text = format!("Basic {}", STANDARD.encode(credentials));
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| byte == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &behind[2..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}

/// The endpoint's address without user and password: a token is shown to others.
fn without_password(endpoint: &Endpoint) -> String {
    let text = endpoint.text();
    let authority = endpoint.uri().authority().map_or("", |authority| authority.as_str());
    match authority.rsplit_once('@') {
        Some((user, _)) => text.replacen(&format!("{user}@"), "", 1),
        None => text.to_owned(),
    }
}

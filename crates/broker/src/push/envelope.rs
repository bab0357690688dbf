//! The request that carries messages: method, headers, body.

mod built;
mod json;
mod metadata;
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
use domain::{Offset, Subscription, Timestamp};
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

pub(crate) use built::Built;

use super::exchange::Request;
use super::signature::Signer;
use metadata::Metadata;

const SEQUENCE: HeaderName = HeaderName::from_static("postrider-sequence");
const PREVIOUS_SEQUENCE: HeaderName = HeaderName::from_static("postrider-previous-sequence");
const EPOCH: HeaderName = HeaderName::from_static("postrider-epoch");
const BATCH_SIZE: HeaderName = HeaderName::from_static("postrider-batch-size");
const SIGNED_ID: HeaderName = HeaderName::from_static("webhook-id");
const SIGNED_TIME: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The messages of one request: at least one, and more only where batches are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel<'a> {
    /// What is sent.
    pub(crate) leases: &'a [Lease],
    /// The JSON of each (`message_json`); none where the data is sent alone.
    pub(crate) messages: &'a [Bytes],
    /// The place of the first in its lane; `None` = it is in no lane.
    pub(crate) chain: Option<Chain>,
}

/// What lets a receiver prove the order of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The last message of the lane that was acked in this epoch, if any.
    pub(crate) previous: Option<Offset>,
    /// The epoch.
    pub(crate) epoch: u64,
}

/// What all requests of a subscription have in common, prepared once for each of its settings.
pub(crate) struct Template {
    endpoint: Endpoint,
    method: Method,
    headers: Arc<HeaderMap>,
    form: Form,
    /// What stands behind a message in its envelope.
    behind: Vec<u8>,
    has_dead_letter_policy: bool,
    is_batch: bool,
    signer: Option<Signer>,
    /// Whom a token is made for, and for whom it is meant.
    oidc: Option<(String, String)>,
    metadata: Metadata,
}

impl Template {
    /// Prepares what `settings` ask for; `None` if they have no endpoint. `version` is that of
    /// the server.
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
            endpoint: push.endpoint.clone(),
        })
    }

    /// The email and the audience of the token to send along; `None` = none is sent.
    pub(crate) fn oidc(&self) -> Option<(&str, &str)> {
        self.oidc.as_ref().map(|(email, audience)| (email.as_str(), audience.as_str()))
    }

    /// Whether the JSON of the messages is needed.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.form == Form::Wrapped
    }

    /// The request for `parcel`, sent now. A `token` takes the place of any other authorization.
    /// Only a message that is sent alone can be found malformed here.
    pub(crate) fn request(
        &self,
        parcel: &Parcel<'_>,
        now: Timestamp,
        token: Option<&HeaderValue>,
        timeout: Duration,
    ) -> Result<Request, Malformed> {
        // Copied only where something is added.
        let mut headers = Arc::clone(&self.headers);
        if let Some(token) = token {
            Arc::make_mut(&mut headers).insert(AUTHORIZATION, token.clone());
        }
        let body = match (self.form, parcel.leases.first()) {
            (Form::Unwrapped { write_metadata }, Some(lease)) => {
                self.unwrapped(lease, write_metadata, Arc::make_mut(&mut headers))?
            }
            _ => self.wrapped(parcel),
        };
        self.put_order(parcel, &mut headers);
        self.put_signature(parcel.leases, now, &body, &mut headers);
        let (endpoint, method) = (self.endpoint.clone(), self.method.clone());
        Ok(Request { endpoint, method, headers, body, timeout })
    }

    /// Envelopes; in brackets where batches are set up, also around a single one.
    fn wrapped(&self, parcel: &Parcel<'_>) -> Bytes {
        const AROUND: usize = 48;
        assert_eq!(parcel.messages.len(), parcel.leases.len(), "each message has its JSON");
        let bytes: usize = parcel.messages.iter().map(Bytes::len).sum();
        let around = (AROUND + self.behind.len()) * parcel.messages.len();
        let mut body = Vec::with_capacity(bytes + around + 2);
        body.extend(self.is_batch.then_some(b'['));
        for (at, (lease, message)) in parcel.leases.iter().zip(parcel.messages).enumerate() {
            body.extend((at > 0).then_some(b','));
            self.put_envelope(lease, message, &mut body);
        }
        body.extend(self.is_batch.then_some(b']'));
        body.into()
    }

    fn put_envelope(&self, lease: &Lease, message: &[u8], body: &mut Vec<u8>) {
        body.extend_from_slice(b"{\"message\":");
        body.extend_from_slice(message);
        body.extend_from_slice(&self.behind);
        if self.has_dead_letter_policy {
            body.extend_from_slice(b",\"deliveryAttempt\":");
            body.extend_from_slice(lease.attempt.to_string().as_bytes());
        }
        body.push(b'}');
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

    fn put_order(&self, parcel: &Parcel<'_>, headers: &mut Arc<HeaderMap>) {
        if !self.is_batch && parcel.chain.is_none() {
            return;
        }
        let headers = Arc::make_mut(headers);
        if self.is_batch {
            headers.insert(BATCH_SIZE, HeaderValue::from(parcel.leases.len()));
        }
        if let (Some(chain), Some(first)) = (parcel.chain, parcel.leases.first()) {
            headers.insert(SEQUENCE, HeaderValue::from(first.record.offset.0));
            headers.insert(EPOCH, HeaderValue::from(chain.epoch));
            if let Some(previous) = chain.previous {
                headers.insert(PREVIOUS_SEQUENCE, HeaderValue::from(previous.0));
            }
        }
    }

    fn put_signature(
        &self,
        leases: &[Lease],
        now: Timestamp,
        body: &[u8],
        headers: &mut Arc<HeaderMap>,
    ) {
        if let Some(signer) = &self.signer {
            let headers = Arc::make_mut(headers);
            let id = signed_id(leases);
            headers.insert(SIGNATURE, signer.header(id.as_bytes(), now, body));
            headers.insert(SIGNED_TIME, HeaderValue::from(now.seconds()));
            headers.insert(SIGNED_ID, id);
        }
    }
}

/// The message id, or those of the first and the last.
fn signed_id(leases: &[Lease]) -> HeaderValue {
    let id = |lease: Option<&Lease>| lease.map_or(0, |lease| lease.record.offset.0);
    let (first, last) = (id(leases.first()), id(leases.last()));
    if leases.len() <= 1 {
        return HeaderValue::from(first);
    }
    HeaderValue::try_from(format!("{first}-{last}")).unwrap_or_else(|_| HeaderValue::from(first))
}

/// The headers that are the same for each request.
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

/// What `user:password@` in front of the host stands for.
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

/// The endpoint's address, but for user and password: a token is shown to others.
fn without_password(endpoint: &Endpoint) -> String {
    let text = endpoint.text();
    let authority = endpoint.uri().authority().map_or("", |authority| authority.as_str());
    match authority.rsplit_once('@') {
        Some((user, _)) => text.replacen(&format!("{user}@"), "", 1),
        None => text.to_owned(),
    }
}

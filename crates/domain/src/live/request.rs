//! What a gateway asks for, and the rules it must follow.

use std::time::Duration;

use super::{Refusal, Settings};
use crate::Filter;
use crate::error::Invalid;
use crate::filter::{Clause, Expression};
use crate::limits::{COLLECTION_BYTES_MAX, COLLECTION_SEGMENTS_MAX, LIVE_ID_BYTES_MAX};
use crate::matching::fold;

/// A registration as received. Empty texts count as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `gatewayId`.
    pub gateway: String,
    /// `subscriptionId`.
    pub subscription: String,
    /// `tenant`.
    pub tenant: String,
    /// `collection`.
    pub collection: String,
    /// `filters`: all must hold; none = everything.
    pub filters: Vec<Clause>,
    /// `filter`, in the CEL spelling, instead of `filters`.
    pub filter: Option<String>,
    /// `ttl` in seconds; `None` = the default.
    pub ttl_s: Option<i64>,
}

/// A valid registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub(super) gateway: String,
    pub(super) subscription: String,
    pub(super) tenant: String,
    pub(super) collection: String,
    pub(super) filter: Option<Expression>,
    /// Whether the filter came as a list.
    pub(super) listed: bool,
    pub(super) ttl: Duration,
}

impl Spec {
    /// Checks a request. An error names the field at fault.
    pub fn new(request: Request, settings: &Settings) -> Result<Self, Refusal> {
        gateway_id(&request.gateway)?;
        named("subscriptionId", &request.subscription)?;
        named("tenant", &request.tenant)?;
        subscription_id(&request.subscription)?;
        collection_path(&request.collection)?;
        let ttl = ttl(request.ttl_s, settings)?;
        let listed = request.filter.is_none();
        let filter = filter(request.filter, &request.filters)?;
        Ok(Self {
            gateway: request.gateway,
            subscription: request.subscription,
            tenant: request.tenant,
            collection: request.collection,
            filter: filter.map(|filter| filter.canonical()),
            listed,
            ttl,
        })
    }

    /// The gateway that owns it.
    pub fn gateway(&self) -> &str {
        &self.gateway
    }

    /// Its id.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// The filter, in its canonical form; `None` = everything.
    pub fn filter(&self) -> Option<&Expression> {
        self.filter.as_ref()
    }

    /// A hash of the filter.
    pub(super) fn content(&self) -> u64 {
        self.filter.as_ref().map_or(0, |filter| fold(filter.cel().bytes()))
    }
}

/// Checks the id of a gateway.
pub fn gateway_id(text: &str) -> Result<(), Invalid> {
    named("gatewayId", text)
}

fn named(field: &str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is required"));
    }
    let bytes = text.len();
    if bytes > LIVE_ID_BYTES_MAX {
        let problem = format!("{bytes} bytes, at most {LIVE_ID_BYTES_MAX} are allowed");
        return Err(Invalid::new(field, problem));
    }
    if text.contains(char::is_control) {
        return Err(Invalid::new(field, "control characters are not allowed"));
    }
    Ok(())
}

fn subscription_id(text: &str) -> Result<(), Invalid> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if text.bytes().all(allowed) {
        return Ok(());
    }
    Err(Invalid::new("subscriptionId", "only letters, digits, _ and - are allowed"))
}

/// Checks the path of a collection: `rooms/room-1/messages`.
pub fn collection_path(text: &str) -> Result<(), Invalid> {
    let refuse = |problem: String| Err(Invalid::new("collection", problem));
    if text.is_empty() {
        return refuse("is required".to_owned());
    }
    let bytes = text.len();
    if bytes > COLLECTION_BYTES_MAX {
        return refuse(format!("{bytes} bytes, at most {COLLECTION_BYTES_MAX} are allowed"));
    }
    if text.contains(char::is_control) {
        return refuse("control characters are not allowed".to_owned());
    }
    let segments = text.split('/').count();
    if segments > COLLECTION_SEGMENTS_MAX {
        return refuse(format!("{segments} names, at most {COLLECTION_SEGMENTS_MAX} are allowed"));
    }
    if text.split('/').any(str::is_empty) {
        return refuse("must be non-empty names joined by /".to_owned());
    }
    Ok(())
}

fn ttl(ttl_s: Option<i64>, settings: &Settings) -> Result<Duration, Invalid> {
    let Some(ttl_s) = ttl_s else { return Ok(settings.ttl_default) };
    let ttl = u64::try_from(ttl_s).ok().map(Duration::from_secs);
    match ttl {
        Some(ttl) if (settings.ttl_min..=settings.ttl_max).contains(&ttl) => Ok(ttl),
        _ => {
            let (min, max) = (settings.ttl_min.as_secs(), settings.ttl_max.as_secs());
            Err(Invalid::new("ttl", format!("{ttl_s} seconds, {min} to {max} are allowed")))
        }
    }
}

fn filter(text: Option<String>, clauses: &[Clause]) -> Result<Option<Filter>, Refusal> {
    match text {
        None => Filter::from_clauses("filters", clauses).map_err(Refusal::of_list),
        Some(_) if !clauses.is_empty() => {
            let problem = "give either filters or filter, not both";
            Err(Refusal::Invalid(Invalid::new("filter", problem)))
        }
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => Filter::parse_cel("filter", &text).map(Some).map_err(Refusal::of_cel),
    }
}

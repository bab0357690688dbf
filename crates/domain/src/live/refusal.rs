//! Why a call about live subscriptions is refused.

use crate::error::Invalid;
use crate::filter;
use crate::matching::TooComplex;

/// A refusal; `code` is its name in the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The list of filters is invalid.
    #[error(transparent)]
    Filter(Invalid),
    /// The filter text is invalid.
    #[error(transparent)]
    Cel(Invalid),
    /// The filter exceeds a limit.
    #[error(transparent)]
    FilterTooComplex(Invalid),
    /// The id exists with different content.
    #[error(
        "subscription {0} already exists with a different tenant, collection or filter; delete \
             it first"
    )]
    Exists(String),
    /// The subscription belongs to another gateway.
    #[error("subscription {0} belongs to another gateway")]
    NotOwner(String),
    /// There is no such subscription.
    #[error("subscription {0} not found; register it")]
    NotFound(String),
    /// It existed, but no heartbeat came in time.
    #[error("subscription {0} has expired; register it again")]
    Expired(String),
    /// The gateway has reached its quota.
    #[error("gateway {0} has {1} subscriptions, which is the limit")]
    GatewayQuota(String, usize),
    /// The tenant has reached its quota.
    #[error("tenant {0} has {1} subscriptions, which is the limit")]
    TenantQuota(String, usize),
    /// The global quota is reached.
    #[error("there are {0} live subscriptions, which is the limit")]
    GlobalQuota(usize),
}

impl Refusal {
    /// The code that clients act on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_ARGUMENT",
            Self::Filter(_) => "INVALID_FILTER",
            Self::Cel(_) => "CEL_COMPILATION_FAILED",
            Self::FilterTooComplex(_) => "FILTER_TOO_COMPLEX",
            Self::Exists(_) => "SUBSCRIPTION_EXISTS",
            Self::NotOwner(_) => "NOT_OWNER",
            Self::NotFound(_) => "SUBSCRIPTION_NOT_FOUND",
            Self::Expired(_) => "SUBSCRIPTION_EXPIRED",
            Self::GatewayQuota(..) => "GATEWAY_QUOTA_EXCEEDED",
            Self::TenantQuota(..) => "TENANT_QUOTA_EXCEEDED",
            Self::GlobalQuota(_) => "GLOBAL_QUOTA_EXCEEDED",
        }
    }

    /// The field at fault, as the API spells it; `None` = the refusal is not about a field.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid(invalid)
            | Self::Filter(invalid)
            | Self::Cel(invalid)
            | Self::FilterTooComplex(invalid) => Some(&invalid.field),
            Self::Exists(_) | Self::NotOwner(_) => Some("subscriptionId"),
            Self::GatewayQuota(..) => Some("gatewayId"),
            Self::TenantQuota(..) => Some("tenant"),
            Self::NotFound(_) | Self::Expired(_) | Self::GlobalQuota(_) => None,
        }
    }

    pub(super) fn of_list(refusal: filter::Refusal) -> Self {
        match refusal {
            filter::Refusal::Wrong(invalid) => Self::Filter(invalid),
            filter::Refusal::TooComplex(invalid) => Self::FilterTooComplex(invalid),
        }
    }

    pub(super) fn of_cel(refusal: filter::Refusal) -> Self {
        match refusal {
            filter::Refusal::Wrong(invalid) => Self::Cel(invalid),
            filter::Refusal::TooComplex(invalid) => Self::FilterTooComplex(invalid),
        }
    }
}

impl From<TooComplex> for Refusal {
    fn from(error: TooComplex) -> Self {
        Self::FilterTooComplex(Invalid::new("filter", error.to_string()))
    }
}

//! The stored form of how a subscription pushes.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::backoff::{Backoff, Phases};
use domain::push::{BatchPush, Endpoint, Form, Method, OidcToken, PushConfig, Secret, Signing};
use domain::{RetryPolicy, Timestamp};
use serde::{Deserialize, Serialize};

use super::Unreadable;
use super::subscription::RetryForm;

/// Where messages are pushed to.
#[derive(Serialize, Deserialize)]
pub(super) struct PushForm {
    endpoint: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oidc: Option<OidcForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unwrapped: Option<UnwrappedForm>,
}

#[derive(Serialize, Deserialize)]
struct OidcForm {
    service_account_email: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    audience: String,
}

#[derive(Serialize, Deserialize)]
struct UnwrappedForm {
    write_metadata: bool,
}

impl From<&PushConfig> for PushForm {
    fn from(config: &PushConfig) -> Self {
        Self {
            endpoint: config.endpoint.text().to_owned(),
            attributes: config.attributes.clone(),
            timeout: config.timeout,
            oidc: config.oidc.as_ref().map(|oidc| OidcForm {
                service_account_email: oidc.service_account_email.clone(),
                audience: oidc.audience.clone(),
            }),
            unwrapped: match config.form {
                Form::Wrapped => None,
                Form::Unwrapped { write_metadata } => Some(UnwrappedForm { write_metadata }),
            },
        }
    }
}

impl PushForm {
    pub(super) fn read(self) -> Result<PushConfig, Unreadable> {
        Ok(PushConfig {
            endpoint: Endpoint::parse("push.endpoint", &self.endpoint)?,
            attributes: self.attributes,
            timeout: self.timeout,
            oidc: self.oidc.map(|oidc| OidcToken {
                service_account_email: oidc.service_account_email,
                audience: oidc.audience,
            }),
            form: self.unwrapped.map_or(Form::Wrapped, |form| Form::Unwrapped {
                write_metadata: form.write_metadata,
            }),
        })
    }
}

/// Waits between attempts. To the nanosecond, so that clients see exactly what they set.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BackoffForm {
    Exponential(RetryForm),
    Ladder(Vec<Duration>),
    Phases { fast: RetryForm, fast_retries: u32, slow_every: Duration, slow_retries: u32 },
}

impl From<&Backoff> for BackoffForm {
    fn from(backoff: &Backoff) -> Self {
        match backoff {
            Backoff::Exponential(policy) => Self::Exponential((*policy).into()),
            Backoff::Ladder(steps) => Self::Ladder(steps.to_vec()),
            Backoff::Phases(phases) => Self::Phases {
                fast: phases.fast.into(),
                fast_retries: phases.fast_retries,
                slow_every: phases.slow_every,
                slow_retries: phases.slow_retries,
            },
        }
    }
}

impl From<BackoffForm> for Backoff {
    fn from(form: BackoffForm) -> Self {
        match form {
            BackoffForm::Exponential(policy) => Self::Exponential(RetryPolicy::from(policy)),
            BackoffForm::Ladder(steps) => Self::Ladder(steps.into()),
            BackoffForm::Phases { fast, fast_retries, slow_every, slow_retries } => {
                let fast = RetryPolicy::from(fast);
                Self::Phases(Phases { fast, fast_retries, slow_every, slow_retries })
            }
        }
    }
}

/// The secrets themselves: requests cannot be signed with less.
#[derive(Serialize, Deserialize)]
pub(super) struct SigningForm {
    secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousForm>,
    /// Those before the previous one, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<PreviousForm>,
}

#[derive(Serialize, Deserialize)]
struct PreviousForm {
    secret: String,
    until_us: u64,
}

impl From<&Signing> for SigningForm {
    fn from(signing: &Signing) -> Self {
        let mut forms = signing
            .previous
            .iter()
            .map(|(secret, until)| PreviousForm { secret: secret.text(), until_us: until.0 });
        Self { secret: signing.secret.text(), previous: forms.next(), earlier: forms.collect() }
    }
}

impl SigningForm {
    pub(super) fn read(self) -> Result<Signing, Unreadable> {
        let read = |form: PreviousForm| {
            let secret = Secret::parse("signing.previous.secret", &form.secret)?;
            Ok((secret, Timestamp(form.until_us)))
        };
        let previous = self.previous.into_iter().chain(self.earlier).map(read);
        Ok(Signing {
            secret: Secret::parse("signing.secret", &self.secret)?,
            previous: previous.collect::<Result<_, Unreadable>>()?,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct BatchForm {
    messages: u32,
    bytes: u32,
    linger: Duration,
}

impl From<BatchPush> for BatchForm {
    fn from(batch: BatchPush) -> Self {
        Self { messages: batch.messages, bytes: batch.bytes, linger: batch.linger }
    }
}

impl From<BatchForm> for BatchPush {
    fn from(form: BatchForm) -> Self {
        Self { messages: form.messages, bytes: form.bytes, linger: form.linger }
    }
}

/// The method's name where it is not the usual one.
pub(super) fn method_form(method: Method) -> Option<String> {
    (method != Method::default()).then(|| method.as_str().to_owned())
}

pub(super) fn read_method(form: Option<String>) -> Result<Method, Unreadable> {
    Ok(form.map_or(Ok(Method::default()), |text| Method::parse("method", &text))?)
}

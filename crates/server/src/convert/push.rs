//! Where and how a subscription pushes.

use domain::push::{Endpoint, Form, OidcToken, PushConfig, Secret};
use domain::subscription::{Change, PushPart, SigningChange};
use domain::{Invalid, Subscription};
use wire::pubsub;
use wire::pubsub::push_config::{self as parts, AuthenticationMethod, Wrapper};

use super::Extras;
use crate::status::Result;

const ENDPOINT: &str = "push_config.push_endpoint";

/// What is asked for about signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SigningAsk {
    /// None.
    Off,
    /// With the secret there is; where there is none, one is made.
    On,
    /// With this secret.
    With(Secret),
}

impl SigningAsk {
    /// The change it makes, with a secret for the case that one is needed.
    pub(super) fn change(&self) -> Result<SigningChange> {
        Ok(match self {
            Self::Off => SigningChange::Off,
            Self::On => SigningChange::On(broker::make_secret()?),
            Self::With(secret) => SigningChange::With(secret.clone()),
        })
    }
}

/// The secret that `change` has set, if it has: this once it is shown.
pub(crate) fn secret_set<'set>(
    change: Option<&'set SigningChange>,
    settings: &Subscription,
) -> Option<&'set Secret> {
    let in_force = settings.signing.as_ref().map(|signing| &signing.secret);
    match change {
        Some(SigningChange::On(secret) | SigningChange::With(secret)) => {
            Some(secret).filter(|secret| in_force == Some(*secret))
        }
        Some(SigningChange::Off) | None => None,
    }
}

/// A push config without its timeout, which is ours; `None` = pull. An empty message means pull
/// too: Java clients always send one.
pub(super) fn push_config(wire: Option<&pubsub::PushConfig>) -> Result<Option<PushConfig>> {
    let Some(wire) = wire else { return Ok(None) };
    let (oidc, form) = (oidc(wire), form(wire));
    let Some(endpoint) = endpoint(wire)? else {
        let has_more = !wire.attributes.is_empty() || oidc.is_some() || form != Form::Wrapped;
        return if has_more { Err(no_endpoint().into()) } else { Ok(None) };
    };
    let attributes = wire.attributes.clone();
    Ok(Some(PushConfig { attributes, oidc, form, ..PushConfig::new(endpoint) }))
}

/// Why a part of a push config alone is refused.
pub(super) fn no_endpoint() -> Invalid {
    Invalid::new(ENDPOINT, "the other fields of push_config need an endpoint")
}

fn endpoint(wire: &pubsub::PushConfig) -> Result<Option<Endpoint>, Invalid> {
    let text = &wire.push_endpoint;
    if text.is_empty() { Ok(None) } else { Endpoint::parse(ENDPOINT, text).map(Some) }
}

fn oidc(wire: &pubsub::PushConfig) -> Option<OidcToken> {
    let AuthenticationMethod::OidcToken(token) = wire.authentication_method.as_ref()?;
    Some(OidcToken {
        service_account_email: token.service_account_email.clone(),
        audience: token.audience.clone(),
    })
}

fn form(wire: &pubsub::PushConfig) -> Form {
    match &wire.wrapper {
        Some(Wrapper::NoWrapper(parts::NoWrapper { write_metadata })) => {
            Form::Unwrapped { write_metadata: *write_metadata }
        }
        Some(Wrapper::PubsubWrapper(_)) | None => Form::Wrapped,
    }
}

/// A push config as it is shown; an empty one means pull.
pub(super) fn push_config_to_wire(config: Option<&PushConfig>) -> pubsub::PushConfig {
    let Some(config) = config else { return pubsub::PushConfig::default() };
    let oidc = config.oidc.as_ref().map(|oidc| {
        AuthenticationMethod::OidcToken(parts::OidcToken {
            service_account_email: oidc.service_account_email.clone(),
            audience: oidc.audience.clone(),
        })
    });
    pubsub::PushConfig {
        push_endpoint: config.endpoint.text().to_owned(),
        attributes: config.attributes.clone(),
        authentication_method: oidc,
        wrapper: match config.form {
            Form::Wrapped => None,
            Form::Unwrapped { write_metadata } => {
                Some(Wrapper::NoWrapper(parts::NoWrapper { write_metadata }))
            }
        },
    }
}

/// Adds what a mask names to the change of a push config. Without `extras` the call came on a way
/// that cannot give what is ours, so that stays as it is.
pub(super) fn change_push(
    change: &mut Change,
    wire: Option<&pubsub::PushConfig>,
    extras: Option<&Extras>,
    part: PushPart,
) -> Result<()> {
    let empty = pubsub::PushConfig::default();
    let given = wire.unwrap_or(&empty);
    match part {
        PushPart::Whole => {
            change.push.whole = Some(push_config(wire)?);
            if let Some(extras) = extras {
                change.push.timeout = Some(extras.push_timeout);
                change.push_retry = extras.push_retry.map(Some).or(change.push_retry);
            }
        }
        PushPart::Endpoint => change.push.endpoint = Some(endpoint(given)?),
        PushPart::Attributes => change.push.attributes = Some(given.attributes.clone()),
        PushPart::Oidc => change.push.oidc = Some(oidc(given)),
        PushPart::Form => change.push.form = Some(form(given)),
        PushPart::Timeout => {
            change.push.timeout = Some(extras.and_then(|extras| extras.push_timeout));
        }
        PushPart::Retry => change.push_retry = Some(extras.and_then(|extras| extras.push_retry)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use domain::RetryPolicy;
    use domain::subscription::PushRetry;

    use super::super::subscription::settings_to_wire;
    use super::super::{subscription_change, subscription_from_wire};
    use super::*;

    fn endpoint_only(endpoint: &str) -> pubsub::PushConfig {
        pubsub::PushConfig { push_endpoint: endpoint.to_owned(), ..pubsub::PushConfig::default() }
    }

    fn full() -> pubsub::PushConfig {
        let token = parts::OidcToken {
            service_account_email: "push@example.com".to_owned(),
            audience: "me".to_owned(),
        };
        pubsub::PushConfig {
            attributes: BTreeMap::from([("x-goog-version".to_owned(), "v1".to_owned())]),
            authentication_method: Some(AuthenticationMethod::OidcToken(token)),
            wrapper: Some(Wrapper::NoWrapper(parts::NoWrapper { write_metadata: true })),
            ..endpoint_only("https://example.com/push")
        }
    }

    fn wire(push_config: pubsub::PushConfig) -> pubsub::Subscription {
        pubsub::Subscription {
            name: "projects/p/subscriptions/billing".to_owned(),
            topic: "projects/p/topics/orders".to_owned(),
            push_config: Some(push_config),
            ..pubsub::Subscription::default()
        }
    }

    fn made(wire: pubsub::Subscription, extras: Extras) -> Result<Subscription> {
        let made = subscription_from_wire(wire, extras)?;
        made.validate()?;
        Ok(made)
    }

    fn changed(
        before: &Subscription,
        push_config: pubsub::PushConfig,
        extras: Option<&Extras>,
        path: &str,
    ) -> Result<Subscription> {
        let change = subscription_change(&wire(push_config), extras, &[path.to_owned()])?;
        Ok(change.apply(before)?)
    }

    #[test]
    fn every_field_of_a_push_config_goes_there_and_back() {
        for config in [endpoint_only("http://localhost:8080/push"), full()] {
            let settings = made(wire(config.clone()), Extras::default()).unwrap();
            assert_eq!(settings_to_wire(&settings).push_config, Some(config));
        }
        let wrapped = pubsub::PushConfig {
            wrapper: Some(Wrapper::PubsubWrapper(parts::PubsubWrapper {})),
            ..pubsub::PushConfig::default()
        };
        assert_eq!(made(wire(wrapped), Extras::default()).unwrap().push, None);
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_by_name() {
        let no_endpoint = pubsub::PushConfig { push_endpoint: String::new(), ..full() };
        for bad in [endpoint_only("localhost:80"), endpoint_only("ftp://h/"), no_endpoint] {
            let refusal = made(wire(bad), Extras::default()).unwrap_err();
            assert!(refusal.to_string().starts_with("push_config.push_endpoint: "), "{refusal}");
        }
        let timed = Extras { push_timeout: Some(Duration::from_secs(5)), ..Extras::default() };
        assert!(made(wire(pubsub::PushConfig::default()), timed).is_err());
    }

    #[test]
    fn an_ack_deadline_is_given_or_not() {
        for (seconds, is_given) in [(0, false), (10, true), (60, true)] {
            let given = pubsub::Subscription {
                ack_deadline_seconds: seconds,
                ..wire(pubsub::PushConfig::default())
            };
            let settings = made(given, Extras::default()).unwrap();
            assert_eq!(settings.is_ack_deadline_given, is_given, "{seconds}");
        }
    }

    #[test]
    fn a_way_that_cannot_give_the_timeout_keeps_it() {
        let timed = Extras { push_timeout: Some(Duration::from_secs(5)), ..Extras::default() };
        let before = made(wire(full()), timed).unwrap();
        let other = || endpoint_only("http://h/other");
        let timeout = |after: Result<Subscription>| after.unwrap().push.unwrap().timeout;
        let kept = changed(&before, other(), None, "push_config");
        assert_eq!(timeout(kept), Some(Duration::from_secs(5)));
        let cleared = changed(&before, other(), Some(&Extras::default()), "push_config");
        assert_eq!(timeout(cleared), None);
        for path in ["push_config.timeout_seconds", "push_config.retry_policy"] {
            let refusal = changed(&before, other(), None, path).unwrap_err();
            assert!(refusal.to_string().starts_with("update_mask: "), "{refusal}");
        }
    }

    #[test]
    fn each_path_changes_its_part_alone() {
        let before = made(wire(full()), Extras::default()).unwrap();
        let none = pubsub::PushConfig::default;
        let after = |path| changed(&before, none(), None, path).unwrap().push;
        let push = || before.push.clone().unwrap();
        assert_eq!(after("push_config"), None);
        assert_eq!(after("push_config.push_endpoint"), None);
        assert_eq!(after("push_config.oidc_token"), Some(PushConfig { oidc: None, ..push() }));
        let wrapped = PushConfig { form: Form::Wrapped, ..push() };
        assert_eq!(after("push_config.no_wrapper"), Some(wrapped));
        let bare = PushConfig { attributes: BTreeMap::new(), ..push() };
        assert_eq!(after("push_config.attributes"), Some(bare));
    }

    #[test]
    fn a_retry_policy_inside_the_push_config_is_the_other_one() {
        let retry = PushRetry { policy: RetryPolicy::default(), attempts: None };
        let extras = || Extras { push_retry: Some(retry), ..Extras::default() };
        let pushing = || wire(endpoint_only("http://h/"));
        let settings = made(pushing(), extras()).unwrap();
        assert_eq!(settings.retry_policy, Some(RetryPolicy::default()));
        assert_eq!(settings.attempts_max, Some(5));
        let dead = |attempts| pubsub::Subscription {
            dead_letter_policy: Some(pubsub::DeadLetterPolicy {
                dead_letter_topic: "projects/p/topics/dead".to_owned(),
                max_delivery_attempts: attempts,
            }),
            ..pushing()
        };
        assert_eq!(made(dead(9), extras()).unwrap().attempts_max, Some(9));
        let settings = made(dead(0), extras()).unwrap();
        assert_eq!(settings.dead_letter_policy.unwrap().max_delivery_attempts, 5);
        let three = PushRetry { attempts: Some(3), ..retry };
        let three = Extras { push_retry: Some(three), ..Extras::default() };
        assert_eq!(made(dead(0), three.clone()).unwrap().attempts_allowed(), Some(3));
        assert!(made(dead(9), three).is_err());
        let both = pubsub::Subscription { retry_policy: Some(Default::default()), ..pushing() };
        let refusal = made(both, extras()).unwrap_err();
        assert!(refusal.to_string().starts_with("push_config.retry_policy: "), "{refusal}");
    }

    #[test]
    fn a_secret_is_told_only_to_whom_sets_it() {
        let on = SigningAsk::On.change().unwrap();
        let plain = made(wire(endpoint_only("http://h/")), Extras::default()).unwrap();
        let signed = Subscription { signing: on.clone().apply(None), ..plain };
        assert!(secret_set(Some(&on), &signed).is_some());
        let again = SigningAsk::On.change().unwrap();
        assert_eq!(secret_set(Some(&again), &signed), None);
        assert_eq!(secret_set(None, &signed), None);
        assert_eq!(secret_set(Some(&SigningChange::Off), &signed), None);
    }
}

//! Changes of how a subscription pushes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempts_in_range;
use super::push_shapes::VERSION;
use crate::error::Invalid;
use crate::limits::DELIVERY_ATTEMPTS_DEFAULT;
use crate::policy::RetryPolicy;
use crate::push::{Endpoint, Form, OidcToken, PushConfig, Secret, Signing};

/// A change of the push config: all of it, or parts of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushChange {
    /// The whole but for its timeout, which not every caller can express; `Some(None)` = pull.
    pub whole: Option<Option<PushConfig>>,
    /// The endpoint; `Some(None)` = pull.
    pub endpoint: Option<Option<Endpoint>>,
    /// All attributes, replacing those before.
    pub attributes: Option<BTreeMap<String, String>>,
    /// The token; `Some(None)` = none.
    pub oidc: Option<Option<OidcToken>>,
    /// What the body looks like.
    pub form: Option<Form>,
    /// How long an answer may take; `Some(None)` = not given.
    pub timeout: Option<Option<Duration>>,
    /// The same as a label has it, which counts where it is not given in another way.
    pub labelled_timeout: Option<Duration>,
}

impl PushChange {
    pub(super) fn apply(self, current: Option<PushConfig>) -> Result<Option<PushConfig>, Invalid> {
        let kept_timeout = current.as_ref().and_then(|push| push.timeout);
        // As Google has it: a version that is not given is not changed.
        let kept_version = current.as_ref().and_then(|push| push.attributes.get(VERSION).cloned());
        let gives_parts = self.gives_parts();
        let push = match (self.whole.unwrap_or(current), self.endpoint) {
            (_, Some(None)) => None,
            (Some(push), Some(Some(endpoint))) => Some(PushConfig { endpoint, ..push }),
            (None, Some(Some(endpoint))) => Some(PushConfig::new(endpoint)),
            (push, None) => push,
        };
        let Some(push) = push else {
            return if gives_parts { Err(no_endpoint()) } else { Ok(None) };
        };
        let kept_timeout = if self.timeout.is_none() { kept_timeout } else { None };
        let mut attributes = self.attributes.unwrap_or(push.attributes);
        if let Some(version) = kept_version {
            attributes.entry(VERSION.to_owned()).or_insert(version);
        }
        Ok(Some(PushConfig {
            attributes,
            oidc: self.oidc.unwrap_or(push.oidc),
            form: self.form.unwrap_or(push.form),
            timeout: self.timeout.flatten().or(self.labelled_timeout).or(kept_timeout),
            ..push
        }))
    }

    fn gives_parts(&self) -> bool {
        self.attributes.as_ref().is_some_and(|attributes| !attributes.is_empty())
            || self.oidc.as_ref().is_some_and(Option::is_some)
            || self.form.is_some_and(|form| form != Form::default())
            || self.timeout.flatten().is_some()
    }
}

/// Why parts of a push config are refused without its endpoint.
pub(super) fn no_endpoint() -> Invalid {
    let problem = "the other fields of push_config need an endpoint";
    Invalid::new("push_config.push_endpoint", problem)
}

/// A retry policy given inside the push config: the same settings in another spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushRetry {
    /// The waits.
    pub policy: RetryPolicy,
    /// How often a message is tried, where it is given.
    pub attempts: Option<u32>,
}

impl PushRetry {
    /// How often a message is tried. `asked` is what another spelling says, and `dead_letter` what
    /// a dead letter policy does.
    pub fn attempts_max(
        &self,
        asked: Option<u32>,
        dead_letter: Option<u32>,
    ) -> Result<u32, Invalid> {
        const FIELD: &str = "push_config.retry_policy.max_attempts";
        match (self.attempts, asked) {
            (Some(attempts), Some(asked)) if attempts != asked => {
                let problem = format!("{attempts}, but postrider.maxAttempts is {asked}");
                Err(Invalid::new(FIELD, problem))
            }
            (Some(attempts), _) => attempts_in_range(FIELD, attempts).map(|()| attempts),
            (None, asked) => Ok(asked.or(dead_letter).unwrap_or(DELIVERY_ATTEMPTS_DEFAULT)),
        }
    }

    /// Refuses the other spelling beside it.
    pub fn only(is_other_given: bool) -> Result<(), Invalid> {
        if !is_other_given {
            return Ok(());
        }
        let problem = "conflicts with retry_policy; give only one";
        Err(Invalid::new("push_config.retry_policy", problem))
    }
}

/// What is asked for about signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningAsk {
    /// None.
    Off,
    /// With the secret there is; where there is none, with one that was made.
    On,
    /// With this secret alone.
    With(Secret),
}

impl SigningAsk {
    /// How pushes are signed after it. `spare` is the secret that was made for the case that one is
    /// needed.
    pub(super) fn apply(
        self,
        current: Option<Signing>,
        spare: Option<Secret>,
    ) -> Result<Option<Signing>, Invalid> {
        match (self, current, spare) {
            (Self::Off, ..) => Ok(None),
            (Self::On, Some(current), _) => Ok(Some(current)),
            (Self::On, None, Some(made)) => Ok(Some(Signing::new(made))),
            (Self::On, None, None) => {
                Err(Invalid::new("postrider.signing.secret", "must be given here"))
            }
            (Self::With(secret), current, _) => {
                let same = current.filter(|signing| signing.secret == secret);
                Ok(Some(same.unwrap_or_else(|| Signing::new(secret))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dead_letters, pairs, pushing, subscription};
    use super::super::{Change, Joined, Subscription};
    use serde_json::json;

    use super::*;
    use crate::backoff::Backoff;

    const TIMEOUT_LABEL: &str = "postrider-timeout-seconds";

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn other() -> Endpoint {
        Endpoint::parse("push_endpoint", "https://example.com/other").unwrap()
    }

    fn pushed(before: &Subscription, push: PushChange) -> Result<Option<PushConfig>, Invalid> {
        Change::joining(Joined { push, ..Joined::default() }).apply(before).map(|after| after.push)
    }

    fn timed(timeout: u64) -> Subscription {
        let push = pushing().push.map(|push| PushConfig { timeout: Some(secs(timeout)), ..push });
        Subscription { push, ..pushing() }
    }

    #[test]
    fn a_whole_config_replaces_all_but_a_timeout_that_is_not_given() {
        let whole = |config| PushChange { whole: Some(config), ..PushChange::default() };
        let config = PushConfig::new(other());
        assert_eq!(pushed(&subscription(), whole(Some(config.clone()))), Ok(Some(config.clone())));
        let kept = pushed(&timed(7), whole(Some(config.clone()))).unwrap().unwrap();
        assert_eq!(kept, PushConfig { timeout: Some(secs(7)), ..config.clone() });
        let cleared = PushChange { timeout: Some(None), ..whole(Some(config.clone())) };
        assert_eq!(pushed(&timed(7), cleared), Ok(Some(config)));
        assert_eq!(pushed(&timed(7), whole(None)), Ok(None));
    }

    #[test]
    fn parts_change_what_they_name() {
        let before = timed(7);
        let endpoint = PushChange { endpoint: Some(Some(other())), ..PushChange::default() };
        let after = pushed(&before, endpoint.clone()).unwrap().unwrap();
        assert_eq!((after.endpoint, after.timeout), (other(), Some(secs(7))));
        assert_eq!(pushed(&subscription(), endpoint), Ok(Some(PushConfig::new(other()))));
        let token = OidcToken { service_account_email: "e".to_owned(), audience: String::new() };
        let parts = PushChange {
            oidc: Some(Some(token.clone())),
            form: Some(Form::Unwrapped { write_metadata: true }),
            attributes: Some(pairs(&[("k", "v")])),
            timeout: Some(Some(secs(9))),
            ..PushChange::default()
        };
        let after = pushed(&before, parts.clone()).unwrap().unwrap();
        assert_eq!((after.oidc, after.timeout), (Some(token), Some(secs(9))));
        assert_eq!(after.attributes, pairs(&[("k", "v")]));
        assert_eq!(after.endpoint, before.push.unwrap().endpoint);
        let error = pushed(&subscription(), parts).unwrap_err();
        assert_eq!(error.field, "push_config.push_endpoint");
        let ended = PushChange { endpoint: Some(None), ..PushChange::default() };
        assert_eq!(pushed(&timed(7), ended), Ok(None));
    }

    #[test]
    fn a_timeout_label_sets_the_timeout_and_follows_it() {
        let labelled = Subscription { labels: pairs(&[(TIMEOUT_LABEL, "40")]), ..subscription() };
        assert_eq!(labelled.validate(), Ok(()), "it waits for an endpoint");
        let endpoint = PushChange { endpoint: Some(Some(other())), ..PushChange::default() };
        let change = Change::joining(Joined { push: endpoint, ..Joined::default() });
        let pushing = change.apply(&labelled).unwrap();
        assert_eq!(pushing.push.as_ref().unwrap().timeout, Some(secs(40)));
        let relabelled =
            Change { labels: Some(pairs(&[(TIMEOUT_LABEL, "50")])), ..Change::default() };
        let after = relabelled.apply(&pushing).unwrap();
        assert_eq!(after.push.unwrap().timeout, Some(secs(50)));
        let timeout = PushChange { timeout: Some(Some(secs(60))), ..PushChange::default() };
        let after = Change::joining(Joined { push: timeout.clone(), ..Joined::default() })
            .apply(&pushing)
            .unwrap();
        assert_eq!(after.labels, pairs(&[(TIMEOUT_LABEL, "60")]));
        let torn = Change {
            labels: Some(pairs(&[(TIMEOUT_LABEL, "50")])),
            ..Change::joining(Joined { push: timeout, ..Joined::default() })
        };
        let field = torn.apply(&pushing).unwrap_err().field;
        assert_eq!(field, r#"labels["postrider-timeout-seconds"]"#);
    }

    #[test]
    fn the_source_spelling_sets_waits_and_attempts() {
        let retry = |attempts| {
            let retry = PushRetry { policy: RetryPolicy::default(), attempts };
            Change::joining(Joined { push_retry: Some(Some(retry)), ..Joined::default() })
        };
        let after = retry(None).apply(&subscription()).unwrap();
        assert_eq!(
            (after.retry_policy, after.attempts_max),
            (Some(RetryPolicy::default()), Some(5))
        );
        let after = retry(Some(2)).apply(&subscription()).unwrap();
        assert_eq!(after.attempts_max, Some(2));
        let dead = dead_letters("projects/p/topics/dead", 9);
        assert_eq!(retry(None).apply(&dead).unwrap().attempts_max, Some(9));
        assert!(retry(Some(5)).apply(&dead).is_err());
        let error = retry(Some(101)).apply(&subscription()).unwrap_err();
        assert_eq!(error.field, "push_config.retry_policy.max_attempts");
        let mut torn = retry(Some(4));
        torn.joined.attempts_max = Some(Some(3));
        let error = torn.apply(&subscription()).unwrap_err();
        assert_eq!(error.field, "push_config.retry_policy.max_attempts");
        let mut both = retry(None);
        both.joined.retry_policy.whole = Some(Some(RetryPolicy::default()));
        assert_eq!(both.apply(&subscription()).unwrap_err().field, "push_config.retry_policy");
        let cleared = Change::joining(Joined { push_retry: Some(None), ..Joined::default() });
        let after = cleared.apply(&retry(None).apply(&subscription()).unwrap()).unwrap();
        assert_eq!((after.retry_policy, after.attempts_max), (None, None));
    }

    #[test]
    fn signing_keeps_the_secret_it_has() {
        let (first, second) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let signed = |secret: &Secret| Ok(Some(Signing::new(secret.clone())));
        let on = SigningAsk::On.apply(None, Some(first.clone()));
        assert_eq!(on, signed(&first));
        let on = on.unwrap();
        assert_eq!(SigningAsk::On.apply(on.clone(), Some(second.clone())), signed(&first));
        assert_eq!(SigningAsk::With(first.clone()).apply(on.clone(), None), signed(&first));
        assert_eq!(SigningAsk::With(second.clone()).apply(on.clone(), None), signed(&second));
        assert_eq!(SigningAsk::Off.apply(on, Some(second)), Ok(None));
        assert!(SigningAsk::On.apply(None, None).is_err());
    }

    #[test]
    fn a_ladder_takes_the_place_of_a_policy_that_is_ended() {
        let before = Subscription { retry_policy: Some(RetryPolicy::default()), ..pushing() };
        let ladder = Backoff::Ladder([secs(5)].into());
        let mut change = Change::of("postrider.backoff", json!(["5s"])).unwrap();
        assert_eq!(change.clone().apply(&before).unwrap_err().field, "postrider.backoff");
        change.joined.retry_policy.whole = Some(None);
        assert_eq!(change.apply(&before).unwrap().backoff, Some(ladder));
    }
}

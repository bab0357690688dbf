//! The rules of push settings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::Subscription;
use super::push_shapes::check_version;
use crate::error::Invalid;
use crate::limits::{
    ATTRIBUTE_KEY_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, BATCH_BYTES_MAX, BATCH_BYTES_MIN,
    BATCH_LINGER_MAX, BATCH_MESSAGES_MAX, HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX, OIDC_AUDIENCE_BYTES_MAX, OIDC_EMAIL_BYTES_MAX, PUSH_ATTRIBUTES_MAX, PUSH_RATE_MAX,
    PUSH_TIMEOUT_MAX, PUSH_TIMEOUT_MIN,
};
use crate::push::{BatchPush, Form, OidcToken, PushConfig, is_reserved_header};
use crate::setting::read::between;

/// Checks the push config, and that it fits the other settings.
pub(super) fn check(subscription: &Subscription) -> Result<(), Invalid> {
    let Some(push) = &subscription.push else { return Ok(()) };
    check_config(push)?;
    check_fits(push, subscription)
}

/// Checks how many requests a second there may be.
pub(super) fn check_rate(subscription: &Subscription) -> Result<(), Invalid> {
    subscription.rate_max.map_or(Ok(()), |rate| {
        between("postrider.rateLimit", rate, 1, PUSH_RATE_MAX, " requests a second")
    })
}

fn check_config(push: &PushConfig) -> Result<(), Invalid> {
    push.timeout.map_or(Ok(()), |timeout| timeout_in_range(TIMEOUT_FIELD, timeout))?;
    check_attributes(&push.attributes)?;
    check_version(push)?;
    push.oidc.as_ref().map_or(Ok(()), check_oidc)
}

const TIMEOUT_FIELD: &str = "push_config.timeout_seconds";

/// Checks how long an endpoint has for its answer.
pub(super) fn timeout_in_range(field: &str, timeout: Duration) -> Result<(), Invalid> {
    let is_whole = timeout.subsec_nanos() == 0;
    if is_whole && (PUSH_TIMEOUT_MIN..=PUSH_TIMEOUT_MAX).contains(&timeout) {
        return Ok(());
    }
    let (given, min) = (timeout.as_secs_f64(), PUSH_TIMEOUT_MIN.as_secs());
    let max = PUSH_TIMEOUT_MAX.as_secs();
    Err(Invalid::new(field, format!("{given} s, {min} to {max} whole seconds are allowed")))
}

fn check_attributes(attributes: &BTreeMap<String, String>) -> Result<(), Invalid> {
    const FIELD: &str = "push_config.attributes";
    if attributes.len() > PUSH_ATTRIBUTES_MAX {
        let count = attributes.len();
        return Err(Invalid::new(FIELD, format!("{count} entries, at most {PUSH_ATTRIBUTES_MAX}")));
    }
    for (key, value) in attributes {
        if key.is_empty() || key.len() > ATTRIBUTE_KEY_BYTES_MAX {
            let problem = format!("a key is not 1 to {ATTRIBUTE_KEY_BYTES_MAX} bytes long");
            return Err(Invalid::new(FIELD, problem));
        }
        if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            let problem = format!("more than {ATTRIBUTE_VALUE_BYTES_MAX} bytes");
            return Err(Invalid::new(format!("{FIELD}[{key:?}]"), problem));
        }
    }
    Ok(())
}

fn check_oidc(oidc: &OidcToken) -> Result<(), Invalid> {
    let (email, audience) = (oidc.service_account_email.len(), oidc.audience.len());
    if email == 0 || email > OIDC_EMAIL_BYTES_MAX {
        let problem = format!("{email} bytes, 1 to {OIDC_EMAIL_BYTES_MAX} are allowed");
        return Err(Invalid::new("push_config.oidc_token.service_account_email", problem));
    }
    if audience > OIDC_AUDIENCE_BYTES_MAX {
        let problem = format!("{audience} bytes, at most {OIDC_AUDIENCE_BYTES_MAX} are allowed");
        return Err(Invalid::new("push_config.oidc_token.audience", problem));
    }
    Ok(())
}

/// What cannot go with pushing, or with its form.
fn check_fits(push: &PushConfig, subscription: &Subscription) -> Result<(), Invalid> {
    if subscription.exactly_once {
        let problem = "exactly-once delivery is for pull only; clear push_config, or leave it out";
        return Err(Invalid::new("enable_exactly_once_delivery", problem));
    }
    if subscription.batch.is_some() && push.form != Form::Wrapped {
        let problem = "several messages in one request need the wrapper; leave no_wrapper out";
        return Err(Invalid::new("postrider.batch", problem));
    }
    Ok(())
}

/// Checks the headers that are sent with each push.
pub(super) fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), Invalid> {
    const FIELD: &str = "postrider.headers";
    if headers.len() > HEADERS_MAX {
        let count = headers.len();
        return Err(Invalid::new(FIELD, format!("{count} headers, at most {HEADERS_MAX}")));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in headers {
        let problem = header_problem(name, value).or_else(|| {
            let is_new = seen.insert(name.to_ascii_lowercase());
            (!is_new).then(|| "given twice, in different case".to_owned())
        });
        if let Some(problem) = problem {
            let shown: String = name.chars().take(64).collect();
            return Err(Invalid::new(format!("{FIELD}[{shown:?}]"), problem));
        }
    }
    Ok(())
}

/// What is wrong with a header, if anything. A line break in it would let its owner write further
/// headers, or whole requests, to whom the endpoint trusts.
fn header_problem(name: &str, value: &str) -> Option<String> {
    let is_short = name.len() <= HEADER_NAME_BYTES_MAX;
    let Some(name) = HeaderName::try_from(name).ok().filter(|_| is_short) else {
        return Some("not the name of a header".to_owned());
    };
    if is_reserved_header(&name) {
        let problem = "reserved: the server writes it, or it belongs to the connection";
        return Some(problem.to_owned());
    }
    if value.len() > HEADER_VALUE_BYTES_MAX {
        let bytes = value.len();
        return Some(format!("{bytes} bytes, at most {HEADER_VALUE_BYTES_MAX} are allowed"));
    }
    let is_legal = value.is_ascii() && HeaderValue::from_str(value).is_ok();
    (!is_legal).then(|| "the value may only have visible ASCII, spaces and tabs".to_owned())
}

/// Checks how many messages go in one push.
pub(super) fn check_batch(batch: BatchPush) -> Result<(), Invalid> {
    let BatchPush { messages, bytes, linger } = batch;
    between("postrider.batch.messages", messages, 1, BATCH_MESSAGES_MAX, " messages")?;
    between("postrider.batch.bytes", bytes, BATCH_BYTES_MIN, BATCH_BYTES_MAX, " bytes")?;
    if linger <= BATCH_LINGER_MAX {
        return Ok(());
    }
    let (given, max) = (linger.as_secs_f64(), BATCH_LINGER_MAX.as_secs());
    Err(Invalid::new("postrider.batch.linger", format!("{given} s, 0 to {max} s are allowed")))
}

/// Whether messages that fail are tried again after waits that the owner did not ask for, until
/// they are dead letters.
pub(super) fn hurries_to_dead_letters(subscription: &Subscription) -> bool {
    subscription.push.is_some()
        && subscription.dead_letter_policy.is_some()
        && subscription.retry_policy.is_none()
        && subscription.backoff.is_none()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dead_letters, field_at_fault, pairs, pushing, subscription};
    use super::*;
    use crate::backoff::{Backoff, Phases};
    use crate::policy::RetryPolicy;
    use crate::push::{Secret, Signing};

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn configured(change: impl FnOnce(&mut PushConfig)) -> Subscription {
        let mut subscription = pushing();
        change(subscription.push.as_mut().unwrap());
        subscription
    }

    fn with_header(name: &str, value: &str) -> Subscription {
        Subscription { headers: pairs(&[(name, value)]), ..subscription() }
    }

    fn phases(fast_retries: u32, slow_retries: u32) -> Option<Backoff> {
        let fast = RetryPolicy { min: secs(5), max: secs(300) };
        Some(Backoff::Phases(Phases { fast, fast_retries, slow_every: secs(3_600), slow_retries }))
    }

    #[test]
    fn an_endpoint_has_1_to_600_whole_seconds() {
        for good in [1, 30, 600] {
            let timed = configured(|push| push.timeout = Some(secs(good)));
            assert_eq!(timed.validate(), Ok(()));
        }
        for bad in [Duration::ZERO, secs(601), Duration::from_millis(1_500)] {
            let timed = configured(|push| push.timeout = Some(bad));
            assert_eq!(field_at_fault(&timed), "push_config.timeout_seconds");
        }
    }

    #[test]
    fn tokens_and_attributes_are_bounded() {
        let token = |email: usize, audience: usize| {
            configured(|push| {
                push.oidc = Some(OidcToken {
                    service_account_email: "e".repeat(email),
                    audience: "a".repeat(audience),
                });
            })
        };
        assert_eq!(token(254, 2_048).validate(), Ok(()));
        assert_eq!(token(1, 0).validate(), Ok(()));
        for email in [0, 255] {
            let field = "push_config.oidc_token.service_account_email";
            assert_eq!(field_at_fault(&token(email, 0)), field);
        }
        assert_eq!(field_at_fault(&token(1, 2_049)), "push_config.oidc_token.audience");
        let many = (0..65).map(|i| (i.to_string(), String::new())).collect();
        let many = configured(|push| push.attributes = many);
        assert_eq!(field_at_fault(&many), "push_config.attributes");
        let long = configured(|push| push.attributes = pairs(&[("k", &"v".repeat(1_025))]));
        assert_eq!(field_at_fault(&long), r#"push_config.attributes["k"]"#);
    }

    #[test]
    fn pushing_is_not_exactly_once_and_batches_are_wrapped() {
        let exactly = Subscription { exactly_once: true, ..pushing() };
        assert_eq!(field_at_fault(&exactly), "enable_exactly_once_delivery");
        let unwrapped = configured(|push| push.form = Form::Unwrapped { write_metadata: false });
        assert_eq!(unwrapped.validate(), Ok(()));
        let batched = Subscription { batch: Some(BatchPush::default()), ..unwrapped };
        assert_eq!(field_at_fault(&batched), "postrider.batch");
        assert_eq!(Subscription { push: None, ..batched }.validate(), Ok(()));
    }

    #[test]
    fn headers_cannot_carry_a_line_break() {
        for (name, value) in [
            ("x-a", "1\r\nhost: evil"),
            ("x-a", "1\n"),
            ("x-a", "1\r"),
            ("x-a", "\0"),
            ("x-a", "\u{7f}"),
            ("x-a", "größe"),
            ("x-a: 1\r\nx-b", "v"),
            ("x\ny", "v"),
            ("x y", "v"),
            ("x:", "v"),
            (":path", "v"),
            ("", "v"),
            ("é", "v"),
        ] {
            let error = with_header(name, value).validate().unwrap_err();
            assert_eq!(error.field, format!("postrider.headers[{name:?}]"));
            assert!(!error.to_string().contains(['\r', '\n', '\0']), "{error:?}");
        }
        assert_eq!(with_header("x-a", "a b\tc").validate(), Ok(()));
        assert_eq!(with_header("x-a", "").validate(), Ok(()));
    }

    #[test]
    fn what_is_written_for_each_request_cannot_be_set() {
        for name in [
            "host",
            "Content-Length",
            "transfer-encoding",
            "connection",
            "te",
            "trailer",
            "Upgrade",
            "expect",
            "Proxy-Authorization",
            "proxy-connection",
            "User-Agent",
            "webhook-id",
            "Postrider-Epoch",
            "x-goog-pubsub-message-id",
        ] {
            let error = with_header(name, "v").validate().unwrap_err();
            assert_eq!(error.field, format!("postrider.headers[{name:?}]"));
            assert!(error.problem.starts_with("reserved"), "{error}");
        }
        for name in ["Content-Type", "authorization", "x-tenant", "webhooks"] {
            assert_eq!(with_header(name, "v").validate(), Ok(()), "{name}");
        }
    }

    #[test]
    fn headers_are_bounded_and_named_once() {
        assert_eq!(with_header("x-a", &"v".repeat(4_096)).validate(), Ok(()));
        let long = with_header("x-a", &"v".repeat(4_097));
        assert_eq!(field_at_fault(&long), r#"postrider.headers["x-a"]"#);
        let long = field_at_fault(&with_header(&"x".repeat(100_000), "v"));
        assert!(long.len() < 100, "{long}");
        let many = |count: usize| Subscription {
            headers: (0..count).map(|i| (format!("x-{i}"), String::new())).collect(),
            ..subscription()
        };
        assert_eq!(many(64).validate(), Ok(()));
        assert_eq!(field_at_fault(&many(65)), "postrider.headers");
        let twice = Subscription { headers: pairs(&[("X-A", "1"), ("x-a", "2")]), ..pushing() };
        assert_eq!(field_at_fault(&twice), r#"postrider.headers["x-a"]"#);
    }

    #[test]
    fn batches_and_rates_are_bounded() {
        let batched = |messages, bytes, linger| Subscription {
            batch: Some(BatchPush { messages, bytes, linger }),
            ..pushing()
        };
        assert_eq!(batched(1, 1_024, Duration::ZERO).validate(), Ok(()));
        assert_eq!(batched(1_000, 10 << 20, secs(10)).validate(), Ok(()));
        for (bad, field) in [
            (batched(0, 1_024, Duration::ZERO), "postrider.batch.messages"),
            (batched(1_001, 1_024, Duration::ZERO), "postrider.batch.messages"),
            (batched(1, 1_023, Duration::ZERO), "postrider.batch.bytes"),
            (batched(1, (10 << 20) + 1, Duration::ZERO), "postrider.batch.bytes"),
            (batched(1, 1_024, Duration::from_millis(10_001)), "postrider.batch.linger"),
        ] {
            assert_eq!(field_at_fault(&bad), field);
        }
        let limited = |rate| Subscription { rate_max: Some(rate), ..subscription() };
        assert_eq!(limited(1).validate(), Ok(()));
        assert_eq!(limited(100_000).validate(), Ok(()));
        for bad in [0, 100_001] {
            assert_eq!(field_at_fault(&limited(bad)), "postrider.rateLimit");
        }
    }

    #[test]
    fn secrets_have_24_to_64_bytes() {
        let signed = |bytes: usize| Subscription {
            signing: Some(Signing::new(Secret::new(&vec![7; bytes]))),
            ..subscription()
        };
        assert_eq!(signed(24).validate(), Ok(()));
        assert_eq!(signed(64).validate(), Ok(()));
        for bad in [0, 23, 65] {
            assert_eq!(field_at_fault(&signed(bad)), "postrider.signing.secret");
        }
    }

    #[test]
    fn waits_are_given_in_one_way() {
        let ladder = Some(Backoff::Ladder([secs(5), secs(7_200)].into()));
        let both = Subscription {
            backoff: ladder,
            retry_policy: Some(RetryPolicy::default()),
            ..subscription()
        };
        assert_eq!(field_at_fault(&both), "postrider.backoff");
        assert_eq!(Subscription { retry_policy: None, ..both }.validate(), Ok(()));
        let empty = Subscription { backoff: Some(Backoff::Ladder([].into())), ..subscription() };
        assert_eq!(field_at_fault(&empty), "postrider.backoff");
    }

    #[test]
    fn phases_agree_with_the_attempts_that_are_asked_for() {
        let dead = dead_letters("projects/p/topics/dead", 61);
        let agreeing =
            Subscription { backoff: phases(30, 30), attempts_max: Some(61), ..dead.clone() };
        assert_eq!(agreeing.validate(), Ok(()));
        let few = Subscription { backoff: phases(1, 1), ..subscription() };
        assert_eq!((few.validate(), few.attempts_allowed()), (Ok(()), Some(3)));
        let few =
            Subscription { backoff: phases(1, 1), ..dead_letters("projects/p/topics/dead", 3) };
        assert_eq!(few.validate(), Ok(()), "our own way allows fewer than five");
        for bad in [
            Subscription { backoff: phases(30, 29), ..dead },
            Subscription { backoff: phases(1, 1), attempts_max: Some(5), ..subscription() },
            Subscription { backoff: phases(60, 60), ..subscription() },
        ] {
            assert_eq!(field_at_fault(&bad), "postrider.backoff");
        }
    }
}

//! The entries of a subscription's table of settings that are about pushing.

use serde_json::{Value, json};

use super::settings::Entry;
use super::{push_shapes, pushing, shapes};
use crate::limits::PUSH_RATE_MAX;
use crate::push::Method;
use crate::setting::read::{number_between, pairs, text};
use crate::setting::{Flag, Form, Label, Set, Spelling};

pub(super) const WHOLE: Entry = Entry {
    path: "push_config",
    form: Form::Object,
    default: "pull",
    help: "How messages are pushed",
    set: Set::Joined { whole: push_shapes::set_whole, part: None },
    show: push_shapes::show_whole,
    check: pushing::check,
    ..Entry::NONE
};

pub(super) const ENDPOINT: Entry = Entry {
    path: "push_config.push_endpoint",
    config: "push_endpoint",
    flag: Some(Flag::new("endpoint").value("URL").none("none")),
    is_secret: true,
    default: "none: messages are pulled",
    title: "Endpoint",
    help: "Where messages are pushed to, http:// or https://",
    set: Set::Joined { whole: push_shapes::set_endpoint, part: None },
    show: |one| push_shapes::show_part(one, "pushEndpoint"),
    ..Entry::NONE
};

pub(super) const ATTRIBUTES: Entry = Entry {
    path: "push_config.attributes",
    form: Form::Pairs,
    config: "push_attributes",
    default: "none",
    help: "Google's push config attributes: stored and shown",
    set: Set::Joined { whole: push_shapes::set_attributes, part: None },
    show: |one| push_shapes::show_part(one, "attributes"),
    ..Entry::NONE
};

pub(super) const NO_WRAPPER: Entry = Entry {
    path: "push_config.no_wrapper",
    form: Form::Object,
    parts: push_shapes::FORM_PARTS,
    has_masked_parts: true,
    spellings: &[Spelling { name: "push_config.pubsub_wrapper", is_opposite: true }],
    config: "push_no_wrapper",
    flag: Some(Flag::new("no-wrapper")),
    default: "the message in Google's envelope",
    help: "Send the data alone, without an envelope",
    set: Set::Joined { whole: push_shapes::set_form, part: None },
    show: |one| push_shapes::show_part(one, "noWrapper"),
    ..Entry::NONE
};

pub(super) const OIDC_TOKEN: Entry = Entry {
    path: "push_config.oidc_token",
    form: Form::Object,
    parts: push_shapes::OIDC_PARTS,
    has_masked_parts: true,
    config: "push_oidc_token",
    default: "none",
    help: "The token sent with each push",
    set: Set::Joined { whole: push_shapes::set_oidc, part: None },
    show: |one| push_shapes::show_part(one, "oidcToken"),
    ..Entry::NONE
};

pub(super) const TIMEOUT: Entry = Entry {
    path: "push_config.timeout_seconds",
    form: Form::Seconds,
    label: Some(Label {
        waits: |one| one.push.is_none(),
        join: push_shapes::join_timeout_label,
        ..Label::new("postrider-timeout-seconds")
    }),
    config: "push_timeout_seconds",
    flag: Some(Flag::new("timeout")),
    is_added: true,
    default: "the ack deadline if given, else 30s",
    title: "Timeout",
    help: "How long the endpoint has to respond: 1s to 10m",
    set: Set::Joined { whole: push_shapes::set_timeout, part: None },
    show: |one| push_shapes::show_part(one, "timeoutSeconds"),
    ..Entry::NONE
};

pub(super) const RETRY_POLICY: Entry = Entry {
    path: "push_config.retry_policy",
    form: Form::Own,
    is_added: true,
    default: "none",
    help: "Another spelling of `retryPolicy` and `postrider.maxAttempts`",
    set: Set::Joined { whole: push_shapes::set_retry, part: None },
    ..Entry::NONE
};

pub(super) const HEADERS: Entry = Entry {
    path: "postrider.headers",
    form: Form::Pairs,
    config: "headers",
    flag: Some(Flag::new("header").value("NAME=VALUE")),
    is_secret: true,
    default: "none",
    title: "Headers",
    help: "A header sent with each push",
    set: Set::Alone(|one, field, value| {
        one.headers = pairs(field, value)?.unwrap_or_default();
        Ok(())
    }),
    show: |one| shapes::show_pairs(&one.headers),
    check: |one| pushing::check_headers(&one.headers),
    ..Entry::NONE
};

pub(super) const METHOD: Entry = Entry {
    path: "postrider.method",
    form: Form::Word(&["POST", "PUT", "PATCH"]),
    config: "method",
    flag: Some(Flag::new("method").value("METHOD")),
    default: "POST",
    title: "Method",
    help: "The method of each push",
    set: Set::Alone(|one, field, value| {
        let given = text(field, value)?.map(|text| Method::parse(field, &text)).transpose()?;
        one.method = given.unwrap_or_default();
        Ok(())
    }),
    show: |one| match one.push.is_some() || one.method != Method::default() {
        true => one.method.as_str().into(),
        false => Value::Null,
    },
    ..Entry::NONE
};

pub(super) const SIGNING: Entry = Entry {
    path: "postrider.signing",
    form: Form::Object,
    parts: shapes::SIGNING_PARTS,
    config: "signing",
    flag: Some(Flag::new("sign").value("BOOL")),
    is_secret: true,
    default: "off",
    title: "Signed",
    help: "Sign pushes with a generated secret, shown once",
    set: Set::Joined {
        whole: |change, field, value| {
            change.joined.signing = Some(shapes::read_signing(field, value)?);
            Ok(())
        },
        part: None,
    },
    show: |one| one.signing.as_ref().map_or(Value::Null, |_| json!({})),
    check: |one| {
        let secret = one.signing.as_ref().map(|signing| &signing.secret);
        secret.map_or(Ok(()), |secret| secret.validate("postrider.signing.secret"))
    },
    ..Entry::NONE
};

pub(super) const BATCH: Entry = Entry {
    path: "postrider.batch",
    form: Form::Object,
    parts: shapes::BATCH_PARTS,
    config: "batch",
    default: "one message per push",
    title: "Batch",
    help: "Send several messages per push",
    set: Set::Alone(|one, field, value| {
        one.batch = shapes::read_batch(field, value)?;
        Ok(())
    }),
    show: |one| shapes::show_batch(one.batch),
    check: |one| one.batch.map_or(Ok(()), pushing::check_batch),
    ..Entry::NONE
};

pub(super) const RATE_LIMIT: Entry = Entry {
    path: "postrider.rate_limit",
    form: Form::Number,
    config: "rate_limit",
    flag: Some(Flag::new("rate-limit").none("0")),
    default: "as many as the endpoint takes",
    title: "Rate limit",
    unit: " a second",
    help: "The most pushes per second",
    set: Set::Alone(|one, field, value| {
        let bounds = (1, PUSH_RATE_MAX);
        one.rate_max = number_between(field, value, bounds, " requests a second")?;
        Ok(())
    }),
    show: |one| json!(one.rate_max),
    check: pushing::check_rate,
    ..Entry::NONE
};

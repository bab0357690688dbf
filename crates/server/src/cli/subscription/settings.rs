//! The settings of a subscription as flags, alike for making and changing one.

use std::time::Duration;

use clap::Args;
use domain::Timestamp;
use serde_json::{Value, json};

use super::changes::Changes;
use crate::cli::Failure;
use crate::cli::client::At;
use crate::cli::values::{duration, object, pair, seconds, time};

/// What a flag is given to put a setting back to its default.
const NONE: &str = "none";

#[derive(Debug, Default, Args)]
pub(super) struct Settings {
    /// How long a consumer has for an ack: 10s to 10m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ack_deadline: Option<Duration>,
    /// How long messages that are not acked are kept: 10m to 31d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retention: Option<Duration>,
    /// Keep acked messages too, for a seek back
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    retain_acked: Option<bool>,
    /// Delete it after so long without use: 1d or longer, or never
    #[arg(long, value_name = "DURATION")]
    expires_after: Option<String>,
    /// Acks are durable when answered, and never followed by another delivery
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    exactly_once: Option<bool>,
    /// A label; can be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The wait after the first failed attempt, doubled with each: 0s to 10m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    min_backoff: Option<Duration>,
    /// The longest wait between attempts: 0s to 10m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_backoff: Option<Duration>,
    /// Where messages go that failed too often; none ends that
    #[arg(long, value_name = "TOPIC")]
    dead_letter_topic: Option<String>,
    /// After so many failed attempts a message is a dead letter: 5 to 100; without a dead letter
    /// topic it is dropped (Postrider, 1 to 100)
    #[arg(long, value_name = "NUMBER")]
    max_attempts: Option<u32>,
    #[command(flatten, next_help_heading = "Push")]
    push: Push,
    #[command(flatten, next_help_heading = "Only with Postrider")]
    ours: Own,
}

/// How messages are pushed, in Google's words.
#[derive(Debug, Default, Args)]
struct Push {
    /// Where messages are pushed to, http:// or https://; none: they are pulled
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Send the data alone, without an envelope
    #[arg(long)]
    no_wrapper: bool,
    /// Send ids and attributes as headers beside the data
    #[arg(long, requires = "no_wrapper")]
    write_metadata: bool,
    /// Send a token that names this account
    #[arg(long, value_name = "EMAIL")]
    oidc_account: Option<String>,
    /// Whom the token is meant for
    #[arg(long, requires = "oidc_account", value_name = "AUDIENCE")]
    oidc_audience: Option<String>,
}

/// What only Postrider has.
#[derive(Debug, Default, Args)]
struct Own {
    /// All messages go in the order of the topic
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    fifo: Option<bool>,
    /// Messages with the same value of this attribute go in order; none ends that
    #[arg(long, value_name = "ATTRIBUTE")]
    lane_by: Option<String>,
    /// What a lane does with a message that failed too often: skip it, or halt
    #[arg(long, value_parser = ["skip", "halt"])]
    poison: Option<String>,
    /// Deliver nothing
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    paused: Option<bool>,
    /// Free text
    #[arg(long)]
    description: Option<String>,
    /// Free text by key; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Waits between attempts one by one, such as 5s,5m,30m; none ends that
    #[arg(long, value_name = "DURATIONS")]
    backoff: Option<String>,
    /// How long the endpoint has for its answer: 1s to 10m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// A header sent with each push; can be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// The method of each push
    #[arg(long, value_parser = ["POST", "PUT", "PATCH"])]
    method: Option<String>,
    /// Sign pushes, with a secret that is made and shown once; false ends that
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    sign: Option<bool>,
    /// Sign pushes with this secret, whsec_…
    #[arg(long, conflicts_with = "sign")]
    secret: Option<String>,
    /// Up to so many messages in one push; 0 ends that
    #[arg(long, value_name = "MESSAGES")]
    batch: Option<u32>,
    /// Pushes a second, at most; 0 ends that
    #[arg(long, value_name = "NUMBER")]
    rate_limit: Option<u32>,
}

impl Settings {
    pub(super) fn has_dead_letter_topic(&self) -> bool {
        self.dead_letter_topic.is_some()
    }

    pub(super) fn has_own_backoff(&self) -> bool {
        self.ours.backoff.is_some()
    }

    pub(super) fn has_endpoint(&self) -> bool {
        self.push.endpoint.as_deref().is_some_and(|endpoint| endpoint != NONE)
    }

    /// Puts down what was given.
    pub(super) fn apply(&self, at: &At, changes: &mut Changes) -> Result<(), Failure> {
        let mut set = |path: &str, value: Option<Value>| {
            if let Some(value) = value {
                changes.set(path, value);
            }
        };
        let span = |duration: Option<Duration>| duration.map(|span| seconds(span).into());
        set("ackDeadlineSeconds", self.ack_deadline.map(|deadline| deadline.as_secs().into()));
        set("messageRetentionDuration", span(self.retention));
        set("retainAckedMessages", self.retain_acked.map(Value::from));
        set("enableExactlyOnceDelivery", self.exactly_once.map(Value::from));
        set("retryPolicy.minimumBackoff", span(self.min_backoff));
        set("retryPolicy.maximumBackoff", span(self.max_backoff));
        match self.expires_after.as_deref() {
            None => {}
            Some("never") => changes.set("expirationPolicy", json!({})),
            Some(text) => {
                let span = duration(text)
                    .map_err(|problem| Failure::usage(format!("--expires-after: {problem}")))?;
                changes.set("expirationPolicy", json!({"ttl": seconds(span)}));
            }
        }
        for (key, value) in &self.labels {
            changes.set(&format!("labels.{key}"), value.clone().into());
        }
        self.apply_dead_letter(at, changes)?;
        self.push.apply(changes);
        self.ours.apply(changes)
    }

    fn apply_dead_letter(&self, at: &At, changes: &mut Changes) -> Result<(), Failure> {
        match self.dead_letter_topic.as_deref() {
            None => {}
            Some(NONE) => changes.clear("deadLetterPolicy"),
            Some(topic) => {
                let topic = at.topic(topic)?;
                changes.set("deadLetterPolicy.deadLetterTopic", topic.as_str().into());
            }
        }
        let Some(attempts) = self.max_attempts else { return Ok(()) };
        let is_google =
            self.dead_letter_topic.as_deref() != Some(NONE) && changes.has_dead_letters();
        if is_google {
            changes.set("deadLetterPolicy.maxDeliveryAttempts", attempts.into());
        }
        // Where both are set they must say the same.
        if !is_google || changes.is_now("/postrider/maxAttempts") {
            changes.set("postrider.maxAttempts", attempts.into());
        }
        Ok(())
    }
}

impl Push {
    fn apply(&self, changes: &mut Changes) {
        match self.endpoint.as_deref() {
            None => {}
            Some(NONE) => changes.set("pushConfig", json!({})),
            Some(endpoint) => changes.set("pushConfig.pushEndpoint", endpoint.into()),
        }
        if self.no_wrapper {
            let form = json!({"writeMetadata": self.write_metadata});
            changes.set("pushConfig.noWrapper", form);
        }
        if let Some(account) = &self.oidc_account {
            let mut token = json!({"serviceAccountEmail": account});
            if let Some(audience) = &self.oidc_audience {
                token["audience"] = audience.clone().into();
            }
            changes.set("pushConfig.oidcToken", token);
        }
    }
}

impl Own {
    fn apply(&self, changes: &mut Changes) -> Result<(), Failure> {
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                changes.set(&format!("postrider.{name}"), value);
            }
        };
        set("fifo", self.fifo.map(Value::from));
        set("poison", self.poison.clone().map(Value::from));
        set("paused", self.paused.map(Value::from));
        set("description", self.description.clone().map(Value::from));
        set("metadata", pairs(&self.metadata));
        set("headers", pairs(&self.headers));
        set("method", self.method.clone().map(Value::from));
        set("laneBy", self.lane_by.as_deref().map(or_null));
        set("batch", self.batch.map(|size| unless_zero(size, json!({"messages": size}))));
        set("rateLimit", self.rate_limit.map(|rate| unless_zero(rate, rate.into())));
        set("signing", self.sign.map(|sign| if sign { json!({}) } else { Value::Null }));
        set("signing", self.secret.as_ref().map(|secret| json!({"secret": secret})));
        set("backoff", self.backoff.as_deref().map(waits).transpose()?);
        if let Some(timeout) = self.timeout {
            changes.set("pushConfig.timeoutSeconds", timeout.as_secs().into());
        }
        Ok(())
    }
}

fn pairs(given: &[(String, String)]) -> Option<Value> {
    if given.is_empty() { None } else { Some(object(given)) }
}

fn or_null(text: &str) -> Value {
    if text == NONE { Value::Null } else { text.into() }
}

fn unless_zero(number: u32, value: Value) -> Value {
    if number == 0 { Value::Null } else { value }
}

fn waits(text: &str) -> Result<Value, Failure> {
    if text == NONE {
        return Ok(Value::Null);
    }
    let waits: Result<Vec<String>, String> =
        text.split(',').map(|wait| duration(wait).map(|_| wait.trim().to_owned())).collect();
    waits.map(Value::from).map_err(|problem| Failure::usage(format!("--backoff: {problem}")))
}

/// Where a subscription starts, in our words.
pub(super) fn start(text: &str, now: Timestamp) -> Result<Value, Failure> {
    match text {
        "latest" | "earliest" => Ok(text.into()),
        _ => match text.parse::<u64>() {
            Ok(offset) => Ok(json!({ "offset": offset })),
            Err(_) => Ok(json!({"time": time("--start", text, now)?})),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        settings: Settings,
    }

    fn applied(current: Value, words: &str) -> Result<Value, String> {
        let words = std::iter::once("x").chain(words.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let at = At { project: Some("p".to_owned()), ..At::default() };
        let mut changes = Changes::new(current);
        cli.settings.apply(&at, &mut changes).map_err(|failure| failure.problem)?;
        Ok(changes.request())
    }

    fn made(words: &str) -> Value {
        applied(Value::Null, words).unwrap()["subscription"].clone()
    }

    #[test]
    fn googles_settings_become_googles_fields_and_no_others() {
        let words = "--ack-deadline 60 --retention 1d --retain-acked --expires-after never \
                     --exactly-once --label a=b --min-backoff 500ms --max-backoff 10m \
                     --dead-letter-topic dead --max-attempts 7 --endpoint http://h/ \
                     --no-wrapper --write-metadata --oidc-account a@b --oidc-audience me";
        let expected = json!({
            "ackDeadlineSeconds": 60, "messageRetentionDuration": "86400s",
            "retainAckedMessages": true, "expirationPolicy": {}, "labels": {"a": "b"},
            "enableExactlyOnceDelivery": true,
            "retryPolicy": {"minimumBackoff": "0.500s", "maximumBackoff": "600s"},
            "deadLetterPolicy": {
                "deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 7,
            },
            "pushConfig": {
                "pushEndpoint": "http://h/", "noWrapper": {"writeMetadata": true},
                "oidcToken": {"serviceAccountEmail": "a@b", "audience": "me"},
            },
        });
        assert_eq!(made(words), expected);
        assert_eq!(made(""), json!({}));
    }

    #[test]
    fn settings_of_ours_are_in_our_object() {
        let words = "--fifo --poison halt --paused false --description d --metadata k=v \
                     --backoff 5s,5m --timeout 5 --header x-a=b --method PUT --sign --batch 9 \
                     --rate-limit 3 --max-attempts 2 --lane-by none";
        let expected = json!({
            "postrider": {
                "fifo": true, "poison": "halt", "paused": false, "description": "d",
                "metadata": {"k": "v"}, "backoff": ["5s", "5m"], "headers": {"x-a": "b"},
                "method": "PUT", "signing": {}, "batch": {"messages": 9}, "rateLimit": 3,
                "maxAttempts": 2, "laneBy": null,
            },
            "pushConfig": {"timeoutSeconds": 5},
        });
        assert_eq!(made(words), expected);
        let ended = made("--sign false --batch 0 --rate-limit 0 --backoff none");
        let nothing = json!({"signing": null, "batch": null, "rateLimit": null, "backoff": null});
        assert_eq!(ended["postrider"], nothing);
    }

    #[test]
    fn an_update_goes_over_what_is_there() {
        let current = json!({
            "deadLetterPolicy": {"deadLetterTopic": "t", "maxDeliveryAttempts": 5},
            "pushConfig": {"pushEndpoint": "http://h/", "timeoutSeconds": 5},
        });
        let changed = applied(current.clone(), "--max-attempts 9 --endpoint http://i/").unwrap();
        let expected = json!({
            "subscription": {
                "deadLetterPolicy": {"deadLetterTopic": "t", "maxDeliveryAttempts": 9},
                "pushConfig": {"pushEndpoint": "http://i/", "timeoutSeconds": 5},
            },
            "updateMask": "deadLetterPolicy,pushConfig",
        });
        assert_eq!(changed, expected);
        let mut both = current.clone();
        both["postrider"] = json!({"maxAttempts": 5});
        let changed = applied(both, "--max-attempts 9").unwrap();
        assert_eq!(changed["updateMask"], "deadLetterPolicy,postrider.maxAttempts");
        let ended = applied(current, "--dead-letter-topic none --endpoint none").unwrap();
        let expected = json!({
            "subscription": {"pushConfig": {}}, "updateMask": "deadLetterPolicy,pushConfig",
        });
        assert_eq!(ended, expected);
    }

    #[test]
    fn mistakes_name_their_flag() {
        for (words, flag) in [
            ("--expires-after soon", "--expires-after"),
            ("--backoff 5s,soon", "--backoff"),
            ("--poison sometimes", "--poison"),
            ("--ack-deadline soon", "--ack-deadline"),
            ("--write-metadata", "--no-wrapper"),
            ("--label x", "--label"),
        ] {
            let problem = applied(Value::Null, words).unwrap_err();
            assert!(problem.contains(flag), "{problem}");
        }
    }

    #[test]
    fn starts_are_words_offsets_and_times() {
        let now = Timestamp(3_600_000_000);
        let read = |text| start(text, now).ok();
        assert_eq!(read("earliest"), Some(json!("earliest")));
        assert_eq!(read("17"), Some(json!({"offset": 17})));
        assert_eq!(read("1h"), Some(json!({"time": "1970-01-01T00:00:00Z"})));
        assert_eq!(read("middle"), None);
    }
}

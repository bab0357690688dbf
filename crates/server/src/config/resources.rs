//! Topics and subscriptions in the settings.

use std::time::Duration;

use domain::setting::{Document, Form, Part, Resource, Setting, camel, read, snake};
use domain::subscription::{Change, SETTINGS, Start};
use domain::{Invalid, SchemaName, Subscription, SubscriptionName, Topic, TopicName, topic};
use schemas::Kind;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value, json};

use super::units;
use crate::convert::with_spare_secret;

/// The keys of a schema.
pub(super) const SCHEMA_KEYS: [&str; 3] = ["name", "type", "definition"];

/// A schema of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredSchema {
    /// Its name.
    pub name: SchemaName,
    /// Its language.
    pub kind: Kind,
    /// Its newest definition.
    pub definition: String,
}

/// A schema as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaEntry {
    name: String,
    r#type: String,
    definition: String,
}

impl SchemaEntry {
    fn build(self) -> Result<DeclaredSchema, Invalid> {
        let kinds = [Kind::Avro, Kind::Protobuf];
        let Some(kind) = kinds.into_iter().find(|kind| kind.as_str() == self.r#type) else {
            return Err(Invalid::new("type", "must be AVRO or PROTOCOL_BUFFER"));
        };
        let name = SchemaName::parse("name", &self.name)?;
        Ok(DeclaredSchema { name, kind, definition: self.definition })
    }
}

/// A topic: its name, and what the table of settings has a key for.
#[derive(Deserialize)]
struct TopicEntry {
    name: String,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

impl TopicEntry {
    fn build(self) -> Result<Topic, Invalid> {
        topic_of(&self.name, &document(topic::SETTINGS, &self.settings)?)
    }
}

/// The topic that a document makes.
pub(crate) fn topic_of(name: &str, document: &Document) -> Result<Topic, Invalid> {
    let plain = Topic::new(TopicName::parse("name", name)?);
    topic::Change::creating(document)?.apply(&plain)
}

/// A subscription: its name, its topic, and what the table of settings has a key for.
#[derive(Deserialize)]
struct SubscriptionEntry {
    name: String,
    topic: String,
    #[serde(flatten)]
    settings: Map<String, Value>,
}

impl SubscriptionEntry {
    fn build(self) -> Result<Subscription, Invalid> {
        subscription_of(&self.name, &self.topic, &document(SETTINGS, &self.settings)?)
    }
}

/// The subscription that a document makes.
pub(crate) fn subscription_of(
    name: &str,
    topic: &str,
    document: &Document,
) -> Result<Subscription, Invalid> {
    let name = SubscriptionName::parse("name", name)?;
    let plain = Subscription::new(name, TopicName::parse("topic", topic)?);
    let change = with_spare_secret(Change::creating(document)?)
        .map_err(|error| Invalid::new("signing", error.to_string()))?;
    change.apply(&plain)
}

/// The document that the keys of a `[[topics]]` or `[[subscriptions]]` entry make.
pub(crate) fn document<S: Resource>(
    table: &[Setting<S>],
    settings: &Map<String, Value>,
) -> Result<Document, Invalid> {
    let mut document = Document::default();
    for (key, value) in settings {
        let Some(setting) = table.iter().find(|setting| setting.config == key) else {
            let problem = format!("unknown field, expected one of {}", keys(table).join(", "));
            return Err(Invalid::new(key.clone(), problem));
        };
        document.put(setting.path, in_json(key, setting.form, setting.parts, value)?);
    }
    Ok(document)
}

/// The keys of an entry that make `one` again: what is not as it is by default.
pub(crate) fn entry_of<S: Resource>(
    table: &[Setting<S>],
    one: &S,
    plain: &S,
) -> Map<String, Value> {
    let shown = table.iter().filter(|setting| !setting.config.is_empty());
    let shown = shown.map(|setting| (setting, (setting.show)(one)));
    let given =
        shown.filter(|(setting, value)| !value.is_null() && (setting.show)(plain) != *value);
    given
        .map(|(setting, value)| {
            let written = match setting.is_only_kept {
                true => in_snake_case(&value),
                false => from_json(setting.form, setting.parts, &value),
            };
            (setting.config.to_owned(), written)
        })
        .collect()
}

/// A value of a document as the configuration file has it; the opposite of `in_json`.
fn from_json(form: Form, parts: &[Part], value: &Value) -> Value {
    match (form, value) {
        (Form::Time | Form::TimeOrNever, value) => {
            form.brief(value).map_or_else(|| value.clone(), Value::from)
        }
        (Form::Object, Value::Object(object)) if object.is_empty() => Value::Bool(true),
        (Form::Object, Value::Object(object)) => {
            let part = |name: &str| parts.iter().find(|part| camel(part.name) == name);
            let written = object.iter().filter_map(|(name, value)| {
                let part = part(name)?;
                Some((part.name.to_owned(), from_json(part.form, &[], value)))
            });
            Value::Object(written.collect())
        }
        (Form::Own, Value::Object(_)) if !parts.is_empty() => in_snake_case(value),
        (_, value) => value.clone(),
    }
}

/// An object of Google's as the configuration file has it, without what only the server sets.
fn in_snake_case(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let given = object.iter().filter(|(name, _)| *name != "state");
            given.map(|(name, value)| (snake(name), in_snake_case(value))).collect()
        }
        value => value.clone(),
    }
}

/// The keys that an entry may have.
pub(super) fn keys<S: Resource>(table: &[Setting<S>]) -> Vec<&'static str> {
    let names = ["name", "topic"].into_iter().filter(|name| S::GIVEN_BY_SERVER.contains(name));
    let settings = table.iter().map(|setting| setting.config).filter(|key| !key.is_empty());
    names.chain(settings).collect()
}

/// A value of the configuration file as a document has it: times there have any unit.
fn in_json(field: &str, form: Form, parts: &[Part], value: &Value) -> Result<Value, Invalid> {
    match (form, value) {
        (Form::Time, value) => time(field, value).map(read::show_google_time),
        (Form::Seconds, Value::String(_)) => time(field, value).map(seconds),
        (Form::TimeOrNever, Value::String(text)) if text == "never" => Ok(json!({})),
        (Form::TimeOrNever, value) => {
            time(field, value).map(|time| json!({"ttl": read::show_google_time(time)}))
        }
        (Form::Start, Value::String(text)) => Start::parse(field, text).map(Start::show),
        // `signing = true`, as the flag has it.
        (Form::Object, Value::Bool(true)) => Ok(json!({})),
        (Form::Object, Value::Bool(false)) => Ok(Value::Null),
        (Form::Object, Value::Object(object)) => {
            let mut document = Map::new();
            for (name, value) in object {
                let field = format!("{field}.{name}");
                let Some(part) = parts.iter().find(|part| part.name == name) else {
                    return Err(read::unknown(&field));
                };
                document.insert(camel(name), in_json(&field, part.form, &[], value)?);
            }
            Ok(Value::Object(document))
        }
        (_, value) => Ok(value.clone()),
    }
}

/// Whole seconds as a number; what is not whole stays what it is, and is refused.
fn seconds(time: Duration) -> Value {
    match time.subsec_nanos() {
        0 => time.as_secs().into(),
        _ => time.as_secs_f64().into(),
    }
}

fn time(field: &str, value: &Value) -> Result<Duration, Invalid> {
    let text = read::needed(field, read::text(field, value)?)?;
    units::parse_duration(&text).map_err(|problem| Invalid::new(field, problem))
}

/// For `#[serde(deserialize_with)]` on the schemas to make.
pub(super) fn schemas<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<DeclaredSchema>, D::Error> {
    let entries = Vec::<SchemaEntry>::deserialize(deserializer)?;
    build_all("schemas", entries, SchemaEntry::build)
}

/// For `#[serde(deserialize_with)]` on the topics to make.
pub(super) fn topics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Topic>, D::Error> {
    let entries = Vec::<TopicEntry>::deserialize(deserializer)?;
    build_all("topics", entries, TopicEntry::build)
}

/// For `#[serde(deserialize_with)]` on the subscriptions to make.
pub(super) fn subscriptions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Subscription>, D::Error> {
    let entries = Vec::<SubscriptionEntry>::deserialize(deserializer)?;
    build_all("subscriptions", entries, SubscriptionEntry::build)
}

fn build_all<Entry, Built, E: Error>(
    list: &str,
    entries: Vec<Entry>,
    build: impl Fn(Entry) -> Result<Built, Invalid>,
) -> Result<Vec<Built>, E> {
    let built = entries.into_iter().enumerate().map(|(index, entry)| {
        build(entry).map_err(|invalid| E::custom(format!("{list}[{index}].{invalid}")))
    });
    built.collect()
}

#[cfg(test)]
mod tests {
    use domain::export::ObjectFormat;
    use domain::push::{Form as Body, Method};
    use domain::topic::SchemaSettings;
    use domain::{DeadLetterPolicy, Encoding, Filter, Poison, RetryPolicy};

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Settings {
        #[serde(deserialize_with = "topics", default)]
        topics: Vec<Topic>,
        #[serde(deserialize_with = "subscriptions", default)]
        subscriptions: Vec<Subscription>,
    }

    fn declared_topic(lines: &str) -> Result<Topic, String> {
        let text = format!("[[topics]]\nname = \"projects/p/topics/orders\"\n{lines}\n");
        match toml::from_str::<Settings>(&text) {
            Ok(mut settings) => Ok(settings.topics.remove(0)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_topic_can_be_given_every_setting() {
        let all = declared_topic(
            r#"
            labels = { team = "shop" }
            message_retention = "1d"
            schema_settings = { schema = "projects/p/schemas/order", encoding = "BINARY" }
            live = true
            kms_key_name = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
            message_storage_policy = { allowed_persistence_regions = ["europe-west1"] }
            tags = { "123/environment" = "test" }
            "#,
        )
        .unwrap();
        let live = ("postrider-live".to_owned(), "true".to_owned());
        let schema = SchemaSettings {
            schema: SchemaName::parse("schema", "projects/p/schemas/order").unwrap(),
            encoding: Encoding::Binary,
            first: None,
            last: None,
        };
        let expected = Topic {
            labels: [("team".to_owned(), "shop".to_owned()), live].into(),
            message_retention: Some(Duration::from_secs(86_400)),
            schema: Some(schema),
            kms_key: Some("projects/p/locations/l/keyRings/r/cryptoKeys/k".to_owned()),
            storage_policy: json!({"allowedPersistenceRegions": ["europe-west1"]})
                .as_object()
                .cloned(),
            tags: [("123/environment".to_owned(), "test".to_owned())].into(),
            ..Topic::new(all.name.clone())
        };
        assert_eq!(all, expected);
        for (lines, field) in [
            ("colour = 1", "colour: unknown field, expected one of name, message_retention"),
            ("message_retention = \"1s\"", "message_retention_duration"),
            ("schema_settings = { encoding = \"JSON\" }", "schema_settings.schema"),
            ("schema_settings = { kind = \"JSON\" }", "schema_settings.kind"),
            ("kms_key_name = \"k\"", "kms_key_name: not a key such as"),
            ("message_transforms = [{}]", "message_transforms[0].javascript_udf: must be given"),
        ] {
            let error = declared_topic(lines).unwrap_err();
            assert!(error.contains(&format!("topics[0].{field}")), "{error}");
        }
    }

    fn declared(lines: &str) -> Result<Subscription, String> {
        let text = format!(
            "[[subscriptions]]\nname = \"projects/p/subscriptions/sub\"\n\
             topic = \"projects/p/topics/orders\"\n{lines}\n"
        );
        match toml::from_str::<Settings>(&text) {
            Ok(mut settings) => Ok(settings.subscriptions.remove(0)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_subscription_can_be_given_a_bucket() {
        let line = r#"cloud_storage_config = { bucket = "shop", max_duration = "2m",
            max_bytes = 5000, avro_config = { write_metadata = true } }"#;
        let storage = declared(line).unwrap().cloud_storage.unwrap();
        assert_eq!(storage.limits.duration, Duration::from_secs(120));
        assert_eq!(storage.limits.bytes, Some(5_000));
        let format = ObjectFormat::Avro { write_metadata: true, use_topic_schema: false };
        assert_eq!((storage.bucket.as_str(), storage.format), ("shop", format));
    }

    #[test]
    fn a_subscription_can_be_given_every_setting() {
        let all = declared(
            r#"
            enable_message_ordering = true
            filter = 'attributes:kind'
            retry_policy = { minimum_backoff = "250ms" }
            dead_letter_policy = { dead_letter_topic = "projects/p/topics/dead" }
            enable_exactly_once_delivery = true
            fifo = true
            paused = true
            poison = "halt"
            max_attempts = 3
            "#,
        )
        .unwrap();
        let plain = Subscription::new(all.name.clone(), all.topic.clone());
        let expected = Subscription {
            message_ordering: true,
            filter: Some(Filter::parse("filter", "attributes:kind").unwrap()),
            retry_policy: Some(RetryPolicy {
                min: Duration::from_millis(250),
                max: Duration::from_secs(600),
            }),
            dead_letter_policy: Some(DeadLetterPolicy {
                topic: TopicName::parse("topic", "projects/p/topics/dead").unwrap(),
                max_delivery_attempts: 3,
            }),
            exactly_once: true,
            fifo: true,
            paused: true,
            poison: Poison::Halt,
            attempts_max: Some(3),
            ..plain
        };
        assert_eq!(all, expected);
        assert_eq!(declared("lane_by = \"kind\"").unwrap().lane_by.unwrap(), "kind");
    }

    #[test]
    fn a_subscription_can_push() {
        let pushing = declared(
            "push_endpoint = \"http://localhost:8080/push\"\npush_timeout_seconds = 7\n\
             headers = { x-tenant = \"blue\" }",
        )
        .unwrap();
        let push = pushing.push.unwrap();
        assert_eq!(push.endpoint.text(), "http://localhost:8080/push");
        assert_eq!(push.timeout, Some(Duration::from_secs(7)));
        assert_eq!(pushing.headers["x-tenant"], "blue");
        assert_eq!(declared("").unwrap().push, None);
        assert!(declared("ack_deadline = \"10s\"").unwrap().is_ack_deadline_given);
    }

    #[test]
    fn what_only_the_api_could_set_can_be_declared() {
        let all = declared(
            r#"
            ack_deadline = "1m"
            expiration = "never"
            push_endpoint = "http://localhost:8080/push"
            push_attributes = { x-goog-version = "v1" }
            push_oidc_token = { service_account_email = "a@b", audience = "me" }
            push_no_wrapper = { write_metadata = true }
            push_timeout_seconds = "7s"
            backoff = ["5s", "5m"]
            method = "PUT"
            signing = true
            rate_limit = 9
            cel_filter = "data.total > 100"
            start = "earliest"
            alerts = { dead_letters = "off" }
            "#,
        )
        .unwrap();
        assert_eq!((all.ack_deadline, all.expiration), (Duration::from_secs(60), None));
        let push = all.push.unwrap();
        assert_eq!(push.oidc.unwrap().audience, "me");
        assert_eq!(push.form, Body::Unwrapped { write_metadata: true });
        assert_eq!(push.timeout, Some(Duration::from_secs(7)));
        assert_eq!(push.attributes["x-goog-version"], "v1");
        assert_eq!((all.method, all.rate_max), (Method::Put, Some(9)));
        assert!(all.signing.is_some() && all.backoff.is_some() && !all.alerts.is_empty());
        assert!(all.filter.unwrap().is_cel());
        assert_eq!(all.start, Start::Earliest);
        let batched =
            declared("push_endpoint = \"http://h/\"\nbatch = { messages = 9, linger = \"1s\" }");
        assert_eq!(batched.unwrap().batch.unwrap().messages, 9);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let declared_one = declared(
            r#"
            ack_deadline = "1m"
            message_retention = "90m"
            expiration = "never"
            retry_policy = { minimum_backoff = "250ms", maximum_backoff = "1m" }
            dead_letter_policy = { dead_letter_topic = "projects/p/topics/dead" }
            push_endpoint = "http://localhost:8080/push"
            push_no_wrapper = true
            push_oidc_token = { service_account_email = "a@b", audience = "me" }
            push_timeout_seconds = "7s"
            filter = 'attributes:kind'
            start = "7"
            signing = true
            rate_limit = 9
            labels = { team = "blue", postrider-fifo = "true" }
            metadata = { Owner = "Ann" }
            alerts = { dead_letters = "off" }
            "#,
        );
        let exporting = declared("bigquery_config = { table = \"p.d.t\", write_metadata = true }");
        for one in [declared_one.unwrap(), exporting.unwrap(), declared("").unwrap()] {
            let plain = Subscription::new(one.name.clone(), one.topic.clone());
            let entry = entry_of(SETTINGS, &one, &plain);
            let made = document(SETTINGS, &entry).unwrap();
            let again = subscription_of(one.name.as_str(), one.topic.as_str(), &made).unwrap();
            assert_eq!(domain::drift::of_subscription(&one, &again), [], "{entry:?}");
            assert_eq!(entry_of(SETTINGS, &again, &plain), entry);
        }
        let topic = declared_topic(
            r#"
            message_retention = "1d"
            schema_settings = { schema = "projects/p/schemas/order", encoding = "JSON" }
            live = true
            message_storage_policy = { allowed_persistence_regions = ["europe-west1"] }
            ingestion_data_source_settings = { cloud_storage = { bucket = "b-1", avro_format={} } }
            "#,
        )
        .unwrap();
        let entry = entry_of(topic::SETTINGS, &topic, &Topic::new(topic.name.clone()));
        assert_eq!(entry["message_retention"], "24h");
        let storage = json!({"cloud_storage": {"bucket": "b-1", "avro_format": {}}});
        assert_eq!(entry["ingestion_data_source_settings"], storage);
        let made = document(topic::SETTINGS, &entry).unwrap();
        assert_eq!(topic_of(topic.name.as_str(), &made), Ok(topic));
    }

    #[test]
    fn labels_set_what_they_stand_for_and_must_agree() {
        let labelled = declared("labels = { postrider-fifo = \"true\" }").unwrap();
        assert!(labelled.fifo);
        let torn = declared("fifo = false\nlabels = { postrider-fifo = \"true\" }").unwrap_err();
        assert!(torn.contains(r#"subscriptions[0].labels["postrider-fifo"]"#), "{torn}");
    }

    #[test]
    fn bad_settings_name_entry_and_field() {
        for (lines, field) in [
            ("filter = \"x\"", "filter: at 1"),
            ("colour = 1", "colour: unknown field, expected one of name, topic, ack_deadline"),
            ("ack_deadline = \"1500ms\"", "ack_deadline_seconds"),
            ("ack_deadline = \"soon\"", "ack_deadline"),
            ("batch = { size = 5 }", "batch.size"),
            ("poison = \"stop\"", "postrider.poison"),
            ("poison = \"halt\"", "postrider.poison"),
            ("max_attempts = 0", "postrider.maxAttempts"),
            ("push_endpoint = \"localhost\"", "push_config.push_endpoint"),
            ("push_timeout_seconds = 5", "push_config.push_endpoint"),
            ("headers = { host = \"x\" }", r#"postrider.headers["host"]"#),
            ("retry_policy = { maximum_backoff = \"1h\" }", "retry_policy.maximum_backoff"),
            (
                "dead_letter_policy = { dead_letter_topic = \"dead\" }",
                "dead_letter_policy.dead_letter_topic",
            ),
            (
                "dead_letter_policy = { dead_letter_topic = \"projects/p/topics/dead\", \
                 max_delivery_attempts = 101 }",
                "dead_letter_policy.max_delivery_attempts",
            ),
        ] {
            let error = declared(lines).unwrap_err();
            assert!(error.contains(&format!("subscriptions[0].{field}")), "{error}");
        }
    }
}

//! `ingestion_data_source_settings`: foreign services whose messages flow into a topic at Google.
//! Their definition is kept; nothing flows in here.

use serde_json::{Value, json};

use crate::error::Invalid;
use crate::setting::shape::{self, Field, Kind, Shaped, any};
use crate::setting::{Form, Part};
use crate::time::Timestamp;

const SOURCE: &str = "source";

const SETTINGS: &[Field] = &[
    Field::new("aws_kinesis", Kind::Object(KINESIS)).one_of(SOURCE),
    Field::new("cloud_storage", Kind::Object(CLOUD_STORAGE)).one_of(SOURCE),
    Field::new("azure_event_hubs", Kind::Object(EVENT_HUBS)).one_of(SOURCE),
    Field::new("aws_msk", Kind::Object(MSK)).one_of(SOURCE),
    Field::new("confluent_cloud", Kind::Object(CONFLUENT)).one_of(SOURCE),
    Field::new("platform_logs_settings", Kind::Object(LOGS)),
];

const KINESIS: &[Field] = &[
    Field::new("state", Kind::Server),
    Field::needed("stream_arn", Kind::Text(arn)),
    Field::needed("consumer_arn", Kind::Text(arn)),
    Field::needed("aws_role_arn", Kind::Text(arn)),
    Field::needed("gcp_service_account", Kind::Text(any)),
];

const CLOUD_STORAGE: &[Field] = &[
    Field::new("state", Kind::Server),
    Field::needed("bucket", Kind::Text(bucket)),
    Field::new("text_format", Kind::Object(&[Field::new("delimiter", Kind::Text(any))]))
        .one_of("format"),
    Field::new("avro_format", Kind::Object(&[])).one_of("format"),
    Field::new("pubsub_avro_format", Kind::Object(&[])).one_of("format"),
    Field::new("minimum_object_create_time", Kind::Text(time)),
    Field::new("match_glob", Kind::Text(any)),
];

const EVENT_HUBS: &[Field] = &[
    Field::new("state", Kind::Server),
    Field::new("resource_group", Kind::Text(any)),
    Field::needed("namespace", Kind::Text(any)),
    Field::needed("event_hub", Kind::Text(any)),
    Field::new("client_id", Kind::Text(any)),
    Field::new("tenant_id", Kind::Text(any)),
    Field::new("subscription_id", Kind::Text(any)),
    Field::new("gcp_service_account", Kind::Text(any)),
];

const MSK: &[Field] = &[
    Field::new("state", Kind::Server),
    Field::needed("cluster_arn", Kind::Text(arn)),
    Field::needed("topic", Kind::Text(any)),
    Field::needed("aws_role_arn", Kind::Text(arn)),
    Field::needed("gcp_service_account", Kind::Text(any)),
];

const CONFLUENT: &[Field] = &[
    Field::new("state", Kind::Server),
    Field::needed("bootstrap_server", Kind::Text(host_and_port)),
    Field::needed("cluster_id", Kind::Text(any)),
    Field::needed("topic", Kind::Text(any)),
    Field::needed("identity_pool_id", Kind::Text(any)),
    Field::needed("gcp_service_account", Kind::Text(any)),
];

const LOGS: &[Field] = &[Field::new("severity", Kind::Word(&SEVERITIES))];

const SEVERITIES: [&str; 6] =
    ["SEVERITY_UNSPECIFIED", "DISABLED", "DEBUG", "INFO", "WARNING", "ERROR"];

/// The state that Google has for a source that is not there.
const STATES: [(&str, &str); 5] = [
    ("awsKinesis", "STREAM_NOT_FOUND"),
    ("cloudStorage", "BUCKET_NOT_FOUND"),
    ("azureEventHubs", "NAMESPACE_NOT_FOUND"),
    ("awsMsk", "CLUSTER_NOT_FOUND"),
    ("confluentCloud", "UNREACHABLE_BOOTSTRAP_SERVER"),
];

/// The parts of `ingestion_data_source_settings`.
pub(super) const PARTS: &[Part] = &[
    Part::new("aws_kinesis", Form::Own, "Amazon Kinesis"),
    Part::new("cloud_storage", Form::Own, "Google Cloud Storage"),
    Part::new("azure_event_hubs", Form::Own, "Azure Event Hubs"),
    Part::new("aws_msk", Form::Own, "Amazon MSK"),
    Part::new("confluent_cloud", Form::Own, "Confluent Cloud"),
    Part::new("platform_logs_settings", Form::Own, "what Google logs about it"),
];

pub(super) fn read(field: &str, value: &Value) -> Result<Option<Shaped>, Invalid> {
    let settings = shape::read_filled(SETTINGS, field, value)?;
    let has_source =
        |settings: &Shaped| STATES.iter().any(|(name, _)| settings.contains_key(*name));
    match settings {
        Some(settings) if !has_source(&settings) => {
            let problem = "name one source: aws_kinesis, cloud_storage, azure_event_hubs, aws_msk \
                           or confluent_cloud";
            Err(Invalid::new(field, problem))
        }
        settings => Ok(settings),
    }
}

pub(super) fn show(settings: &Shaped) -> Value {
    let mut shown = settings.clone();
    for (name, state) in STATES {
        if let Some(Value::Object(source)) = shown.get_mut(name) {
            source.insert("state".to_owned(), json!(state));
        }
    }
    Value::Object(shown)
}

fn arn(text: &str) -> Option<&'static str> {
    let parts = text.splitn(6, ':');
    let is_arn = text.starts_with("arn:") && parts.count() == 6 && !text.ends_with(':');
    (!is_arn).then_some("not a name such as arn:aws:kinesis:us-east-1:123456789012:stream/orders")
}

fn bucket(text: &str) -> Option<&'static str> {
    let is_good = |char: char| {
        char.is_ascii_lowercase() || char.is_ascii_digit() || matches!(char, '-' | '_' | '.')
    };
    let is_bucket = (3..=222).contains(&text.len()) && text.chars().all(is_good);
    (!is_bucket).then_some("not a bucket such as my-bucket, without gs://")
}

fn time(text: &str) -> Option<&'static str> {
    let is_time = Timestamp::parse_rfc3339(text).is_some();
    (!is_time).then_some("not a time such as 2026-01-31T08:30:00Z")
}

fn host_and_port(text: &str) -> Option<&'static str> {
    let is_good = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    (!is_good).then_some("not a host and its port, such as pkc-12.cloud.example:9092")
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a panic is a failed test")]
mod tests {
    use super::super::{Change, Topic, warnings};
    use super::*;
    use crate::setting::{Document, Resource};

    const PATH: &str = "ingestion_data_source_settings";
    const ACCOUNT: &str = "reader@p.iam.gserviceaccount.com";

    fn arn_of(what: &str) -> String {
        format!("arn:aws:{what}:us-east-1:123456789012:some/{what}")
    }

    fn made(settings: Value) -> Result<Topic, Invalid> {
        let mut document = Document::default();
        document.put(PATH, settings);
        Change::creating(&document)?.apply(&Topic::scratch()?)
    }

    /// Each source with the state it is shown with.
    fn sources() -> [(Value, &'static str); 5] {
        [
            (
                json!({"awsKinesis": {
                    "streamArn": arn_of("kinesis"), "consumerArn": arn_of("kinesis"),
                    "awsRoleArn": arn_of("iam"), "gcpServiceAccount": ACCOUNT,
                }}),
                "STREAM_NOT_FOUND",
            ),
            (
                json!({"cloudStorage": {
                    "bucket": "my-bucket", "textFormat": {"delimiter": ";"}, "matchGlob": "**",
                    "minimumObjectCreateTime": "2026-01-31T08:30:00Z",
                }}),
                "BUCKET_NOT_FOUND",
            ),
            (
                json!({"azureEventHubs": {
                    "resourceGroup": "g", "namespace": "n", "eventHub": "h", "clientId": "c",
                    "tenantId": "t", "subscriptionId": "s", "gcpServiceAccount": ACCOUNT,
                }}),
                "NAMESPACE_NOT_FOUND",
            ),
            (
                json!({"awsMsk": {
                    "clusterArn": arn_of("kafka"), "topic": "orders",
                    "awsRoleArn": arn_of("iam"), "gcpServiceAccount": ACCOUNT,
                }}),
                "CLUSTER_NOT_FOUND",
            ),
            (
                json!({"confluentCloud": {
                    "bootstrapServer": "h.example:9092", "clusterId": "c", "topic": "orders",
                    "identityPoolId": "p", "gcpServiceAccount": ACCOUNT,
                }}),
                "UNREACHABLE_BOOTSTRAP_SERVER",
            ),
        ]
    }

    #[test]
    fn every_source_is_kept_and_shown_as_not_there() {
        for (given, state) in sources() {
            let topic = made(given.clone()).unwrap();
            assert_eq!(topic.ingestion.clone().map(Value::Object), Some(given.clone()));
            let shown = show(topic.ingestion.as_ref().unwrap());
            let (name, _) = given.as_object().unwrap().iter().next().unwrap();
            assert_eq!(shown[name]["state"], state);
            // As it is stored.
            assert_eq!(read(PATH, &shown), Ok(topic.ingestion.clone()));
            assert_eq!(warnings(None, &topic).len(), 1);
            let Value::Object(fields) = given.clone() else { panic!() };
            for key in fields[name].as_object().unwrap().keys() {
                let mut without = given.clone();
                without[name].as_object_mut().unwrap().remove(key);
                let is_needed = match name.as_str() {
                    "cloudStorage" => key == "bucket",
                    "azureEventHubs" => key == "namespace" || key == "eventHub",
                    _ => true,
                };
                assert_eq!(made(without).is_err(), is_needed, "{name}.{key}");
            }
        }
        assert_eq!(made(json!({})).unwrap().ingestion, None);
    }

    #[test]
    fn bad_sources_are_named() {
        let mut both = sources()[0].0.clone();
        both["cloudStorage"] = json!({"bucket": "my-bucket"});
        let mut loud = sources()[1].0.clone();
        loud["platformLogsSettings"] = json!({"severity": "LOUD"});
        let storage = |more: Value| {
            let mut given = json!({"cloudStorage": {"bucket": "my-bucket"}});
            given["cloudStorage"]
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            given
        };
        for (given, field) in [
            (both, "cloud_storage"),
            (loud, "platform_logs_settings.severity"),
            (json!({"platformLogsSettings": {"severity": "INFO"}}), ""),
            (storage(json!({"bucket": "gs://my-bucket"})), "cloud_storage.bucket"),
            (storage(json!({"avroFormat": {}, "textFormat": {}})), "cloud_storage.avro_format"),
            (
                storage(json!({"minimumObjectCreateTime": "soon"})),
                "cloud_storage.minimum_object_create_time",
            ),
            (json!({"awsMsk": {"clusterArn": "orders"}}), "aws_msk.cluster_arn"),
            (
                json!({"confluentCloud": {"bootstrapServer": "host"}}),
                "confluent_cloud.bootstrap_server",
            ),
        ] {
            let expected = format!("{PATH}.{field}");
            let found = made(given.clone()).unwrap_err().field;
            assert_eq!(found, expected.trim_end_matches('.'), "{given}");
        }
    }
}

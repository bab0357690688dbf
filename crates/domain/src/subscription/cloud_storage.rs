//! `cloud_storage_config`: the form it has in a document, how it is changed, and its rules.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Change, Subscription};
use crate::error::Invalid;
use crate::export::{CloudStorage, DatetimeFormat, ObjectFormat, ObjectLimits, object_name};
use crate::limits::{
    OBJECT_BYTES_MAX, OBJECT_BYTES_MIN, OBJECT_DURATION_DEFAULT, OBJECT_DURATION_MAX,
    OBJECT_DURATION_MIN, OBJECT_MESSAGES_MIN, OBJECT_NAME_BYTES_MAX, OIDC_EMAIL_BYTES_MAX,
};
use crate::setting::read::{
    decimal, google_time, needed, object, show_google_time, switch, text, unknown,
};
use crate::setting::{Document, Flag, Form, Part, camel, snake};
use crate::time::Timestamp;

const FIELD: &str = "cloud_storage_config";
const TEXT: &str = "text_config";
const AVRO: &str = "avro_config";

/// What a bucket's folder is not to have but from the server itself.
const OURS: &str = ".postrider";

/// The parts of `cloud_storage_config`.
pub(super) const PARTS: &[Part] = &[
    Part::new(
        "bucket",
        Form::Text,
        "The bucket; what it stands for is the server's setting export",
    )
    .flag(Flag::new("bucket").value("BUCKET").none("none"))
    .title("Bucket"),
    Part::new("filename_prefix", Form::Text, "How the names of objects begin")
        .flag(Flag::new("file-prefix").value("TEXT"))
        .title("Objects begin with"),
    Part::new("filename_suffix", Form::Text, "How they end, not with `/`")
        .flag(Flag::new("file-suffix").value("TEXT"))
        .title("Objects end with"),
    Part::new(
        "filename_datetime_format",
        Form::Text,
        "The time in them: YYYY or YY, MM, DD, hh, mm, ss once each, T, Z, +00:00, - _ : /",
    )
    .flag(Flag::new("file-datetime").value("FORMAT"))
    .title("Time in names"),
    Part::new(TEXT, Form::Object, "Write the data of messages as lines: the default")
        .title("As text"),
    Part::new(
        AVRO,
        Form::Own,
        "Write Avro files; `writeMetadata` adds ids, times and attributes, `useTopicSchema` writes \
         records of the topic's schema",
    )
    .title("As Avro"),
    Part::new("avro_config.write_metadata", Form::Switch, ""),
    Part::new("avro_config.use_topic_schema", Form::Switch, ""),
    Part::new("max_duration", Form::Time, "A new object after so long: 1m to 10m, 5m by default")
        .flag(Flag::new("file-max-duration"))
        .title("New object after"),
    Part::new("max_bytes", Form::Text, "A new object after so many bytes: 1 KB to 10 GiB")
        .flag(Flag::new("file-max-bytes").value("BYTES"))
        .title("Object bytes"),
    Part::new("max_messages", Form::Text, "A new object after so many messages: 1000 or more")
        .flag(Flag::new("file-max-messages").value("MESSAGES"))
        .title("Object messages"),
    Part::new(
        "service_account_email",
        Form::Text,
        "Kept and shown; the server writes with its own credentials",
    ),
];

/// A change of where objects are written: all of it, then parts of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CloudStorageChange {
    /// The whole, as the document has it; `null` ends it.
    pub whole: Option<Value>,
    /// Parts, in snake case, with their values.
    pub parts: Vec<(String, Value)>,
}

impl CloudStorageChange {
    pub(super) fn apply(
        self,
        current: Option<CloudStorage>,
    ) -> Result<Option<CloudStorage>, Invalid> {
        if self == Self::default() {
            return Ok(current);
        }
        let whole = self.whole.unwrap_or_else(|| current.as_ref().map_or(Value::Null, show));
        let mut document = Document(whole.as_object().cloned().unwrap_or_default());
        let has_whole = whole.is_object();
        let gives_parts = self.parts.iter().any(|(_, value)| !value.is_null());
        if !has_whole && !gives_parts {
            return if whole.is_null() { Ok(None) } else { read(FIELD, &whole) };
        }
        for (part, value) in self.parts {
            // An object is text or Avro: who asks for one ends the other.
            match part.as_str() {
                TEXT if !value.is_null() => document.remove(AVRO),
                part if part.starts_with(AVRO) && !value.is_null() => document.remove(TEXT),
                _ => {}
            }
            document.put(&part, value);
        }
        read(FIELD, &Value::Object(document.0))
    }
}

pub(super) fn set_whole(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    object(field, value)?;
    change.joined.cloud_storage = CloudStorageChange { whole: Some(value.clone()), parts: vec![] };
    Ok(())
}

pub(super) fn set_part(
    change: &mut Change,
    part: &str,
    _: &str,
    value: &Value,
) -> Result<(), Invalid> {
    let place = format!("/{}", camel(part).replace('.', "/"));
    let given = value.pointer(&place).cloned().unwrap_or_default();
    change.joined.cloud_storage.parts.push((part.to_owned(), given));
    Ok(())
}

/// Reads the document of a config; `null` is none.
pub fn read(field: &str, value: &Value) -> Result<Option<CloudStorage>, Invalid> {
    let Some(given) = object(field, value)? else { return Ok(None) };
    let known = |name: &str| name == "state" || PARTS.iter().any(|part| part.name == name);
    if let Some(name) = given.keys().find(|name| !known(&snake(name))) {
        return Err(unknown(&format!("{field}.{name}")));
    }
    let at = |name: &str| (format!("{field}.{name}"), given.get(&camel(name)));
    let word = |name: &str| {
        let (field, value) = at(name);
        Ok(text(&field, value.unwrap_or(&Value::Null))?.unwrap_or_default())
    };
    let count = |name: &str| {
        let (field, value) = at(name);
        whole_number(&field, value.unwrap_or(&Value::Null))
    };
    let (duration, given_duration) = at("max_duration");
    let duration = google_time(&duration, given_duration.unwrap_or(&Value::Null))?;
    let datetime = word("filename_datetime_format")?;
    let datetime_field = at("filename_datetime_format").0;
    Ok(Some(CloudStorage {
        bucket: needed(&at("bucket").0, Some(word("bucket")?).filter(|name| !name.is_empty()))?,
        prefix: word("filename_prefix")?,
        suffix: word("filename_suffix")?,
        datetime: match datetime.as_str() {
            "" => None,
            format => Some(DatetimeFormat::parse(&datetime_field, format)?),
        },
        format: read_format(field, given)?,
        limits: ObjectLimits {
            duration: duration.filter(|time| !time.is_zero()).unwrap_or(OBJECT_DURATION_DEFAULT),
            bytes: count("max_bytes")?,
            messages: count("max_messages")?,
        },
        service_account: word("service_account_email")?,
    }))
}

fn read_format(field: &str, given: &Map<String, Value>) -> Result<ObjectFormat, Invalid> {
    let place = format!("{field}.{AVRO}");
    let avro = given.get(&camel(AVRO)).map(|value| object(&place, value)).transpose()?.flatten();
    let has_text = given.get(&camel(TEXT)).is_some_and(|value| !value.is_null());
    let Some(avro) = avro else { return Ok(ObjectFormat::Text) };
    if has_text {
        return Err(Invalid::new(place, "given together with text_config, give only one"));
    }
    let is_on = |name: &str| {
        // The configuration file may have them as it has all others.
        let value = avro.get(&camel(name)).or(avro.get(name)).unwrap_or(&Value::Null);
        Ok(switch(&format!("{place}.{name}"), value)?.unwrap_or_default())
    };
    Ok(ObjectFormat::Avro {
        write_metadata: is_on("write_metadata")?,
        use_topic_schema: is_on("use_topic_schema")?,
    })
}

/// A number, or its digits as JSON has numbers of 64 bits; zero is "not given".
fn whole_number(field: &str, value: &Value) -> Result<Option<u64>, Invalid> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(digits) => decimal(digits),
        other => other.as_u64(),
    };
    match number {
        Some(number) => Ok(Some(number).filter(|number| *number > 0)),
        None => Err(Invalid::new(field, "expected a whole number from 0 up")),
    }
}

/// The document of a config.
pub fn show(storage: &CloudStorage) -> Value {
    let mut shown = json!({
        "bucket": storage.bucket,
        "maxDuration": show_google_time(storage.limits.duration),
    });
    let mut put = |name: &str, value: Value| {
        if let Some(shown) = shown.as_object_mut() {
            shown.insert(camel(name), value);
        }
    };
    for (name, text) in [
        ("filename_prefix", storage.prefix.as_str()),
        ("filename_suffix", &storage.suffix),
        ("filename_datetime_format", storage.datetime.as_ref().map_or("", DatetimeFormat::text)),
        ("service_account_email", &storage.service_account),
    ] {
        if !text.is_empty() {
            put(name, text.into());
        }
    }
    // Numbers of 64 bits are text in Google's JSON.
    for (name, number) in
        [("max_bytes", storage.limits.bytes), ("max_messages", storage.limits.messages)]
    {
        if let Some(number) = number {
            put(name, number.to_string().into());
        }
    }
    match storage.format {
        ObjectFormat::Text => put(TEXT, json!({})),
        ObjectFormat::Avro { write_metadata, use_topic_schema } => {
            let mut avro = Map::new();
            for (name, is_on) in
                [("writeMetadata", write_metadata), ("useTopicSchema", use_topic_schema)]
            {
                if is_on {
                    avro.insert(name.to_owned(), true.into());
                }
            }
            put(AVRO, avro.into());
        }
    }
    shown
}

pub(super) fn show_of(one: &Subscription) -> Value {
    one.cloud_storage.as_ref().map_or(Value::Null, show)
}

/// The rules of a config, and what it goes with.
pub(super) fn check(one: &Subscription) -> Result<(), Invalid> {
    let Some(storage) = &one.cloud_storage else { return Ok(()) };
    check_names(storage)?;
    check_limits(&storage.limits)?;
    let email = storage.service_account.len();
    if email > OIDC_EMAIL_BYTES_MAX {
        let problem = format!("{email} bytes, at most {OIDC_EMAIL_BYTES_MAX} are allowed");
        return Err(Invalid::new(format!("{FIELD}.service_account_email"), problem));
    }
    if one.exactly_once {
        let problem = "exactly-once delivery is for pull only; clear cloud_storage_config, or \
                       leave it out";
        return Err(Invalid::new("enable_exactly_once_delivery", problem));
    }
    Ok(())
}

fn check_limits(limits: &ObjectLimits) -> Result<(), Invalid> {
    let wrong = |name: &str, problem: String| Err(Invalid::new(format!("{FIELD}.{name}"), problem));
    if !(OBJECT_DURATION_MIN..=OBJECT_DURATION_MAX).contains(&limits.duration) {
        let [given, min, max] =
            [limits.duration, OBJECT_DURATION_MIN, OBJECT_DURATION_MAX].map(seconds);
        return wrong("max_duration", format!("{given} s, {min} to {max} s are allowed"));
    }
    let range = OBJECT_BYTES_MIN..=OBJECT_BYTES_MAX;
    if let Some(bytes) = limits.bytes.filter(|bytes| !range.contains(bytes)) {
        let (min, max) = (OBJECT_BYTES_MIN, OBJECT_BYTES_MAX);
        return wrong("max_bytes", format!("{bytes}, {min} to {max} are allowed"));
    }
    if let Some(messages) = limits.messages.filter(|messages| *messages < OBJECT_MESSAGES_MIN) {
        let min = OBJECT_MESSAGES_MIN;
        return wrong("max_messages", format!("{messages}, {min} or more are allowed"));
    }
    Ok(())
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn check_names(storage: &CloudStorage) -> Result<(), Invalid> {
    let wrong = |name: &str, problem: &str| Err(Invalid::new(format!("{FIELD}.{name}"), problem));
    if !is_bucket(&storage.bucket) {
        return wrong(
            "bucket",
            "a bucket's name has 3 to 63 lower-case letters, digits, dashes, underscores and dots \
             (up to 222 with dots), begins and ends with a letter or digit, and has no gs:// \
             before it",
        );
    }
    for (name, text) in [("filename_prefix", &storage.prefix), ("filename_suffix", &storage.suffix)]
    {
        if text.chars().any(char::is_control) {
            return wrong(name, "control characters cannot be in an object's name");
        }
    }
    if storage.suffix.ends_with('/') {
        return wrong("filename_suffix", "must not end with /");
    }
    if storage.prefix.starts_with(OURS) {
        return wrong("filename_prefix", "names that begin with .postrider are the server's own");
    }
    // As long as any: the unique part always is.
    let name = object_name(storage, Timestamp(0), &"u".repeat(32));
    if name.len() > OBJECT_NAME_BYTES_MAX {
        return wrong("filename_prefix", "with the time and the suffix a name has over 1024 bytes");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return wrong(
            "filename_prefix",
            "with the time and the suffix a name has a part between slashes that is empty, . or ..",
        );
    }
    Ok(())
}

fn is_bucket(name: &str) -> bool {
    let longest = if name.contains('.') { 222 } else { 63 };
    let is_end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let bytes = name.as_bytes();
    let is_legal =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(byte);
    (3..=longest).contains(&name.len())
        && bytes.iter().all(is_legal)
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{field_at_fault, pushing, subscription};
    use super::*;

    fn exporting(config: Value) -> Result<Subscription, Invalid> {
        Change::of(FIELD, config)?.apply(&subscription())
    }

    fn stored(config: Value) -> CloudStorage {
        exporting(config).unwrap().cloud_storage.unwrap()
    }

    #[test]
    fn a_bucket_is_enough() {
        let storage = stored(json!({"bucket": "shop"}));
        assert_eq!(storage, CloudStorage::to_bucket("shop"));
        let shown = json!({"bucket": "shop", "maxDuration": "300s", "textConfig": {}});
        assert_eq!(show(&storage), shown);
    }

    #[test]
    fn everything_given_comes_back() {
        let given = json!({
            "bucket": "shop.example.com",
            "filenamePrefix": "orders/",
            "filenameSuffix": ".avro",
            "filenameDatetimeFormat": "YYYY/MM/DD/hh_mm_ssZ",
            "avroConfig": {"writeMetadata": true, "useTopicSchema": true},
            "maxDuration": "60s",
            "maxBytes": "10737418240",
            "maxMessages": "1000",
            "serviceAccountEmail": "writer@example.com",
        });
        let storage = stored(given.clone());
        assert_eq!(show(&storage), given);
        assert_eq!(read(FIELD, &show(&storage)), Ok(Some(storage)));
        assert_eq!(exporting(Value::Null).unwrap().cloud_storage, None);
    }

    #[test]
    fn what_google_refuses_is_refused_by_name() {
        let with = |name: &str, value: Value| {
            let mut config = json!({"bucket": "shop"});
            config.as_object_mut().unwrap().insert(name.to_owned(), value);
            exporting(config).unwrap_err().field
        };
        for (name, value, field) in [
            ("bucket", json!(""), "bucket"),
            ("bucket", json!("gs://shop"), "bucket"),
            ("bucket", json!("Shop"), "bucket"),
            ("bucket", json!(".."), "bucket"),
            ("bucket", json!("a..b"), "bucket"),
            ("bucket", json!("-shop"), "bucket"),
            ("filenameSuffix", json!("x/"), "filename_suffix"),
            ("filenamePrefix", json!("../x"), "filename_prefix"),
            ("filenamePrefix", json!("/x"), "filename_prefix"),
            ("filenamePrefix", json!("a\nb"), "filename_prefix"),
            ("filenamePrefix", json!(".postrider-parts/"), "filename_prefix"),
            ("filenamePrefix", json!("x".repeat(1_000)), "filename_prefix"),
            ("filenameDatetimeFormat", json!("YYYY"), "filename_datetime_format"),
            ("maxDuration", json!("59s"), "max_duration"),
            ("maxDuration", json!("601s"), "max_duration"),
            ("maxBytes", json!("999"), "max_bytes"),
            ("maxBytes", json!("10737418241"), "max_bytes"),
            ("maxBytes", json!("-1"), "max_bytes"),
            ("maxMessages", json!("999"), "max_messages"),
            ("serviceAccountEmail", json!("e".repeat(255)), "service_account_email"),
            ("colour", json!("red"), "colour"),
        ] {
            assert_eq!(with(name, value.clone()), format!("{FIELD}.{field}"), "{value}");
        }
        let both = json!({"bucket": "shop", "textConfig": {}, "avroConfig": {}});
        assert_eq!(exporting(both).unwrap_err().field, "cloud_storage_config.avro_config");
        let stated = json!({"bucket": "shop", "state": "ACTIVE"});
        assert!(exporting(stated).is_ok(), "clients send back what they were shown");
    }

    #[test]
    fn messages_go_one_way() {
        let cloud_storage = Some(CloudStorage::to_bucket("shop"));
        let both = Subscription { cloud_storage: cloud_storage.clone(), ..pushing() };
        assert_eq!(field_at_fault(&both), FIELD);
        let exactly = Subscription { cloud_storage, exactly_once: true, ..subscription() };
        assert_eq!(field_at_fault(&exactly), "enable_exactly_once_delivery");
    }

    #[test]
    fn a_mask_changes_the_parts_it_names_and_no_others() {
        let before = exporting(json!({"bucket": "shop", "filenamePrefix": "a/"})).unwrap();
        let change = |one: &Subscription, path: &str, value: Value| {
            let path = format!("{FIELD}.{path}");
            let mut document = Document::default();
            document.put(&path, value);
            let change = Change::by_mask(&document, false, &[path])?;
            Ok::<_, Invalid>(change.apply(one)?.cloud_storage.map(|one| show(&one)))
        };
        let shown = |more: Value| {
            let mut shown = json!({"bucket": "shop", "maxDuration": "300s"});
            let fields = shown.as_object_mut().unwrap();
            fields.extend(more.as_object().unwrap().clone());
            Ok(Some(shown))
        };
        assert_eq!(
            change(&before, "max_bytes", json!("2000")),
            shown(json!({"filenamePrefix": "a/", "maxBytes": "2000", "textConfig": {}}))
        );
        assert_eq!(
            change(&before, "avro_config.write_metadata", json!(true)),
            shown(json!({"filenamePrefix": "a/", "avroConfig": {"writeMetadata": true}}))
        );
        assert_eq!(
            change(&before, "filename_prefix", Value::Null),
            shown(json!({"textConfig": {}}))
        );
        let none = change(&subscription(), "max_bytes", json!("2000")).unwrap_err();
        assert_eq!(none.field, "cloud_storage_config.bucket");
        assert_eq!(change(&subscription(), "max_bytes", Value::Null), Ok(None));
    }
}

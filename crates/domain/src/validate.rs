//! Checks messages to be published, and the rules that topics and subscriptions share.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::{
    ATTRIBUTE_KEY_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, LABEL_CHARS_MAX,
    LABELS_MAX, MESSAGE_DATA_BYTES_MAX, ORDERING_KEY_BYTES_MAX, PUBLISH_MESSAGES_MAX,
    PUBLISH_MESSAGES_MIN, REQUEST_BYTES_MAX, RETENTION_MAX, RETENTION_MIN, TAG_BYTES_MAX, TAGS_MAX,
};
use crate::message::{Message, is_set_by_server};

/// Labels with this prefix are our own settings, or refused.
pub const RESERVED_LABEL_PREFIX: &str = "postrider-";

/// Checks all messages of one publish. One bad message refuses them all. Attributes that only the
/// server sets are dropped, as Google ignores what only it sets: someone forwarding a message that
/// was validated against a schema passes them on, and nobody can claim them.
pub fn publish(messages: &mut [Message]) -> Result<(), Invalid> {
    publish_count(messages.len())?;
    let mut bytes = 0;
    for (index, message) in messages.iter_mut().enumerate() {
        match check_message(message) {
            Ok(false) => {}
            Ok(true) => message.attributes.retain(|key, _| !is_set_by_server(key)),
            Err((part, problem)) => {
                return Err(Invalid::new(format!("messages[{index}]{part}"), problem));
            }
        }
        bytes += message.content_bytes();
    }
    if bytes > REQUEST_BYTES_MAX {
        let problem = format!("{bytes} bytes in one publish, at most {REQUEST_BYTES_MAX}");
        return Err(Invalid::new("messages", problem));
    }
    Ok(())
}

/// Checks that all messages of one publish have the same ordering key, or none.
pub fn one_ordering_key(messages: &[Message]) -> Result<(), Invalid> {
    let Some(first) = messages.first() else { return Ok(()) };
    match messages.iter().position(|message| message.ordering_key != first.ordering_key) {
        None => Ok(()),
        Some(index) => Err(Invalid::new(
            format!("messages[{index}].ordering_key"),
            "is not the ordering_key of messages[0]; all messages of one publish must have the \
             same key, or none: publish those of another key in another call",
        )),
    }
}

/// Checks how many messages one publish contains, so that too many are refused before any is read.
pub fn publish_count(count: usize) -> Result<(), Invalid> {
    if (PUBLISH_MESSAGES_MIN..=PUBLISH_MESSAGES_MAX).contains(&count) {
        return Ok(());
    }
    Err(Invalid::new(
        "messages",
        format!(
            "{count} messages in one publish, {PUBLISH_MESSAGES_MIN} to {PUBLISH_MESSAGES_MAX} \
             are allowed"
        ),
    ))
}

/// The faulty part of the message, and what is wrong with it.
type Fault = (String, String);

/// Returns whether it has attributes that only the server sets.
fn check_message(message: &Message) -> Result<bool, Fault> {
    if message.data.is_empty() && message.attributes.is_empty() {
        return Err(fault("", "a message needs data or at least one attribute"));
    }
    within("data", message.data.len(), MESSAGE_DATA_BYTES_MAX)?;
    within("ordering_key", message.ordering_key.len(), ORDERING_KEY_BYTES_MAX)?;
    let count = message.attributes.len();
    if count > ATTRIBUTES_MAX {
        return Err(fault(
            ".attributes",
            format!("{count} attributes, at most {ATTRIBUTES_MAX} are allowed"),
        ));
    }
    let mut has_servers = false;
    for (key, value) in &message.attributes {
        has_servers |= check_attribute(key, value)?;
    }
    Ok(has_servers)
}

/// Returns whether only the server sets it.
fn check_attribute(key: &str, value: &str) -> Result<bool, Fault> {
    if key.is_empty() {
        return Err(fault(".attributes", "a key is empty"));
    }
    if key.len() > ATTRIBUTE_KEY_BYTES_MAX {
        let shown: String = key.chars().take(32).collect();
        return Err(fault(
            format!(".attributes[{:?}]", format!("{shown}…")),
            format!(
                "the key has {} bytes, at most {ATTRIBUTE_KEY_BYTES_MAX} are allowed",
                key.len()
            ),
        ));
    }
    // Client libraries put their own attributes (trace context) under googclient_, and Google lets
    // them through.
    if key.starts_with("goog") && !key.starts_with("googclient_") {
        return Err(fault(
            format!(".attributes[{key:?}]"),
            "keys beginning with goog are reserved",
        ));
    }
    if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        return Err(fault(
            format!(".attributes[{key:?}]"),
            format!("{} bytes, at most {ATTRIBUTE_VALUE_BYTES_MAX} are allowed", value.len()),
        ));
    }
    Ok(key.starts_with("goog") && is_set_by_server(key))
}

fn within(field: &str, bytes: usize, bytes_max: usize) -> Result<(), Fault> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(fault(format!(".{field}"), format!("{bytes} bytes, at most {bytes_max} are allowed")))
}

fn fault(part: impl Into<String>, problem: impl Into<String>) -> Fault {
    (part.into(), problem.into())
}

/// Checks the labels of a resource: count, size and Google's alphabet.
pub fn labels(labels: &BTreeMap<String, String>) -> Result<(), Invalid> {
    if labels.len() > LABELS_MAX {
        return Err(Invalid::new(
            "labels",
            format!("{} labels, at most {LABELS_MAX} are allowed", labels.len()),
        ));
    }
    labels.iter().try_for_each(|(key, value)| check_label(key, value))
}

/// Checks Google's resource tags: how many, and that keys and values have the form that Google's
/// API takes. Whether there are such tags is not known here.
pub fn tags(tags: &BTreeMap<String, String>) -> Result<(), Invalid> {
    if tags.len() > TAGS_MAX {
        let problem = format!("{} tags, at most {TAGS_MAX} are allowed", tags.len());
        return Err(Invalid::new("tags", problem));
    }
    let is_good = |key: &str| {
        key.split_once('/').is_some_and(|(parent, name)| {
            !parent.is_empty() && !name.is_empty() && !name.contains('/')
        })
    };
    for (key, value) in tags {
        let shown: String = key.chars().take(100).collect();
        if !is_good(key) || key.len() > TAG_BYTES_MAX {
            let problem = format!("the key {shown:?} is not like 123456/environment");
            return Err(Invalid::new("tags", problem));
        }
        if value.is_empty() || value.len() > TAG_BYTES_MAX {
            let problem = format!("the value is not 1 to {TAG_BYTES_MAX} bytes");
            return Err(Invalid::new(format!("tags[{shown:?}]"), problem));
        }
    }
    Ok(())
}

/// Warns that resource tags do nothing here; `None` = there are none.
pub fn tags_warning(tags: &BTreeMap<String, String>) -> Option<String> {
    let warning = "tags are kept and never shown, as at Google; there are no policies here that \
                   look at them";
    (!tags.is_empty()).then(|| warning.to_owned())
}

/// Refuses labels with the reserved prefix, except those in `known`.
pub fn no_reserved_label(labels: &BTreeMap<String, String>, known: &[&str]) -> Result<(), Invalid> {
    let is_reserved =
        |key: &&String| key.starts_with(RESERVED_LABEL_PREFIX) && !known.contains(&key.as_str());
    match labels.keys().find(is_reserved) {
        None => Ok(()),
        Some(key) => Err(Invalid::new(
            format!("labels[{key:?}]"),
            format!("labels beginning with {RESERVED_LABEL_PREFIX} are reserved"),
        )),
    }
}

fn check_label(key: &str, value: &str) -> Result<(), Invalid> {
    let key_fits = key.starts_with(|first: char| is_label_letter(first))
        && key.chars().count() <= LABEL_CHARS_MAX
        && key.chars().all(is_label_char);
    if !key_fits {
        let shown: String = key.chars().take(LABEL_CHARS_MAX).collect();
        return Err(Invalid::new(
            "labels",
            format!(
                "the key {shown:?} is not 1 to {LABEL_CHARS_MAX} lower-case letters, digits, - \
                 and _, a letter first"
            ),
        ));
    }
    if value.chars().count() > LABEL_CHARS_MAX || !value.chars().all(is_label_char) {
        return Err(Invalid::new(
            format!("labels[{key:?}]"),
            format!("the value is not up to {LABEL_CHARS_MAX} lower-case letters, digits, - and _"),
        ));
    }
    Ok(())
}

/// Google allows letters of any script as long as they are not uppercase.
fn is_label_letter(char: char) -> bool {
    char.is_alphabetic() && !char.is_uppercase()
}

fn is_label_char(char: char) -> bool {
    is_label_letter(char) || char.is_numeric() || char == '-' || char == '_'
}

/// Checks how long messages are to be kept; `field` is the request field that says so.
pub fn retention(field: &str, retention: Duration) -> Result<(), Invalid> {
    if (RETENTION_MIN..=RETENTION_MAX).contains(&retention) {
        return Ok(());
    }
    Err(Invalid::new(
        field,
        format!(
            "{} s, {} s (10 minutes) to {} s (31 days) are allowed",
            retention.as_secs_f64(),
            RETENTION_MIN.as_secs(),
            RETENTION_MAX.as_secs()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn data(bytes: usize) -> Message {
        Message { data: Bytes::from(vec![b'x'; bytes]), ..Message::default() }
    }

    fn with_attribute(key: &str, value: &str) -> Message {
        let attributes = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Message { attributes, ..Message::default() }
    }

    fn field_at_fault(message: Message) -> String {
        publish(&mut [data(1), message]).unwrap_err().field
    }

    #[test]
    fn tags_have_a_parent_a_name_and_a_value() {
        let with = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        for good in ["123/environment", "tagKeys/281475012345678", "my-project/cost"] {
            assert_eq!(tags(&with(good, "production")), Ok(()), "{good}");
        }
        for bad in ["", "environment", "/environment", "123/", "a/b/c"] {
            assert_eq!(tags(&with(bad, "production")).unwrap_err().field, "tags", "{bad}");
        }
        assert_eq!(tags(&with("1/a", "")).unwrap_err().field, r#"tags["1/a"]"#);
        let many = (0..=TAGS_MAX).map(|at| (format!("1/k{at}"), "v".to_owned())).collect();
        assert!(tags(&many).is_err());
        assert_eq!(tags_warning(&BTreeMap::new()), None);
        assert!(tags_warning(&many).is_some_and(|warning| warning.is_ascii()));
    }

    #[test]
    fn one_to_a_thousand_messages_go_into_one_publish() {
        assert_eq!(publish(&mut []).unwrap_err().field, "messages");
        assert!(publish(&mut vec![data(1); 1_000]).is_ok());
        assert_eq!(publish(&mut vec![data(1); 1_001]).unwrap_err().field, "messages");
    }

    #[test]
    fn all_messages_of_a_publish_have_one_ordering_key() {
        let keyed = |key: &str| Message { ordering_key: key.to_owned(), ..data(1) };
        assert!(one_ordering_key(&[]).is_ok() && one_ordering_key(&[data(1), data(2)]).is_ok());
        assert!(one_ordering_key(&[keyed("a"), keyed("a")]).is_ok());
        for other in ["", "b"] {
            let error = one_ordering_key(&[keyed("a"), keyed("a"), keyed(other)]).unwrap_err();
            assert_eq!(error.field, "messages[2].ordering_key");
        }
    }

    #[test]
    fn a_message_needs_data_or_an_attribute() {
        assert_eq!(field_at_fault(Message::default()), "messages[1]");
        assert!(publish(&mut [with_attribute("k", "")]).is_ok());
        let key_only = Message { ordering_key: "k".to_owned(), ..Message::default() };
        assert_eq!(field_at_fault(key_only), "messages[1]");
    }

    #[test]
    fn data_is_at_most_ten_megabytes() {
        assert!(publish(&mut [data(10_000_000)]).is_ok());
        assert_eq!(field_at_fault(data(10_000_001)), "messages[1].data");
    }

    #[test]
    fn all_messages_together_fit_into_one_request() {
        assert!(publish(&mut [data(5_242_880), data(5_242_880)]).is_ok());
        assert_eq!(publish(&mut [data(5_242_880), data(5_242_881)]).unwrap_err().field, "messages");
    }

    #[test]
    fn ordering_keys_are_at_most_1024_bytes() {
        let with_key = |bytes| Message { ordering_key: "k".repeat(bytes), ..data(1) };
        assert!(publish(&mut [with_key(1_024)]).is_ok());
        assert_eq!(field_at_fault(with_key(1_025)), "messages[1].ordering_key");
    }

    #[test]
    fn at_most_a_hundred_attributes() {
        let with_attributes = |count: usize| Message {
            attributes: (0..count).map(|i| (format!("k{i}"), String::new())).collect(),
            ..Message::default()
        };
        assert!(publish(&mut [with_attributes(100)]).is_ok());
        assert_eq!(field_at_fault(with_attributes(101)), "messages[1].attributes");
    }

    #[test]
    fn attribute_keys_are_1_to_256_bytes_and_not_googles() {
        assert!(publish(&mut [with_attribute(&"k".repeat(256), "v")]).is_ok());
        assert_eq!(field_at_fault(with_attribute("", "v")), "messages[1].attributes");
        let long = field_at_fault(with_attribute(&"k".repeat(257), "v"));
        assert!(long.starts_with("messages[1].attributes[\"kkk") && long.len() < 80, "{long}");
        let reserved = with_attribute("google", "v");
        assert_eq!(field_at_fault(reserved), r#"messages[1].attributes["google"]"#);
        assert!(publish(&mut [with_attribute("googclient_traceparent", "v")]).is_ok());
    }

    #[test]
    fn what_only_the_server_sets_is_dropped() {
        let mut messages = ["googclient_schemaname", "googclient_schemarevisionid", "colour"]
            .map(|key| Message { data: Bytes::from_static(b"x"), ..with_attribute(key, "v") });
        publish(&mut messages).unwrap();
        let kept: Vec<usize> = messages.iter().map(|one| one.attributes.len()).collect();
        assert_eq!(kept, [0, 0, 1]);
    }

    #[test]
    fn attribute_values_are_at_most_1024_bytes() {
        assert!(publish(&mut [with_attribute("k", &"v".repeat(1_024))]).is_ok());
        let long = with_attribute("k", &"v".repeat(1_025));
        assert_eq!(field_at_fault(long), r#"messages[1].attributes["k"]"#);
    }

    fn check_labels(pairs: &[(&str, &str)]) -> Result<(), Invalid> {
        labels(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn at_most_64_labels() {
        let many = |count: usize| (0..count).map(|i| (format!("k{i}"), String::new())).collect();
        assert!(labels(&many(64)).is_ok());
        assert_eq!(labels(&many(65)).unwrap_err().field, "labels");
    }

    #[test]
    fn labels_keep_to_googles_alphabet() {
        assert!(check_labels(&[("team", "a-b_9"), ("größe", ""), ("k", "9")]).is_ok());
        for bad in ["", "Team", "9k", "-k", "k k", "k.k", &"k".repeat(64)] {
            assert_eq!(check_labels(&[(bad, "v")]).unwrap_err().field, "labels", "{bad}");
        }
        for bad in ["V", "v v", "v.v", &"v".repeat(64)] {
            assert_eq!(check_labels(&[("k", bad)]).unwrap_err().field, r#"labels["k"]"#, "{bad}");
        }
        assert!(check_labels(&[(&"k".repeat(63), &"v".repeat(63))]).is_ok());
    }

    #[test]
    fn retention_is_ten_minutes_to_31_days() {
        let seconds = |s| retention("message_retention_duration", Duration::from_secs(s));
        assert!(seconds(599).is_err());
        assert!(seconds(600).is_ok());
        assert!(seconds(31 * 86_400).is_ok());
        assert!(seconds(31 * 86_400 + 1).is_err());
    }
}

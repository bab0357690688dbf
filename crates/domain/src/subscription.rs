//! The settings of a subscription, their rules, and how they may be changed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::{
    ACK_DEADLINE_DEFAULT, ACK_DEADLINE_MAX, ACK_DEADLINE_MIN, DESCRIPTION_BYTES_MAX,
    EXPIRATION_DEFAULT, EXPIRATION_MIN, METADATA_KEY_BYTES_MAX, METADATA_MAX,
    METADATA_VALUE_BYTES_MAX, RETENTION_DEFAULT,
};
use crate::name::{SubscriptionName, TopicName};
use crate::offset::Offset;
use crate::time::Timestamp;
use crate::topic::{bad_path, is_path_of};
use crate::validate::{self, RESERVED_LABEL_PREFIX};

/// The label that says where a new subscription starts, for clients that cannot send the REST
/// resource's `postrider` object.
pub const START_LABEL: &str = "postrider-start";

/// Reserved labels for settings that only their default value is accepted for, with that value.
pub const LABELS_NOT_BUILT: [(&str, Option<&str>); 5] = [
    ("postrider-fifo", Some("false")),
    ("postrider-paused", Some("false")),
    ("postrider-poison", Some("skip")),
    ("postrider-timeout-seconds", None),
    ("postrider-max-attempts", None),
];

/// A subscription as its owner set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub name: SubscriptionName,
    /// The topic it gets its messages from, under the name it had at creation.
    pub topic: TopicName,
    /// How long a lease lasts unless a stream or an extension says otherwise.
    pub ack_deadline: Duration,
    /// Whether acked messages are kept too, within `message_retention`.
    pub retain_acked_messages: bool,
    /// How long messages are kept that are not acked.
    pub message_retention: Duration,
    /// Free marks for people and programs, and reserved ones that set something.
    pub labels: BTreeMap<String, String>,
    /// After so long without use it is deleted; `None` = never.
    pub expiration: Option<Duration>,
    /// Where in the topic it began. Decided at creation, kept for show.
    pub start: Start,
    /// Free text; empty = none.
    pub description: String,
    /// Free names and values, without the limits of labels.
    pub metadata: BTreeMap<String, String>,
}

impl Subscription {
    /// A subscription with the default settings.
    pub fn new(name: SubscriptionName, topic: TopicName) -> Self {
        Self {
            name,
            topic,
            ack_deadline: ACK_DEADLINE_DEFAULT,
            retain_acked_messages: false,
            message_retention: RETENTION_DEFAULT,
            labels: BTreeMap::new(),
            expiration: Some(EXPIRATION_DEFAULT),
            start: Start::Latest,
            description: String::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// Checks every setting, and that a start given by label is the start.
    pub fn validate(&self) -> Result<(), Invalid> {
        ack_deadline_in_range("ack_deadline_seconds", self.ack_deadline)?;
        validate::retention("message_retention_duration", self.message_retention)?;
        check_expiration(self.expiration, self.message_retention)?;
        validate::labels(&self.labels)?;
        self.labels.keys().try_for_each(|key| check_reserved(key))?;
        if let Some(start) = label_start(&self.labels)?
            && start != self.start
        {
            return Err(Invalid::new(
                format!("labels[{START_LABEL:?}]"),
                format!("says {start}, but the subscription starts at {}", self.start),
            ));
        }
        check_description(&self.description)?;
        check_metadata(&self.metadata)
    }
}

/// Where in its topic a new subscription begins.
///
/// In a label, whose alphabet has neither colon nor capital, it is written `latest`, `earliest`,
/// a decimal offset, or `time-` and seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Behind the last message published so far.
    #[default]
    Latest,
    /// At the oldest message the topic still keeps.
    Earliest,
    /// At this offset.
    Offset(Offset),
    /// At the first message published at this time or later.
    Time(Timestamp),
}

impl Start {
    /// Reads the spelling used in labels.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let parsed = match text {
            "latest" => Some(Self::Latest),
            "earliest" => Some(Self::Earliest),
            _ => match text.strip_prefix("time-") {
                Some(seconds) => decimal(seconds).map(seconds_start),
                None => decimal(text).map(|offset| Self::Offset(Offset(offset))),
            },
        };
        parsed.ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            Invalid::new(
                field,
                format!("{shown:?} is not latest, earliest, an offset or time-<unix seconds>"),
            )
        })
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Earliest => f.write_str("earliest"),
            Self::Offset(offset) => offset.fmt(f),
            Self::Time(time) => write!(f, "time-{}", time.seconds()),
        }
    }
}

/// Digits only: `parse` alone would also take a sign.
fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn seconds_start(seconds: u64) -> Start {
    Start::Time(Timestamp(seconds.saturating_mul(1_000_000)))
}

/// The start that the labels ask for, if they do.
pub fn label_start(labels: &BTreeMap<String, String>) -> Result<Option<Start>, Invalid> {
    let Some(text) = labels.get(START_LABEL) else {
        return Ok(None);
    };
    Start::parse(&format!("labels[{START_LABEL:?}]"), text).map(Some)
}

/// The ack deadline a subscription asks for on the wire; 0 means the default.
pub fn ack_deadline(field: &str, seconds: i32) -> Result<Duration, Invalid> {
    if seconds == 0 {
        return Ok(ACK_DEADLINE_DEFAULT);
    }
    stream_ack_deadline(field, seconds)
}

/// The ack deadline a stream asks for on the wire: it has no default.
pub fn stream_ack_deadline(field: &str, seconds: i32) -> Result<Duration, Invalid> {
    let deadline = u64::try_from(seconds).map(Duration::from_secs);
    match deadline {
        Ok(deadline) => ack_deadline_in_range(field, deadline).map(|()| deadline),
        Err(_) => Err(bad_ack_deadline(field, &seconds, ACK_DEADLINE_MIN)),
    }
}

/// The deadline a single lease is to get, counted from now; zero gives the message back.
pub fn lease_deadline(field: &str, seconds: i32) -> Result<Duration, Invalid> {
    match u64::try_from(seconds).map(Duration::from_secs) {
        Ok(deadline) if deadline <= ACK_DEADLINE_MAX => Ok(deadline),
        _ => Err(bad_ack_deadline(field, &seconds, Duration::ZERO)),
    }
}

fn ack_deadline_in_range(field: &str, deadline: Duration) -> Result<(), Invalid> {
    if (ACK_DEADLINE_MIN..=ACK_DEADLINE_MAX).contains(&deadline) {
        return Ok(());
    }
    Err(bad_ack_deadline(field, &deadline.as_secs_f64(), ACK_DEADLINE_MIN))
}

fn bad_ack_deadline(field: &str, asked: &dyn fmt::Display, min: Duration) -> Invalid {
    let (min, max) = (min.as_secs(), ACK_DEADLINE_MAX.as_secs());
    Invalid::new(field, format!("{asked} s, {min} to {max} s are allowed"))
}

/// Google also demands that a subscription outlive its messages; with both at their greatest
/// defaults (31 days) it accepts equality.
fn check_expiration(expiration: Option<Duration>, retention: Duration) -> Result<(), Invalid> {
    const FIELD: &str = "expiration_policy.ttl";
    match expiration {
        Some(ttl) if ttl < EXPIRATION_MIN => {
            let (ttl, min) = (ttl.as_secs_f64(), EXPIRATION_MIN.as_secs());
            Err(Invalid::new(FIELD, format!("{ttl} s, at least {min} s (1 day) are needed")))
        }
        Some(ttl) if ttl < retention => Err(Invalid::new(
            FIELD,
            format!(
                "{} s is shorter than the message retention of {} s",
                ttl.as_secs_f64(),
                retention.as_secs_f64()
            ),
        )),
        _ => Ok(()),
    }
}

fn check_reserved(key: &str) -> Result<(), Invalid> {
    let known = key == START_LABEL || LABELS_NOT_BUILT.iter().any(|(known, _)| *known == key);
    if known || !key.starts_with(RESERVED_LABEL_PREFIX) {
        return Ok(());
    }
    Err(Invalid::new(
        format!("labels[{key:?}]"),
        format!(
            "no setting of that name; labels beginning with {RESERVED_LABEL_PREFIX} are reserved"
        ),
    ))
}

fn check_description(description: &str) -> Result<(), Invalid> {
    let bytes = description.len();
    if bytes <= DESCRIPTION_BYTES_MAX {
        return Ok(());
    }
    let problem = format!("{bytes} bytes, at most {DESCRIPTION_BYTES_MAX} are allowed");
    Err(Invalid::new("postrider.description", problem))
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Invalid> {
    const FIELD: &str = "postrider.metadata";
    if metadata.len() > METADATA_MAX {
        let count = metadata.len();
        return Err(Invalid::new(FIELD, format!("{count} entries, at most {METADATA_MAX}")));
    }
    for (key, value) in metadata {
        if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX {
            let problem = format!("a key is not 1 to {METADATA_KEY_BYTES_MAX} bytes long");
            return Err(Invalid::new(FIELD, problem));
        }
        if value.len() > METADATA_VALUE_BYTES_MAX {
            let problem = format!("more than {METADATA_VALUE_BYTES_MAX} bytes");
            return Err(Invalid::new(format!("{FIELD}[{key:?}]"), problem));
        }
    }
    Ok(())
}

/// A field that an update mask can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `ack_deadline_seconds`.
    AckDeadline,
    /// `retain_acked_messages`.
    RetainAckedMessages,
    /// `message_retention_duration`.
    MessageRetention,
    /// `labels`.
    Labels,
    /// `expiration_policy`, or its `ttl`.
    Expiration,
    /// `postrider.description`.
    Description,
    /// `postrider.metadata`.
    Metadata,
    /// The whole `postrider` object: those of its fields that are given.
    Postrider,
    /// A field of Google's that only its default value is accepted for, by its wire name.
    NotBuilt(&'static str),
}

impl Field {
    /// Reads one path of an update mask. Refuses fields that cannot be changed or do not exist.
    pub fn parse(path: &str) -> Result<Self, Invalid> {
        const NOT_BUILT: [&str; 8] = [
            "bigquery_config",
            "bigtable_config",
            "cloud_storage_config",
            "dead_letter_policy",
            "enable_exactly_once_delivery",
            "message_transforms",
            "push_config",
            "retry_policy",
        ];
        const FIXED: [&str; 10] = [
            "analytics_hub_subscription_info",
            "detached",
            "enable_message_ordering",
            "filter",
            "name",
            "postrider.start",
            "state",
            "tags",
            "topic",
            "topic_message_retention_duration",
        ];
        match path {
            "ack_deadline_seconds" => Ok(Self::AckDeadline),
            "retain_acked_messages" => Ok(Self::RetainAckedMessages),
            "message_retention_duration" => Ok(Self::MessageRetention),
            "labels" => Ok(Self::Labels),
            "expiration_policy" | "expiration_policy.ttl" => Ok(Self::Expiration),
            "postrider.description" => Ok(Self::Description),
            "postrider.metadata" => Ok(Self::Metadata),
            "postrider" => Ok(Self::Postrider),
            _ => match NOT_BUILT.into_iter().find(|known| is_path_of(path, known)) {
                Some(known) => Ok(Self::NotBuilt(known)),
                None => Err(bad_path(path, &FIXED, "subscription")),
            },
        }
    }
}

/// What an update changes; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The ack deadline of leases to come.
    pub ack_deadline: Option<Duration>,
    /// Whether acked messages are kept from now on.
    pub retain_acked_messages: Option<bool>,
    /// How long messages are kept.
    pub message_retention: Option<Duration>,
    /// All labels, replacing those before.
    pub labels: Option<BTreeMap<String, String>>,
    /// When it expires; `Some(None)` = never.
    pub expiration: Option<Option<Duration>>,
    /// The free text.
    pub description: Option<String>,
    /// All free names and values, replacing those before.
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Change {
    /// `current` with the change made, if the rules allow the outcome.
    pub fn apply(self, current: &Subscription) -> Result<Subscription, Invalid> {
        let updated = Subscription {
            name: current.name.clone(),
            topic: current.topic.clone(),
            ack_deadline: self.ack_deadline.unwrap_or(current.ack_deadline),
            retain_acked_messages: self
                .retain_acked_messages
                .unwrap_or(current.retain_acked_messages),
            message_retention: self.message_retention.unwrap_or(current.message_retention),
            labels: self.labels.unwrap_or_else(|| current.labels.clone()),
            expiration: self.expiration.unwrap_or(current.expiration),
            start: current.start,
            description: self.description.unwrap_or_else(|| current.description.clone()),
            metadata: self.metadata.unwrap_or_else(|| current.metadata.clone()),
        };
        updated.validate()?;
        Ok(updated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn subscription() -> Subscription {
        Subscription::new(
            SubscriptionName::parse("name", "projects/p/subscriptions/billing").unwrap(),
            TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
        )
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn field_at_fault(subscription: &Subscription) -> String {
        subscription.validate().unwrap_err().field
    }

    #[test]
    fn the_defaults_are_googles() {
        let subscription = subscription();
        assert!(subscription.validate().is_ok());
        assert_eq!(subscription.ack_deadline, Duration::from_secs(10));
        assert_eq!(subscription.message_retention, 7 * DAY);
        assert_eq!(subscription.expiration, Some(31 * DAY));
        assert_eq!(subscription.start, Start::Latest);
    }

    #[test]
    fn ack_deadlines_are_10_to_600_seconds_and_0_is_the_default() {
        let seconds = |s| ack_deadline("ack_deadline_seconds", s).map(|d| d.as_secs());
        assert_eq!(seconds(0), Ok(10));
        assert_eq!(seconds(10), Ok(10));
        assert_eq!(seconds(600), Ok(600));
        for bad in [-1, 1, 9, 601, i32::MIN, i32::MAX] {
            assert_eq!(seconds(bad).unwrap_err().field, "ack_deadline_seconds", "{bad}");
        }
        let long = Subscription { ack_deadline: Duration::from_secs(601), ..subscription() };
        assert_eq!(field_at_fault(&long), "ack_deadline_seconds");
    }

    #[test]
    fn a_stream_must_give_its_ack_deadline() {
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 0).is_err());
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 10).is_ok());
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 601).is_err());
    }

    #[test]
    fn a_lease_is_extended_by_0_to_600_seconds() {
        assert_eq!(lease_deadline("ack_deadline_seconds", 0), Ok(Duration::ZERO));
        assert_eq!(lease_deadline("ack_deadline_seconds", 1), Ok(Duration::from_secs(1)));
        assert!(lease_deadline("ack_deadline_seconds", 600).is_ok());
        assert!(lease_deadline("ack_deadline_seconds", 601).is_err());
        assert!(lease_deadline("ack_deadline_seconds", -1).is_err());
    }

    #[test]
    fn retention_is_ten_minutes_to_31_days() {
        let short = Subscription { message_retention: Duration::from_secs(599), ..subscription() };
        assert_eq!(field_at_fault(&short), "message_retention_duration");
        let longest = Subscription { message_retention: 31 * DAY, ..subscription() };
        assert!(longest.validate().is_ok());
    }

    #[test]
    fn expiration_is_a_day_or_more_and_not_shorter_than_retention() {
        let expiring = |expiration, retention| Subscription {
            expiration,
            message_retention: retention,
            ..subscription()
        };
        let hour = Duration::from_secs(3_600);
        assert!(expiring(Some(DAY), hour).validate().is_ok());
        assert!(expiring(None, 31 * DAY).validate().is_ok());
        assert!(expiring(Some(7 * DAY), 7 * DAY).validate().is_ok());
        assert!(expiring(Some(365 * DAY), hour).validate().is_ok());
        let short = expiring(Some(DAY.saturating_sub(Duration::from_secs(1))), hour);
        assert_eq!(field_at_fault(&short), "expiration_policy.ttl");
        assert_eq!(field_at_fault(&expiring(Some(2 * DAY), 7 * DAY)), "expiration_policy.ttl");
    }

    #[test]
    fn starts_are_read_and_shown_in_the_spelling_of_labels() {
        for (text, start) in [
            ("latest", Start::Latest),
            ("earliest", Start::Earliest),
            ("0", Start::Offset(Offset(0))),
            ("18446744073709551615", Start::Offset(Offset(u64::MAX))),
            ("time-1726937845", Start::Time(Timestamp(1_726_937_845_000_000))),
        ] {
            assert_eq!(Start::parse("start", text), Ok(start));
            assert_eq!(start.to_string(), text);
        }
        for bad in ["", "Latest", "+1", "-1", "1.5", "time-", "time-x", "18446744073709551616"] {
            assert_eq!(Start::parse("start", bad).unwrap_err().field, "start", "{bad}");
        }
    }

    #[test]
    fn a_start_label_must_agree_with_the_start() {
        let labels = pairs(&[(START_LABEL, "earliest")]);
        assert_eq!(label_start(&labels), Ok(Some(Start::Earliest)));
        let agreeing =
            Subscription { labels: labels.clone(), start: Start::Earliest, ..subscription() };
        assert!(agreeing.validate().is_ok());
        let disagreeing = Subscription { labels, ..subscription() };
        assert_eq!(field_at_fault(&disagreeing), r#"labels["postrider-start"]"#);
        assert_eq!(label_start(&pairs(&[])), Ok(None));
        assert!(label_start(&pairs(&[(START_LABEL, "soon")])).is_err());
    }

    #[test]
    fn unknown_reserved_labels_are_refused() {
        let typo = Subscription { labels: pairs(&[("postrider-strat", "x")]), ..subscription() };
        assert_eq!(field_at_fault(&typo), r#"labels["postrider-strat"]"#);
    }

    #[test]
    fn description_and_metadata_are_bounded() {
        let described = |bytes| Subscription { description: "x".repeat(bytes), ..subscription() };
        assert!(described(4_096).validate().is_ok());
        assert_eq!(field_at_fault(&described(4_097)), "postrider.description");
        let with = |key: &str, value: &str| Subscription {
            metadata: pairs(&[(key, value)]),
            ..subscription()
        };
        assert!(with("Any key at all", "Any value").validate().is_ok());
        assert_eq!(field_at_fault(&with("", "v")), "postrider.metadata");
        assert_eq!(field_at_fault(&with(&"k".repeat(257), "v")), "postrider.metadata");
        assert_eq!(field_at_fault(&with("k", &"v".repeat(4_097))), r#"postrider.metadata["k"]"#);
        let metadata = (0..65).map(|i| (i.to_string(), String::new())).collect();
        assert_eq!(
            field_at_fault(&Subscription { metadata, ..subscription() }),
            "postrider.metadata"
        );
    }

    #[test]
    fn masks_name_known_fields_only() {
        assert_eq!(Field::parse("ack_deadline_seconds"), Ok(Field::AckDeadline));
        assert_eq!(Field::parse("expiration_policy.ttl"), Ok(Field::Expiration));
        assert_eq!(Field::parse("push_config.push_endpoint"), Ok(Field::NotBuilt("push_config")));
        for fixed in ["name", "topic", "filter", "enable_message_ordering", "postrider.start"] {
            let error = Field::parse(fixed).unwrap_err();
            assert_eq!(error.field, "update_mask");
            assert!(error.problem.contains("cannot be changed"), "{error}");
        }
        for unknown in ["", "ack_deadline", "ackDeadlineSeconds", "postrider.stat"] {
            let error = Field::parse(unknown).unwrap_err();
            assert!(error.problem.contains("not a field"), "{error}");
        }
    }

    #[test]
    fn a_change_touches_only_what_it_names() {
        let before = Subscription {
            labels: pairs(&[(START_LABEL, "earliest")]),
            start: Start::Earliest,
            description: "first".to_owned(),
            metadata: pairs(&[("owner", "Ann")]),
            ..subscription()
        };
        let minute = Some(Duration::from_secs(60));
        let after = Change { ack_deadline: minute, ..Change::default() }.apply(&before).unwrap();
        assert_eq!(after, Subscription { ack_deadline: Duration::from_secs(60), ..before.clone() });
        assert_eq!(Change::default().apply(&before).unwrap(), before);
        let never = Change { expiration: Some(None), ..Change::default() }.apply(&before).unwrap();
        assert_eq!(never.expiration, None);
    }

    #[test]
    fn a_change_cannot_move_the_start_by_label() {
        let before = subscription();
        let relabelled =
            |text| Change { labels: Some(pairs(&[(START_LABEL, text)])), ..Change::default() };
        assert!(relabelled("latest").apply(&before).is_ok());
        let error = relabelled("earliest").apply(&before).unwrap_err();
        assert_eq!(error.field, r#"labels["postrider-start"]"#);
    }

    #[test]
    fn a_change_to_something_invalid_is_refused() {
        let change = Change { message_retention: Some(31 * DAY), ..Change::default() };
        let before = Subscription { expiration: Some(7 * DAY), ..subscription() };
        assert_eq!(change.apply(&before).unwrap_err().field, "expiration_policy.ttl");
    }
}

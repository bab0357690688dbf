//! Snapshots: what a subscription had acked at one moment, to which it can be reset.
//!
//! This is only what its owner sees and sets; the broker keeps the progress itself.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::{SNAPSHOT_LIFETIME_MAX, SNAPSHOT_LIFETIME_MIN};
use crate::name::{SnapshotName, TopicName};
use crate::setting::bad_path;
use crate::time::Timestamp;
use crate::validate;

/// A snapshot as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: SnapshotName,
    /// The topic of the subscription it was taken from, under the name it had then.
    pub topic: TopicName,
    /// When it expires.
    pub expire_time: Timestamp,
    /// Free-form labels for people and programs.
    pub labels: BTreeMap<String, String>,
    /// Google's resource tags; kept, and nothing more. Decided at creation.
    pub tags: BTreeMap<String, String>,
}

impl Snapshot {
    /// Checks labels and tags, all that can be wrong at creation.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate::tags(&self.tags)?;
        validate::labels(&self.labels)?;
        validate::no_reserved_label(&self.labels, &[])
    }
}

/// How long a new snapshot lives if the oldest message it leaves unacked is `oldest_age` old: seven
/// days minus that age. `None` = less than an hour, so it is not created.
pub fn lifetime(oldest_age: Duration) -> Option<Duration> {
    let lifetime = SNAPSHOT_LIFETIME_MAX.checked_sub(oldest_age)?;
    (lifetime >= SNAPSHOT_LIFETIME_MIN).then_some(lifetime)
}

/// A field that an update mask can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `labels`.
    Labels,
    /// `expire_time`.
    ExpireTime,
}

impl Field {
    /// Parses one path of an update mask. Refuses fields that cannot be changed or do not exist.
    pub fn parse(path: &str) -> Result<Self, Invalid> {
        match path {
            "labels" => Ok(Self::Labels),
            "expire_time" => Ok(Self::ExpireTime),
            _ => Err(bad_path(path, ["name", "topic"].into_iter(), "snapshot")),
        }
    }
}

/// What an update changes; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// All labels; replaces the old ones.
    pub labels: Option<BTreeMap<String, String>>,
    /// When it expires.
    pub expire_time: Option<Timestamp>,
}

impl Change {
    /// `current`, created at `created`, with the change made at `now`, if the rules allow the
    /// result.
    pub fn apply(
        self,
        current: &Snapshot,
        created: Timestamp,
        now: Timestamp,
    ) -> Result<Snapshot, Invalid> {
        if let Some(expire_time) = self.expire_time {
            check_expire_time(expire_time, created, now)?;
        }
        let updated = Snapshot {
            name: current.name.clone(),
            topic: current.topic.clone(),
            expire_time: self.expire_time.unwrap_or(current.expire_time),
            labels: self.labels.unwrap_or_else(|| current.labels.clone()),
            tags: current.tags.clone(),
        };
        updated.validate()?;
        Ok(updated)
    }
}

fn check_expire_time(
    expire_time: Timestamp,
    created: Timestamp,
    now: Timestamp,
) -> Result<(), Invalid> {
    let problem = if expire_time <= now {
        "is in the past"
    } else if expire_time > created.plus(SNAPSHOT_LIFETIME_MAX) {
        "is more than 7 days after the snapshot was made"
    } else {
        return Ok(());
    };
    Err(Invalid::new("expire_time", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const CREATED: Timestamp = Timestamp(1_700_000_000_000_000);

    fn snapshot() -> Snapshot {
        Snapshot {
            name: SnapshotName::parse("name", "projects/p/snapshots/before").unwrap(),
            topic: TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
            expire_time: CREATED.plus(7 * DAY),
            labels: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    fn label(key: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), "v".to_owned())])
    }

    #[test]
    fn it_lives_seven_days_less_the_age_of_its_oldest_message() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(lifetime(Duration::ZERO), Some(7 * DAY));
        assert_eq!(lifetime(2 * DAY), Some(5 * DAY));
        assert_eq!(lifetime(7 * DAY - hour), Some(hour));
        assert_eq!(lifetime(7 * DAY - hour + Duration::from_secs(1)), None);
        assert_eq!(lifetime(31 * DAY), None);
    }

    #[test]
    fn labels_are_checked() {
        assert!(snapshot().validate().is_ok());
        assert!(Snapshot { labels: label("team"), ..snapshot() }.validate().is_ok());
        assert!(Snapshot { labels: label("Team"), ..snapshot() }.validate().is_err());
        let reserved = Snapshot { labels: label("postrider-fifo"), ..snapshot() };
        assert_eq!(reserved.validate().unwrap_err().field, r#"labels["postrider-fifo"]"#);
        assert!(Snapshot { tags: label("1/team"), ..snapshot() }.validate().is_ok());
        let tagged = Snapshot { tags: label("team"), ..snapshot() };
        assert_eq!(tagged.validate().unwrap_err().field, "tags");
    }

    #[test]
    fn masks_name_known_fields_only() {
        assert_eq!(Field::parse("labels"), Ok(Field::Labels));
        assert_eq!(Field::parse("expire_time"), Ok(Field::ExpireTime));
        for fixed in ["name", "topic"] {
            let error = Field::parse(fixed).unwrap_err();
            assert!(error.problem.contains("cannot be changed"), "{error}");
        }
        for unknown in ["", "expireTime", "labels.team"] {
            let error = Field::parse(unknown).unwrap_err();
            assert_eq!(error.field, "update_mask");
            assert!(error.problem.contains("not a field of a snapshot"), "{error}");
        }
    }

    #[test]
    fn a_change_touches_only_what_it_names() {
        let now = CREATED.plus(DAY);
        let relabelled = Change { labels: Some(label("team")), ..Change::default() };
        assert_eq!(
            relabelled.apply(&snapshot(), CREATED, now),
            Ok(Snapshot { labels: label("team"), ..snapshot() })
        );
        let sooner = Change { expire_time: Some(now.plus(DAY)), ..Change::default() };
        assert_eq!(
            sooner.apply(&snapshot(), CREATED, now),
            Ok(Snapshot { expire_time: now.plus(DAY), ..snapshot() })
        );
        // An expired one that is not yet gone can still be given labels.
        assert!(Change::default().apply(&snapshot(), CREATED, CREATED.plus(8 * DAY)).is_ok());
    }

    #[test]
    fn it_expires_in_the_future_and_within_seven_days_of_its_creation() {
        let now = CREATED.plus(DAY);
        let until = |expire_time| {
            Change { expire_time: Some(expire_time), ..Change::default() }
                .apply(&snapshot(), CREATED, now)
                .map_err(|error| error.field)
        };
        assert!(until(CREATED.plus(7 * DAY)).is_ok());
        assert_eq!(until(Timestamp(CREATED.plus(7 * DAY).0 + 1)), Err("expire_time".to_owned()));
        assert_eq!(until(now), Err("expire_time".to_owned()));
        assert!(until(Timestamp(now.0 + 1)).is_ok());
    }
}

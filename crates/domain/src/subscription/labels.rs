//! Settings that reserved labels stand for, for clients that cannot send the REST resource's
//! `postrider` object.
//!
//! The settings are the truth and the labels follow them: a reserved label that a subscription
//! has always says what its setting is. A label in a request sets the setting; a label that is
//! missing says nothing.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use super::pushing::timeout_in_range;
use super::start::decimal;
use super::{Start, Subscription, attempts_in_range};
use crate::error::Invalid;
use crate::policy::Poison;
use crate::validate::RESERVED_LABEL_PREFIX;

/// Where a new subscription starts.
pub const START_LABEL: &str = "postrider-start";
/// Whether the whole subscription is one lane: `true` or `false`.
pub const FIFO_LABEL: &str = "postrider-fifo";
/// Whether delivery is held back: `true` or `false`.
pub const PAUSED_LABEL: &str = "postrider-paused";
/// What a lane does with an exhausted message: `skip` or `halt`.
pub const POISON_LABEL: &str = "postrider-poison";
/// How often a message is tried.
pub const MAX_ATTEMPTS_LABEL: &str = "postrider-max-attempts";

/// How many seconds an endpoint has for its answer. While there is no endpoint, the label alone
/// keeps it.
pub const TIMEOUT_LABEL: &str = "postrider-timeout-seconds";

const LABELS: [&str; 6] =
    [START_LABEL, FIFO_LABEL, PAUSED_LABEL, POISON_LABEL, MAX_ATTEMPTS_LABEL, TIMEOUT_LABEL];

/// The settings that labels ask for; `None` = there is no such label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Where a new subscription starts.
    pub start: Option<Start>,
    /// Whether the whole subscription is one lane.
    pub fifo: Option<bool>,
    /// Whether delivery is held back.
    pub paused: Option<bool>,
    /// What a lane does with an exhausted message.
    pub poison: Option<Poison>,
    /// How often a message is tried.
    pub attempts_max: Option<u32>,
    /// How long an endpoint has for its answer.
    pub timeout: Option<Duration>,
}

impl Labelled {
    /// Reads the reserved labels among `labels`.
    pub fn read(labels: &BTreeMap<String, String>) -> Result<Self, Invalid> {
        Ok(Self {
            start: read(labels, START_LABEL, Start::parse)?,
            fifo: read(labels, FIFO_LABEL, switch)?,
            paused: read(labels, PAUSED_LABEL, switch)?,
            poison: read(labels, POISON_LABEL, Poison::parse)?,
            attempts_max: read(labels, MAX_ATTEMPTS_LABEL, attempts)?,
            timeout: read(labels, TIMEOUT_LABEL, timeout)?,
        })
    }

    /// What the labels of `subscription` keep for settings that it has no place for yet.
    pub(super) fn waiting(subscription: &Subscription) -> Result<Self, Invalid> {
        match subscription.push {
            Some(_) => Ok(Self::default()),
            None => {
                let timeout = read(&subscription.labels, TIMEOUT_LABEL, timeout)?;
                Ok(Self { timeout, ..Self::default() })
            }
        }
    }
}

fn read<T>(
    labels: &BTreeMap<String, String>,
    label: &str,
    parse: impl Fn(&str, &str) -> Result<T, Invalid>,
) -> Result<Option<T>, Invalid> {
    labels.get(label).map(|text| parse(&field(label), text)).transpose()
}

fn switch(field: &str, text: &str) -> Result<bool, Invalid> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Invalid::new(field, format!("{text:?} is not true or false"))),
    }
}

fn attempts(field: &str, text: &str) -> Result<u32, Invalid> {
    let attempts = decimal(text).and_then(|attempts| u32::try_from(attempts).ok());
    match attempts {
        Some(attempts) => attempts_in_range(field, attempts).map(|()| attempts),
        None => Err(Invalid::new(field, format!("{text:?} is not a number of attempts"))),
    }
}

fn timeout(field: &str, text: &str) -> Result<Duration, Invalid> {
    match decimal(text).map(Duration::from_secs) {
        Some(timeout) => timeout_in_range(field, timeout).map(|()| timeout),
        None => Err(Invalid::new(field, format!("{text:?} is not a number of seconds"))),
    }
}

fn field(label: &str) -> String {
    format!("labels[{label:?}]")
}

/// Checks that each reserved label is known and says what its setting is.
pub(super) fn check(subscription: &Subscription) -> Result<(), Invalid> {
    subscription.labels.keys().try_for_each(|key| check_known(key))?;
    let Labelled { start, fifo, paused, poison, attempts_max, timeout } =
        Labelled::read(&subscription.labels)?;
    agree(START_LABEL, start, Some(subscription.start))?;
    agree(FIFO_LABEL, fifo, Some(subscription.fifo))?;
    agree(PAUSED_LABEL, paused, Some(subscription.paused))?;
    agree(POISON_LABEL, poison, Some(subscription.poison))?;
    agree(MAX_ATTEMPTS_LABEL, attempts_max, subscription.attempts_max)?;
    match &subscription.push {
        Some(push) => agree(TIMEOUT_LABEL, seconds(timeout), seconds(push.timeout)),
        None => Ok(()),
    }
}

fn seconds(timeout: Option<Duration>) -> Option<u64> {
    timeout.map(|timeout| timeout.as_secs())
}

fn check_known(key: &str) -> Result<(), Invalid> {
    if LABELS.contains(&key) || !key.starts_with(RESERVED_LABEL_PREFIX) {
        return Ok(());
    }
    let problem = format!(
        "no setting of that name; labels beginning with {RESERVED_LABEL_PREFIX} are reserved"
    );
    Err(Invalid::new(field(key), problem))
}

fn agree<T: PartialEq + Display>(
    label: &str,
    says: Option<T>,
    setting: Option<T>,
) -> Result<(), Invalid> {
    let problem = match (says, setting) {
        (None, _) => return Ok(()),
        (Some(says), Some(setting)) if says == setting => return Ok(()),
        (Some(says), Some(setting)) => format!("says {says}, but the setting is {setting}"),
        (Some(says), None) => format!("says {says}, but there is no such setting"),
    };
    Err(Invalid::new(field(label), problem))
}

/// Makes the reserved labels that a subscription has say what its settings are; one whose setting
/// is gone goes too.
pub(super) fn follow(subscription: &mut Subscription) {
    let attempts_max = subscription.attempts_max.map(|attempts| attempts.to_string());
    for (label, setting) in [
        (FIFO_LABEL, Some(subscription.fifo.to_string())),
        (PAUSED_LABEL, Some(subscription.paused.to_string())),
        (POISON_LABEL, Some(subscription.poison.to_string())),
        (MAX_ATTEMPTS_LABEL, attempts_max),
    ] {
        follow_one(&mut subscription.labels, label, setting);
    }
    if let Some(push) = &subscription.push {
        let timeout = seconds(push.timeout).map(|seconds| seconds.to_string());
        follow_one(&mut subscription.labels, TIMEOUT_LABEL, timeout);
    }
}

fn follow_one(labels: &mut BTreeMap<String, String>, label: &str, setting: Option<String>) {
    match (labels.get_mut(label), setting) {
        (Some(text), Some(setting)) => *text = setting,
        (Some(_), None) => drop(labels.remove(label)),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{field_at_fault, pairs, subscription};
    use super::*;

    #[test]
    fn labels_are_read_as_settings() {
        let labels = pairs(&[
            (START_LABEL, "earliest"),
            (FIFO_LABEL, "true"),
            (PAUSED_LABEL, "false"),
            (POISON_LABEL, "halt"),
            (MAX_ATTEMPTS_LABEL, "7"),
            (TIMEOUT_LABEL, "600"),
            ("team", "blue"),
        ]);
        let read = Labelled {
            start: Some(Start::Earliest),
            fifo: Some(true),
            paused: Some(false),
            poison: Some(Poison::Halt),
            attempts_max: Some(7),
            timeout: Some(Duration::from_secs(600)),
        };
        assert_eq!(Labelled::read(&labels), Ok(read));
        assert_eq!(Labelled::read(&pairs(&[("team", "blue")])), Ok(Labelled::default()));
    }

    #[test]
    fn labels_that_make_no_sense_are_named() {
        for (label, text) in [
            (START_LABEL, "soon"),
            (FIFO_LABEL, "yes"),
            (FIFO_LABEL, ""),
            (PAUSED_LABEL, "1"),
            (POISON_LABEL, "stop"),
            (MAX_ATTEMPTS_LABEL, "0"),
            (MAX_ATTEMPTS_LABEL, "101"),
            (MAX_ATTEMPTS_LABEL, ""),
            (MAX_ATTEMPTS_LABEL, "-1"),
            (MAX_ATTEMPTS_LABEL, "99999999999999999999"),
            (TIMEOUT_LABEL, "0"),
            (TIMEOUT_LABEL, "601"),
            (TIMEOUT_LABEL, "30s"),
        ] {
            let error = Labelled::read(&pairs(&[(label, text)])).unwrap_err();
            assert_eq!(error.field, format!("labels[{label:?}]"), "{text}");
        }
    }

    #[test]
    fn a_label_must_agree_with_its_setting() {
        for (label, text) in [
            (START_LABEL, "earliest"),
            (FIFO_LABEL, "true"),
            (PAUSED_LABEL, "true"),
            (POISON_LABEL, "halt"),
            (MAX_ATTEMPTS_LABEL, "7"),
        ] {
            let torn = Subscription { labels: pairs(&[(label, text)]), ..subscription() };
            assert_eq!(field_at_fault(&torn), format!("labels[{label:?}]"));
        }
        let agreeing = Subscription {
            labels: pairs(&[(START_LABEL, "earliest"), (FIFO_LABEL, "true")]),
            start: Start::Earliest,
            fifo: true,
            ..subscription()
        };
        assert_eq!(agreeing.validate(), Ok(()));
        let both_numbers = Subscription {
            labels: pairs(&[(MAX_ATTEMPTS_LABEL, "7")]),
            attempts_max: Some(8),
            ..subscription()
        };
        assert_eq!(field_at_fault(&both_numbers), r#"labels["postrider-max-attempts"]"#);
    }

    #[test]
    fn unknown_reserved_labels_are_refused() {
        let typo = Subscription { labels: pairs(&[("postrider-strat", "x")]), ..subscription() };
        assert_eq!(field_at_fault(&typo), r#"labels["postrider-strat"]"#);
    }

    #[test]
    fn labels_follow_their_settings() {
        let mut changed = Subscription {
            labels: pairs(&[(FIFO_LABEL, "true"), (MAX_ATTEMPTS_LABEL, "7"), ("team", "blue")]),
            poison: Poison::Halt,
            ..subscription()
        };
        follow(&mut changed);
        assert_eq!(changed.labels, pairs(&[(FIFO_LABEL, "false"), ("team", "blue")]));
    }
}

//! Settings that reserved labels stand for, for clients that cannot send the REST resource's
//! `postrider` object.
//!
//! The settings are the truth and the labels follow them: a reserved label that a subscription
//! has always says what its setting is. A label in a request sets the setting; a label that is
//! missing says nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::pushing::timeout_in_range;
use super::settings::Entry;
use super::{Subscription, attempts_in_range};
use crate::error::Invalid;
use crate::setting::read;
use crate::validate::RESERVED_LABEL_PREFIX;

/// How many seconds an endpoint has for its answer. While there is no endpoint, the label alone
/// keeps it.
pub(super) const TIMEOUT_LABEL: &str = "postrider-timeout-seconds";
const ATTEMPTS_LABEL: &str = "postrider-max-attempts";

/// What labels ask for of the settings that depend on each other; `None` = there is no such label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Labelled {
    /// How often a message is tried.
    pub(super) attempts_max: Option<u32>,
    /// How long an endpoint has for its answer.
    pub(super) timeout: Option<Duration>,
}

impl Labelled {
    /// Reads the reserved labels among `labels`.
    pub(super) fn read(labels: &BTreeMap<String, String>) -> Result<Self, Invalid> {
        let timeout = number(labels, TIMEOUT_LABEL, "seconds")?;
        let timeout = timeout.map(|seconds| Duration::from_secs(seconds.into()));
        if let Some(timeout) = timeout {
            timeout_in_range(&field(TIMEOUT_LABEL), timeout)?;
        }
        let attempts_max = number(labels, ATTEMPTS_LABEL, "attempts")?;
        if let Some(attempts) = attempts_max {
            attempts_in_range(&field(ATTEMPTS_LABEL), attempts)?;
        }
        Ok(Self { attempts_max, timeout })
    }

    /// What the labels of `subscription` keep for settings that it has no place for yet.
    pub(super) fn waiting(subscription: &Subscription) -> Result<Self, Invalid> {
        match subscription.push {
            Some(_) => Ok(Self::default()),
            None => {
                let Self { timeout, .. } = Self::read(&subscription.labels)?;
                Ok(Self { timeout, ..Self::default() })
            }
        }
    }
}

fn number(
    labels: &BTreeMap<String, String>,
    label: &str,
    unit: &str,
) -> Result<Option<u32>, Invalid> {
    let Some(text) = labels.get(label) else { return Ok(None) };
    match read::decimal(text).and_then(|number| u32::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(Invalid::new(field(label), format!("{text:?} is not a number of {unit}"))),
    }
}

/// How errors call a label.
pub(super) fn field(label: &str) -> String {
    format!("labels[{label:?}]")
}

/// The settings whose label is among `labels`, with the label and its text.
pub(super) fn among<'l>(
    table: &'static [Entry],
    labels: Option<&'l BTreeMap<String, String>>,
) -> impl Iterator<Item = (&'static Entry, &'static str, &'l str)> {
    table.iter().filter_map(move |setting| {
        let label = setting.label?;
        Some((setting, label, labels?.get(label)?.as_str()))
    })
}

/// Checks that each reserved label is known and says what its setting is.
pub(super) fn check(table: &'static [Entry], subscription: &Subscription) -> Result<(), Invalid> {
    subscription.labels.keys().try_for_each(|key| check_known(table, key))?;
    for (setting, label, text) in among(table, Some(&subscription.labels)) {
        // While there is no endpoint, the label alone keeps the time it will have.
        if label == TIMEOUT_LABEL && subscription.push.is_none() {
            continue;
        }
        let says = setting.form.from_label(&field(label), text)?;
        agree(label, text, &says, &shown(setting, subscription))?;
    }
    Ok(())
}

/// What a setting is. How often a message is tried counts here only as it was given, and not as
/// the waits imply it.
fn shown(setting: &Entry, subscription: &Subscription) -> Value {
    if setting.label == Some(ATTEMPTS_LABEL) {
        return subscription.attempts_max.into();
    }
    (setting.show)(subscription)
}

fn check_known(table: &[Entry], key: &str) -> Result<(), Invalid> {
    let is_known = table.iter().any(|setting| setting.label == Some(key));
    if is_known || !key.starts_with(RESERVED_LABEL_PREFIX) {
        return Ok(());
    }
    let problem = format!(
        "no setting of that name; labels beginning with {RESERVED_LABEL_PREFIX} are reserved"
    );
    Err(Invalid::new(field(key), problem))
}

fn agree(label: &str, text: &str, says: &Value, setting: &Value) -> Result<(), Invalid> {
    let problem = match setting {
        setting if setting == says => return Ok(()),
        Value::Null => format!("says {text}, but there is no such setting"),
        Value::String(setting) => format!("says {text}, but the setting is {setting}"),
        setting => format!("says {text}, but the setting is {setting}"),
    };
    Err(Invalid::new(field(label), problem))
}

/// Makes the reserved labels that a subscription has say what its settings are; one whose setting
/// is gone goes too.
pub(super) fn follow(table: &'static [Entry], subscription: &mut Subscription) {
    for setting in table.iter().filter(|setting| !setting.is_fixed) {
        let Some(label) = setting.label else { continue };
        let waits = label == TIMEOUT_LABEL && subscription.push.is_none();
        if waits || !subscription.labels.contains_key(label) {
            continue;
        }
        match setting.form.to_label(&shown(setting, subscription)) {
            Some(text) => drop(subscription.labels.insert(label.to_owned(), text)),
            None => drop(subscription.labels.remove(label)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{field_at_fault, pairs, subscription};
    use super::super::{Change, SETTINGS, Start};
    use super::*;
    use crate::policy::Poison;

    fn labelled(labels: &[(&str, &str)]) -> Result<Subscription, Invalid> {
        let labels = Some(pairs(labels));
        Change { labels, is_creation: true, ..Change::default() }.apply(&subscription())
    }

    #[test]
    fn labels_are_read_as_settings() {
        let labels = [
            ("postrider-start", "earliest"),
            ("postrider-fifo", "true"),
            ("postrider-paused", "false"),
            ("postrider-poison", "halt"),
            ("postrider-max-attempts", "7"),
            ("postrider-timeout-seconds", "600"),
            ("team", "blue"),
        ];
        let expected = Subscription {
            labels: pairs(&labels),
            start: Start::Earliest,
            fifo: true,
            poison: Poison::Halt,
            attempts_max: Some(7),
            ..subscription()
        };
        assert_eq!(labelled(&labels), Ok(expected));
        let timeout = Labelled::read(&pairs(&labels)).unwrap().timeout;
        assert_eq!(timeout, Some(Duration::from_secs(600)));
    }

    #[test]
    fn labels_that_make_no_sense_are_named() {
        for (label, text) in [
            ("postrider-start", "soon"),
            ("postrider-fifo", "yes"),
            ("postrider-fifo", ""),
            ("postrider-paused", "1"),
            ("postrider-poison", "stop"),
            ("postrider-max-attempts", "0"),
            ("postrider-max-attempts", "101"),
            ("postrider-max-attempts", ""),
            ("postrider-max-attempts", "-1"),
            ("postrider-max-attempts", "99999999999999999999"),
            ("postrider-timeout-seconds", "0"),
            ("postrider-timeout-seconds", "601"),
            ("postrider-timeout-seconds", "30s"),
        ] {
            let error = labelled(&[(label, text)]).unwrap_err();
            assert_eq!(error.field, format!("labels[{label:?}]"), "{text}");
        }
    }

    #[test]
    fn a_label_must_agree_with_its_setting() {
        for (label, text) in [
            ("postrider-start", "earliest"),
            ("postrider-fifo", "true"),
            ("postrider-paused", "true"),
            ("postrider-poison", "halt"),
            ("postrider-max-attempts", "7"),
        ] {
            let torn = Subscription { labels: pairs(&[(label, text)]), ..subscription() };
            assert_eq!(field_at_fault(&torn), format!("labels[{label:?}]"));
        }
        let agreeing = Subscription {
            labels: pairs(&[("postrider-start", "earliest"), ("postrider-fifo", "true")]),
            start: Start::Earliest,
            fifo: true,
            ..subscription()
        };
        assert_eq!(agreeing.validate(), Ok(()));
        let both_numbers = Subscription {
            labels: pairs(&[("postrider-max-attempts", "7")]),
            attempts_max: Some(8),
            ..subscription()
        };
        assert_eq!(field_at_fault(&both_numbers), r#"labels["postrider-max-attempts"]"#);
    }

    #[test]
    fn what_is_given_goes_before_a_label_and_must_agree() {
        let mut change = Change::of("postrider.fifo", json!(false)).unwrap();
        change.labels = Some(pairs(&[("postrider-fifo", "true")]));
        let error = change.apply(&subscription()).unwrap_err();
        assert_eq!(error.field, r#"labels["postrider-fifo"]"#);
    }

    #[test]
    fn unknown_reserved_labels_are_refused() {
        let typo = Subscription { labels: pairs(&[("postrider-strat", "x")]), ..subscription() };
        assert_eq!(field_at_fault(&typo), r#"labels["postrider-strat"]"#);
    }

    #[test]
    fn labels_follow_their_settings() {
        let mut changed = Subscription {
            labels: pairs(&[
                ("postrider-fifo", "true"),
                ("postrider-max-attempts", "7"),
                ("team", "blue"),
            ]),
            poison: Poison::Halt,
            ..subscription()
        };
        follow(SETTINGS, &mut changed);
        assert_eq!(changed.labels, pairs(&[("postrider-fifo", "false"), ("team", "blue")]));
    }
}

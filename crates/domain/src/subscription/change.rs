//! How a subscription's settings may be changed: masks and what they name.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::Subscription;
use super::labels::{self, Labelled};
use super::policies::{DeadLetterChange, RetryChange};
use super::push_change::{PushChange, PushRetry, SigningAsk};
use super::settings::{Entry, GIVEN_BY_SERVER, NOT_BUILT, SETTINGS};
use crate::backoff::Backoff;
use crate::error::Invalid;
use crate::name::{SubscriptionName, TopicName};
use crate::push::Secret;
use crate::setting::{self, Document, Set};
use crate::topic::{bad_path, is_path_of};

/// A setting that is given on its own.
#[derive(Clone)]
pub struct Edit {
    setting: &'static Entry,
    field: String,
    value: Value,
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.field, self.value)
    }
}

impl PartialEq for Edit {
    fn eq(&self, other: &Self) -> bool {
        self.setting.path == other.setting.path && self.value == other.value
    }
}

/// What an update changes, or what a new subscription is given over the defaults.
///
/// Labels that it gives also set what the reserved ones among them stand for. A setting whose
/// label is missing stays as it is, so that a caller who knows nothing of it clears nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The settings it knows.
    pub table: Table,
    /// Settings that depend on no other.
    pub edits: Vec<Edit>,
    /// Whether a subscription is made: labels then also set what is decided at creation.
    pub is_creation: bool,
    /// Whether the caller can give what Google's definition has no field for.
    pub has_ours: bool,
    /// All labels, replacing those before.
    pub labels: Option<BTreeMap<String, String>>,
    /// The retry policy.
    pub retry_policy: RetryChange,
    /// The dead letter policy.
    pub dead_letter_policy: DeadLetterChange,
    /// How often a message is tried; `Some(None)` = as the dead letter policy says.
    pub attempts_max: Option<Option<u32>>,
    /// Where and in what form messages are pushed.
    pub push: PushChange,
    /// The retry policy and the attempts, given inside the push config; `Some(None)` ends both.
    pub push_retry: Option<Option<PushRetry>>,
    /// How pushes are signed.
    pub signing: Option<SigningAsk>,
    /// A secret for the case that signing is turned on without one.
    pub spare_secret: Option<Secret>,
}

/// The entries that a change knows.
#[derive(Clone, Copy)]
pub struct Table(&'static [Entry]);

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings", self.0.len())
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
    }
}

impl Default for Change {
    fn default() -> Self {
        Self::with(SETTINGS)
    }
}

impl Change {
    /// A change of nothing, by another table than the program's.
    pub fn with(table: &'static [Entry]) -> Self {
        Self {
            table: Table(table),
            edits: Vec::new(),
            is_creation: false,
            has_ours: true,
            labels: None,
            retry_policy: RetryChange::default(),
            dead_letter_policy: DeadLetterChange::default(),
            attempts_max: None,
            push: PushChange::default(),
            push_retry: None,
            signing: None,
            spare_secret: None,
        }
    }

    /// One setting; `path` is its path in an update mask.
    pub fn of(path: &str, value: Value) -> Result<Self, Invalid> {
        let mut document = Document::default();
        document.put(&setting::snake(path), value);
        Self::by_mask(&document, true, &[path.to_owned()])
    }

    /// What a new subscription is given.
    pub fn creating(document: &Document) -> Result<Self, Invalid> {
        Self::with(SETTINGS).created(document)
    }

    /// The same by the change's own table.
    pub fn created(mut self, document: &Document) -> Result<Self, Invalid> {
        self.is_creation = true;
        for setting in self.table.0 {
            // What is inside a setting comes with it.
            let is_inner = self.table.0.iter().any(|outer| is_inside(setting.path, outer.path));
            match document.get(setting.path) {
                Some(value) if !is_inner => self.set(setting, &setting.field(), value)?,
                _ => {}
            }
        }
        Ok(self)
    }

    /// What an update changes: the settings that `paths` name, as `document` has them. Without
    /// `has_ours` the call came on a way that cannot give what is ours, so it cannot name it.
    pub fn by_mask(document: &Document, has_ours: bool, paths: &[String]) -> Result<Self, Invalid> {
        let mut change = Self { has_ours, ..Self::with(SETTINGS) };
        if paths.is_empty() {
            return Err(Invalid::new("update_mask", "must name at least one field"));
        }
        paths.iter().try_for_each(|path| change.name(document, path))?;
        Ok(change)
    }

    /// Adds what one path of a mask names.
    pub fn name(&mut self, document: &Document, path: &str) -> Result<(), Invalid> {
        if path == "postrider" && self.has_ours {
            return self.name_ours(document);
        }
        if is_not_built(path).is_some() {
            return Ok(());
        }
        let Some((setting, part)) = setting::named(self.table.0, path) else {
            return Err(no_such_path(path));
        };
        let is_reachable = self.has_ours || !setting.is_ours();
        if setting.is_fixed || !is_reachable {
            return Err(no_such_path(path));
        }
        let value = document.get(setting.path).unwrap_or(&Value::Null);
        match (part, setting.set) {
            (Some(part), Set::Joined { part: Some(set), .. }) => {
                set(self, part, setting.path, value)
            }
            _ => self.set(setting, &setting.field(), value),
        }
    }

    /// The whole of our object: those of its fields that are given.
    fn name_ours(&mut self, document: &Document) -> Result<(), Invalid> {
        let object = document.get("postrider").and_then(Value::as_object);
        for setting in self.table.0.iter().filter(|one| one.is_in_our_object() && !one.is_fixed) {
            let name = setting::camel(setting.name());
            if let Some(value) = object.and_then(|object| object.get(&name)) {
                self.set(setting, &setting.field(), value)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, setting: &'static Entry, field: &str, value: &Value) -> Result<(), Invalid> {
        match setting.set {
            Set::Joined { whole, .. } => whole(self, field, value),
            Set::Alone(_) => {
                self.edits.retain(|edit| edit.setting.path != setting.path);
                let (field, value) = (field.to_owned(), value.clone());
                self.edits.push(Edit { setting, field, value });
                Ok(())
            }
        }
    }

    /// Whether the setting at `path` is given on its own.
    fn edits_alone(&self, path: &str) -> bool {
        self.edits.iter().any(|edit| edit.setting.path == path)
    }

    /// `current` with the change made, if the rules allow the outcome.
    pub fn apply(self, current: &Subscription) -> Result<Subscription, Invalid> {
        let table = self.table.0;
        let labelled = match &self.labels {
            Some(labels) => Labelled::read(labels)?,
            None => Labelled::waiting(current)?,
        };
        let by_label = self.labels.is_some();
        let mut updated = self.edited(current)?;
        updated = self.joined(labelled, updated, current)?;
        if !by_label {
            labels::follow(table, &mut updated);
        }
        updated.validate_with(table)?;
        Ok(updated)
    }

    /// With the settings that depend on no other, given on their own or by a label. What the
    /// object says goes before what a label says; that they agree is checked later.
    fn edited(&self, current: &Subscription) -> Result<Subscription, Invalid> {
        let mut updated = current.clone();
        for edit in &self.edits {
            if let Set::Alone(set) = edit.setting.set {
                set(&mut updated, &edit.field, &edit.value)?;
            }
        }
        for (setting, label, text) in labels::among(self.table.0, self.labels.as_ref()) {
            if let Set::Alone(set) = setting.set
                && (self.is_creation || !setting.is_fixed)
                && !self.edits_alone(setting.path)
            {
                let field = labels::field(label);
                set(&mut updated, &field, &setting.form.from_label(&field, text)?)?;
            }
        }
        Ok(updated)
    }

    /// With the settings that depend on each other.
    fn joined(
        mut self,
        labelled: Labelled,
        edited: Subscription,
        current: &Subscription,
    ) -> Result<Subscription, Invalid> {
        self.take_push_retry(&labelled, current)?;
        let attempts_max = self.attempts_max.or(labelled.attempts_max.map(Some));
        let attempts_max = attempts_max.unwrap_or(edited.attempts_max);
        let asked = attempts_max.or(edited.backoff.as_ref().and_then(Backoff::attempts));
        Ok(Subscription {
            labels: self.labels.unwrap_or(edited.labels),
            retry_policy: self.retry_policy.apply(edited.retry_policy),
            dead_letter_policy: self.dead_letter_policy.apply(edited.dead_letter_policy, asked)?,
            attempts_max,
            push: self.push.apply(edited.push, labelled.timeout)?,
            signing: match self.signing {
                Some(ask) => ask.apply(edited.signing, self.spare_secret)?,
                None => edited.signing,
            },
            ..edited
        })
    }

    /// Puts what is given inside the push config where it belongs.
    fn take_push_retry(
        &mut self,
        labelled: &Labelled,
        current: &Subscription,
    ) -> Result<(), Invalid> {
        let Some(retry) = self.push_retry.take() else { return Ok(()) };
        PushRetry::only(self.retry_policy != RetryChange::default())?;
        self.retry_policy.whole = Some(retry.map(|retry| retry.policy));
        let asked = self.attempts_max.flatten().or(labelled.attempts_max);
        let dead_letter = self.dead_letter_policy.attempts_after(current);
        self.attempts_max = Some(match retry {
            Some(retry) => Some(retry.attempts_max(asked, dead_letter)?),
            None => asked,
        });
        Ok(())
    }
}

fn is_inside(path: &str, outer: &str) -> bool {
    path != outer && is_path_of(path, outer)
}

/// The field of Google's that only its default value is accepted for, if `path` names one.
pub fn is_not_built(path: &str) -> Option<&'static str> {
    NOT_BUILT.into_iter().find(|known| is_path_of(path, known))
}

/// Whether `path` of an update mask names what is decided at creation, or by the server. It may be
/// given as it is, by programs that name all they know; anything else is refused.
pub fn is_fixed(path: &str) -> bool {
    fixed().any(|known| known == path)
}

fn fixed() -> impl Iterator<Item = &'static str> {
    let settings = SETTINGS.iter().filter(|setting| setting.is_fixed).map(|setting| setting.path);
    GIVEN_BY_SERVER.into_iter().chain(settings)
}

/// Why `path` of an update mask is refused.
fn no_such_path(path: &str) -> Invalid {
    let fixed: Vec<&str> = fixed().collect();
    bad_path(path, &fixed, "subscription")
}

/// Reads `value` for no other reason than to find out what is wrong with it.
pub fn check_value(setting: &Entry, field: &str, value: &Value) -> Result<(), Invalid> {
    match setting.set {
        Set::Alone(set) => set(&mut scratch()?, field, value),
        Set::Joined { whole, .. } => whole(&mut Change::default(), field, value),
    }
}

/// `value` as it would be shown, so that two spellings of it compare; `None` = it cannot be read,
/// or not on its own.
pub fn normal(setting: &Entry, value: &Value) -> Option<Value> {
    let mut scratch = scratch().ok()?;
    let Set::Alone(set) = setting.set else { return None };
    set(&mut scratch, "", value).ok()?;
    Some((setting.show)(&scratch))
}

/// A subscription to try values on.
fn scratch() -> Result<Subscription, Invalid> {
    let name = SubscriptionName::parse("", "projects/p/subscriptions/try")?;
    Ok(Subscription::new(name, TopicName::parse("", "projects/p/topics/try")?))
}

//! Settings that reserved labels stand for, for clients that cannot send the REST resource's
//! `postrider` object.
//!
//! The settings are the truth and the labels follow them: a reserved label that a resource has
//! always says what its setting is. A label in a request sets the setting; a label that is missing
//! says nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::read::pairs;
use super::{Flag, Form, Resource, Set, Setting};
use crate::error::Invalid;
use crate::validate::{self, RESERVED_LABEL_PREFIX};

/// The reserved label that stands for a setting.
pub struct Label<S: Resource> {
    /// Its key.
    pub name: &'static str,
    /// What it must say, where that is not what is shown of the setting.
    pub says: Option<fn(&S) -> Value>,
    /// Whether the label alone keeps the value, since the resource has no place for it yet.
    pub waits: fn(&S) -> bool,
    /// Sets what it says, for a setting that is joined with others. What is given in another way
    /// goes before it.
    pub join: fn(&mut S::Joined, &str, &Value) -> Result<(), Invalid>,
}

impl<S: Resource> Label<S> {
    /// The label of a setting that depends on no other.
    pub const fn new(name: &'static str) -> Self {
        Self { name, says: None, waits: |_| false, join: |_, _, _| Ok(()) }
    }
}

impl<S: Resource> Setting<S> {
    /// The entry of the labels themselves, which every resource has.
    pub const LABELS: Self = Self {
        path: "labels",
        form: Form::Pairs,
        config: "labels",
        flag: Some(Flag::new("label")),
        default: "none",
        title: "Labels",
        help: "A label",
        set: Set::Joined {
            whole: |change, field, value| {
                change.labels = Some(pairs(field, value)?.unwrap_or_default());
                Ok(())
            },
            part: None,
        },
        show: |one| json!(one.labels()),
        check: |one| validate::labels(one.labels()),
        ..Self::NONE
    };
}

impl<S: Resource> Clone for Label<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Resource> Copy for Label<S> {}

/// How errors call a label.
pub(super) fn field(label: &str) -> String {
    format!("labels[{label:?}]")
}

/// The settings whose label is among `labels`, with the label and its text.
pub(super) fn among<'l, S: Resource>(
    table: &'static [Setting<S>],
    labels: &'l BTreeMap<String, String>,
) -> impl Iterator<Item = (&'static Setting<S>, Label<S>, &'l str)> {
    table.iter().filter_map(move |setting| {
        let label = setting.label?;
        Some((setting, label, labels.get(label.name)?.as_str()))
    })
}

/// Checks that each reserved label is known and says what its setting is.
pub(super) fn check<S: Resource>(
    table: &'static [Setting<S>],
    labels: &BTreeMap<String, String>,
    resource: &S,
) -> Result<(), Invalid> {
    labels.keys().try_for_each(|key| check_known(table, key))?;
    for (setting, label, text) in among(table, labels).filter(|one| !(one.1.waits)(resource)) {
        let says = setting.form.from_label(&field(label.name), text)?;
        agree(label.name, text, &says, &due(setting, label, resource))?;
    }
    Ok(())
}

/// What a label must say.
fn due<S: Resource>(setting: &Setting<S>, label: Label<S>, resource: &S) -> Value {
    (label.says.unwrap_or(setting.show))(resource)
}

fn check_known<S: Resource>(table: &[Setting<S>], key: &str) -> Result<(), Invalid> {
    let is_known = table.iter().filter_map(|setting| setting.label).any(|one| one.name == key);
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

/// Makes the reserved labels that a resource has say what its settings are; one whose setting is
/// gone goes too.
pub(super) fn follow<S: Resource>(table: &'static [Setting<S>], resource: &mut S) {
    for setting in table.iter().filter(|setting| !setting.is_fixed) {
        let Some(label) = setting.label else { continue };
        if (label.waits)(resource) || !resource.labels().contains_key(label.name) {
            continue;
        }
        match setting.form.to_label(&due(setting, label, resource)) {
            Some(text) => drop(resource.labels_mut().insert(label.name.to_owned(), text)),
            None => drop(resource.labels_mut().remove(label.name)),
        }
    }
}

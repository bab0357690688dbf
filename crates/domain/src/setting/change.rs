//! How a resource's settings may be changed: masks and what they name.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::{Document, Resource, Set, Setting, camel, labels, named, snake};
use crate::error::Invalid;

/// A setting that is given on its own.
#[derive(Clone)]
pub struct Edit<S: Resource> {
    setting: &'static Setting<S>,
    /// The part of it that is given, where it is not the whole.
    part: Option<&'static str>,
    field: String,
    value: Value,
}

impl<S: Resource> fmt::Debug for Edit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.field, self.value)
    }
}

impl<S: Resource> PartialEq for Edit<S> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |other: &Self| self.setting.path == other.setting.path;
        is_same(other) && self.part == other.part && self.value == other.value
    }
}

impl<S: Resource> Edit<S> {
    /// The value that the setting is to have: where only a part is given, the rest is as it was.
    fn whole(&self, before: &S) -> Value {
        let Some(part) = self.part else { return self.value.clone() };
        let mut whole = match (self.setting.show)(before) {
            Value::Object(whole) => whole,
            _ => Map::new(),
        };
        match self.value.get(camel(part)) {
            Some(value) => whole.insert(camel(part), value.clone()),
            None => whole.remove(&camel(part)),
        };
        Value::Object(whole)
    }
}

/// What an update changes, or what a new resource is given over the defaults.
///
/// Labels that it gives also set what the reserved ones among them stand for. A setting whose
/// label is missing stays as it is, so that a caller who knows nothing of it clears nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Change<S: Resource> {
    /// The settings it knows.
    pub table: Table<S>,
    /// Settings that depend on no other.
    pub edits: Vec<Edit<S>>,
    /// Whether a resource is made: labels then also set what is decided at creation.
    pub is_creation: bool,
    /// Whether the caller can give what Google's definition has no field for.
    pub has_ours: bool,
    /// All labels, replacing those before.
    pub labels: Option<BTreeMap<String, String>>,
    /// Settings that depend on each other.
    pub joined: S::Joined,
}

/// The entries that a change knows.
pub struct Table<S: Resource>(&'static [Setting<S>]);

impl<S: Resource> Clone for Table<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Resource> Copy for Table<S> {}

impl<S: Resource> fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings", self.0.len())
    }
}

impl<S: Resource> PartialEq for Table<S> {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
    }
}

impl<S: Resource> Default for Change<S> {
    fn default() -> Self {
        Self::with(S::table())
    }
}

impl<S: Resource> Change<S> {
    /// A change of nothing, by another table than the program's.
    pub fn with(table: &'static [Setting<S>]) -> Self {
        Self {
            table: Table(table),
            edits: Vec::new(),
            is_creation: false,
            has_ours: true,
            labels: None,
            joined: S::Joined::default(),
        }
    }

    /// A change of settings that depend on each other.
    pub fn joining(joined: S::Joined) -> Self {
        Self { joined, ..Self::default() }
    }

    /// One setting; `path` is its path in an update mask.
    pub fn of(path: &str, value: Value) -> Result<Self, Invalid> {
        let mut document = Document::default();
        document.put(&snake(path), value);
        Self::by_mask(&document, true, &[path.to_owned()])
    }

    /// What a new resource is given.
    pub fn creating(document: &Document) -> Result<Self, Invalid> {
        Self::default().created(document)
    }

    /// The same by the change's own table.
    pub fn created(mut self, document: &Document) -> Result<Self, Invalid> {
        self.is_creation = true;
        for setting in self.table.0 {
            // What is inside a setting comes with it.
            let is_inner = self.table.0.iter().any(|outer| is_inside(setting.path, outer.path));
            match document.get(setting.path) {
                Some(value) if !is_inner => self.set(setting, value)?,
                _ => {}
            }
        }
        Ok(self)
    }

    /// What an update changes: the settings that `paths` name, as `document` has them. Without
    /// `has_ours` the call came on a way that cannot give what is ours, so it cannot name it.
    pub fn by_mask(document: &Document, has_ours: bool, paths: &[String]) -> Result<Self, Invalid> {
        let mut change = Self { has_ours, ..Self::default() };
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
        let Some((setting, part)) = named(self.table.0, path) else {
            return Err(bad_path(path, Self::fixed(), S::KIND));
        };
        let is_reachable = self.has_ours || !setting.is_ours();
        if setting.is_fixed || !is_reachable {
            return Err(bad_path(path, Self::fixed(), S::KIND));
        }
        let value = document.get(setting.path).unwrap_or(&Value::Null);
        match (part, setting.set) {
            (Some(part), Set::Joined { part: Some(set), .. }) => {
                set(self, part, setting.path, value)
            }
            // The only part there is stands for the whole.
            (Some(part), Set::Alone(_)) if setting.parts.len() > 1 => {
                let (field, value) = (setting.field(), value.clone());
                self.edits.push(Edit { setting, part: Some(part), field, value });
                Ok(())
            }
            _ => self.set(setting, value),
        }
    }

    /// The whole of our object: those of its fields that are given.
    fn name_ours(&mut self, document: &Document) -> Result<(), Invalid> {
        let object = document.get("postrider").and_then(Value::as_object);
        for setting in self.table.0.iter().filter(|one| one.is_in_our_object() && !one.is_fixed) {
            if let Some(value) = object.and_then(|object| object.get(&camel(setting.name()))) {
                self.set(setting, value)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, setting: &'static Setting<S>, value: &Value) -> Result<(), Invalid> {
        let field = setting.field();
        match setting.set {
            Set::Joined { whole, .. } => whole(self, &field, value),
            Set::Alone(_) => {
                self.edits.retain(|edit| edit.setting.path != setting.path);
                self.edits.push(Edit { setting, part: None, field, value: value.clone() });
                Ok(())
            }
        }
    }

    /// Whether the setting at `path` is given on its own.
    fn edits_alone(&self, path: &str) -> bool {
        self.edits.iter().any(|edit| edit.setting.path == path)
    }

    /// `current` with the change made, if the rules allow the outcome.
    pub fn apply(mut self, current: &S) -> Result<S, Invalid> {
        let table = self.table.0;
        let mut updated = current.clone();
        if let Some(labels) = &self.labels {
            updated.labels_mut().clone_from(labels);
        }
        for edit in &self.edits {
            if let Set::Alone(set) = edit.setting.set {
                let whole = edit.whole(&updated);
                set(&mut updated, &edit.field, &whole)?;
            }
        }
        self.take_labels(&mut updated, current)?;
        let mut updated = updated.join(self.joined)?;
        if self.labels.is_none() {
            labels::follow(table, &mut updated);
        }
        updated.validate_with(table)?;
        // A setting that is kept as a label may have gone over the one that was given.
        self.labels.map_or(Ok(()), |labels| labels::check(table, &labels, &updated))?;
        Ok(updated)
    }

    /// Takes what labels say: those that are given, or those that keep what there was no place for
    /// yet. What the object says goes before what a label says; that they agree is checked later.
    fn take_labels(&mut self, updated: &mut S, current: &S) -> Result<(), Invalid> {
        let given = self.labels.clone();
        for (setting, label, text) in
            labels::among(self.table.0, given.as_ref().unwrap_or(current.labels()))
        {
            let is_heard = match given {
                Some(_) => self.is_creation || !setting.is_fixed,
                None => (label.waits)(current),
            };
            if !is_heard || self.edits_alone(setting.path) {
                continue;
            }
            let field = labels::field(label.name);
            let value = setting.form.from_label(&field, text)?;
            match setting.set {
                Set::Alone(set) => set(updated, &field, &value)?,
                Set::Joined { .. } => (label.join)(&mut self.joined, &field, &value)?,
            }
        }
        Ok(())
    }

    /// Whether `path` of an update mask names what is decided at creation, or by the server. It may
    /// be given as it is, by programs that name all they know; anything else is refused.
    pub fn is_fixed(path: &str) -> bool {
        Self::fixed().any(|known| known == path)
    }

    fn fixed() -> impl Iterator<Item = &'static str> {
        let settings = S::table().iter().filter(|setting| setting.is_fixed);
        S::GIVEN_BY_SERVER.iter().copied().chain(settings.map(|setting| setting.path))
    }
}

/// Why `path` of an update mask is refused: it is one of the `fixed` fields, or no field at all.
pub fn bad_path(path: &str, mut fixed: impl Iterator<Item = &'static str>, kind: &str) -> Invalid {
    let shown: String = path.chars().take(100).collect();
    let problem = if fixed.any(|known| path == known || is_inside(path, known)) {
        format!("{shown} cannot be changed after creation")
    } else {
        format!("{shown:?} is not a field of a {kind}")
    };
    Invalid::new("update_mask", problem)
}

/// Whether `path` names something inside of what `outer` names.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

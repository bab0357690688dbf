//! What a setting is: one entry of a table that every surface reads.
//!
//! A resource (a topic, a subscription) has one table of [`Setting`]s. Requests over gRPC and
//! REST, reserved labels, update masks, the configuration file, the command line's flags, what is
//! shown, what is stored and the table in the documentation all come from it, so that a new
//! setting is one new entry.
//!
//! Values travel as JSON in Google's spelling. That form is the *document* of a resource; `null`,
//! like nothing at all, stands for the default.

mod change;
mod document;
mod form;
mod labels;
pub mod read;
pub mod shape;

pub use change::{Change, Edit, Table, bad_path};
pub use document::{Document, camel, snake};
pub use form::Form;
pub use labels::Label;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::error::Invalid;

/// What has a table of settings.
pub trait Resource: Clone + fmt::Debug + PartialEq + 'static {
    /// What a change gives of the settings that depend on each other.
    type Joined: Clone + fmt::Debug + Default + PartialEq;

    /// What it is called.
    const KIND: &'static str;

    /// Fields that are no settings: an update may repeat them as they are.
    const GIVEN_BY_SERVER: &'static [&'static str];

    /// Every setting, in the order in which it is shown, checked and documented.
    fn table() -> &'static [Setting<Self>];

    /// One with the default settings, to try values on.
    fn scratch() -> Result<Self, Invalid>;

    /// Free marks for people and programs, and reserved ones that set something.
    fn labels(&self) -> &BTreeMap<String, String>;

    /// The same, to be changed.
    fn labels_mut(&mut self) -> &mut BTreeMap<String, String>;

    /// With the settings that depend on each other, once it has all else that a change gives.
    fn join(self, joined: Self::Joined) -> Result<Self, Invalid>;

    /// Checks every setting, that they fit together, and that reserved labels say the same.
    fn validate_with(&self, table: &'static [Setting<Self>]) -> Result<(), Invalid> {
        table.iter().try_for_each(|setting| (setting.check)(self))?;
        labels::check(table, self.labels(), self)
    }
}

/// One setting of a resource `S`.
#[derive(Clone)]
pub struct Setting<S: Resource> {
    /// Where it is in the document and in update masks, in snake case: `postrider.lane_by`.
    pub path: &'static str,
    /// What its value looks like.
    pub form: Form,
    /// The parts of an object that masks, flags and the configuration can name one by one.
    pub parts: &'static [Part],
    /// Whether an update mask may name the parts.
    pub has_masked_parts: bool,
    /// Other names of the same in the document.
    pub spellings: &'static [Spelling],
    /// The reserved label that stands for it.
    pub label: Option<Label<S>>,
    /// Its key in the configuration file; empty = it has none.
    pub config: &'static str,
    /// Its flag on the command line.
    pub flag: Option<Flag>,
    /// Whether Google's definition has no field for it, though it is in an object of Google's.
    pub is_added: bool,
    /// Whether it is decided at creation.
    pub is_fixed: bool,
    /// Whether its value is not to be repeated in logs.
    pub is_secret: bool,
    /// Whether it is kept and never shown to clients, as Google has it.
    pub is_input_only: bool,
    /// Whether it defines something that this server keeps and does not run.
    pub is_only_kept: bool,
    /// What it is where it is not given, for people.
    pub default: &'static str,
    /// What it is called where it is shown to people; empty = it is not shown on its own.
    pub title: &'static str,
    /// What stands behind its value there.
    pub unit: &'static str,
    /// What it does, in a few words and its bounds.
    pub help: &'static str,
    /// How it gets into a resource.
    pub set: Set<S>,
    /// Its value; `null` = nothing to show.
    pub show: fn(&S) -> Value,
    /// Its own rule.
    pub check: fn(&S) -> Result<(), Invalid>,
}

/// Sets the part of that name; the texts are the part and how the whole is called in errors.
pub type SetPart<S> = fn(&mut Change<S>, &str, &str, &Value) -> Result<(), Invalid>;

/// How a value gets into a resource `S`.
pub enum Set<S: Resource> {
    /// By itself. The text is how the field is called in errors.
    Alone(fn(&mut S, &str, &Value) -> Result<(), Invalid>),
    /// Together with others, which a change joins. It is not stored by its path: give it a field
    /// in the stored form.
    Joined {
        /// The whole.
        whole: fn(&mut Change<S>, &str, &Value) -> Result<(), Invalid>,
        /// One of its parts, by its name; `None` = a part stands for the whole.
        part: Option<SetPart<S>>,
    },
}

impl<S: Resource> Clone for Set<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Resource> Copy for Set<S> {}

/// Another name of a setting in the document, in snake case.
#[derive(Clone, Copy, Debug)]
pub struct Spelling {
    /// The name.
    pub name: &'static str,
    /// Whether it says the opposite, as `is_enabled` does of `paused`.
    pub is_opposite: bool,
}

/// A part of a setting that is an object.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name within the object, in snake case.
    pub name: &'static str,
    /// What its value looks like.
    pub form: Form,
    /// Its flag on the command line.
    pub flag: Option<Flag>,
    /// What it is called where it is shown to people; empty = it is not shown on its own.
    pub title: &'static str,
    /// What stands behind its value there.
    pub unit: &'static str,
    /// What it does, in a few words and its bounds.
    pub help: &'static str,
}

/// A flag of the command line.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What its value is called; empty = as its form says.
    pub value: &'static str,
    /// The word that puts the setting back to its default; empty = none does.
    pub none: &'static str,
    /// The flag it cannot be without; empty = none.
    pub needs: &'static str,
    /// The flag it cannot be with; empty = none.
    pub excludes: &'static str,
}

impl Flag {
    /// A flag of that name and nothing more.
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: "", none: "", needs: "", excludes: "" }
    }

    /// The same with a name for its value.
    pub const fn value(self, value: &'static str) -> Self {
        Self { value, ..self }
    }

    /// The same with a word that puts the setting back to its default.
    pub const fn none(self, none: &'static str) -> Self {
        Self { none, ..self }
    }

    /// The same, only together with another flag.
    pub const fn needs(self, needs: &'static str) -> Self {
        Self { needs, ..self }
    }

    /// The same, not together with another flag.
    pub const fn excludes(self, excludes: &'static str) -> Self {
        Self { excludes, ..self }
    }
}

impl Part {
    /// A part without flag and title.
    pub const fn new(name: &'static str, form: Form, help: &'static str) -> Self {
        Self { name, form, flag: None, title: "", unit: "", help }
    }

    /// The same with a flag.
    pub const fn flag(self, flag: Flag) -> Self {
        Self { flag: Some(flag), ..self }
    }

    /// The same with a title.
    pub const fn title(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// The same with what stands behind its value where it is shown.
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

/// Where what Google's definition has no field for is kept in a document.
const OURS: &str = "postrider";

impl<S: Resource> Setting<S> {
    /// An entry with nothing filled in, to be completed by `..`.
    pub const NONE: Self = Self {
        path: "",
        form: Form::Text,
        parts: &[],
        has_masked_parts: false,
        spellings: &[],
        label: None,
        config: "",
        flag: None,
        is_added: false,
        is_fixed: false,
        is_secret: false,
        is_input_only: false,
        is_only_kept: false,
        default: "",
        title: "",
        unit: "",
        help: "",
        set: Set::Alone(|_, _, _| Ok(())),
        show: |_| Value::Null,
        check: |_| Ok(()),
    };

    /// Whether it is in the object that is ours alone.
    pub fn is_in_our_object(&self) -> bool {
        self.path.split_once('.').is_some_and(|(object, _)| object == OURS)
    }

    /// Whether it is no field of Google's: a call over gRPC cannot give its value.
    pub fn is_ours(&self) -> bool {
        self.is_added || self.is_in_our_object()
    }

    /// How errors call it: Google's fields in snake case, ours as JSON has them.
    pub fn field(&self) -> String {
        if self.is_in_our_object() { camel(self.path) } else { self.path.to_owned() }
    }

    /// Its name within its object.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Whether a mask's path names it or, with the name returned, a part of it. Both spellings of
    /// a path count: a mask in JSON arrives in snake case, one over gRPC as it was written.
    pub fn named_by(&self, path: &str) -> Option<Option<&'static str>> {
        let path = if self.is_in_our_object() { &snake(path) } else { path };
        if path == self.path || self.spellings.iter().any(|other| other.name == path) {
            return Some(None);
        }
        let rest = path.strip_prefix(self.path)?.strip_prefix('.')?;
        let named = self.parts.iter().find(|part| part.name == rest);
        named.filter(|_| self.has_masked_parts).map(|part| Some(part.name))
    }

    /// Reads `value` for no other reason than to find out what is wrong with it.
    pub fn check_value(&self, field: &str, value: &Value) -> Result<(), Invalid> {
        match self.set {
            Set::Alone(set) => set(&mut S::scratch()?, field, value),
            Set::Joined { whole, .. } => whole(&mut Change::default(), field, value),
        }
    }

    /// `value` as it would be shown, so that two spellings of it compare; `None` = it cannot be
    /// read, or not on its own.
    pub fn normal(&self, value: &Value) -> Option<Value> {
        match self.set {
            Set::Alone(set) => {
                let mut scratch = S::scratch().ok()?;
                set(&mut scratch, "", value).ok()?;
                Some((self.show)(&scratch))
            }
            Set::Joined { .. } => None,
        }
    }
}

/// The entry of `table` that a mask's path names, and which part of it.
pub fn named<S: Resource>(
    table: &'static [Setting<S>],
    path: &str,
) -> Option<(&'static Setting<S>, Option<&'static str>)> {
    table.iter().find_map(|setting| Some((setting, setting.named_by(path)?)))
}

/// Adds the `settings` of a resource to a document, as they are in force.
pub fn show<'table, S: Resource>(
    settings: impl IntoIterator<Item = &'table Setting<S>>,
    resource: &S,
    document: &mut Document,
) {
    for setting in settings {
        let value = (setting.show)(resource);
        if !value.is_null() {
            document.put(setting.path, value);
        }
    }
}

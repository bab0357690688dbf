//! A resource as a request gives it: the document that its table of settings reads.

use std::marker::PhantomData;

use domain::Invalid;
use domain::setting::{self, Change, Document, Resource, Setting, snake};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::status::Result;

/// A resource `S` as a request gives it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<S> {
    /// Its settings.
    document: Document,
    /// Whether the call came on a way that can give what Google's definition has no field for.
    has_ours: bool,
    kind: PhantomData<S>,
}

impl<S: Resource> Wanted<S> {
    /// As a call over gRPC gives it.
    pub(crate) fn google(wire: &impl Serialize) -> Result<Self> {
        Ok(Self { document: document_of(wire)?, has_ours: false, kind: PhantomData })
    }

    /// As a call over REST gives it: `ours` was taken out of its JSON before.
    pub(crate) fn with_ours(wire: &impl Serialize, ours: Document) -> Result<Self> {
        let mut document = document_of(wire)?;
        merge(&mut document.0, ours.0);
        Ok(Self { document, has_ours: true, kind: PhantomData })
    }

    /// A name that it has beside its settings; empty = it is not given.
    pub(super) fn name(&self, field: &str) -> &str {
        self.document.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// What a new one is given.
    pub(super) fn given(&self) -> Result<Change<S>> {
        Ok(Change::creating(&self.document)?)
    }

    /// What an update changes: the settings that `paths` name.
    pub(super) fn masked(&self, paths: &[String]) -> Result<Change<S>> {
        Ok(Change::by_mask(&self.document, self.has_ours, paths)?)
    }

    /// Whether `path` names what cannot be changed, and the update gives it as it is. `shown` is
    /// the resource as Google's definition has it.
    pub(super) fn repeats(&self, path: &str, current: &S, shown: &impl Serialize) -> bool {
        let given = self.document.get(path);
        match setting::named(S::table(), path) {
            Some((setting, _)) if setting.is_fixed => {
                let shown = (setting.show)(current);
                // What is not given stands for its default only where that is nothing.
                let is_given = given.is_some() || matches!(shown, Value::Null | Value::Bool(false));
                let is_reachable = self.has_ours || !setting.is_in_our_object();
                let given = setting.normal(given.unwrap_or(&Value::Null));
                is_given && is_reachable && given == Some(shown)
            }
            _ if Change::<S>::is_fixed(path) => {
                document_of(shown).is_ok_and(|shown| given == shown.get(path))
            }
            _ => false,
        }
    }

    /// A definition that is given of what this server keeps and does not run. `paths` are those of
    /// an update; `None` = all counts.
    pub(crate) fn only_kept(&self, paths: Option<&[String]>) -> Option<&'static str> {
        let is_named = |setting: &Setting<S>| {
            paths.is_none_or(|paths| paths.iter().any(|path| setting.named_by(path).is_some()))
        };
        let is_given = |setting: &Setting<S>| match self.document.get(setting.path) {
            Some(Value::Object(object)) => !object.is_empty(),
            _ => false,
        };
        let mut kept = S::table().iter().filter(|setting| setting.is_only_kept);
        kept.find(|setting| is_named(setting) && is_given(setting)).map(|setting| setting.path)
    }
}

/// A message of Google's as JSON. There are durations and enum numbers that JSON has no text for.
fn document_of(wire: &impl Serialize) -> Result<Document, Invalid> {
    let mut track = serde_path_to_error::Track::new();
    let serializer =
        serde_path_to_error::Serializer::new(serde_json::value::Serializer, &mut track);
    match wire.serialize(serializer) {
        Ok(Value::Object(fields)) => Ok(Document(fields)),
        Ok(_) => Ok(Document::default()),
        Err(error) => {
            // What the generated code says of a number without a name. It does not say where.
            if error.to_string().contains("Invalid variant") {
                let problem = "has an enum value that this version does not know";
                return Err(Invalid::new("request", problem));
            }
            let field = snake(&track.path().to_string());
            Err(Invalid::new(field, "negative, or not a valid duration"))
        }
    }
}

/// Puts `more` over `fields`, object by object.
fn merge(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
}

/// A message of Google's with the settings that are Google's.
pub(super) fn googles<S: Resource, W: DeserializeOwned + Default>(settings: &S) -> W {
    let mut google = Document::default();
    let shown = S::table().iter().filter(|one| !one.is_ours() && !one.is_input_only);
    setting::show(shown, settings, &mut google);
    // What is ours in an object of Google's is shown with that object.
    for added in S::table().iter().filter(|one| one.is_added) {
        google.remove(added.path);
    }
    serde_json::from_value(Value::Object(google.0)).unwrap_or_default()
}

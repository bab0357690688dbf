//! Which schema a topic's messages must match, and checking them.

use std::sync::Arc;

use domain::topic::{Change, SchemaSettings};
use domain::{Invalid, Message, RevisionId, TopicName, message};
use parking_lot::Mutex;
use schemas::{Bound, Settings, Validator};

use super::{Schema, Schemas};
use crate::compiling::Compiling;
use crate::definition::StoredCheck;
use crate::error::{Error, Rejected, Result};

/// Up to this many bytes, times the revisions they may be checked against, are checked inline:
/// about a millisecond. More goes to a separate thread.
const INLINE_BYTES_MAX: usize = 512 << 10;

/// Holds a topic to its schema.
pub(crate) struct Check {
    settings: Settings,
    /// Which life of the schema's name.
    id: u64,
    /// `None` = it was gone before the server started.
    schema: Option<Arc<Schema>>,
    made: Mutex<Option<Made>>,
    /// Held while the validator is built, so that it is built once.
    making: tokio::sync::Mutex<()>,
}

/// The validator of one version of the schema.
struct Made {
    version: u64,
    validator: Arc<Validator>,
}

impl Check {
    fn new(settings: Settings, id: u64, schema: Option<Arc<Schema>>) -> Arc<Self> {
        let (made, making) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { settings, id, schema, made, making })
    }

    pub(crate) fn stored(&self) -> StoredCheck {
        StoredCheck { settings: self.settings.clone(), schema: self.id }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.living().is_none()
    }

    fn living(&self) -> Option<(Arc<schemas::Schema>, u64)> {
        self.schema.as_ref().and_then(|schema| schema.living())
    }

    /// The messages with attributes that name their schema; an error if one matches no revision.
    pub(crate) async fn pass(
        self: &Arc<Self>,
        compiling: &Compiling,
        topic: &TopicName,
        messages: Vec<Message>,
    ) -> Result<Vec<Message>> {
        let validator = self.validator(compiling, topic).await?;
        let bytes: usize = messages.iter().map(|message| message.data.len()).sum();
        if bytes.saturating_mul(validator.revision_count()) <= INLINE_BYTES_MAX {
            return self.pass_all(&validator, messages);
        }
        let check = Arc::clone(self);
        let work = clock::tasks::blocking(move || check.pass_all(&validator, messages));
        work.await.map_err(|_| Error::broken_off())?
    }

    fn pass_all(&self, validator: &Validator, mut messages: Vec<Message>) -> Result<Vec<Message>> {
        let (name, encoding) = (&self.settings.schema, self.settings.encoding);
        for (index, message) in messages.iter_mut().enumerate() {
            let checked = validator.check(&message.data);
            let revision = checked.map_err(|rejection| Rejected::at(index, name, rejection))?;
            let attributes = &mut message.attributes;
            let mut put = |key: &str, value| drop(attributes.insert(key.to_owned(), value));
            put(message::SCHEMA_NAME, name.to_string());
            put(message::SCHEMA_ENCODING, encoding.as_str().to_owned());
            put(message::SCHEMA_REVISION, revision.to_string());
        }
        Ok(messages)
    }

    /// The validator of the current schema. Requested with each publish, so that no change of the
    /// schema is missed.
    async fn validator(&self, compiling: &Compiling, topic: &TopicName) -> Result<Arc<Validator>> {
        let living = || self.living().ok_or_else(|| Error::SchemaDeleted(topic.to_string()));
        if let Some(made) = self.made_of(living()?.1) {
            return Ok(made);
        }
        let _making = self.making.lock().await;
        let (schema, version) = living()?;
        if let Some(made) = self.made_of(version) {
            return Ok(made);
        }
        let settings = self.settings.clone();
        let make = move || Arc::new(Validator::new(&schema, &settings));
        let validator = compiling.run(make).await?;
        *self.made.lock() = Some(Made { version, validator: Arc::clone(&validator) });
        Ok(validator)
    }

    fn made_of(&self, version: u64) -> Option<Arc<Validator>> {
        let made = self.made.lock();
        made.as_ref().filter(|made| made.version == version).map(|made| Arc::clone(&made.validator))
    }
}

impl Schemas {
    /// A topic's check as it was stored.
    pub(crate) fn check_as_stored(&self, stored: StoredCheck) -> Arc<Check> {
        let found = self.known.read().get(&stored.settings.schema).cloned();
        let schema = found.filter(|schema| schema.id == stored.schema);
        Check::new(stored.settings, stored.schema, schema)
    }

    /// A topic's settings after a change, and what it is held to then.
    pub(crate) fn changed(
        &self,
        change: Change,
        current: &domain::Topic,
        before: Option<&Arc<Check>>,
    ) -> Result<(domain::Topic, Option<Arc<Check>>)> {
        let (asked, mut current) = (change.joined.clone(), current.clone());
        let is_another = asked.names_schema() && before.is_some_and(|check| check.is_deleted());
        // The ends of the range are revisions of the schema that was deleted. One that was made
        // later under its name has others.
        if let Some(schema) = current.schema.as_mut().filter(|_| is_another) {
            (schema.first, schema.last) = (None, None);
        }
        let settings = change.apply(&current)?;
        let check = match (&settings.schema, before) {
            (None, _) => None,
            (Some(_), Some(before)) if !asked.is_given() => Some(Arc::clone(before)),
            (Some(wanted), before) => {
                let before = before.map(|before| &**before);
                Some(self.check_of(wanted, before, asked.names_schema())?)
            }
        };
        Ok((settings, check))
    }

    /// What a topic with these settings is held to. Where they do not name the schema, it is the
    /// one there was before.
    pub(crate) fn check_of(
        &self,
        wanted: &SchemaSettings,
        before: Option<&Check>,
        is_named: bool,
    ) -> Result<Arc<Check>> {
        let schema = match before {
            Some(before) if !is_named => before.schema.clone().ok_or_else(deleted)?,
            _ => self.get(&wanted.schema)?,
        };
        let (current, _) = schema.living().ok_or_else(deleted)?;
        let same = before.filter(|before| before.id == schema.id).map(|before| &before.settings);
        let bound = |wanted: Option<RevisionId>, kept: Option<Bound>| match wanted {
            // The revision of an end that stays may be gone.
            Some(id) if kept.is_some_and(|kept| kept.id == id) => Ok(kept),
            wanted => wanted.map(|id| Bound::of(&current, id)).transpose(),
        };
        let first = bound(wanted.first, same.and_then(|same| same.first))?;
        let last = bound(wanted.last, same.and_then(|same| same.last))?;
        let settings = Settings::between(&current, wanted.encoding, first, last)?;
        Ok(Check::new(settings, schema.id, Some(schema)))
    }

    /// Records that a topic's schema settings changed.
    pub(crate) fn audit_check(
        &self,
        topic: &TopicName,
        before: Option<&Check>,
        after: Option<&Check>,
    ) {
        let stored = |check: Option<&Check>| check.map(Check::stored);
        if stored(before) == stored(after) {
            return;
        }
        let details = format!("{} -> {}", told(before), told(after));
        self.auditor.record("change schema", topic.to_string(), Some(details));
    }
}

fn told(check: Option<&Check>) -> String {
    let Some(check) = check else { return "none".to_owned() };
    let Settings { schema, encoding, first, last } = &check.settings;
    let end = |bound: &Option<Bound>| bound.map_or_else(String::new, |bound| bound.id.to_string());
    format!("{schema} in {}, revisions [{}, {}]", encoding.as_str(), end(first), end(last))
}

fn deleted() -> Error {
    let problem = "the topic's schema was deleted; name another";
    Invalid::new("schema_settings.schema", problem).into()
}

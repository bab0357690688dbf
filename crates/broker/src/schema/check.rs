//! Which schema a topic's messages must match, and checking them.

use std::sync::Arc;

use domain::{Invalid, Message, SchemaName, TopicName, message};
use parking_lot::Mutex;
use schemas::{Bound, Encoding, RevisionId, Settings, Validator};

use super::{Schema, Schemas};
use crate::compiling::Compiling;
use crate::definition::StoredCheck;
use crate::error::{Error, Rejected, Result};

/// Up to this many bytes, times the revisions they may be checked against, are checked inline:
/// about a millisecond. More goes to a separate thread.
const INLINE_BYTES_MAX: usize = 512 << 10;

/// A change of a topic's schema settings.
#[derive(Clone, Debug)]
pub enum SchemaChange {
    /// They stay as they are.
    Leave,
    /// Messages are no longer checked.
    Clear,
    /// They are set, in whole or in part.
    Set(SchemaSet),
}

/// Settings that are changed; `None` leaves one as it is.
#[derive(Clone, Debug, Default)]
pub struct SchemaSet {
    /// The schema. If it is a different one, ends of the range that are not given are dropped: they
    /// are revisions of the old one.
    pub schema: Option<SchemaName>,
    /// How messages are encoded.
    pub encoding: Option<Encoding>,
    /// The oldest accepted revision; `Some(None)` = no lower limit.
    pub first: Option<Option<RevisionId>>,
    /// The newest accepted revision; `Some(None)` = no upper limit.
    pub last: Option<Option<RevisionId>>,
}

/// A topic's schema settings as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSchema {
    /// The settings.
    pub settings: Settings,
    /// Whether the schema is gone.
    pub is_deleted: bool,
}

/// Checks a topic's messages against its schema.
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

    pub(crate) fn shown(&self) -> TopicSchema {
        TopicSchema { settings: self.settings.clone(), is_deleted: self.living().is_none() }
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
        let work = tokio::task::spawn_blocking(move || check.pass_all(&validator, messages));
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

    /// A topic's check after a change.
    pub(crate) fn changed_check(
        &self,
        before: Option<&Arc<Check>>,
        change: SchemaChange,
    ) -> Result<Option<Arc<Check>>> {
        match change {
            SchemaChange::Leave => Ok(before.cloned()),
            SchemaChange::Clear => Ok(None),
            SchemaChange::Set(set) => self.set_check(before.map(|check| &**check), set).map(Some),
        }
    }

    fn set_check(&self, before: Option<&Check>, set: SchemaSet) -> Result<Arc<Check>> {
        let schema = match (&set.schema, before) {
            (Some(name), _) => self.get(name)?,
            (None, Some(before)) => before.schema.clone().ok_or_else(deleted)?,
            (None, None) => return Err(missing("schema", "name a schema")),
        };
        let (current, _) = schema.living().ok_or_else(deleted)?;
        let encoding = set.encoding.or(before.map(|before| before.settings.encoding));
        let encoding = encoding.ok_or_else(|| missing("encoding", "say JSON or BINARY"))?;
        let same = before.filter(|before| before.id == schema.id).map(|before| &before.settings);
        let bound = |given: Option<Option<RevisionId>>, kept: Option<Bound>| match given {
            None => Ok(kept),
            Some(None) => Ok(None),
            // The revision of an end that stays may be gone.
            Some(Some(id)) if kept.is_some_and(|kept| kept.id == id) => Ok(kept),
            Some(Some(id)) => Bound::of(&current, id).map(Some),
        };
        let first = bound(set.first, same.and_then(|same| same.first))?;
        let last = bound(set.last, same.and_then(|same| same.last))?;
        let settings = Settings::between(&current, encoding, first, last)?;
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
        self.runtime.audit("change schema", topic.to_string(), Some(details));
    }
}

fn told(check: Option<&Check>) -> String {
    let Some(check) = check else { return "none".to_owned() };
    let Settings { schema, encoding, first, last } = &check.settings;
    let end = |bound: &Option<Bound>| bound.map_or_else(String::new, |bound| bound.id.to_string());
    format!("{schema} in {}, revisions [{}, {}]", encoding.as_str(), end(first), end(last))
}

fn deleted() -> Error {
    missing("schema", "the topic's schema was deleted; name another")
}

fn missing(field: &str, problem: &str) -> Error {
    Invalid::new(format!("schema_settings.{field}"), problem).into()
}

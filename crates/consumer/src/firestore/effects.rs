//! Effects in Firestore: look, decide, and commit on the condition that nothing has changed.
//!
//! A commit is one transaction: all of its writes happen or none, and only while its conditions
//! hold. Here they are that the note is still missing and the document is as it was read. So no
//! lock is held between reading and writing, and a consumer that is killed leaves none behind.
//! With the service's own transactions a killed consumer's locks would stop its documents until
//! they expire.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Timestamp;
use tonic::{Code, Status};

use super::api;
use super::api::document_transform::FieldTransform;
use super::api::document_transform::field_transform::TransformType;
use super::api::precondition::ConditionType;
use super::api::write::Operation;
use super::client::Client;
use super::figures::Figures;
use super::note;
use super::retry::{self, Meaning, Retry};
use super::turns::Turns;
use super::value::{field_path, fields, from_api, to_api};
use crate::Failure;
use crate::effects::{Applied, Effects, EventTime, StoreError, Value, Write, WriteKind};

/// Effects in one Firestore database.
///
/// A commit whose answer was lost may have happened. The message is then tried again as any
/// other, and finds the note of the message.
#[derive(Clone, Debug)]
pub struct FirestoreEffects {
    client: Client,
    retry: Retry,
    figures: Arc<Figures>,
    turns: Arc<Turns>,
}

/// Why a try came to nothing.
enum Fault {
    Get(Status),
    Commit(Status),
    Found(StoreError),
}

impl FirestoreEffects {
    /// Effects that `client` writes.
    pub fn new(client: Client, retry: Retry) -> Self {
        Self { client, retry, figures: Arc::default(), turns: Arc::default() }
    }

    /// What Firestore answered so far.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    /// `may_be_noted` says that a commit before may have happened though it was not answered: a
    /// note that is found is then ours.
    async fn try_once(&self, write: &Write, may_be_noted: bool) -> Result<Applied, Fault> {
        let names = [self.client.name(&write.dedupe), self.client.name(&write.document)];
        let [note_name, document_name] = &names;
        // Without an event time nothing of the document counts: who only writes to it is not
        // held up by others who do.
        let wanted = if write.event_time.is_some() { &names[..] } else { &names[..1] };
        self.figures.count_try();
        let documents = self.client.get(wanted, None).await.map_err(Fault::Get)?;
        let mut documents = documents.into_iter();
        if let Some(note) = documents.next().flatten() {
            return Ok(if may_be_noted { note::outcome(&note) } else { Applied::Duplicate });
        }
        let document = documents.next().flatten();
        let stored = stored_time(write, document.as_ref()).map_err(Fault::Found)?;
        let outcome = decide(write, stored);
        let mut writes = vec![note::write(note_name, write, outcome)];
        if outcome == Applied::Applied {
            let mut written = document_write(document_name, write, stored);
            written.current_document = write.event_time.as_ref().map(|_| as_read(document));
            writes.push(written);
        }
        self.client.commit(writes, None).await.map_err(Fault::Commit)?;
        Ok(outcome)
    }

    fn may_try_again(&self, meaning: Meaning, code: Code, attempt: u32) -> bool {
        match meaning {
            Meaning::Again => attempt < self.retry.attempts_max,
            // The token may just have come to its end: the next try has a fresh one.
            Meaning::Config => code == Code::Unauthenticated && attempt == 1,
            Meaning::Refused => false,
        }
    }
}

impl Effects for FirestoreEffects {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        check(write)?;
        let _turn = self.turns.take(write).await;
        let mut may_be_noted = false;
        let mut attempt = 1;
        loop {
            let (status, meaning) = match self.try_once(write, may_be_noted).await {
                Ok(applied) => return Ok(applied),
                Err(Fault::Found(error)) => return Err(error),
                Err(Fault::Get(status)) => {
                    let meaning = retry::meaning(status.code());
                    (status, meaning)
                }
                Err(Fault::Commit(status)) => {
                    let meaning = retry::commit_meaning(status.code());
                    may_be_noted |= retry::may_have_happened(status.code());
                    (status, meaning)
                }
            };
            self.figures.count_error(status.code());
            if !self.may_try_again(meaning, status.code(), attempt) {
                return Err(retry::error(&status, meaning));
            }
            tokio::time::sleep(self.retry.backoff(attempt, retry::luck())).await;
            attempt += 1;
        }
    }
}

/// The condition that a document is as it was read.
fn as_read(document: Option<api::Document>) -> api::Precondition {
    let condition = match document.and_then(|document| document.update_time) {
        Some(update_time) => ConditionType::UpdateTime(update_time),
        None => ConditionType::Exists(false),
    };
    api::Precondition { condition_type: Some(condition) }
}

/// Only numbers can be added.
fn check(write: &Write) -> Result<(), StoreError> {
    let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Double(_));
    let wrong = write.fields.iter().find(|(_, value)| !is_number(value));
    match wrong {
        Some((name, _)) if write.kind == WriteKind::Increment => {
            Err(StoreError::Refused(Failure {
                kind: "NotANumber".to_owned(),
                code: None,
                message: format!("field {name}: only numbers can be added, with kind increment"),
            }))
        }
        _ => Ok(()),
    }
}

/// The event time that the document keeps.
fn stored_time(
    write: &Write,
    document: Option<&api::Document>,
) -> Result<Option<Timestamp>, StoreError> {
    let Some(EventTime { field, .. }) = &write.event_time else { return Ok(None) };
    let Some(value) = document.and_then(|document| document.fields.get(field)) else {
        return Ok(None);
    };
    match from_api(value) {
        Some(Value::Time(at)) => Ok(Some(at)),
        Some(Value::Null) => Ok(None),
        // Not to know what is newer must not end in writing the older over it.
        _ => Err(StoreError::Config(Failure {
            kind: "NotATime".to_owned(),
            code: None,
            message: format!(
                "document {}/{}: field {field} is not a time since 1970; fix it, or use another \
                 field for the event time",
                write.document.collection, write.document.id
            ),
        })),
    }
}

fn decide(write: &Write, stored: Option<Timestamp>) -> Applied {
    let at = write.event_time.as_ref().map(|event_time| event_time.at);
    let is_stale = stored > at && write.kind != WriteKind::Increment;
    if is_stale { Applied::Stale } else { Applied::Applied }
}

fn document_write(name: &str, write: &Write, stored: Option<Timestamp>) -> api::Write {
    let mut values = match write.kind {
        WriteKind::Set | WriteKind::Merge => fields(&write.fields),
        WriteKind::Increment => BTreeMap::new(),
    };
    if let Some(EventTime { field, at }) = &write.event_time {
        let latest = stored.map_or(*at, |stored| stored.max(*at));
        values.insert(field.clone(), to_api(&Value::Time(latest)));
    }
    let update_mask = (write.kind != WriteKind::Set).then(|| api::DocumentMask {
        field_paths: values.keys().map(|name| field_path(name)).collect(),
    });
    let update_transforms = match write.kind {
        WriteKind::Set | WriteKind::Merge => Vec::new(),
        WriteKind::Increment => write.fields.iter().map(increment).collect(),
    };
    let document =
        api::Document { name: name.to_owned(), fields: values, ..api::Document::default() };
    api::Write {
        operation: Some(Operation::Update(document)),
        update_mask,
        update_transforms,
        current_document: None,
    }
}

fn increment((name, value): (&String, &Value)) -> FieldTransform {
    FieldTransform {
        field_path: field_path(name),
        transform_type: Some(TransformType::Increment(to_api(value))),
    }
}

//! Effects in Firestore: one transaction that looks, decides, writes and notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::Timestamp;
use tonic::{Code, Status};

use super::api;
use super::api::document_transform::FieldTransform;
use super::api::document_transform::field_transform::TransformType;
use super::api::write::Operation;
use super::client::{Client, Transaction};
use super::note;
use super::retry::{self, Meaning, Retry, code_name};
use super::value::{field_path, fields, from_api, to_api};
use crate::Failure;
use crate::effects::{Applied, Effects, EventTime, StoreError, Value, Write, WriteKind};

/// How long it is tried to end a transaction that came to nothing. The service ends it itself
/// after a while; until then others may have to wait for what it read.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(2);
/// gRPC has so many codes.
const CODES: usize = 17;

/// Effects in one Firestore database.
///
/// A commit whose answer was lost may have happened. The transaction is then tried again as any
/// other, and finds the note of the message.
#[derive(Clone, Debug)]
pub struct FirestoreEffects {
    client: Client,
    retry: Retry,
    figures: Arc<Figures>,
}

/// What Firestore answered, counted.
#[derive(Debug, Default)]
pub struct Figures {
    errors: [AtomicU64; CODES],
    transactions: AtomicU64,
}

impl Figures {
    /// Errors by their code, those that were tried again too; codes that never came are left out.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let codes = (0..).map(|code| code_name(Code::from_i32(code)));
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        codes.zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Transactions begun.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    fn count(&self, code: Code) {
        if let Ok(place) = usize::try_from(i32::from(code))
            && let Some(count) = self.errors.get(place)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What one try leaves to the next.
#[derive(Default)]
struct Course {
    /// The transaction before, which the next one takes the place of.
    before: Option<Transaction>,
    /// A commit may have happened though it was not answered: a note that is found is ours.
    may_be_noted: bool,
}

/// Why a try came to nothing.
enum Fault {
    Answered(Status),
    Found(StoreError),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Answered(status)
    }
}

impl FirestoreEffects {
    /// Effects that `client` writes.
    pub fn new(client: Client, retry: Retry) -> Self {
        Self { client, retry, figures: Arc::default() }
    }

    /// What Firestore answered so far.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    async fn try_once(&self, write: &Write, course: &mut Course) -> Result<Applied, Fault> {
        let names = [self.client.name(&write.dedupe), self.client.name(&write.document)];
        let [note_name, document_name] = &names;
        // Without an event time nothing of the document counts: who only adds to it is not held
        // up by others who do.
        let wanted = if write.event_time.is_some() { &names[..] } else { &names[..1] };
        self.figures.transactions.fetch_add(1, Ordering::Relaxed);
        let got = self.client.begin_and_get(wanted, course.before.as_ref()).await;
        let (transaction, documents) = got?;
        course.before = Some(transaction.clone());
        let mut documents = documents.into_iter();
        if let Some(note) = documents.next().flatten() {
            self.give_up(&transaction).await;
            let is_ours = course.may_be_noted;
            return Ok(if is_ours { note::outcome(&note) } else { Applied::Duplicate });
        }
        let stored = match stored_time(write, documents.next().flatten().as_ref()) {
            Ok(stored) => stored,
            Err(error) => {
                self.give_up(&transaction).await;
                return Err(Fault::Found(error));
            }
        };
        let outcome = decide(write, stored);
        let mut writes = vec![note::write(note_name, write, outcome)];
        if outcome == Applied::Applied {
            writes.push(document_write(document_name, write, stored));
        }
        self.commit(writes, &transaction, course).await?;
        Ok(outcome)
    }

    async fn commit(
        &self,
        writes: Vec<api::Write>,
        transaction: &Transaction,
        course: &mut Course,
    ) -> Result<(), Status> {
        let committed = self.client.commit(writes, Some(transaction)).await;
        // ABORTED says that it did not happen, and ends the transaction.
        if let Err(status) = &committed
            && status.code() != Code::Aborted
        {
            course.may_be_noted |= retry::meaning(status.code()) == Meaning::Again;
            self.give_up(transaction).await;
        }
        committed
    }

    /// Ends a transaction that came to nothing; where that fails, the service does it in time.
    async fn give_up(&self, transaction: &Transaction) {
        let ended = self.client.rollback(transaction);
        tokio::time::timeout(ROLLBACK_TIMEOUT, ended).await.ok();
    }

    fn may_try_again(&self, code: Code, attempt: u32) -> bool {
        match retry::meaning(code) {
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
        let mut course = Course::default();
        let mut attempt = 1;
        loop {
            let status = match self.try_once(write, &mut course).await {
                Ok(applied) => return Ok(applied),
                Err(Fault::Found(error)) => return Err(error),
                Err(Fault::Answered(status)) => status,
            };
            self.figures.count(status.code());
            if !self.may_try_again(status.code(), attempt) {
                return Err(retry::error(&status));
            }
            tokio::time::sleep(self.retry.backoff(attempt, retry::luck())).await;
            attempt += 1;
        }
    }
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
                "document {}/{}: field {field} holds no time since 1970; put one there, or name \
                 another field for the event time",
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

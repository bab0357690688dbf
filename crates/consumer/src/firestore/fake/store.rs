//! Documents with versions, and transactions that remember which they have read.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::update;
use crate::firestore::api;
use crate::firestore::api::precondition::ConditionType;
use crate::firestore::api::write::Operation;
use crate::firestore::value::time_to_api;
use domain::Timestamp;

/// Transactions that are open at a time; the oldest ends when there are more.
const TRANSACTIONS_MAX: usize = 10_000;
/// As the service has it.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
const ID_BYTES_MAX: usize = 1_500;
const WRITES_MAX: usize = 500;

/// Everything the fake keeps.
#[derive(Debug, Default)]
pub(super) struct Store {
    documents: BTreeMap<String, Stored>,
    transactions: BTreeMap<u64, Reads>,
    /// Raised with every transaction and every change: a version or an id is never used twice.
    last: u64,
}

#[derive(Debug)]
struct Stored {
    document: api::Document,
    version: u64,
}

/// The versions a transaction has seen; `None` = there was no document.
type Reads = BTreeMap<String, Option<u64>>;

impl Store {
    pub(super) fn begin(&mut self) -> Bytes {
        self.last += 1;
        if self.transactions.len() >= TRANSACTIONS_MAX {
            self.transactions.pop_first();
        }
        self.transactions.insert(self.last, Reads::new());
        Bytes::copy_from_slice(&self.last.to_be_bytes())
    }

    /// Reads a document, and notes in the transaction which version it was.
    pub(super) fn read(
        &mut self,
        name: &str,
        transaction: Option<&[u8]>,
    ) -> Result<Option<api::Document>, Status> {
        check_name(name)?;
        let stored = self.documents.get(name);
        let version = stored.map(|stored| stored.version);
        let document = stored.map(|stored| stored.document.clone());
        if let Some(id) = transaction {
            let reads = self.transactions.get_mut(&number(id)?).ok_or_else(ended)?;
            let before = reads.entry(name.to_owned()).or_insert(version);
            if *before != version {
                return Err(Status::aborted("a document was changed since it was read"));
            }
        }
        Ok(document)
    }

    /// Ends the transaction; whether there was one.
    pub(super) fn end(&mut self, id: &[u8]) -> bool {
        number(id).is_ok_and(|number| self.transactions.remove(&number).is_some())
    }

    /// Makes all writes or none.
    pub(super) fn commit(
        &mut self,
        writes: &[api::Write],
        id: &[u8],
    ) -> Result<Vec<api::WriteResult>, Status> {
        if !id.is_empty() {
            let reads = self.transactions.remove(&number(id)?).ok_or_else(ended)?;
            let is_changed = |(name, version): (&String, &Option<u64>)| {
                self.documents.get(name).map(|stored| stored.version) != *version
            };
            if reads.iter().any(is_changed) {
                return Err(Status::aborted("a document was changed since it was read"));
            }
        }
        if writes.len() > WRITES_MAX {
            return Err(Status::invalid_argument(format!("at most {WRITES_MAX} writes")));
        }
        // Everything is worked out before anything is changed.
        let mut changed = BTreeMap::new();
        for write in writes {
            let (name, document) = self.changed(write, &changed)?;
            changed.insert(name, document);
        }
        let update_time = Some(self.now());
        for (name, document) in changed {
            match document {
                Some(document) => self.put(api::Document { name, ..document }),
                None => drop(self.documents.remove(&name)),
            }
        }
        let result = api::WriteResult { update_time, ..api::WriteResult::default() };
        Ok(vec![result; writes.len()])
    }

    /// The name of what is written, and the document after it; `None` = deleted.
    fn changed(
        &self,
        write: &api::Write,
        before: &BTreeMap<String, Option<api::Document>>,
    ) -> Result<(String, Option<api::Document>), Status> {
        let name = match &write.operation {
            Some(Operation::Update(document)) => &document.name,
            Some(Operation::Delete(name)) => name,
            Some(Operation::Transform(transform)) => &transform.document,
            None => return Err(Status::invalid_argument("a write without an operation")),
        };
        check_name(name)?;
        let current = match before.get(name) {
            Some(document) => document.as_ref(),
            None => self.documents.get(name).map(|stored| &stored.document),
        };
        check_precondition(write, current)?;
        let document = update::apply(write, current, &self.now())?;
        if document.as_ref().is_some_and(|document| document.encoded_len() > DOCUMENT_BYTES_MAX) {
            return Err(Status::invalid_argument(format!("{name}: larger than 1 MiB")));
        }
        Ok((name.clone(), document))
    }

    /// Puts a document there as its own change.
    pub(super) fn put(&mut self, document: api::Document) {
        self.last += 1;
        let now = self.now();
        let create_time = document.create_time.unwrap_or(now);
        let name = document.name.clone();
        let document =
            api::Document { create_time: Some(create_time), update_time: Some(now), ..document };
        self.documents.insert(name, Stored { document, version: self.last });
    }

    /// The fake's clock: one microsecond a change, so that runs are alike.
    pub(super) fn now(&self) -> prost_types::Timestamp {
        time_to_api(Timestamp(1_700_000_000_000_000 + self.last))
    }

    /// The document `collection/id`, in whichever database.
    pub(super) fn find(&self, path: &str) -> Option<&api::Document> {
        let of = |name: &str| name.split_once("/documents/").is_some_and(|(_, end)| end == path);
        let (_, stored) = self.documents.iter().find(|(name, _)| of(name))?;
        Some(&stored.document)
    }

    pub(super) fn count(&self, collection: &str) -> usize {
        let of = |name: &&String| {
            let path = name.split_once("/documents/").map(|(_, path)| path);
            path.and_then(|path| path.rsplit_once('/')).is_some_and(|(of, _)| of == collection)
        };
        self.documents.keys().filter(of).count()
    }

    pub(super) fn open_transactions(&self) -> usize {
        self.transactions.len()
    }
}

fn number(id: &[u8]) -> Result<u64, Status> {
    id.try_into().map(u64::from_be_bytes).map_err(|_| ended())
}

/// As the service says it of a transaction that it does not know anymore.
fn ended() -> Status {
    Status::invalid_argument("the referenced transaction has expired or is no longer valid")
}

fn check_precondition(write: &api::Write, current: Option<&api::Document>) -> Result<(), Status> {
    let condition = write.current_document.as_ref().and_then(|one| one.condition_type.as_ref());
    match (condition, current) {
        (Some(ConditionType::Exists(false)), Some(document)) => {
            Err(Status::already_exists(format!("{} exists", document.name)))
        }
        (Some(ConditionType::Exists(true) | ConditionType::UpdateTime(_)), None) => {
            Err(Status::not_found("there is no such document"))
        }
        (Some(ConditionType::UpdateTime(time)), Some(document))
            if document.update_time.as_ref() != Some(time) =>
        {
            Err(Status::failed_precondition(format!("{} was changed since", document.name)))
        }
        _ => Ok(()),
    }
}

/// `projects/p/databases/d/documents/collection/id`, or deeper.
fn check_name(name: &str) -> Result<(), Status> {
    let wrong = |problem: &str| Err(Status::invalid_argument(format!("{name:?}: {problem}")));
    let Some((database, path)) = name.split_once("/documents/") else {
        return wrong("is no document's name");
    };
    let segments: Vec<&str> = path.split('/').collect();
    if !database.starts_with("projects/") || !segments.len().is_multiple_of(2) {
        return wrong("is no document's name");
    }
    let is_bad = |segment: &&str| {
        segment.is_empty()
            || *segment == "."
            || *segment == ".."
            || segment.len() > ID_BYTES_MAX
            || (segment.starts_with("__") && segment.ends_with("__"))
    };
    if segments.iter().any(is_bad) {
        return wrong("has a part that is empty, too long or reserved");
    }
    Ok(())
}

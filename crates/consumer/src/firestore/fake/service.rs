//! The fake's gRPC.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use parking_lot::Mutex;
use tonic::{Request, Response, Status};

use super::State;
use super::faults::Call;
use crate::firestore::api::batch_get_documents_request::ConsistencySelector;
use crate::firestore::api::batch_get_documents_response::Result as Found;
use crate::firestore::api::firestore_server::Firestore;
use crate::firestore::api::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, BeginTransactionRequest,
    BeginTransactionResponse, CommitRequest, CommitResponse, RollbackRequest,
};

/// The service over the state that the fake's owner looks at.
#[derive(Debug)]
pub(super) struct Service {
    state: Arc<Mutex<State>>,
}

impl Service {
    pub(super) fn new(state: Arc<Mutex<State>>) -> Self {
        Self { state }
    }
}

type Documents = Pin<Box<dyn Stream<Item = Result<BatchGetDocumentsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Firestore for Service {
    type BatchGetDocumentsStream = Documents;

    async fn batch_get_documents(
        &self,
        request: Request<BatchGetDocumentsRequest>,
    ) -> Result<Response<Documents>, Status> {
        check_headers(&request)?;
        let answers = self.state.lock().get(request.into_inner())?;
        Ok(Response::new(Box::pin(stream::iter(answers.into_iter().map(Ok)))))
    }

    async fn begin_transaction(
        &self,
        request: Request<BeginTransactionRequest>,
    ) -> Result<Response<BeginTransactionResponse>, Status> {
        check_headers(&request)?;
        let mut state = self.state.lock();
        state.refused(Call::Begin)?;
        Ok(Response::new(BeginTransactionResponse { transaction: state.store.begin() }))
    }

    async fn commit(
        &self,
        request: Request<CommitRequest>,
    ) -> Result<Response<CommitResponse>, Status> {
        check_headers(&request)?;
        self.state.lock().commit(&request.into_inner()).map(Response::new)
    }

    async fn rollback(&self, request: Request<RollbackRequest>) -> Result<Response<()>, Status> {
        check_headers(&request)?;
        let mut state = self.state.lock();
        if state.store.end(&request.get_ref().transaction) {
            state.counts.rolled_back += 1;
        }
        Ok(Response::new(()))
    }
}

impl State {
    fn refused(&mut self, call: Call) -> Result<(), Status> {
        match self.faults.refusal(call) {
            Some(code) => Err(Status::new(code, "the fake was told to say so")),
            None => Ok(()),
        }
    }

    fn get(
        &mut self,
        request: BatchGetDocumentsRequest,
    ) -> Result<Vec<BatchGetDocumentsResponse>, Status> {
        self.refused(Call::Get)?;
        let mut answers = Vec::new();
        let transaction = match request.consistency_selector {
            Some(ConsistencySelector::NewTransaction(_)) => {
                let begun = self.store.begin();
                answers.push(BatchGetDocumentsResponse {
                    transaction: begun.clone(),
                    ..BatchGetDocumentsResponse::default()
                });
                Some(begun)
            }
            Some(ConsistencySelector::Transaction(id)) => Some(id),
            Some(ConsistencySelector::ReadTime(_)) => {
                return Err(Status::unimplemented("the fake keeps no old versions"));
            }
            None => None,
        };
        for name in request.documents {
            let document = self.store.read(&name, transaction.as_ref().map(Bytes::as_ref))?;
            answers.push(BatchGetDocumentsResponse {
                result: Some(document.map_or(Found::Missing(name), Found::Found)),
                read_time: Some(self.store.now()),
                ..BatchGetDocumentsResponse::default()
            });
        }
        // Firestore answers in no particular order, and so must not be relied on.
        answers.get_mut(1..).unwrap_or_default().reverse();
        Ok(answers)
    }

    fn commit(&mut self, request: &CommitRequest) -> Result<CommitResponse, Status> {
        self.refused(Call::Commit)?;
        if self.faults.is_aborted() {
            self.store.end(&request.transaction);
            self.counts.aborted += 1;
            return Err(Status::aborted("too much contention on these documents"));
        }
        let committed = self.store.commit(&request.writes, &request.transaction);
        let write_results = committed.inspect_err(|status| {
            use tonic::Code::{Aborted, AlreadyExists, FailedPrecondition, NotFound};
            let conflicts = [Aborted, AlreadyExists, FailedPrecondition, NotFound];
            self.counts.conflicts += u64::from(conflicts.contains(&status.code()));
        })?;
        self.counts.committed += 1;
        if self.faults.is_answer_lost() {
            self.counts.lost += 1;
            return Err(Status::unavailable("the answer was lost"));
        }
        Ok(CommitResponse { write_results, commit_time: Some(self.store.now()) })
    }
}

/// Every call must say who asks, and which database is meant.
fn check_headers<T>(request: &Request<T>) -> Result<(), Status> {
    if request.metadata().get("authorization").is_none() {
        return Err(Status::unauthenticated("there is no token"));
    }
    for header in ["google-cloud-resource-prefix", "x-goog-request-params"] {
        if request.metadata().get(header).is_none() {
            return Err(Status::invalid_argument(format!("there is no header {header}")));
        }
    }
    Ok(())
}

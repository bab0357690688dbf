//! A Firestore in this process, for tests: it speaks the same gRPC and enforces conditions and
//! transactions.
//!
//! Transactions are optimistic: a commit is answered ABORTED when something that its transaction
//! has read was changed since. Faults come from a seed, so that a run can be repeated.

mod faults;
mod service;
mod store;
mod update;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::api;
use super::api::firestore_server::FirestoreServer;
use super::value::from_api;
use crate::effects::Value;
pub use faults::{Call, Faults};
use service::Service;
use store::Store;

/// A running fake. It ends when it is dropped.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

/// What the fake holds and how it behaves.
#[derive(Debug, Default)]
struct State {
    store: Store,
    faults: Faults,
    counts: Counts,
}

/// What the fake has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits that happened.
    pub committed: u64,
    /// Commits refused because a condition did not hold or something read was changed.
    pub conflicts: u64,
    /// Commits refused for no reason but chance.
    pub aborted: u64,
    /// Commits that happened and were answered with an error.
    pub lost: u64,
    /// Transactions ended by those who began them.
    pub rolled_back: u64,
}

impl Fake {
    /// Starts on a free port of this machine, without faults.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::<Mutex<State>>::default();
        let service = FirestoreServer::new(Service::new(Arc::clone(&state)));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let served = Server::builder().add_service(service).serve_with_incoming(incoming);
            if let Err(error) = served.await {
                tracing::error!(%error, "the fake Firestore ended");
            }
        });
        Ok(Self { address, state, _server: server })
    }

    /// `host:port`, for `Options::emulator`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// From now on faults are these.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// The next calls of this kind, so many, are answered with this code and do nothing.
    pub fn refuse(&self, call: Call, code: Code, times: u32) {
        self.state.lock().faults.refuse(call, code, times);
    }

    /// The next commits, so many, happen and are answered UNAVAILABLE.
    pub fn lose_answers(&self, times: u32) {
        self.state.lock().faults.lose(times);
    }

    /// The fields of the document `collection/id`, whichever the database; `None` = there is
    /// none. Fields of a kind that no effect writes are left out.
    pub fn document(&self, path: &str) -> Option<BTreeMap<String, Value>> {
        let state = self.state.lock();
        let fields = &state.store.find(path)?.fields;
        let value = |(name, value): (&String, _)| Some((name.clone(), from_api(value)?));
        Some(fields.iter().filter_map(value).collect())
    }

    /// Puts a document there, whatever was there before.
    pub fn put(&self, name: &str, fields: BTreeMap<String, Value>) {
        let fields = super::value::fields(&fields);
        let document = api::Document { name: name.to_owned(), fields, ..api::Document::default() };
        self.state.lock().store.put(document);
    }

    /// How many documents are in a collection.
    pub fn count(&self, collection: &str) -> usize {
        self.state.lock().store.count(collection)
    }

    /// Transactions that are neither committed nor rolled back.
    pub fn open_transactions(&self) -> usize {
        self.state.lock().store.open_transactions()
    }

    /// What was seen so far.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }
}

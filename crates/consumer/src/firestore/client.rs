//! A thin client: begin, batch get, commit, rollback, each with its headers and its deadline.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::codegen::http::HeaderValue;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::api::batch_get_documents_request::ConsistencySelector;
use super::api::batch_get_documents_response::Result as Found;
use super::api::firestore_client::FirestoreClient;
use super::api::transaction_options::{Mode, ReadWrite};
use super::api::{
    BatchGetDocumentsRequest, BatchGetDocumentsResponse, BeginTransactionRequest, CommitRequest,
    Document, RollbackRequest, TransactionOptions, Write,
};
use crate::effects::Path;
use crate::google::{AccessError, Connect, Credentials, channel};

/// The variable that names an emulator, as Google's libraries have it.
const EMULATOR_VARIABLE: &str = "FIRESTORE_EMULATOR_HOST";
/// Where the service is.
const HOST: &str = "firestore.googleapis.com";
/// What tokens must be good for.
const SCOPE: &str = "https://www.googleapis.com/auth/datastore";
/// The database that every project has.
const DATABASE: &str = "(default)";
/// How long a call may take. A transaction that is idle for 60 s is ended by the service, so all
/// calls of one must fit into that.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So much later the transport and the service give a call up.
const TRANSPORT_SPARE: Duration = Duration::from_secs(1);
/// A document is at most 1 MiB, and few are read at a time.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Which Firestore, and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The project's id; `None` = that of the service account's key file.
    pub project: Option<String>,
    /// The database's id; `None` = `(default)`.
    pub database: Option<String>,
    /// `host:port` of an emulator; `None` = what `FIRESTORE_EMULATOR_HOST` names, else the
    /// service itself.
    pub emulator: Option<String>,
    /// A service account's key file; `None` = what `GOOGLE_APPLICATION_CREDENTIALS` names, else
    /// the metadata server. Not looked at with an emulator.
    pub key_file: Option<PathBuf>,
    /// How long each call may take; `None` = 10 s.
    pub call_timeout: Option<Duration>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says which project is meant.
    #[error(
        "firestore.project: not set, and there is no key file with it; set it to the project's \
             id"
    )]
    NoProject,
    /// The address is none.
    #[error("firestore.emulator: {authority:?} is not host:port: {source}")]
    Address {
        /// The address.
        authority: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// The credentials cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// A transaction's id.
pub type Transaction = Bytes;

/// Talks to one database. Cheap to clone; all clones use one connection.
#[derive(Clone, Debug)]
pub struct Client {
    grpc: FirestoreClient<Channel>,
    credentials: Arc<Credentials>,
    database: String,
    /// What says to the service which database is meant before it reads the request.
    routing: [(&'static str, HeaderValue); 2],
    call_timeout: Duration,
}

impl Client {
    /// A client that connects when it is first used.
    pub fn new(options: &Options) -> Result<Self, ConnectError> {
        let emulator = options.emulator.clone().or_else(emulator_of_environment);
        let credentials = credentials(options, emulator.is_some())?;
        let project = options.project.as_deref().or(credentials.project());
        let project = project.ok_or(ConnectError::NoProject)?;
        let database = options.database.as_deref().unwrap_or(DATABASE);
        let database = format!("projects/{project}/databases/{database}");
        let connect = match &emulator {
            Some(authority) => Connect::plain(authority),
            None => Connect::secure(HOST),
        };
        let channel = channel(&connect).map_err(|source| ConnectError::Address {
            authority: connect.authority.clone(),
            source,
        })?;
        Ok(Self {
            grpc: FirestoreClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX),
            credentials: Arc::new(credentials),
            routing: routing(&database).ok_or(ConnectError::NoProject)?,
            database,
            call_timeout: options.call_timeout.unwrap_or(CALL_TIMEOUT),
        })
    }

    /// Fetches a token now, so that whoever starts learns at once whether there is any.
    pub async fn check_access(&self) -> Result<(), AccessError> {
        let fetched = tokio::time::timeout(self.call_timeout, self.credentials.header()).await;
        match fetched {
            Ok(fetched) => fetched.map(|_| ()),
            Err(_) => Err(AccessError::Unreachable {
                at: "who gives tokens".to_owned(),
                problem: format!("did not answer within {:?}", self.call_timeout),
            }),
        }
    }

    /// Whether its tokens are those of the machine it runs on, for neither an emulator nor a key
    /// file is named.
    pub fn is_of_machine(&self) -> bool {
        self.credentials.is_metadata()
    }

    /// The full name of a document.
    pub fn name(&self, path: &Path) -> String {
        format!("{}/documents/{}/{}", self.database, path.collection, path.id)
    }

    /// Begins a transaction that reads and writes. With `instead_of` it takes the place of one
    /// that was aborted, so that it is preferred over younger ones.
    pub async fn begin(&self, instead_of: Option<&Transaction>) -> Result<Transaction, Status> {
        let body = BeginTransactionRequest {
            database: self.database.clone(),
            options: Some(read_write(instead_of)),
        };
        self.in_time(async {
            let request = self.request(body).await?;
            let answer = self.grpc.clone().begin_transaction(request).await?;
            Ok(answer.into_inner().transaction)
        })
        .await
    }

    /// Reads documents, in a transaction where one is given. The documents come in the order
    /// they were asked for; `None` = there is none.
    pub async fn get(
        &self,
        names: &[String],
        transaction: Option<&Transaction>,
    ) -> Result<Vec<Option<Document>>, Status> {
        let body = BatchGetDocumentsRequest {
            database: self.database.clone(),
            documents: names.to_vec(),
            mask: None,
            consistency_selector: transaction
                .map(|id| ConsistencySelector::Transaction(id.clone())),
        };
        self.in_time(async {
            let request = self.request(body).await?;
            let answers = self.grpc.clone().batch_get_documents(request).await?;
            collect(names, answers.into_inner()).await
        })
        .await
    }

    /// Commits writes, all or none; those with a condition only if it holds, those of a
    /// transaction only if what it read is unchanged. An error other than a refusal leaves open
    /// whether it happened.
    pub async fn commit(
        &self,
        writes: Vec<Write>,
        transaction: Option<&Transaction>,
    ) -> Result<(), Status> {
        let body = CommitRequest {
            database: self.database.clone(),
            writes,
            transaction: transaction.cloned().unwrap_or_default(),
        };
        self.in_time(async {
            let request = self.request(body).await?;
            self.grpc.clone().commit(request).await.map(drop)
        })
        .await
    }

    /// Ends a transaction without writing, so that others need not wait for it.
    pub async fn rollback(&self, transaction: &Transaction) -> Result<(), Status> {
        let body =
            RollbackRequest { database: self.database.clone(), transaction: transaction.clone() };
        self.in_time(async {
            let request = self.request(body).await?;
            self.grpc.clone().rollback(request).await.map(drop)
        })
        .await
    }

    /// Waits for a call until its deadline. A token that the service does not take is forgotten,
    /// so that the next call fetches another.
    async fn in_time<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let answer = tokio::time::timeout(self.call_timeout, call).await;
        let answer = answer.unwrap_or_else(|_| {
            let waited = self.call_timeout;
            Err(Status::deadline_exceeded(format!("Firestore did not answer within {waited:?}")))
        });
        if answer.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated) {
            self.credentials.forget().await;
        }
        answer
    }

    /// A request with the headers of every call.
    async fn request<B>(&self, body: B) -> Result<Request<B>, Status> {
        let mut request = Request::new(body);
        // The transport keeps to this as well, but says so in other words: ours come first.
        request.set_timeout(self.call_timeout + TRANSPORT_SPARE);
        self.put_headers(request.metadata_mut()).await?;
        Ok(request)
    }

    async fn put_headers(&self, metadata: &mut MetadataMap) -> Result<(), Status> {
        let authorization = self.credentials.header().await.map_err(|error| {
            if error.is_lasting() {
                Status::unauthenticated(error.to_string())
            } else {
                Status::unavailable(error.to_string())
            }
        })?;
        let mut headers = std::mem::take(metadata).into_headers();
        headers.insert("authorization", authorization);
        for (name, value) in &self.routing {
            headers.insert(*name, value.clone());
        }
        *metadata = MetadataMap::from_headers(headers);
        Ok(())
    }
}

/// The documents of an answer in the order they were asked for.
async fn collect(
    names: &[String],
    mut answers: Streaming<BatchGetDocumentsResponse>,
) -> Result<Vec<Option<Document>>, Status> {
    let mut documents = vec![None; names.len()];
    let mut answered = 0;
    while let Some(answer) = answers.message().await? {
        let (name, document) = match answer.result {
            Some(Found::Found(document)) => (document.name.clone(), Some(document)),
            Some(Found::Missing(name)) => (name, None),
            None => continue,
        };
        answered += 1;
        if let Some(at) = names.iter().position(|asked| *asked == name)
            && let Some(place) = documents.get_mut(at)
        {
            *place = document;
        }
    }
    // What an answer that was cut short does not tell of must not count as missing.
    if answered < names.len() {
        return Err(Status::unavailable("the response does not cover every document"));
    }
    Ok(documents)
}

fn emulator_of_environment() -> Option<String> {
    std::env::var(EMULATOR_VARIABLE).ok().filter(|host| !host.is_empty())
}

fn credentials(options: &Options, is_emulator: bool) -> Result<Credentials, AccessError> {
    match &options.key_file {
        _ if is_emulator => Ok(Credentials::emulator()),
        Some(file) => Credentials::service_account(file, SCOPE),
        None => Credentials::from_environment(SCOPE),
    }
}

/// `None` = the database's name cannot stand in a header.
fn routing(database: &str) -> Option<[(&'static str, HeaderValue); 2]> {
    let parameters = format!("database={}", database.replace('/', "%2F"));
    Some([
        ("google-cloud-resource-prefix", HeaderValue::try_from(database).ok()?),
        ("x-goog-request-params", HeaderValue::try_from(parameters).ok()?),
    ])
}

fn read_write(instead_of: Option<&Transaction>) -> TransactionOptions {
    let retry_transaction = instead_of.cloned().unwrap_or_default();
    TransactionOptions { mode: Some(Mode::ReadWrite(ReadWrite { retry_transaction })) }
}

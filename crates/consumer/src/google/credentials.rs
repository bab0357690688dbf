//! Who asks, and the token that proves it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use http::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ask::Token;
use super::metadata;
use super::service_account::ServiceAccount;
use crate::{Failure, TokenSource, clock};

/// The variable that names a service account's key file.
pub(super) const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// So long before its end a token is no longer used.
const SPARE: Duration = Duration::from_secs(300);

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The key file cannot be used: the setup must be fixed.
    #[error("key file {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The token server refuses: the setup must be fixed.
    #[error("no token from {at}: {said}")]
    Refused {
        /// Who was asked.
        at: String,
        /// The answer, cut short.
        said: String,
    },
    /// Who gives tokens cannot be reached or does not answer: it may later.
    #[error("no token from {at}: {problem}")]
    Unreachable {
        /// Who was asked.
        at: String,
        /// What went wrong.
        problem: String,
    },
}

impl AccessError {
    /// Whether it stays so until someone does something.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Unreachable { .. })
    }
}

/// Gives the `authorization` header of calls, and keeps tokens until shortly before their end.
#[derive(Debug)]
pub struct Credentials {
    source: Source,
    /// Held while a token is fetched, so that all who want one wait for the same.
    cached: Mutex<Option<CachedToken>>,
}

#[derive(Debug)]
enum Source {
    /// Emulators take this one for the owner.
    Owner,
    ServiceAccount(Box<ServiceAccount>),
    Metadata {
        host: String,
    },
}

#[derive(Debug)]
struct CachedToken {
    header: HeaderValue,
    good_until: Instant,
}

impl Credentials {
    /// Those that an emulator takes.
    pub fn emulator() -> Self {
        Self::new(Source::Owner)
    }

    /// Those of a service account, from its key file. Tokens are good for `scope`.
    pub fn service_account(file: &Path, scope: &str) -> Result<Self, AccessError> {
        let account = ServiceAccount::read(file, scope)?;
        Ok(Self::new(Source::ServiceAccount(Box::new(account))))
    }

    /// Those of the machine this runs on, from Google's metadata server.
    pub fn metadata() -> Self {
        Self::new(Source::Metadata { host: metadata::host() })
    }

    /// The key file that `GOOGLE_APPLICATION_CREDENTIALS` names, else the metadata server.
    pub fn from_environment(scope: &str) -> Result<Self, AccessError> {
        match std::env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty()) {
            Some(file) => Self::service_account(Path::new(&file), scope),
            None => Ok(Self::metadata()),
        }
    }

    /// The project that the credentials belong to, where they say so.
    pub fn project(&self) -> Option<&str> {
        match &self.source {
            Source::ServiceAccount(account) => account.project(),
            Source::Owner | Source::Metadata { .. } => None,
        }
    }

    fn new(source: Source) -> Self {
        Self { source, cached: Mutex::default() }
    }

    /// Whether they are those of the machine, for nothing names others.
    pub fn is_metadata(&self) -> bool {
        matches!(self.source, Source::Metadata { .. })
    }

    /// The header of a call: a token that is good for five minutes at least.
    pub async fn header(&self) -> Result<HeaderValue, AccessError> {
        let mut cached = self.cached.lock().await;
        if let Some(token) = cached.as_ref().filter(|token| token.good_until > Instant::now()) {
            return Ok(token.header.clone());
        }
        let token = match &self.source {
            Source::Owner => return Ok(HeaderValue::from_static("Bearer owner")),
            Source::ServiceAccount(account) => account.token(clock::wall()).await?,
            Source::Metadata { host } => metadata::token(host).await?,
        };
        let made = CachedToken::new(&token)?;
        let header = made.header.clone();
        *cached = Some(made);
        Ok(header)
    }

    /// Forgets the cached token: a service said that it is not good.
    pub async fn forget(&self) {
        *self.cached.lock().await = None;
    }
}

impl CachedToken {
    fn new(token: &Token) -> Result<Self, AccessError> {
        let header = HeaderValue::try_from(format!("Bearer {}", token.access_token));
        let mut header = header.map_err(|error| AccessError::Refused {
            at: "the token server".to_owned(),
            said: format!("its token is not a valid header: {error}"),
        })?;
        header.set_sensitive(true);
        let good_for = Duration::from_secs(token.expires_in).saturating_sub(SPARE);
        // A time that no clock can hold is no reason to fail: such a token is asked for again.
        let now = Instant::now();
        Ok(Self { header, good_until: now.checked_add(good_for).unwrap_or(now) })
    }
}

impl TokenSource for Credentials {
    fn token(&self) -> BoxFuture<'_, Result<String, Failure>> {
        Box::pin(async {
            let header = self.header().await;
            let header = header.map_err(|error| Failure::new("NoToken", error.to_string()))?;
            let text = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
            Ok(text.unwrap_or_default().to_owned())
        })
    }
}

//! What a consumer says of itself, how it answers, and what is known about its subscription.

use std::path::PathBuf;
use std::time::Duration;

use crate::rules::{Endless, Poison, Rules};

/// How long a handler may take for one message, unless it is set.
const HANDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// What a consumer says of itself, and how it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of the program, for the log.
    pub service: String,
    /// Where it runs, such as `production`, for the log.
    pub environment: String,
    /// Its version or commit, for the log.
    pub version: String,
    /// How long a handler may take for one message; longer is transient.
    pub handle_timeout: Duration,
    /// What is done with poison.
    pub poison: Poison,
    /// Whatever fails is given back, poison too. Refused without a dead letter policy.
    pub nack_on_any_error: bool,
    /// A file to which poison that is acked is appended, one JSON object a line; `None` = nowhere.
    pub audit: Option<PathBuf>,
}

impl Settings {
    /// The defaults for a program of this name and version.
    pub fn new(service: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            service: service.into(),
            environment: "unknown".to_owned(),
            version: version.into(),
            handle_timeout: HANDLE_TIMEOUT,
            poison: Poison::default(),
            nack_on_any_error: false,
            audit: None,
        }
    }

    pub(crate) fn rules(&self, known: &Known) -> Rules {
        Rules {
            has_dead_letter_policy: known.has_dead_letter_policy,
            poison: self.poison,
            nack_on_any_error: self.nack_on_any_error,
        }
    }
}

/// What is known about the subscription: asked of the server (`Connection::ask`), or set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its full name.
    pub subscription: Option<String>,
    /// The full name of its topic, for the log.
    pub topic: Option<String>,
    /// It has a dead letter policy: what is given back too often is dead-lettered by the server.
    pub has_dead_letter_policy: bool,
    /// The full name of its dead letter topic; needed to forward poison that was pulled.
    pub dead_letter_topic: Option<String>,
    /// Which messages are handled one after the other.
    pub order: Order,
}

impl Known {
    /// A subscription without a dead letter policy.
    pub fn without_policy(subscription: impl Into<String>) -> Self {
        Self { subscription: Some(subscription.into()), ..Self::default() }
    }

    /// A subscription whose dead letter topic has this full name.
    pub fn with_policy(subscription: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            has_dead_letter_policy: true,
            dead_letter_topic: Some(topic.into()),
            ..Self::without_policy(subscription)
        }
    }
}

/// Which messages of a subscription are handled one after the other, in the order they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// None: all at the same time.
    #[default]
    None,
    /// Those of one ordering key.
    ByKey,
    /// Those of one value of this attribute.
    ByAttribute(String),
    /// All.
    Fifo,
}

/// Why a consumer does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Poison would come again forever.
    #[error(transparent)]
    Endless(#[from] Endless),
    /// A setting cannot be.
    #[error("{field}: {problem}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// The file for audit records cannot be opened.
    #[error("audit: cannot append to {path}: {source}; name a file that can be written")]
    Audit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The server did not say what it knows of the subscription.
    #[error(
        "cannot read {subscription}: {} ({}); allow reading the subscription, or set what you know \
         about it",
        status.message(), status.code()
    )]
    Ask {
        /// The subscription.
        subscription: String,
        /// What the server answered.
        status: Box<tonic::Status>,
    },
    /// The server does not take a gateway.
    #[error("gateway {id}: {} ({})", status.message(), status.code())]
    Gateway {
        /// The gateway.
        id: String,
        /// What the server answered.
        status: Box<tonic::Status>,
    },
    /// The address of the server is none.
    #[error("endpoint: {0} is not an address such as http://localhost:8085")]
    Endpoint(String),
    /// The port cannot be opened.
    #[error("listen: {address}: {source}; choose a free port")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: std::io::Error,
    },
}

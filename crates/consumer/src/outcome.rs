//! What came of handling one message.

/// How handling a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its effect was made.
    Applied,
    /// Its effect had been made before.
    Duplicate,
    /// A later event has overtaken it: nothing to do.
    StaleIgnored,
    /// It can never be handled: the data is wrong.
    Poison(Failure),
    /// It may go well later.
    Transient(Failure),
    /// It will succeed once someone fixes the setup.
    Config(Failure),
}

/// Why handling failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error, for instance `InvalidJson`.
    pub kind: String,
    /// A code where there is one, for instance `RESOURCE_EXHAUSTED`.
    pub code: Option<String>,
    /// What is wrong, for people.
    pub message: String,
}

/// How handling ended, and what else the log line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handled {
    /// How it ended.
    pub outcome: Outcome,
    /// What was handled.
    pub about: About,
}

/// What was handled and written, for the log line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Who handled it: the name of a handler or of a route.
    pub handler: Option<String>,
    /// What kind of event it was.
    pub event_type: Option<String>,
    /// The version that the event names.
    pub schema_version: Option<String>,
    /// How it was written: `set`, `merge`, `increment`.
    pub write_kind: Option<String>,
    /// Where to.
    pub doc_path: Option<String>,
    /// Where it is kept that this message was handled.
    pub idempotency_doc: Option<String>,
}

impl Outcome {
    /// What the log line and the metrics call it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Duplicate => "duplicate",
            Self::StaleIgnored => "stale_ignored",
            Self::Poison(_) => "poison",
            Self::Transient(_) | Self::Config(_) => "retry",
        }
    }

    /// What kind of failure it was, in the words that Postrider's dead letters have.
    pub fn error_class(&self) -> Option<&'static str> {
        match self {
            Self::Applied | Self::Duplicate | Self::StaleIgnored => None,
            Self::Poison(_) => Some("permanent"),
            Self::Transient(_) => Some("transient"),
            Self::Config(_) => Some("config"),
        }
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Applied | Self::Duplicate | Self::StaleIgnored => None,
            Self::Poison(failure) | Self::Transient(failure) | Self::Config(failure) => {
                Some(failure)
            }
        }
    }
}

impl Failure {
    /// A failure of this kind, without a code.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), code: None, message: message.into() }
    }
}

impl From<Outcome> for Handled {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, about: About::default() }
    }
}

//! Why a request was refused, worded for the person who sent it.

/// A request that breaks a rule of the API. Maps to Google's `INVALID_ARGUMENT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field at fault, as the API spells it: `messages[2].attributes`.
    pub field: String,
    /// What is wrong and what is allowed, in lower case without a final period.
    pub problem: String,
}

impl Invalid {
    /// A violated rule about `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

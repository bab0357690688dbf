//! What operators did by hand, told to whoever keeps the record of it.

use domain::Timestamp;

/// One act of an operator, done and durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAct {
    /// When it was done.
    pub at: Timestamp,
    /// On which subscription or topic, or on what else of the server.
    pub resource: String,
    /// `release` or `skip`, `replay dead letters` or `delete dead letters`, `confirm clock`.
    pub act: &'static str,
    /// The key of the lane, for acts on one; empty = the one lane of a FIFO subscription.
    pub key: Option<String>,
    /// The message that blocked the lane.
    pub message_id: Option<String>,
    /// What else there is to tell, in words.
    pub details: Option<String>,
}

/// Keeps the record of what operators did.
pub trait Audit: Send + Sync {
    /// Takes one act. Called once for each, from async code: quick, never blocking for long.
    fn record(&self, act: &AuditAct);
}

/// Writes a line of the log, with the target `audit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditLog;

impl Audit for AuditLog {
    fn record(&self, act: &AuditAct) {
        tracing::info!(
            target: "audit",
            at = act.at.0,
            resource = act.resource,
            act = act.act,
            key = act.key,
            message_id = act.message_id,
            details = act.details,
            "an operator acted"
        );
    }
}

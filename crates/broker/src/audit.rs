//! Records what operators and other callers changed by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use clock::Clock;
use domain::Timestamp;
use tokio::task::futures::TaskLocalFuture;

/// One action, done and durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAct {
    /// When it was done.
    pub at: Timestamp,
    /// The subscription, topic, snapshot or schema; `backups/` and a name for a backup; `clock`.
    pub resource: String,
    /// What was done, in a few words: `release`, `skip`, `replay dead letters`,
    /// `delete dead letters`, `rotate secret`, `change push`, `detach`, `delete`, `backup`,
    /// `confirm clock`, `commit schema`, `roll back schema`, `delete schema revision`,
    /// `change schema`.
    pub act: &'static str,
    /// The key of the lane, for acts on one; empty = the one lane of a FIFO subscription.
    pub key: Option<String>,
    /// The message that blocked the lane.
    pub message_id: Option<String>,
    /// Further details as text. Never a secret.
    pub details: Option<String>,
    /// Who asked for it; `None` = the server's settings, or the server itself.
    pub peer: Option<SocketAddr>,
}

/// Stores the record of what operators did.
pub trait Audit: Send + Sync {
    /// Takes one action. Called once for each, from async code: must be fast and never block for
    /// long.
    fn record(&self, act: &AuditAct);
}

/// Writes a line to the log, with the target `audit`.
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
            peer = act.peer.map(|peer| peer.to_string()),
            "operator action"
        );
    }
}

/// Records actions with the time and the caller.
#[derive(Clone)]
pub(crate) struct Auditor {
    audit: Arc<dyn Audit>,
    clock: Arc<dyn Clock>,
}

impl Auditor {
    pub(crate) fn new(audit: Arc<dyn Audit>, clock: Arc<dyn Clock>) -> Self {
        Self { audit, clock }
    }

    /// Records an action that is done, by the caller this task works for.
    pub(crate) fn record(
        &self,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.record_of(peer(), act, resource, details);
    }

    /// The same, by `peer`.
    pub(crate) fn record_of(
        &self,
        peer: Option<SocketAddr>,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.audit.record(&AuditAct {
            at: self.clock.wall(),
            resource: resource.into(),
            act,
            key: None,
            message_id: None,
            details,
            peer,
        });
    }
}

tokio::task_local! {
    /// The caller this task works for.
    static PEER: Option<SocketAddr>;
}

/// Runs a call for `peer`: recorded actions name it. Tasks spawned on the way do not inherit it,
/// except for changes of definitions.
pub fn asked_by<F: Future>(
    peer: Option<SocketAddr>,
    work: F,
) -> TaskLocalFuture<Option<SocketAddr>, F> {
    PEER.scope(peer, work)
}

/// The caller this task works for, if known.
pub fn peer() -> Option<SocketAddr> {
    PEER.try_with(|peer| *peer).ok().flatten()
}

//! What the broker can be told.

mod alerts;
mod export;
mod live;
mod log;
mod push;
mod transform;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::NodeId;
use storage::planted::Planted;

pub use alerts::AlertOptions;
pub use export::ExportOptions;
pub use live::LiveOptions;
pub use log::LogOptions;
pub use push::{PushOptions, RetryDefault, Success};
pub use transform::TransformOptions;

use crate::audit::{Audit, AuditLog};
use crate::parcel::Peers;

/// What the broker can be told.
#[derive(Clone)]
pub struct Options {
    /// Which node this is, where several share a store.
    pub node: NodeId,
    /// How often changed progress is saved.
    pub progress_flush: Duration,
    /// The most messages that are leased or known to wait, in all subscriptions together.
    pub outstanding_max: usize,
    /// How long a topic that a dead letter policy names keeps its messages, subscribed or not,
    /// acked or not.
    pub dead_letter_retention: Duration,
    /// Who keeps the record of what operators do by hand.
    pub audit: Arc<dyn Audit>,
    /// How alerts are watched for; `None` = they are not.
    pub alerts: Option<AlertOptions>,
    /// What lines about deliveries say of the server, and how many there may be.
    pub log: LogOptions,
    /// How live subscriptions are kept.
    pub live: LiveOptions,
    /// How messages are pushed.
    pub push: PushOptions,
    /// How message transforms are run; `None` = they are refused.
    pub transforms: Option<TransformOptions>,
    /// How messages are written to objects.
    pub export: ExportOptions,
    /// The other nodes; `None` = there are none.
    pub peers: Option<Arc<dyn Peers>>,
    /// What tests have it do wrong, to see that they find out.
    #[doc(hidden)]
    pub planted: Planted,
}

impl Default for Options {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            node: NodeId(0),
            progress_flush: Duration::from_secs(5),
            outstanding_max: 200_000,
            dead_letter_retention: 14 * DAY,
            audit: Arc::new(AuditLog),
            alerts: None,
            log: LogOptions::default(),
            live: LiveOptions::default(),
            push: PushOptions::default(),
            transforms: None,
            export: ExportOptions::default(),
            peers: None,
            planted: Planted::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("node", &self.node)
            .field("progress_flush", &self.progress_flush)
            .field("outstanding_max", &self.outstanding_max)
            .field("dead_letter_retention", &self.dead_letter_retention)
            .field("alerts", &self.alerts)
            .field("log", &self.log)
            .field("live", &self.live)
            .field("push", &self.push)
            .field("transforms", &self.transforms)
            .field("export", &self.export)
            .finish_non_exhaustive()
    }
}

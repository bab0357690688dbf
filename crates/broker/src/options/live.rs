//! What live subscriptions can be told.

use std::time::Duration;

use domain::TopicName;
use domain::live::Settings;

/// What live subscriptions can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// The topics whose messages are matched; `None` = those with the label `postrider-live=true`.
    pub topics: Option<Vec<TopicName>>,
    /// Times and quotas.
    pub settings: Settings,
    /// Whether a gateway is told on its stream of what has expired.
    pub notify_on_expiry: bool,
    /// Frames that are kept for one gateway, at most: those it was not sent yet, and the last that
    /// it was, for when its stream breaks.
    pub buffer_frames: usize,
    /// Bytes of frames that are kept for all gateways, about.
    pub buffer_bytes: usize,
    /// A stream on which nothing was said for this long says that it is there.
    pub heartbeat: Duration,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            topics: None,
            settings: Settings::default(),
            notify_on_expiry: false,
            buffer_frames: 10_000,
            buffer_bytes: 20 << 20,
            heartbeat: Duration::from_secs(15),
        }
    }
}

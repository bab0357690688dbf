//! What the lines about deliveries can be told.

use std::sync::Arc;

/// What lines about deliveries say of the server, and how many there may be.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The name of this server among others.
    pub service: Arc<str>,
    /// Where it runs, such as production; may be empty.
    pub env: Arc<str>,
    /// The program's version, with the commit it was built from.
    pub version: Arc<str>,
    /// Lines about failed deliveries of one subscription in a second, at most; the rest are
    /// counted in one line.
    pub failures_per_second: u32,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            service: "postrider".into(),
            env: "".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            failures_per_second: 100,
        }
    }
}

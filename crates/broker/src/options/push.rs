//! What pushing can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use domain::push::Accounts;
pub use domain::push::Success;
use ipnet::IpNet;

/// What pushing can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOptions {
    /// Tasks that drive the connections, each many requests.
    pub workers: usize,
    /// How long an endpoint has for its answer where its subscription does not say.
    pub timeout: Duration,
    /// Requests under way, all together.
    pub in_flight_max: usize,
    /// Which answers ack.
    pub success: Success,
    /// What a push subscription without a policy waits between attempts.
    pub retry_default: RetryDefault,
    /// Bytes that the log of attempts takes up, at most.
    pub attempt_log_bytes_max: u64,
    /// Whether addresses in private networks may be reached.
    pub private_networks: bool,
    /// What may be reached in any case.
    pub allow: Vec<IpNet>,
    /// Roots to trust beside the usual ones, in PEM.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// Connections being made at a time, all together.
    pub connects_max: usize,
    /// Connections being made at a time to one host.
    pub connects_per_host_max: usize,
    /// Whose tokens pushes may carry.
    pub oidc_accounts: Accounts,
    /// Where the server itself listens, which nothing is pushed to; `None` = nowhere.
    pub own: Option<SocketAddr>,
    /// The folder for the key that tokens are signed with; `None` = a new key with each start.
    pub data_dir: Option<PathBuf>,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self {
            workers: 2 * std::thread::available_parallelism().map_or(1, usize::from),
            timeout: Duration::from_secs(30),
            in_flight_max: 10_000,
            success: Success::TwoHundreds,
            retry_default: RetryDefault::Google,
            attempt_log_bytes_max: 256 << 20,
            private_networks: true,
            allow: Vec::new(),
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            connects_max: 256,
            connects_per_host_max: 8,
            oidc_accounts: Accounts::Any,
            own: None,
            data_dir: None,
        }
    }
}

/// What a push subscription without a retry policy waits between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDefault {
    /// As long as the endpoint's breaker says, without an end of attempts.
    Google,
    /// 10 s doubling to 600 s, 5 attempts.
    Source,
}

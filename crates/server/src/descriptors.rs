//! How many files and sockets the process may open, and who gets how many of them.
//!
//! ```text
//!   0                                                              limit
//!   ├── log, segments, database ──┤── clients ──┤── endpoints ──────┤
//!        kept in reserve            limits.connections_max
//!                                                 push.in_flight_max
//! ```
//!
//! Sockets come and go with clients and subscriptions, so they are bounded at startup: otherwise
//! the log could hit the limit at any time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Files that are no sockets, at most: segments of topics that are read (two for each of 64), the
/// log, the databases, what backups and lookups of names open, and a few of the runtime.
const FILES: u64 = 256;

/// What the process may open, and what was made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Files and sockets; `None` = without a limit, or none that is known.
    pub(crate) limit: Option<u64>,
    /// Connections of clients.
    pub(crate) connections_max: usize,
    /// Connections to endpoints.
    pub(crate) push_max: usize,
    /// The settings that could not be kept, in words.
    pub(crate) lowered: Vec<String>,
    /// The limit that would do.
    pub(crate) needed: u64,
}

impl Descriptors {
    /// Shares out what this process may open now.
    pub(crate) fn share(config: &Config) -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        Self::of(limit, config.limits.connections_max, config.push.in_flight_max)
    }

    /// Shares out `limit` between clients and endpoints: who wants less than half of what is there
    /// gets all of it, and leaves the rest to the other.
    fn of(limit: Option<u64>, connections: usize, pushes: usize) -> Self {
        let needed = FILES.saturating_add(connections as u64).saturating_add(pushes as u64);
        let sockets = match limit {
            Some(limit) => limit.saturating_sub(FILES.min(limit / 4 * 3)),
            None => u64::MAX,
        };
        let sockets = usize::try_from(sockets).unwrap_or(usize::MAX).max(2);
        let connections_max = connections.min((sockets / 2).max(sockets.saturating_sub(pushes)));
        let push_max = pushes.min(sockets - connections_max);
        let lowered = [
            ("limits.connections_max", connections, connections_max),
            ("push.in_flight_max", pushes, push_max),
        ];
        let lowered = lowered.into_iter().filter(|(_, wanted, given)| given < wanted);
        let lowered =
            lowered.map(|(key, wanted, given)| format!("{key} is {given} instead of {wanted}"));
        Self { limit, connections_max, push_max, lowered: lowered.collect(), needed }
    }

    /// The settings with what can be kept of them.
    pub(crate) fn applied(&self, config: &Config) -> Config {
        let mut config = config.clone();
        config.limits.connections_max = self.connections_max;
        config.push.in_flight_max = self.push_max;
        config
    }

    /// Says in the log what was lowered.
    pub(crate) fn tell(&self) {
        if !self.lowered.is_empty() {
            tracing::warn!(
                limit = self.limit,
                needed = self.needed,
                lowered = self.lowered.join(", "),
                "the process cannot open enough files for its settings: raise the limit \
                 (LimitNOFILE in a unit, ulimit -Hn in a shell), or lower the settings"
            );
        }
    }
}

/// Lets this process open as many files as the system permits: what shells and units give at first
/// is often far less.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = limit.current, "the limit of open files cannot be raised");
    }
}

/// How many files and sockets are open now; `None` where the system does not tell.
pub(crate) fn open() -> Option<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // The folder that is being read is one of them.
    Some(entries.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(limit: u64, connections: usize, pushes: usize) -> (usize, usize) {
        let shared = Descriptors::of(Some(limit), connections, pushes);
        (shared.connections_max, shared.push_max)
    }

    #[test]
    fn settings_are_kept_where_the_limit_allows() {
        for limit in [None, Some(1 << 20), Some(20_256)] {
            let shared = Descriptors::of(limit, 10_000, 10_000);
            assert_eq!((shared.connections_max, shared.push_max), (10_000, 10_000));
            assert!(shared.lowered.is_empty());
        }
        let short = Descriptors::of(Some(20_255), 10_000, 10_000);
        assert_eq!((short.needed, short.lowered.len()), (20_256, 1), "{short:?}");
    }

    #[test]
    fn a_short_limit_is_shared_and_files_have_theirs_first() {
        assert_eq!(shared(1_024, 10_000, 10_000), (384, 384));
        assert_eq!(shared(256, 10_000, 10_000), (32, 32));
        assert_eq!(shared(1_024, 100, 10_000), (100, 668));
        assert_eq!(shared(1_024, 10_000, 100), (668, 100));
        assert_eq!(shared(4, 10_000, 10_000), (1, 1));
        let lowered = Descriptors::of(Some(1_024), 100, 10_000).lowered;
        assert_eq!(lowered, ["push.in_flight_max is 668 instead of 10000"]);
    }

    #[test]
    fn what_is_shared_out_is_never_more_than_there_is() {
        for limit in [8, 64, 256, 300, 1_000, 4_096, 65_536] {
            for wanted in [(1, 1), (1, 9_999), (9_999, 1), (500, 500), (usize::MAX, usize::MAX)] {
                let (connections, pushes) = shared(limit, wanted.0, wanted.1);
                assert!(connections >= 1 && pushes >= 1, "{limit} {wanted:?}");
                let sockets = limit - FILES.min(limit / 4 * 3);
                assert!((connections + pushes) as u64 <= sockets, "{limit} {wanted:?}");
            }
        }
    }

    #[test]
    fn open_files_are_counted() {
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/proc/self/stat")).collect();
        assert!(open().unwrap() >= files.len());
    }
}

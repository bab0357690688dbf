//! Every metric there is: its name, kind, unit, help and labels, in this place only.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows; its name ends in `_total` where it is shown.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often values fell below bounds.
    Histogram,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name, without the `_total` of a counter.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The unit, which is the last word of the name; empty where it counts things.
    pub(crate) unit: &'static str,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

impl Metric {
    const fn new(
        kind: Kind,
        name: &'static str,
        unit: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, unit, labels, help }
    }

    /// The name under which a query finds it; that of a histogram has endings of its own.
    pub(crate) fn full_name(&self) -> String {
        let ending = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{ending}", self.name)
    }
}

use Kind::{Counter, Gauge, Histogram};

const SERVER: &[&str] = &[];
const TOPIC: &[&str] = &["topic"];
const SUBSCRIPTION: &[&str] = &["subscription"];
/// The label of the source that named these.
const FIFO: &[&str] = &["subscription_id"];
const CLASS: &[&str] = &["subscription", "class"];
const ALERT: &[&str] = &["rule", "severity", "state"];
const OUTCOME: &[&str] = &["outcome"];
const VERSION: &[&str] = &["version"];
const STATE: &[&str] = &["state"];
const GATEWAY: &[&str] = &["gateway"];
const TENANT: &[&str] = &["tenant"];

macro_rules! metrics {
    ($($id:ident = $kind:ident, $name:literal, $unit:literal, $labels:ident, $help:literal;)*) => {
        $(pub(crate) static $id: Metric = Metric::new($kind, $name, $unit, $labels, $help);)*

        /// All of them.
        #[cfg(test)]
        pub(crate) static ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    BACKLOG_MESSAGES = Gauge, "postrider_backlog_messages", "", SUBSCRIPTION,
        "Messages not yet acked, including unread ones that a filter will skip.";
    BACKLOG_BYTES = Gauge, "postrider_backlog_bytes", "bytes", SUBSCRIPTION,
        "Approximate size of the backlog: its messages times the topic's average size.";
    OLDEST_UNACKED_AGE = Gauge, "postrider_oldest_unacked_age_seconds", "seconds", SUBSCRIPTION,
        "Age of the oldest message in the backlog; 0 without a backlog.";
    OUTSTANDING = Gauge, "postrider_outstanding_messages", "", SUBSCRIPTION,
        "Messages delivered to consumers and not yet settled.";
    DELIVERIES = Counter, "postrider_deliveries", "", SUBSCRIPTION,
        "Messages delivered to consumers or endpoints, including repeats.";
    ACKS = Counter, "postrider_acks", "", SUBSCRIPTION, "Acks that took effect.";
    NACKS = Counter, "postrider_nacks", "", SUBSCRIPTION,
        "Deliveries that failed with a nack or an endpoint's response.";
    EXPIRIES = Counter, "postrider_expiries", "", SUBSCRIPTION,
        "Deliveries whose ack deadline passed.";
    PUSH_ATTEMPTS = Counter, "postrider_push_attempts", "", CLASS,
        "Attempts to push a message, by result.";
    PUSH_LATENCY = Histogram, "postrider_push_latency_seconds", "seconds", SUBSCRIPTION,
        "How long requests to the endpoint took, including failed ones.";
    PUSH_WINDOW = Gauge, "postrider_push_window", "", SUBSCRIPTION,
        "The most requests the endpoint gets at a time.";
    DEAD_LETTERS = Counter, "postrider_dead_letters", "", SUBSCRIPTION,
        "Exhausted messages that went to the dead letter topic.";
    DEAD_LETTERS_WAITING = Gauge, "postrider_dead_letters_waiting", "", SUBSCRIPTION,
        "Dead letters from the subscription that nobody has handled.";
    DROPPED = Counter, "postrider_dropped_messages", "", SUBSCRIPTION,
        "Exhausted messages dropped because there is no dead letter policy.";
    EXPORTED_OBJECTS = Counter, "postrider_exported_objects", "", SUBSCRIPTION,
        "Objects completed in the subscription's bucket.";
    EXPORTED_BYTES = Counter, "postrider_exported_bytes", "bytes", SUBSCRIPTION,
        "Bytes of objects completed in the subscription's bucket.";
    EXPORT_FAILURES = Counter, "postrider_export_failures", "", SUBSCRIPTION,
        "Objects that could not be written, and messages that could not be put into one.";
    EXPORT_FAILING = Gauge, "postrider_export_failing", "", SUBSCRIPTION,
        "1 while messages cannot be written to the bucket, else 0.";
    FIFO_QUEUE_DEPTH = Gauge, "fifo_subscription_queue_depth", "", FIFO,
        "Messages waiting in a FIFO subscription.";
    FIFO_BLOCKED = Gauge, "fifo_subscription_blocked_duration_seconds", "seconds", FIFO,
        "How long the first message of a FIFO subscription has been failing; 0 if it is not.";
    FIFO_ATTEMPTS = Gauge, "fifo_subscription_current_retry_count", "", FIFO,
        "How often the first message of a FIFO subscription has failed.";
    LANES_BLOCKED = Gauge, "postrider_lanes_blocked", "", SUBSCRIPTION,
        "Lanes waiting for something other than consumers, including halted ones.";
    LANES_HALTED = Gauge, "postrider_lanes_halted", "", SUBSCRIPTION,
        "Lanes waiting for an operator to release or skip their first message.";
    LANE_BLOCKED = Gauge, "postrider_lane_blocked_seconds", "seconds", SUBSCRIPTION,
        "How long the longest-failing lane has been failing; 0 if none is.";
    PAUSED = Gauge, "postrider_paused", "", SUBSCRIPTION,
        "1 while the subscription is paused, else 0.";
    ENDPOINT_LEFT_ALONE = Gauge, "postrider_endpoint_left_alone", "", SUBSCRIPTION,
        "1 while the endpoint gets nothing, or one request to check it; else 0.";
    BACKING_OFF = Gauge, "postrider_backing_off", "", SUBSCRIPTION,
        "Messages, or lanes, waiting for a backoff to end.";
    ALERTS = Gauge, "postrider_alerts", "", ALERT,
        "Subscriptions with an alert, by rule, severity and state.";
    PUBLISHED_MESSAGES = Counter, "postrider_published_messages", "", TOPIC,
        "Messages published to the topic, dead letters included.";
    PUBLISHED_BYTES = Counter, "postrider_published_bytes", "bytes", TOPIC,
        "Bytes of their data, attributes and ordering keys.";
    COMMIT_LATENCY = Histogram, "postrider_commit_latency_seconds", "seconds", SERVER,
        "How long a commit group took to be written and synced.";
    GROUP_MESSAGES = Histogram, "postrider_commit_group_messages", "", SERVER,
        "Messages in a commit group; 0 if it only had acks.";
    GROUP_BYTES = Histogram, "postrider_commit_group_bytes", "bytes", SERVER,
        "Bytes of a commit group.";
    LIVE_REGISTERED = Counter, "postrider_live_subscriptions", "", SERVER,
        "Live subscriptions registered; renewals do not count.";
    LIVE_ACTIVE = Gauge, "postrider_live_subscriptions_active", "", SERVER,
        "Current live subscriptions.";
    LIVE_EXPIRED = Counter, "postrider_live_subscriptions_expired", "", SERVER,
        "Live subscriptions that expired without a heartbeat.";
    LIVE_UNREGISTERED = Counter, "postrider_live_subscriptions_unregistered", "", SERVER,
        "Live subscriptions that were removed.";
    LIVE_BY_GATEWAY = Gauge, "postrider_live_subscriptions_by_gateway", "", GATEWAY,
        "Live subscriptions of the largest gateways; the rest are under other.";
    LIVE_BY_TENANT = Gauge, "postrider_live_subscriptions_by_tenant", "", TENANT,
        "Live subscriptions of the largest tenants; the rest are under other.";
    LIVE_REGISTRATION_TIME = Histogram, "postrider_live_registration_duration_seconds", "seconds",
        SERVER, "How long registrations took, including refused ones.";
    LIVE_REGISTRATION_ERRORS = Counter, "postrider_live_registration_errors", "", SERVER,
        "Registrations that were refused.";
    LIVE_RENEWAL_TIME = Histogram, "postrider_live_renewal_duration_seconds", "seconds", SERVER,
        "How long heartbeats took, including refused ones.";
    LIVE_RENEWAL_ERRORS = Counter, "postrider_live_renewal_errors", "", SERVER,
        "Heartbeats that were refused.";
    LIVE_STREAMS = Gauge, "postrider_live_streams", "", SERVER,
        "Open gateway streams.";
    LIVE_MESSAGES = Counter, "postrider_live_messages", "", SERVER,
        "Messages that were matched against live subscriptions.";
    LIVE_UNREADABLE = Counter, "postrider_live_unreadable_messages", "", SERVER,
        "Of these, those whose data was needed and is not JSON, or is longer than 1 MiB.";
    LIVE_FRAMES = Counter, "postrider_live_frames", "", SERVER,
        "Frames for gateways, one per message and gateway.";
    LIVE_RESYNCS = Counter, "postrider_live_resyncs", "", SERVER,
        "Times a gateway lost frames and was told to resync.";
    LIVE_BUFFER = Gauge, "postrider_live_buffer_bytes", "bytes", SERVER,
        "Approximate size of the frames kept for gateways.";
    TRANSFORMED = Counter, "postrider_transformed_messages", "", OUTCOME,
        "Messages that went through transforms, by outcome: changed, dropped or failed.";
    LOG_BYTES = Gauge, "postrider_log_bytes", "bytes", SERVER,
        "Bytes of the write-ahead log in use; with the memory engine, of all messages kept.";
    SHARDS = Gauge, "postrider_shards", "", STATE,
        "Shards: open = run by this server, stalled = of these, waiting for a store that does not \
         answer, all = in the store.";
    DISK_USED = Gauge, "postrider_disk_used_bytes", "bytes", SERVER,
        "Disk space used by the data folder, including reserved space.";
    DISK_FREE = Gauge, "postrider_disk_free_bytes", "bytes", SERVER,
        "Free space on the data folder's disk.";
    DISK_TOTAL = Gauge, "postrider_disk_total_bytes", "bytes", SERVER,
        "Size of the data folder's disk.";
    MEMORY = Gauge, "postrider_memory_resident_bytes", "bytes", SERVER,
        "Resident memory of the process.";
    OPEN_STREAMS = Gauge, "postrider_open_streams", "", SERVER,
        "Open StreamingPull calls.";
    ENDED_CONNECTIONS = Counter, "postrider_unread_connections_ended", "", SERVER,
        "Connections closed because they did not read while others waited for memory.";
    CLOCK_AHEAD = Gauge, "postrider_clock_ahead_seconds", "seconds", SERVER,
        "How far the clock is ahead while retention and expiry are suspended; 0 if they are not.";
    LOG_STUCK = Gauge, "postrider_log_stuck_seconds", "seconds", SERVER,
        "How long the write-ahead log could not be emptied; 0 if it can be.";
    OUTSTANDING_USED = Gauge, "postrider_outstanding_used_ratio", "ratio", SERVER,
        "Messages that are delivered and not acked, or waiting to be retried, as a share of \
         limits.outstanding_max.";
    TOPICS = Gauge, "postrider_topics", "", SERVER, "Topics, not counting the server's own.";
    SUBSCRIPTIONS = Gauge, "postrider_subscriptions", "", SERVER, "Subscriptions.";
    RECOVERY_TIME = Gauge, "postrider_recovery_seconds", "seconds", SERVER,
        "How long it took to open the store at startup.";
    RECOVERED = Gauge, "postrider_recovered_messages", "", SERVER,
        "Messages replayed from the log at startup.";
    START_TIME = Gauge, "postrider_start_time_seconds", "seconds", SERVER,
        "When the server started, in seconds since 1970.";
    BUILD_INFO = Gauge, "postrider_build_info", "", VERSION,
        "Always 1; the label has the version and commit.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The table of `docs/operating/metrics.md`.
    fn document() -> String {
        let mut text = String::from("| Name | Kind | Labels | Is |\n|---|---|---|---|\n");
        for metric in ALL {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            text.push_str(&format!(
                "| `{}` | {} | {} | {} |\n",
                metric.full_name(),
                metric.kind.as_str(),
                labels.join(", "),
                metric.help
            ));
        }
        text
    }

    #[test]
    fn the_document_lists_every_metric() {
        const BEGIN: &str = "<!-- table of metrics, generated -->\n";
        const END: &str = "<!-- end of the table -->\n";
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/metrics.md");
        let text = std::fs::read_to_string(file).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (written, after) = rest.split_once(END).unwrap();
        let expected = document();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
            return;
        }
        assert_eq!(written, expected, "run this test with UPDATE_GENERATED=1 and commit the file");
    }

    #[test]
    fn names_are_unique_prefixed_and_end_in_their_unit() {
        let mut names = BTreeSet::new();
        for metric in ALL {
            let name = metric.name;
            assert!(names.insert(name), "{name} twice");
            assert!(name.starts_with("postrider_") || metric.labels == FIFO, "{name}");
            assert!(name.ends_with(metric.unit) && !name.ends_with("_total"), "{name}");
            assert!(metric.help.ends_with('.') && !metric.help.contains('\n'), "{name}");
        }
    }
}

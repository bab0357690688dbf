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
const VERSION: &[&str] = &["version"];
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
        "Messages not yet acked; those not read yet that a filter will pass over count too.";
    BACKLOG_BYTES = Gauge, "postrider_backlog_bytes", "bytes", SUBSCRIPTION,
        "About how many bytes the backlog is: its messages times the topic's average.";
    OLDEST_UNACKED_AGE = Gauge, "postrider_oldest_unacked_age_seconds", "seconds", SUBSCRIPTION,
        "How long ago the oldest message of the backlog was published; 0 without a backlog.";
    OUTSTANDING = Gauge, "postrider_outstanding_messages", "", SUBSCRIPTION,
        "Messages handed to consumers and not yet settled.";
    DELIVERIES = Counter, "postrider_deliveries", "", SUBSCRIPTION,
        "Messages handed to consumers or endpoints, repetitions included.";
    ACKS = Counter, "postrider_acks", "", SUBSCRIPTION, "Acks that counted.";
    NACKS = Counter, "postrider_nacks", "", SUBSCRIPTION,
        "Deliveries that failed by a nack or by what an endpoint answered.";
    EXPIRIES = Counter, "postrider_expiries", "", SUBSCRIPTION,
        "Deliveries whose ack deadline passed.";
    PUSH_ATTEMPTS = Counter, "postrider_push_attempts", "", CLASS,
        "Attempts to push a message, by what came of them.";
    PUSH_LATENCY = Histogram, "postrider_push_latency_seconds", "seconds", SUBSCRIPTION,
        "How long requests to the endpoint took, failed ones included.";
    PUSH_WINDOW = Gauge, "postrider_push_window", "", SUBSCRIPTION,
        "Requests the endpoint is sent at a time, at most.";
    DEAD_LETTERS = Counter, "postrider_dead_letters", "", SUBSCRIPTION,
        "Exhausted messages that went to the dead letter topic.";
    DEAD_LETTERS_WAITING = Gauge, "postrider_dead_letters_waiting", "", SUBSCRIPTION,
        "Dead letters that came from the subscription and that nobody has dealt with.";
    DROPPED = Counter, "postrider_dropped_messages", "", SUBSCRIPTION,
        "Exhausted messages that were dropped, for want of a dead letter policy.";
    FIFO_QUEUE_DEPTH = Gauge, "fifo_subscription_queue_depth", "", FIFO,
        "Messages that wait in a FIFO subscription.";
    FIFO_BLOCKED = Gauge, "fifo_subscription_blocked_duration_seconds", "seconds", FIFO,
        "For how long the message in front of a FIFO subscription has failed; 0 if it has not.";
    FIFO_ATTEMPTS = Gauge, "fifo_subscription_current_retry_count", "", FIFO,
        "How often the message in front of a FIFO subscription has failed.";
    LANES_BLOCKED = Gauge, "postrider_lanes_blocked", "", SUBSCRIPTION,
        "Lanes that wait for something other than consumers, halted ones included.";
    LANES_HALTED = Gauge, "postrider_lanes_halted", "", SUBSCRIPTION,
        "Lanes that wait for an operator: release or skip the message that stops them.";
    LANE_BLOCKED = Gauge, "postrider_lane_blocked_seconds", "seconds", SUBSCRIPTION,
        "For how long the worst lane of a key has failed; 0 if none does.";
    PAUSED = Gauge, "postrider_paused", "", SUBSCRIPTION,
        "1 while the subscription is paused, else 0.";
    ENDPOINT_LEFT_ALONE = Gauge, "postrider_endpoint_left_alone", "", SUBSCRIPTION,
        "1 while the endpoint is sent nothing, or one request that tries; else 0.";
    BACKING_OFF = Gauge, "postrider_backing_off", "", SUBSCRIPTION,
        "Messages, or lanes of them, that wait for a backoff to end.";
    ALERTS = Gauge, "postrider_alerts", "", ALERT,
        "Subscriptions with which something is wrong, by rule, severity and state.";
    PUBLISHED_MESSAGES = Counter, "postrider_published_messages", "", TOPIC,
        "Messages published to the topic, dead letters included.";
    PUBLISHED_BYTES = Counter, "postrider_published_bytes", "bytes", TOPIC,
        "Bytes of their data, attributes and ordering keys.";
    COMMIT_LATENCY = Histogram, "postrider_commit_latency_seconds", "seconds", SERVER,
        "How long a commit group took to be written and synced.";
    GROUP_MESSAGES = Histogram, "postrider_commit_group_messages", "", SERVER,
        "Messages in a commit group; none where it only carried acks.";
    GROUP_BYTES = Histogram, "postrider_commit_group_bytes", "bytes", SERVER,
        "Bytes of a commit group.";
    LIVE_REGISTERED = Counter, "postrider_live_subscriptions", "", SERVER,
        "Live subscriptions registered; renewals do not count.";
    LIVE_ACTIVE = Gauge, "postrider_live_subscriptions_active", "", SERVER,
        "Live subscriptions there are now.";
    LIVE_EXPIRED = Counter, "postrider_live_subscriptions_expired", "", SERVER,
        "Live subscriptions that expired for want of a heartbeat.";
    LIVE_UNREGISTERED = Counter, "postrider_live_subscriptions_unregistered", "", SERVER,
        "Live subscriptions that were removed.";
    LIVE_BY_GATEWAY = Gauge, "postrider_live_subscriptions_by_gateway", "", GATEWAY,
        "Live subscriptions of the gateways with the most; all other gateways are under other.";
    LIVE_BY_TENANT = Gauge, "postrider_live_subscriptions_by_tenant", "", TENANT,
        "Live subscriptions of the tenants with the most; all other tenants are under other.";
    LIVE_REGISTRATION_TIME = Histogram, "postrider_live_registration_duration_seconds", "seconds",
        SERVER, "How long registrations took, refused ones included.";
    LIVE_REGISTRATION_ERRORS = Counter, "postrider_live_registration_errors", "", SERVER,
        "Registrations that were refused.";
    LIVE_RENEWAL_TIME = Histogram, "postrider_live_renewal_duration_seconds", "seconds", SERVER,
        "How long heartbeats took, refused ones included.";
    LIVE_RENEWAL_ERRORS = Counter, "postrider_live_renewal_errors", "", SERVER,
        "Heartbeats that were refused.";
    LIVE_STREAMS = Gauge, "postrider_live_streams", "", SERVER,
        "Streams of gateways that are open.";
    LIVE_MESSAGES = Counter, "postrider_live_messages", "", SERVER,
        "Messages that were matched against live subscriptions.";
    LIVE_UNREADABLE = Counter, "postrider_live_unreadable_messages", "", SERVER,
        "Of these, those whose data was looked into and is not JSON, or longer than 1 MiB.";
    LIVE_FRAMES = Counter, "postrider_live_frames", "", SERVER,
        "Frames made for gateways, one for each message and gateway.";
    LIVE_RESYNCS = Counter, "postrider_live_resyncs", "", SERVER,
        "Times that frames were lost to a gateway, and it was told to fetch anew.";
    LIVE_BUFFER = Gauge, "postrider_live_buffer_bytes", "bytes", SERVER,
        "About how many bytes the frames take that are kept for gateways.";
    LOG_BYTES = Gauge, "postrider_log_bytes", "bytes", SERVER,
        "Bytes of the write-ahead log in use; with the memory engine, of all messages kept.";
    DISK_USED = Gauge, "postrider_disk_used_bytes", "bytes", SERVER,
        "Disk space the data folder takes up, what is set aside included.";
    DISK_FREE = Gauge, "postrider_disk_free_bytes", "bytes", SERVER,
        "Disk space left where the data folder is.";
    DISK_TOTAL = Gauge, "postrider_disk_total_bytes", "bytes", SERVER,
        "Size of the disk where the data folder is.";
    MEMORY = Gauge, "postrider_memory_resident_bytes", "bytes", SERVER,
        "Memory of the process that is in use.";
    OPEN_STREAMS = Gauge, "postrider_open_streams", "", SERVER,
        "StreamingPull calls that are open.";
    ENDED_CONNECTIONS = Counter, "postrider_unread_connections_ended", "", SERVER,
        "Connections that were ended: they did not read their answers while others waited for memory.";
    CLOCK_AHEAD = Gauge, "postrider_clock_ahead_seconds", "seconds", SERVER,
        "How far the clock is ahead while retention and expiry are suspended for it; 0 = not.";
    LOG_STUCK = Gauge, "postrider_log_stuck_seconds", "seconds", SERVER,
        "For how long the write-ahead log could not be emptied; 0 = it can be.";
    TOPICS = Gauge, "postrider_topics", "", SERVER, "Topics there are, without the server's own.";
    SUBSCRIPTIONS = Gauge, "postrider_subscriptions", "", SERVER, "Subscriptions there are.";
    RECOVERY_TIME = Gauge, "postrider_recovery_seconds", "seconds", SERVER,
        "How long the store took to be opened at the start.";
    RECOVERED = Gauge, "postrider_recovered_messages", "", SERVER,
        "Messages that were replayed from the log at the start.";
    START_TIME = Gauge, "postrider_start_time_seconds", "seconds", SERVER,
        "When the server started, in seconds since 1970.";
    BUILD_INFO = Gauge, "postrider_build_info", "", VERSION,
        "Always 1; the version and the commit it was built from are in the label.";
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

//! `grafana-dashboard.json`: every metric of the table, where an operator looks for it.

use serde_json::{Value, json};

use crate::metrics::table::{self, Kind, Metric};

/// Panels of one row of the dashboard, and of the same height.
const ACROSS: usize = 3;
const WIDTH: usize = 24 / ACROSS;
const HEIGHT: usize = 8;

/// Part of the dashboard: its title and what it shows.
struct Section {
    title: &'static str,
    panels: Vec<Panel>,
}

struct Panel {
    title: String,
    unit: &'static str,
    /// Query and legend.
    queries: Vec<(String, String)>,
}

/// A metric as it is.
fn now(title: &str, metric: &Metric) -> Panel {
    panel(title, metric, |selected| selected)
}

/// How fast a counter grows.
fn rate(title: &str, metric: &Metric) -> Panel {
    panel(title, metric, |selected| format!("rate({selected}[$__rate_interval])"))
}

fn panel(title: &str, metric: &Metric, query: impl Fn(String) -> String) -> Panel {
    let labels: Vec<String> =
        metric.labels.iter().map(|label| format!("{{{{{label}}}}}")).collect();
    let legend = if labels.is_empty() { title.to_owned() } else { labels.join(" ") };
    let queries = vec![(query(selected(metric, &metric.full_name())), legend)];
    Panel { title: title.to_owned(), unit: unit(metric), queries }
}

/// Half and all but a hundredth of what a histogram counted lie below these.
fn quantiles(title: &str, metric: &Metric) -> Panel {
    let bucket = selected(metric, &format!("{}_bucket", metric.name));
    let by = metric.labels.iter().fold("le".to_owned(), |by, label| format!("{by}, {label}"));
    let query = |quantile: &str| {
        let sum = format!("sum by ({by}) (rate({bucket}[$__rate_interval]))");
        (format!("histogram_quantile({quantile}, {sum})"), format!("p{}", &quantile[2..]))
    };
    let queries = vec![query("0.50"), query("0.99")];
    Panel { title: title.to_owned(), unit: unit(metric), queries }
}

/// Only what was chosen at the head of the dashboard.
fn selected(metric: &Metric, name: &str) -> String {
    match metric.labels.first() {
        Some(&"subscription") => format!("{name}{{subscription=~\"$subscription\"}}"),
        Some(&"subscription_id") => format!("{name}{{subscription_id=~\"$subscription\"}}"),
        Some(&"topic") => format!("{name}{{topic=~\"$topic\"}}"),
        _ => name.to_owned(),
    }
}

fn unit(metric: &Metric) -> &'static str {
    match (metric.kind, metric.unit) {
        (Kind::Counter, "bytes") => "Bps",
        (Kind::Counter, _) => "cps",
        (_, "bytes") => "bytes",
        (_, "seconds") => "s",
        _ => "short",
    }
}

fn sections() -> Vec<Section> {
    let section = |title, panels| Section { title, panels };
    vec![
        section("Alerts and backlog", backlog()),
        section("Deliveries", deliveries()),
        section("Push", push()),
        section("Export", export()),
        section("Dead letters, FIFO and lanes", letters()),
        section("Live subscriptions", live()),
        section("Log, disk and process", machine()),
    ]
}

fn backlog() -> Vec<Panel> {
    let alerts = table::ALERTS.full_name();
    let firing = format!("sum by (rule, severity) ({alerts}{{state=\"firing\"}})");
    vec![
        Panel {
            title: "Firing alerts".to_owned(),
            unit: "short",
            queries: vec![(firing, "{{rule}} {{severity}}".to_owned())],
        },
        now("Oldest unacked message", &table::OLDEST_UNACKED_AGE),
        now("Backlog", &table::BACKLOG_MESSAGES),
        now("Backlog in bytes", &table::BACKLOG_BYTES),
        now("Outstanding", &table::OUTSTANDING),
        now("Paused", &table::PAUSED),
        now("Backing off", &table::BACKING_OFF),
    ]
}

fn deliveries() -> Vec<Panel> {
    vec![
        rate("Published messages", &table::PUBLISHED_MESSAGES),
        rate("Published bytes", &table::PUBLISHED_BYTES),
        rate("Deliveries", &table::DELIVERIES),
        rate("Acks", &table::ACKS),
        rate("Nacks", &table::NACKS),
        rate("Ack deadlines passed", &table::EXPIRIES),
        rate("Transformed messages", &table::TRANSFORMED),
    ]
}

fn push() -> Vec<Panel> {
    vec![
        rate("Attempts by class", &table::PUSH_ATTEMPTS),
        quantiles("Latency of endpoints", &table::PUSH_LATENCY),
        now("Window of endpoints", &table::PUSH_WINDOW),
        now("Endpoints left alone", &table::ENDPOINT_LEFT_ALONE),
    ]
}

fn export() -> Vec<Panel> {
    vec![
        rate("Objects written", &table::EXPORTED_OBJECTS),
        rate("Bytes written", &table::EXPORTED_BYTES),
        rate("Failures to write", &table::EXPORT_FAILURES),
        now("Cannot be written", &table::EXPORT_FAILING),
    ]
}

fn letters() -> Vec<Panel> {
    vec![
        now("Dead letters waiting", &table::DEAD_LETTERS_WAITING),
        rate("Dead letters", &table::DEAD_LETTERS),
        rate("Dropped messages", &table::DROPPED),
        now("FIFO: messages waiting", &table::FIFO_QUEUE_DEPTH),
        now("FIFO: blocked for", &table::FIFO_BLOCKED),
        now("FIFO: failed attempts of the first", &table::FIFO_ATTEMPTS),
        now("Lanes blocked", &table::LANES_BLOCKED),
        now("Lanes waiting for an operator", &table::LANES_HALTED),
        now("Lanes: blocked for", &table::LANE_BLOCKED),
    ]
}

fn live() -> Vec<Panel> {
    vec![
        now("Live subscriptions", &table::LIVE_ACTIVE),
        now("Live subscriptions by gateway", &table::LIVE_BY_GATEWAY),
        now("Live subscriptions by tenant", &table::LIVE_BY_TENANT),
        rate("Registered", &table::LIVE_REGISTERED),
        rate("Expired", &table::LIVE_EXPIRED),
        rate("Removed", &table::LIVE_UNREGISTERED),
        quantiles("Time to register", &table::LIVE_REGISTRATION_TIME),
        rate("Registrations refused", &table::LIVE_REGISTRATION_ERRORS),
        quantiles("Time to renew", &table::LIVE_RENEWAL_TIME),
        rate("Heartbeats refused", &table::LIVE_RENEWAL_ERRORS),
        now("Streams of gateways", &table::LIVE_STREAMS),
        now("Frames kept", &table::LIVE_BUFFER),
        rate("Messages matched", &table::LIVE_MESSAGES),
        rate("Messages that are not JSON", &table::LIVE_UNREADABLE),
        rate("Frames", &table::LIVE_FRAMES),
        rate("Frames lost", &table::LIVE_RESYNCS),
    ]
}

fn machine() -> Vec<Panel> {
    vec![
        quantiles("Latency of commits", &table::COMMIT_LATENCY),
        quantiles("Messages of a commit", &table::GROUP_MESSAGES),
        quantiles("Bytes of a commit", &table::GROUP_BYTES),
        now("Write-ahead log", &table::LOG_BYTES),
        now("Shards", &table::SHARDS),
        now("Disk space used", &table::DISK_USED),
        now("Disk space left", &table::DISK_FREE),
        now("Memory", &table::MEMORY),
        now("Open streams", &table::OPEN_STREAMS),
        now("Topics", &table::TOPICS),
        now("Subscriptions", &table::SUBSCRIPTIONS),
        now("Time to open the store", &table::RECOVERY_TIME),
    ]
}

pub(super) fn write() -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for section in sections() {
        let place = json!({"h": 1, "w": 24, "x": 0, "y": y});
        let id = panels.len() + 1;
        panels.push(json!({
            "type": "row", "id": id, "title": section.title, "gridPos": place, "panels": [],
        }));
        y += 1;
        for (at, panel) in section.panels.iter().enumerate() {
            let place = json!({
                "h": HEIGHT, "w": WIDTH, "x": at % ACROSS * WIDTH, "y": y + at / ACROSS * HEIGHT,
            });
            panels.push(show(panel, panels.len() + 1, place));
        }
        y += section.panels.len().div_ceil(ACROSS) * HEIGHT;
    }
    let dashboard = json!({
        "title": "Postrider",
        "uid": "postrider",
        "description": "Generated from the program's tables of metrics and alerts: change those.",
        "schemaVersion": 38,
        "version": 1,
        "editable": true,
        "refresh": "30s",
        "tags": ["postrider"],
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"},
            variable("subscription", "Subscription", &table::BACKLOG_MESSAGES),
            variable("topic", "Topic", &table::PUBLISHED_MESSAGES),
        ]},
        "panels": panels,
    });
    serde_json::to_string_pretty(&dashboard).unwrap() + "\n"
}

fn show(panel: &Panel, id: usize, place: Value) -> Value {
    let letters = ["A", "B", "C"];
    let targets = panel.queries.iter().zip(letters).map(|((query, legend), letter)| {
        json!({"refId": letter, "expr": query, "legendFormat": legend, "datasource": source()})
    });
    json!({
        "type": "timeseries",
        "id": id,
        "title": panel.title,
        "gridPos": place,
        "datasource": source(),
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${source}"})
}

/// What can be chosen at the head of the dashboard: values of the metric's first label.
fn variable(name: &str, label: &str, metric: &Metric) -> Value {
    let query = format!("label_values({}, {name})", metric.full_name());
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": query, "definition": query, "refresh": 2, "sort": 1,
        "multi": true, "includeAll": true, "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    })
}

#[test]
fn the_dashboard_is_made_from_the_table() {
    super::check("grafana-dashboard.json", &write());
}

/// What is of use once, in a table, rather than over time; and what is nothing as long as all is
/// well, and has an alert.
const NOT_SHOWN: [&str; 8] = [
    "postrider_clock_ahead_seconds",
    "postrider_log_stuck_seconds",
    "postrider_outstanding_used_ratio",
    "postrider_unread_connections_ended",
    "postrider_build_info",
    "postrider_start_time_seconds",
    "postrider_recovered_messages",
    "postrider_disk_total_bytes",
];

#[test]
fn every_metric_is_on_the_dashboard() {
    let written = write();
    for metric in table::ALL {
        let name = match metric.kind {
            Kind::Histogram => format!("{}_bucket", metric.name),
            _ => metric.full_name(),
        };
        let is_whole =
            |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        let is_shown = written.split(&name).skip(1).any(is_whole);
        assert_ne!(is_shown, NOT_SHOWN.contains(&metric.name), "{name}");
    }
}

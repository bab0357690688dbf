//! What `GET /metrics` shows.
//!
//! ```text
//!   broker's figures ─► series (who has its own) ─► rows ─► text ─► Prometheus
//!   table: the name, unit and help of each ───────────────►
//! ```

mod live;
mod machine;
mod rows;
mod series;
pub(crate) mod table;
mod text;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker::{Broker, Clock, HistogramSnapshot, LogFigures, SubscriptionFigures};
use domain::alert::{RULES, Severity, State};
use domain::{SubscriptionId, SubscriptionName, Timestamp, TopicName};
use parking_lot::Mutex;

pub(crate) use text::Format;

use crate::net::Connections;

use rows::{OTHER, Row};
use series::{Item, Series};
use table::Metric;
use text::{Value, Writer};

/// What is known about the server from its start on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) started_at: Timestamp,
    /// How long the store took to be opened, and how many messages were replayed.
    pub(crate) recovery: Duration,
    pub(crate) recovered: u64,
    /// The folder of the data; `None` = it is not on disk.
    pub(crate) folder: Option<PathBuf>,
    /// How many subscriptions, and topics, have their own series, at most.
    pub(crate) own_max: usize,
}

/// Says of a subscription whether it must have its own series.
pub(crate) type IsPinned = dyn Fn(&SubscriptionName) -> bool + Send + Sync;

/// The metrics of a server.
pub(crate) struct Metrics {
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    facts: Facts,
    /// Open StreamingPull calls.
    open_streams: Arc<AtomicU64>,
    connections: Connections,
    is_pinned: Box<IsPinned>,
    subscriptions: Mutex<Series<SubscriptionId>>,
    topics: Mutex<Series<TopicName>>,
}

impl Metrics {
    /// `is_pinned` says which subscriptions have their own series whatever the bound.
    pub(crate) fn new(
        broker: Arc<Broker>,
        clock: Arc<dyn Clock>,
        (open_streams, connections): (Arc<AtomicU64>, Connections),
        facts: Facts,
        is_pinned: Box<IsPinned>,
    ) -> Self {
        let subscriptions = Mutex::new(Series::new(facts.own_max));
        let topics = Mutex::new(Series::new(facts.own_max));
        Self { broker, clock, facts, open_streams, connections, is_pinned, subscriptions, topics }
    }

    /// The whole text. What has to wait for the disk does so on a separate thread.
    pub(crate) async fn text(self: &Arc<Self>, format: Format) -> std::io::Result<String> {
        self.broker.refresh_figures().await;
        let metrics = Arc::clone(self);
        Ok(tokio::task::spawn_blocking(move || metrics.write(format)).await?)
    }

    fn write(&self, format: Format) -> String {
        let mut out = Writer::new(format);
        let figures = self.broker.figures();
        self.write_subscriptions(&mut out, &figures);
        self.write_alerts(&mut out);
        self.write_topics(&mut out);
        live::write(&mut out, &self.broker.live().figures(0));
        self.write_log(&mut out);
        self.write_machine(&mut out);
        gauge(&mut out, &table::SUBSCRIPTIONS, figures.len() as u64);
        self.write_start(&mut out);
        out.finish()
    }

    fn write_subscriptions(&self, out: &mut Writer, figures: &[SubscriptionFigures]) {
        let (rows, classes) = self.rows(figures);
        for (metric, shown) in rows::GAUGES {
            out.begin(metric);
            for row in &rows {
                if let Some(value) = shown(row) {
                    out.sample(metric, &[(label(metric), &row.label)], value);
                }
            }
        }
        for (metric, at) in rows::COUNTERS {
            out.begin(metric);
            for row in &rows {
                let value = Value::Count(row.counter(at));
                out.sample(metric, &[(label(metric), &row.label)], value);
            }
        }
        write_pushing(out, &rows, &classes);
    }

    /// One row for each that has its own series, one for all others, and the classes of
    /// attempts.
    fn rows(&self, figures: &[SubscriptionFigures]) -> (Vec<Row>, Vec<&'static str>) {
        let items: Vec<_> = figures
            .iter()
            .map(|figures| Item {
                key: figures.id,
                counters: rows::counters(figures),
                backlog: figures.backlog_messages,
                is_pinned: (self.is_pinned)(&figures.name),
            })
            .collect();
        let mut series = self.subscriptions.lock();
        let own = series.update(&items, self.clock.now());
        let mut others = Row::others(series.others());
        drop(series);
        let mut rows = Vec::new();
        for ((figures, item), has_own) in figures.iter().zip(items).zip(&own) {
            let row = Row::of(figures, item.counters);
            if *has_own { rows.push(row) } else { others.take_in(&row) }
        }
        if !others.counters.is_empty() {
            rows.push(others);
        }
        let attempts = figures.iter().map(|figures| &figures.attempts);
        let attempts = attempts.max_by_key(|attempts| attempts.len());
        let classes = attempts.into_iter().flatten().map(|(class, _)| *class).collect();
        (rows, classes)
    }

    /// All that there can be, so that a query finds zeros rather than nothing.
    fn write_alerts(&self, out: &mut Writer) {
        let alerts = self.broker.alerts();
        out.begin(&table::ALERTS);
        for rule in &RULES {
            for severity in [Severity::Warning, Severity::Critical] {
                for state in [State::Pending, State::Firing] {
                    let is_so = |alert: &&broker::AlertView| {
                        (alert.rule, alert.severity, alert.state) == (rule.name, severity, state)
                    };
                    let count = alerts.iter().filter(is_so).count() as u64;
                    let labels = [
                        ("rule", rule.name.as_str()),
                        ("severity", severity.as_str()),
                        ("state", state.as_str()),
                    ];
                    out.sample(&table::ALERTS, &labels, Value::Count(count));
                }
            }
        }
    }

    fn write_topics(&self, out: &mut Writer) {
        let topics = self.broker.topic_figures();
        let items: Vec<_> = topics
            .iter()
            .map(|topic| Item {
                key: topic.name.clone(),
                counters: vec![topic.messages, topic.bytes],
                backlog: 0,
                is_pinned: false,
            })
            .collect();
        let mut series = self.topics.lock();
        let own = series.update(&items, self.clock.now());
        let others = series.others().to_vec();
        drop(series);
        for (at, metric) in [&table::PUBLISHED_MESSAGES, &table::PUBLISHED_BYTES].iter().enumerate()
        {
            out.begin(metric);
            let shown = items.iter().zip(&own).filter(|(_, has_own)| **has_own);
            let shown = shown.map(|(item, _)| (item.key.as_str(), &item.counters));
            for (topic, counters) in shown.chain((!others.is_empty()).then_some((OTHER, &others))) {
                let count = counters.get(at).copied().unwrap_or_default();
                out.sample(metric, &[(label(metric), topic)], Value::Count(count));
            }
        }
        let not_own = topics.iter().filter(|topic| !topic.name.is_own());
        gauge(out, &table::TOPICS, not_own.count() as u64);
    }

    fn write_log(&self, out: &mut Writer) {
        type Picked = fn(&LogFigures) -> &storage::Histogram;
        let logs = self.broker.log_figures();
        let of_all: [(&Metric, Picked); 3] = [
            (&table::COMMIT_LATENCY, |log| &log.commit_time),
            (&table::GROUP_MESSAGES, |log| &log.group_messages),
            (&table::GROUP_BYTES, |log| &log.group_bytes),
        ];
        for (metric, picked) in of_all {
            out.begin(metric);
            let parts = logs.iter().map(|log| picked(log).snapshot());
            if let Some(sum) = parts.reduce(HistogramSnapshot::plus) {
                out.histogram(metric, &[], &sum);
            }
        }
        let bytes = logs.iter().map(|log| log.log_bytes.load(Ordering::Relaxed)).sum();
        gauge(out, &table::LOG_BYTES, bytes);
        let shards = self.broker.shard_counts();
        out.begin(&table::SHARDS);
        for (state, count) in
            [("open", shards.open), ("stalled", shards.stalled), ("all", shards.all)]
        {
            out.sample(&table::SHARDS, &[("state", state)], Value::Count(count as u64));
        }
    }

    fn write_machine(&self, out: &mut Writer) {
        if let Some(space) = self.facts.folder.as_deref().and_then(machine::disk_space) {
            gauge(out, &table::DISK_USED, space.used);
            gauge(out, &table::DISK_FREE, space.free);
            gauge(out, &table::DISK_TOTAL, space.total);
        }
        if let Some(bytes) = machine::resident_bytes() {
            gauge(out, &table::MEMORY, bytes);
        }
        gauge(out, &table::OPEN_STREAMS, self.open_streams.load(Ordering::Relaxed));
        out.begin(&table::ENDED_CONNECTIONS);
        let ended = Value::Count(self.connections.ended());
        out.sample(&table::ENDED_CONNECTIONS, &[], ended);
        out.begin(&table::TRANSFORMED);
        let transformed = self.broker.transform_figures();
        for (outcome, count) in [
            ("changed", transformed.changed),
            ("dropped", transformed.dropped),
            ("failed", transformed.failed),
        ] {
            out.sample(&table::TRANSFORMED, &[("outcome", outcome)], Value::Count(count));
        }
        let jump = self.broker.clock().clock.suspended;
        gauge(out, &table::CLOCK_AHEAD, jump.map_or(0, |jump| jump.ahead.as_secs()));
        let stuck_for = self.broker.log_stuck_for();
        gauge(out, &table::LOG_STUCK, stuck_for.map_or(0, |time| time.as_secs().max(1)));
        out.begin(&table::OUTSTANDING_USED);
        let used = f64::from(self.broker.outstanding_used()) / 1e6;
        out.sample(&table::OUTSTANDING_USED, &[], Value::Real(used));
    }

    fn write_start(&self, out: &mut Writer) {
        let facts = &self.facts;
        out.begin(&table::RECOVERY_TIME);
        let recovery = Value::Real(facts.recovery.as_secs_f64());
        out.sample(&table::RECOVERY_TIME, &[], recovery);
        gauge(out, &table::RECOVERED, facts.recovered);
        gauge(out, &table::START_TIME, facts.started_at.seconds());
        out.begin(&table::BUILD_INFO);
        out.sample(&table::BUILD_INFO, &[("version", crate::VERSION)], Value::Count(1));
    }
}

fn write_pushing(out: &mut Writer, rows: &[Row], classes: &[&'static str]) {
    let bounds = storage::TIME_BOUNDS_US;
    out.begin(&table::PUSH_ATTEMPTS);
    for row in rows {
        for (class, count) in classes.iter().zip(row.attempts(bounds)) {
            let labels = [("subscription", row.label.as_str()), ("class", class)];
            out.sample(&table::PUSH_ATTEMPTS, &labels, Value::Count(*count));
        }
    }
    out.begin(&table::PUSH_LATENCY);
    for row in rows {
        if let Some(latency) = row.latency(bounds) {
            let labels = [("subscription", row.label.as_str())];
            out.histogram(&table::PUSH_LATENCY, &labels, &latency);
        }
    }
}

fn gauge(out: &mut Writer, metric: &Metric, value: u64) {
    out.begin(metric);
    out.sample(metric, &[], Value::Count(value));
}

fn label(metric: &Metric) -> &'static str {
    metric.labels.first().copied().unwrap_or_default()
}

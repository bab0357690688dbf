//! The series of subscriptions: one row of numbers for each that has its own, one for the others.

use std::time::Duration;

use broker::{ExportFigures, FifoFigures, HistogramSnapshot, SubscriptionFigures};
use domain::export::ExportState;

use super::table::{self, Metric};
use super::text::Value;

/// The label of all that have no series.
pub(super) const OTHER: &str = "other";

/// The counters of a row that are not of pushing, and where they are in it.
pub(super) static COUNTERS: [(&Metric, usize); 9] = [
    (&table::DELIVERIES, 0),
    (&table::ACKS, 1),
    (&table::NACKS, 2),
    (&table::EXPIRIES, 3),
    (&table::DEAD_LETTERS, 4),
    (&table::DROPPED, 5),
    (&table::EXPORTED_OBJECTS, 6),
    (&table::EXPORTED_BYTES, 7),
    (&table::EXPORT_FAILURES, 8),
];

/// Where the sum of the histogram is, then its buckets, then the classes.
const LATENCY_SUM: usize = COUNTERS.len();
const BUCKETS: usize = LATENCY_SUM + 1;

/// What a gauge shows of a row; `None` = nothing.
type Shown = fn(&Row) -> Option<Value>;

/// The gauges of a row, and what each shows.
pub(super) static GAUGES: [(&Metric, Shown); 16] = [
    (&table::BACKLOG_MESSAGES, |row| Some(Value::Count(row.backlog_messages))),
    (&table::BACKLOG_BYTES, |row| Some(Value::Count(row.backlog_bytes))),
    (&table::OLDEST_UNACKED_AGE, |row| row.oldest_unacked_age.map(seconds)),
    (&table::OUTSTANDING, |row| Some(Value::Count(row.outstanding))),
    (&table::DEAD_LETTERS_WAITING, |row| Some(Value::Count(row.dead_letters_waiting))),
    (&table::PUSH_WINDOW, |row| row.push_window.map(|window| Value::Count(window.into()))),
    (&table::FIFO_QUEUE_DEPTH, |row| row.fifo.map(|fifo| Value::Count(fifo.queue_depth))),
    (&table::FIFO_BLOCKED, |row| row.fifo.map(|fifo| seconds(blocked(fifo)))),
    (&table::FIFO_ATTEMPTS, |row| {
        row.fifo.map(|fifo| Value::Count(fifo.current_retry_count.into()))
    }),
    (&table::LANES_BLOCKED, |row| row.lanes.map(|lanes| Value::Count(lanes.blocked))),
    (&table::LANES_HALTED, |row| row.lanes.map(|lanes| Value::Count(lanes.halted))),
    (&table::LANE_BLOCKED, |row| row.lanes?.blocked_for.map(seconds)),
    (&table::PAUSED, |row| Some(Value::Count(row.paused))),
    (&table::ENDPOINT_LEFT_ALONE, |row| row.left_alone.map(Value::Count)),
    (&table::EXPORT_FAILING, |row| row.export_failing.map(Value::Count)),
    (&table::BACKING_OFF, |row| Some(Value::Count(row.backing_off))),
];

fn is_failing(export: &ExportFigures) -> bool {
    export.state != ExportState::Active
}

fn seconds(time: Duration) -> Value {
    Value::Real(time.as_secs_f64())
}

fn blocked(fifo: FifoFigures) -> Duration {
    fifo.blocked_for.unwrap_or_default()
}

/// What is shown of one subscription, or of all others together.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) label: String,
    /// In the order of `counters`.
    pub(super) counters: Vec<u64>,
    /// `None` = it is on disk, and was not looked up yet.
    oldest_unacked_age: Option<Duration>,
    backlog_messages: u64,
    backlog_bytes: u64,
    outstanding: u64,
    dead_letters_waiting: u64,
    push_window: Option<u32>,
    fifo: Option<FifoFigures>,
    lanes: Option<LaneFigures>,
    paused: u64,
    /// `None` = nothing is pushed.
    left_alone: Option<u64>,
    backing_off: u64,
    /// `None` = nothing is exported.
    export_failing: Option<u64>,
}

/// Of a subscription whose messages go in lanes.
#[derive(Clone, Copy, Debug, Default)]
struct LaneFigures {
    blocked: u64,
    halted: u64,
    /// `None` of a FIFO subscription, which has its own metric.
    blocked_for: Option<Duration>,
}

impl LaneFigures {
    fn of(figures: &SubscriptionFigures) -> Option<Self> {
        let waits = &figures.obstacles.waits;
        figures.has_lanes.then(|| Self {
            blocked: waits.lanes_blocked as u64,
            halted: waits.lanes_halted as u64,
            blocked_for: (!figures.is_fifo).then(|| figures.lane_blocked_for.unwrap_or_default()),
        })
    }

    fn take_in(&mut self, other: Self) {
        self.blocked += other.blocked;
        self.halted += other.halted;
        self.blocked_for = self.blocked_for.max(other.blocked_for);
    }
}

impl Row {
    /// The row of one subscription.
    pub(super) fn of(figures: &SubscriptionFigures, counters: Vec<u64>) -> Self {
        let without_backlog = (figures.backlog_messages == 0).then_some(Duration::ZERO);
        Self {
            label: figures.name.to_string(),
            counters,
            oldest_unacked_age: figures.oldest_unacked_age.or(without_backlog),
            backlog_messages: figures.backlog_messages,
            backlog_bytes: figures.backlog_bytes,
            outstanding: figures.outstanding,
            dead_letters_waiting: figures.dead_letters_waiting,
            push_window: figures.push_window,
            fifo: figures.fifo,
            lanes: LaneFigures::of(figures),
            paused: figures.obstacles.is_paused.into(),
            left_alone: figures.is_push.then_some(figures.obstacles.left_alone.is_some().into()),
            backing_off: figures.obstacles.waits.backing_off as u64,
            export_failing: figures.export.as_ref().map(|export| is_failing(export).into()),
        }
    }

    /// The row of all others, of which there are none yet.
    pub(super) fn others(counters: &[u64]) -> Self {
        Self { label: OTHER.to_owned(), counters: counters.to_vec(), ..Self::default() }
    }

    /// Takes in one more: what can be added is added, of ages and the like the greatest is shown.
    pub(super) fn take_in(&mut self, other: &Self) {
        self.backlog_messages += other.backlog_messages;
        self.backlog_bytes = self.backlog_bytes.saturating_add(other.backlog_bytes);
        self.outstanding += other.outstanding;
        self.dead_letters_waiting += other.dead_letters_waiting;
        self.oldest_unacked_age = self.oldest_unacked_age.max(other.oldest_unacked_age);
        self.push_window = match (self.push_window, other.push_window) {
            (Some(one), Some(another)) => Some(one.saturating_add(another)),
            (one, another) => one.or(another),
        };
        self.paused += other.paused;
        self.backing_off += other.backing_off;
        if let Some(failing) = other.export_failing {
            *self.export_failing.get_or_insert_default() += failing;
        }
        if let Some(left_alone) = other.left_alone {
            *self.left_alone.get_or_insert_default() += left_alone;
        }
        if let Some(lanes) = other.lanes {
            self.lanes.get_or_insert_default().take_in(lanes);
        }
        if let Some(fifo) = other.fifo {
            let sum = self.fifo.get_or_insert_default();
            sum.queue_depth += fifo.queue_depth;
            sum.blocked_for = sum.blocked_for.max(fifo.blocked_for);
            sum.current_retry_count = sum.current_retry_count.max(fifo.current_retry_count);
        }
    }

    /// A counter that is not of pushing.
    pub(super) fn counter(&self, at: usize) -> u64 {
        self.counters.get(at).copied().unwrap_or_default()
    }

    /// How long requests took, between these bounds; `None` where nothing is pushed.
    pub(super) fn latency(&self, bounds: &'static [u64]) -> Option<HistogramSnapshot> {
        let counts = self.counters.get(BUCKETS..=BUCKETS + bounds.len())?.to_vec();
        Some(HistogramSnapshot { bounds, counts, sum: self.counter(LATENCY_SUM) })
    }

    /// Attempts to push, in the order of the classes; none where nothing is pushed.
    pub(super) fn attempts(&self, bounds: &'static [u64]) -> &[u64] {
        self.counters.get(BUCKETS + bounds.len() + 1..).unwrap_or_default()
    }
}

/// All counters of a subscription in one row. Those of pushing are left out where nothing is
/// pushed.
pub(super) fn counters(figures: &SubscriptionFigures) -> Vec<u64> {
    let mut counters = vec![
        figures.deliveries,
        figures.acks,
        figures.nacks,
        figures.expiries,
        figures.dead_letters,
        figures.dropped,
    ];
    let export = figures.export.clone().unwrap_or_default();
    counters.extend([export.objects, export.bytes, export.failures]);
    if !figures.attempts.is_empty() {
        counters.push(figures.push_latency.sum);
        counters.extend(&figures.push_latency.counts);
        counters.extend(figures.attempts.iter().map(|(_, count)| count));
    }
    counters
}

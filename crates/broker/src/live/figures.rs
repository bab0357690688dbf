//! Statistics of live subscriptions: for metrics and people, never for decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::live::Counts;
use domain::matching::Scope;
use storage::{Histogram, HistogramSnapshot, TIME_BOUNDS_US};

/// Statistics of live subscriptions. Counters start at zero when the server starts.
#[derive(Clone, Debug)]
pub struct LiveFigures {
    /// Current number of subscriptions.
    pub counts: Counts,
    /// Different filters, counted per collection.
    pub groups: usize,
    /// Subscriptions registered.
    pub registered: u64,
    /// Subscriptions that expired.
    pub expired: u64,
    /// Subscriptions that were removed by their gateway.
    pub unregistered: u64,
    /// Registrations that were refused.
    pub registration_errors: u64,
    /// Heartbeats that were refused.
    pub renewal_errors: u64,
    /// How long registrations took, in microseconds.
    pub registration_time: HistogramSnapshot,
    /// How long heartbeats took, in microseconds.
    pub renewal_time: HistogramSnapshot,
    /// Messages that were matched.
    pub messages: u64,
    /// Messages whose data was needed and is not JSON, or too large to read.
    pub unreadable: u64,
    /// Frames with a message.
    pub frames: u64,
    /// How often frames were lost.
    pub resyncs: u64,
    /// Streams that are open.
    pub streams: u64,
    /// Approximate bytes of frames kept.
    pub buffer_bytes: usize,
    /// Subscriptions per gateway.
    pub by_gateway: Vec<(String, usize)>,
    /// Subscriptions per tenant.
    pub by_tenant: Vec<(String, usize)>,
    /// The collections with the most subscriptions, largest first.
    pub largest: Vec<(Arc<Scope>, u32)>,
}

/// What is counted as it happens.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) registered: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) unregistered: AtomicU64,
    registration_errors: AtomicU64,
    renewal_errors: AtomicU64,
    registration_time: Histogram,
    renewal_time: Histogram,
    messages: AtomicU64,
    unreadable: AtomicU64,
    frames: AtomicU64,
    resyncs: AtomicU64,
    pub(super) streams: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            registered: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            unregistered: AtomicU64::new(0),
            registration_errors: AtomicU64::new(0),
            renewal_errors: AtomicU64::new(0),
            registration_time: Histogram::new(TIME_BOUNDS_US),
            renewal_time: Histogram::new(TIME_BOUNDS_US),
            messages: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            frames: AtomicU64::new(0),
            resyncs: AtomicU64::new(0),
            streams: AtomicU64::new(0),
        }
    }
}

impl Counters {
    pub(super) fn note_registration(&self, time: Duration, is_ok: bool) {
        self.registration_time.note_time(time);
        add(&self.registration_errors, u64::from(!is_ok));
    }

    pub(super) fn note_renewal(&self, time: Duration, is_ok: bool) {
        self.renewal_time.note_time(time);
        add(&self.renewal_errors, u64::from(!is_ok));
    }

    pub(super) fn note_unreadable(&self) {
        add(&self.unreadable, 1);
    }

    pub(super) fn note_messages(&self, count: u64) {
        add(&self.messages, count);
    }

    pub(super) fn note_frame(&self, overflowed: bool) {
        add(&self.frames, 1);
        add(&self.resyncs, u64::from(overflowed));
    }

    pub(super) fn note_resync(&self) {
        add(&self.resyncs, 1);
    }

    /// The counters, without what only the registry knows.
    pub(super) fn snapshot(&self) -> LiveFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LiveFigures {
            counts: Counts::default(),
            groups: 0,
            registered: read(&self.registered),
            expired: read(&self.expired),
            unregistered: read(&self.unregistered),
            registration_errors: read(&self.registration_errors),
            renewal_errors: read(&self.renewal_errors),
            registration_time: self.registration_time.snapshot(),
            renewal_time: self.renewal_time.snapshot(),
            messages: read(&self.messages),
            unreadable: read(&self.unreadable),
            frames: read(&self.frames),
            resyncs: read(&self.resyncs),
            streams: read(&self.streams),
            buffer_bytes: 0,
            by_gateway: Vec::new(),
            by_tenant: Vec::new(),
            largest: Vec::new(),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

//! The figures of a run, as Markdown and as JSON.

mod consume;
mod figures;
mod live;
mod markdown;
mod push;

use std::io::Write;
use std::time::Duration;

use serde::Serialize;

use crate::load::Latencies;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::process::Memory;
use crate::target::Workshop;

pub(crate) use figures::Figure;

/// All figures of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) plan: Plan,
    pub(crate) rates: Vec<RateRow>,
    pub(crate) latencies: Vec<LatencyRow>,
    pub(crate) comparisons: Vec<ComparisonRow>,
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) times: Vec<TimeRow>,
    pub(crate) beside: Vec<BesideRow>,
    pub(crate) cpu: Vec<CpuRow>,
    /// What must hold, filled in at the end.
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    /// No figures yet.
    pub(crate) fn new(workshop: &Workshop) -> Self {
        Self::of(Machine::describe(workshop.folder()), workshop.plan.clone())
    }

    fn of(machine: Machine, plan: Plan) -> Self {
        Self {
            machine,
            plan,
            rates: Vec::new(),
            latencies: Vec::new(),
            comparisons: Vec::new(),
            memory: Vec::new(),
            times: Vec::new(),
            beside: Vec::new(),
            cpu: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Judges what must hold and was measured.
    pub(crate) fn judge(&mut self) {
        self.figures = figures::judge(self);
    }

    /// Ready for a page of documentation.
    pub(crate) fn markdown(&self) -> String {
        markdown::write(self)
    }
}

/// Messages a second of server, null and raw. Absent: not measured.
#[derive(Debug, Serialize)]
pub(crate) struct RateRow {
    pub(crate) name: String,
    pub(crate) server: Option<f64>,
    pub(crate) null: Option<f64>,
    pub(crate) raw: Option<f64>,
    pub(crate) server_cost: Option<Cost>,
    pub(crate) null_cost: Option<Cost>,
}

impl RateRow {
    /// The server's part of its limit, which is the lower of null and raw.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let limit = [self.null, self.raw].into_iter().flatten().reduce(f64::min)?;
        Some(self.server? / limit)
    }

    pub(crate) fn line(&self) -> String {
        let figure = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        format!(
            "{}: {}/s (null {}, raw {}, {} of the limit)",
            self.name,
            figure(self.server),
            figure(self.null),
            figure(self.raw),
            self.ratio().map_or("-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0)),
        )
    }
}

/// What the messages of a row cost a server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) cpu_s: f64,
    pub(crate) cpu_us_per_message: f64,
    pub(crate) resident_mib: f64,
    pub(crate) peak_mib: f64,
}

impl Cost {
    pub(crate) fn new(messages: u64, cpu: Duration, memory: Memory) -> Self {
        let cpu_s = cpu.as_secs_f64();
        Self {
            cpu_s,
            cpu_us_per_message: cpu_s * 1e6 / messages.max(1) as f64,
            resident_mib: mib(memory.resident),
            peak_mib: mib(memory.peak),
        }
    }
}

/// Latencies at a fixed rate.
#[derive(Debug, Serialize)]
pub(crate) struct LatencyRow {
    pub(crate) name: String,
    pub(crate) per_second: u32,
    /// From due to received.
    pub(crate) server: Option<Quantiles>,
    pub(crate) null: Quantiles,
    /// From the answer to the publisher, when the message was visible, to received; push only.
    pub(crate) server_visible: Option<Quantiles>,
    /// From due to answered, that is durable.
    pub(crate) server_publish: Option<Quantiles>,
    pub(crate) raw: Quantiles,
    /// One write and sync of the raw log.
    pub(crate) raw_sync: Quantiles,
}

impl LatencyRow {
    pub(crate) fn line(&self) -> String {
        let server = self.server.as_ref().map_or("-".to_owned(), |server| {
            format!("p50 {:.0} µs, p99 {:.0} µs", server.p50_us, server.p99_us)
        });
        let visible = self.server_visible.as_ref().map_or(String::new(), |visible| {
            format!("since visible p50 {:.0} µs, p99 {:.0} µs; ", visible.p50_us, visible.p99_us)
        });
        let (null, sync) = (self.null.p99_us, self.raw_sync.p99_us);
        format!(
            "{}: {server} ({visible}null p99 {null:.0} µs, raw sync p99 {sync:.0} µs)",
            self.name
        )
    }
}

/// How long pushes took from visible to received, beside the first of its group, of whose p99
/// theirs is this part.
#[derive(Debug, Serialize)]
pub(crate) struct BesideRow {
    pub(crate) name: String,
    pub(crate) received: Quantiles,
    pub(crate) ratio: f64,
}

impl BesideRow {
    pub(crate) fn line(&self) -> String {
        let Self { name, received, ratio } = self;
        let (p50, p99) = (received.p50_us, received.p99_us);
        format!("{name}: p50 {p50:.0} µs, p99 {p99:.0} µs ({:.1} % of the first)", ratio * 100.0)
    }
}

/// Quantiles in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl Quantiles {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        let at = |quantile| latencies.quantile(quantile).as_secs_f64() * 1e6;
        Self {
            count: latencies.count(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
        }
    }
}

/// A rate beside the first of its group, of which it is this part.
#[derive(Debug, Serialize)]
pub(crate) struct ComparisonRow {
    pub(crate) name: String,
    pub(crate) rate: f64,
    pub(crate) ratio: f64,
}

impl ComparisonRow {
    pub(crate) fn line(&self) -> String {
        format!("{}: {:.0}/s ({:.1} % of the first)", self.name, self.rate, self.ratio * 100.0)
    }
}

/// Processor time of a client for each message, beside the first of its group, of which it is this
/// part.
#[derive(Debug, Serialize)]
pub(crate) struct CpuRow {
    pub(crate) name: String,
    pub(crate) cpu_us: f64,
    pub(crate) ratio: f64,
}

impl CpuRow {
    pub(crate) fn line(&self) -> String {
        let Self { name, cpu_us, ratio } = self;
        format!("{name}: {cpu_us:.2} µs a message ({:.1} % of the first)", ratio * 100.0)
    }
}

/// Memory of the server at rest.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryRow {
    pub(crate) name: String,
    pub(crate) resident_mib: f64,
    pub(crate) peak_mib: f64,
}

impl MemoryRow {
    pub(crate) fn new(name: &str, memory: Memory) -> Self {
        let (resident_mib, peak_mib) = (mib(memory.resident), mib(memory.peak));
        Self { name: name.to_owned(), resident_mib, peak_mib }
    }

    pub(crate) fn line(&self) -> String {
        let Self { name, resident_mib, peak_mib } = self;
        format!("{name}: {resident_mib:.1} MiB resident, {peak_mib:.1} MiB at most")
    }
}

/// How long one thing took.
#[derive(Debug, Serialize)]
pub(crate) struct TimeRow {
    pub(crate) name: String,
    pub(crate) took_ms: f64,
}

impl TimeRow {
    pub(crate) fn line(&self) -> String {
        format!("{}: {:.1} ms", self.name, self.took_ms)
    }
}

/// Tells how far the run is, on standard error.
pub(crate) fn progress(line: &str) {
    // Nobody reading it is no reason to stop.
    drop(writeln!(std::io::stderr(), "{line}"));
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

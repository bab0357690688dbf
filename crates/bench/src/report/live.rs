//! The live rows in a report: what their settings are, and what must hold of them.

use super::Report;
use super::figures::Figure;
use crate::plan::LivePlan;

const SINGLE_MIN: f64 = 1_000.0;
const BATCH_MIN: f64 = 20_000.0;
/// All of them within half of the shortest TTL.
const HEARTBEATS_MIN: f64 = 3_334.0;
const BYTES_EACH_MAX: f64 = 512.0;
const CLOSE_MS_MAX: f64 = 20.0;
const EXPIRY_LAG_MS_MAX: f64 = 1_500.0;

/// Judges the live rows that were measured.
pub(super) fn judge(report: &Report) -> Vec<Figure> {
    let rates = [
        ("live/register-single", SINGLE_MIN),
        ("live/register-batch", BATCH_MIN),
        ("live/heartbeat-batch", HEARTBEATS_MIN),
    ];
    let times = [("live/close-gateway-", CLOSE_MS_MAX), ("live/expiry-lag-p99", EXPIRY_LAG_MS_MAX)];
    let rates = rates.into_iter().filter_map(|(name, min)| rate(report, name, min));
    let times = times.into_iter().filter_map(|(name, max)| time(report, name, max));
    rates.chain(memory(report)).chain(times).collect()
}

fn rate(report: &Report, name: &str, min: f64) -> Option<Figure> {
    let row = report.rates.iter().find(|row| row.name == name)?;
    let server = row.server?;
    Some(Figure {
        name: row.name.clone(),
        target: format!("≥ {min:.0}/s"),
        measured: format!("{server:.0}/s"),
        holds: server >= min,
    })
}

fn time(report: &Report, prefix: &str, max: f64) -> Option<Figure> {
    let row = report.times.iter().find(|row| row.name.starts_with(prefix))?;
    Some(Figure {
        name: row.name.clone(),
        target: format!("≤ {max:.0} ms"),
        measured: format!("{:.1} ms", row.took_ms),
        holds: row.took_ms <= max,
    })
}

/// What a subscription takes, by what the server takes with and without them.
fn memory(report: &Report) -> Option<Figure> {
    let mut rows = report.memory.iter().filter(|row| row.name.starts_with("live/memory-"));
    let (none, all) = (rows.next()?, rows.next()?);
    let bytes = (all.resident_mib - none.resident_mib) * f64::from(1 << 20);
    let each = bytes / report.plan.live.subscriptions as f64;
    Some(Figure {
        name: format!("{} over {}", all.name, none.name),
        target: format!("≤ {BYTES_EACH_MAX:.0} B each"),
        measured: format!("{each:.0} B each"),
        holds: each <= BYTES_EACH_MAX,
    })
}

/// The lines about how live subscriptions were measured.
pub(super) fn settings(plan: &LivePlan) -> Vec<(String, String)> {
    let LivePlan { subscriptions, gateways, collections, flow_rate, batch, in_flight, .. } = plan;
    vec![(
        "live/…".to_owned(),
        format!(
            "{subscriptions} subscriptions of {gateways} gateways in {collections} collections, \
             each with a value of its own and a bound; over HTTP/2, {in_flight} calls in flight \
             or {batch} a call, while {flow_rate} messages a second of their collections flow; \
             latency from due to the frame on a gateway's stream of Server-Sent Events; no null \
             server speaks this API, so rates stand alone"
        ),
    )]
}

#[cfg(test)]
mod tests {
    use super::super::{MemoryRow, Report};
    use super::*;
    use crate::machine::Machine;
    use crate::plan::Plan;

    #[test]
    fn what_a_subscription_takes_is_judged_by_the_difference() {
        let mut report = Report::of(Machine::describe(std::path::Path::new("/")), Plan::full());
        for (name, resident_mib) in [("live/memory-0", 10.0), ("live/memory-100k", 58.0)] {
            let (name, peak_mib) = (name.to_owned(), resident_mib);
            report.memory.push(MemoryRow { name, resident_mib, peak_mib });
        }
        let figures = judge(&report);
        assert_eq!((figures.len(), figures[0].measured.as_str()), (1, "503 B each"));
        assert!(figures[0].holds);
        report.memory[1].resident_mib = 60.0;
        assert!(!judge(&report)[0].holds);
    }
}

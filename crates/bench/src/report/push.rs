//! The push rows in a report: what their settings are, and what must hold of them.

use super::figures::{Figure, comparison, percent, rate};
use super::markdown::section;
use super::{BesideRow, LatencyRow, Report};
use crate::plan::PushPlan;

/// Parts of a bare HTTP client's rate.
const RATIO_MIN: f64 = 0.60;
/// The rate with ordering keys of the rate without.
const KEYS_RATIO_MIN: f64 = 0.90;
/// The rate in batches beside one message a request.
const BATCH_TIMES_MIN: f64 = 5.0;
/// From visible to received.
const VISIBLE_P99_US_MAX: f64 = 5_000.0;
/// The p99 of endpoints beside troubled ones.
const TROUBLED_RATIO_MAX: f64 = 1.1;
/// Plain rates beside FIFO subscriptions, of those without.
const BESIDE_FIFO_RATIO_MIN: f64 = 0.95;

/// Judges the push rows that were measured.
pub(super) fn judge(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for row in report.rates.iter().filter(|row| row.name.starts_with("push/")) {
        // A batch is judged beside single messages.
        if !row.name.contains("-batch-") {
            figures.extend(rate(row, RATIO_MIN));
        }
    }
    figures.extend(batch(report));
    // Their number is part of the name, and every other group of push has another one.
    let keys = report.comparisons.iter().find(|row| row.name.ends_with("-keys/ordered"));
    let keys = keys.and_then(|row| row.name.strip_suffix("ordered"));
    figures.extend(keys.and_then(|group| comparison(report, group, KEYS_RATIO_MIN)));
    figures.extend(report.latencies.iter().filter_map(visible));
    figures.extend(troubled(&report.beside));
    for group in ["push/beside-fifo/push/", "push/beside-fifo/pull/"] {
        figures.extend(comparison(report, group, BESIDE_FIFO_RATIO_MIN));
    }
    figures
}

fn batch(report: &Report) -> Option<Figure> {
    let row = |prefix: &str| report.rates.iter().find(|row| row.name.starts_with(prefix));
    let (single, batch) = (row("push/fifo")?, row("push/fifo-batch-")?);
    let times = batch.server? / single.server?;
    Some(Figure {
        name: format!("{} beside {}", batch.name, single.name),
        target: format!("≥ {BATCH_TIMES_MIN:.0} ×"),
        measured: format!("{times:.1} ×"),
        holds: times >= BATCH_TIMES_MIN,
    })
}

fn visible(row: &LatencyRow) -> Option<Figure> {
    let measured = row.server_visible.as_ref()?.p99_us;
    Some(Figure {
        name: format!("{}, since visible", row.name),
        target: format!("p99 < {:.1} ms", VISIBLE_P99_US_MAX / 1e3),
        measured: format!("{:.1} ms", measured / 1e3),
        holds: measured < VISIBLE_P99_US_MAX,
    })
}

fn troubled(rows: &[BesideRow]) -> Option<Figure> {
    let row = rows.iter().find(|row| row.name == "push/isolation/troubled")?;
    Some(Figure {
        name: format!("{} beside push/isolation/calm", row.name),
        target: format!("p99 ≤ {}", percent(TROUBLED_RATIO_MAX)),
        measured: percent(row.ratio),
        holds: row.ratio <= TROUBLED_RATIO_MAX,
    })
}

/// The rows of troubled endpoints.
pub(super) fn beside(rows: &[BesideRow]) -> String {
    let row = |row: &BesideRow| {
        let received = &row.received;
        let micros = [received.p50_us, received.p90_us, received.p99_us, received.p999_us];
        let mut cells = vec![row.name.clone()];
        cells.extend(micros.map(|micros| format!("{:.2}", micros / 1e3)));
        cells.push(format!("{:.1} %", row.ratio * 100.0));
        cells
    };
    let head = ["Row", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "p99 of the first"];
    section(
        "Push beside troubled endpoints, received since visible",
        &head,
        &rows.iter().map(row).collect::<Vec<_>>(),
    )
}

/// What the push rows do.
pub(super) fn settings(plan: &PushPlan) -> Vec<(String, String)> {
    let PushPlan { connections, isolation_endpoints, isolation_hanging, .. } = plan;
    let rows = [
        (
            "push",
            "to a receiver on one thread of the bench that answers 204 and does nothing else; \
             `null` = a bare hyper client on as many threads as there are cores, with bodies and \
             headers of the same size"
                .to_owned(),
        ),
        (
            "push/unordered, push/unordered-N",
            format!(
                "a backlog to one endpoint, or to N with a topic each, from the first arrival to \
                 the last; null: {connections} connections"
            ),
        ),
        (
            "push/fifo, push/fifo-batch-N",
            "a backlog in order, one or N messages a request; null: one connection".to_owned(),
        ),
        (
            "push/N-keys",
            "messages with N ordering keys; `free` = the subscription does not keep their order"
                .to_owned(),
        ),
        (
            "push/latency-R",
            "R messages a second, one a call, from due to received, and since visible: from the \
             publisher's answer to received"
                .to_owned(),
        ),
        (
            "push/isolation",
            format!(
                "{isolation_endpoints} endpoints with a topic each, {} messages a second in all; \
                 `troubled` = {isolation_hanging} of them hang for 30 s and one gets ten times as \
                 much; only the others count",
                plan.isolation_rate
            ),
        ),
        (
            "push/hanging-N",
            format!(
                "a few endpoints with {} messages a second in all, before and after N others, \
                 with a subscription each, have begun to hang",
                plan.healthy_rate
            ),
        ),
        (
            "push/beside-fifo",
            format!(
                "plain push of a backlog, and pull as in stream/rate, `alone` and beside {} FIFO \
                 subscriptions of another topic, every second of which is blocked by an endpoint \
                 that fails",
                plan.fifo_beside
            ),
        ),
    ];
    rows.map(|(name, text)| (name.to_owned(), text)).into()
}

#[cfg(test)]
mod tests {
    use super::super::{ComparisonRow, Quantiles, RateRow};
    use super::*;
    use crate::machine::Machine;
    use crate::plan::Plan;

    fn report() -> Report {
        Report::of(Machine::describe(std::path::Path::new("/")), Plan::quick())
    }

    fn rate(name: &str, server: f64, null: f64) -> RateRow {
        let (server, null) = (Some(server), Some(null));
        let name = name.to_owned();
        RateRow { name, server, null, raw: None, server_cost: None, null_cost: None }
    }

    fn holds(report: &Report) -> Vec<bool> {
        judge(report).iter().map(|figure| figure.holds).collect()
    }

    #[test]
    fn rates_are_judged_beside_the_bare_client_and_a_batch_beside_single_messages() {
        let mut report = report();
        report.rates.push(rate("push/unordered", 60.0, 100.0));
        report.rates.push(rate("push/unordered-64", 59.0, 100.0));
        report.rates.push(rate("push/fifo", 10.0, 12.0));
        report.rates.push(rate("push/fifo-batch-100", 49.0, 500.0));
        assert_eq!(holds(&report), [true, false, true, false]);
        report.rates[3].server = Some(50.0);
        assert_eq!(holds(&report), [true, false, true, true]);
    }

    #[test]
    fn each_comparison_has_its_own_bound() {
        let mut report = report();
        for (name, ratio) in [
            ("push/1000-keys/free", 1.0),
            ("push/1000-keys/ordered", 0.91),
            ("push/beside-fifo/push/alone", 1.0),
            ("push/beside-fifo/push/100", 0.95),
            ("push/beside-fifo/pull/alone", 1.0),
            ("push/beside-fifo/pull/100", 0.94),
        ] {
            report.comparisons.push(ComparisonRow { name: name.to_owned(), rate: 1.0, ratio });
        }
        for (name, ratio) in [("push/isolation/calm", 1.0), ("push/isolation/troubled", 1.11)] {
            let name = name.to_owned();
            report.beside.push(BesideRow { name, received: quantiles(1.0), ratio });
        }
        assert_eq!(holds(&report), [true, false, true, false]);
    }

    fn quantiles(p99_us: f64) -> Quantiles {
        Quantiles { count: 1, p50_us: 0.0, p90_us: 0.0, p99_us, p999_us: p99_us }
    }

    #[test]
    fn latency_of_a_push_is_judged_from_visible() {
        let mut report = report();
        report.latencies.push(LatencyRow {
            name: "push/latency-5000".to_owned(),
            per_second: 5000,
            server: Some(quantiles(90_000.0)),
            server_visible: Some(quantiles(4_900.0)),
            null: quantiles(1.0),
            server_publish: None,
            raw: quantiles(1.0),
            raw_sync: quantiles(1.0),
        });
        assert_eq!(holds(&report), [true]);
        report.latencies[0].server_visible = Some(quantiles(5_000.0));
        assert_eq!(holds(&report), [false]);
    }
}

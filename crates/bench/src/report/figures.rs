//! What must hold, and whether it does.

use serde::Serialize;

use super::{LatencyRow, RateRow, Report, consume, live, push};

/// Parts of the limit.
const PUBLISH_RATIO_MIN: f64 = 0.60;
const DELIVERY_RATIO_MIN: f64 = 0.50;

/// End to end at 5,000 messages a second: p99 at most this, or three times the raw log's sync p99
/// if that is more.
const LATENCY_RATE: u32 = 5000;
const LATENCY_P99_US_MAX: f64 = 10_000.0;
const LATENCY_SYNCS_MAX: f64 = 3.0;

/// The rate with most retained, and with many idle subscriptions, of the rate without.
const GROWTH_RATIO_MIN: f64 = 0.90;
const SUBSCRIPTIONS_RATIO_MIN: f64 = 0.90;
/// A checked publish costs at most three times a plain one.
const SCHEMA_RATIO_MIN: f64 = 1.0 / 3.0;

/// The rate with ordering keys, or beside blocked ones, of the rate without.
const ORDER_RATIO_MIN: f64 = 0.90;
/// Draining through a filter that drops nearly all, beside draining all.
const FILTER_RATIO_MIN: f64 = 3.0;
/// Seeking back over many messages.
const SEEK_MS_MAX: f64 = 1_000.0;

/// Memory with most retained, over idle.
const MEMORY_OVER_IDLE_MIB_MAX: f64 = 50.0 * 1e6 / 1_048_576.0;

/// A figure that must hold.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) measured: String,
    pub(crate) holds: bool,
}

/// Judges every figure whose rows were measured.
pub(super) fn judge(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (prefix, target) in [
        ("publish/100x64", PUBLISH_RATIO_MIN),
        ("publish/1x64", PUBLISH_RATIO_MIN),
        ("stream/rate", DELIVERY_RATIO_MIN),
        ("drain/", DELIVERY_RATIO_MIN),
        ("pull/", DELIVERY_RATIO_MIN),
    ] {
        figures.extend(part_of_limit(report, prefix, target));
    }
    figures.extend(report.latencies.iter().filter_map(latency));
    figures.extend(comparison(report, "growth/", GROWTH_RATIO_MIN));
    figures.extend(memory(report));
    figures.extend(comparison(report, "subscriptions/100x64/", SUBSCRIPTIONS_RATIO_MIN));
    figures.extend(comparison(report, "subscriptions/1x64/", SUBSCRIPTIONS_RATIO_MIN));
    figures.extend(comparison(report, "schema/avro/", SCHEMA_RATIO_MIN));
    figures.extend(comparison(report, "schema/protobuf/", SCHEMA_RATIO_MIN));
    figures.extend(comparison(report, "order/", ORDER_RATIO_MIN));
    figures.extend(comparison(report, "filter/", FILTER_RATIO_MIN));
    figures.extend(comparison(report, "blocked/", ORDER_RATIO_MIN));
    figures.extend(comparison(report, "behind/", ORDER_RATIO_MIN));
    figures.extend(seek(report));
    figures.extend(push::judge(report));
    figures.extend(live::judge(report));
    figures.extend(consume::judge(report));
    figures
}

fn part_of_limit(report: &Report, prefix: &str, target: f64) -> Option<Figure> {
    let row = report.rates.iter().find(|row| row.name.starts_with(prefix))?;
    rate(row, target)
}

/// A rate beside its limit.
pub(super) fn rate(row: &RateRow, target: f64) -> Option<Figure> {
    let ratio = row.ratio()?;
    Some(Figure {
        name: row.name.clone(),
        target: format!("≥ {} of the limit", percent(target)),
        measured: percent(ratio),
        holds: ratio >= target,
    })
}

fn latency(row: &LatencyRow) -> Option<Figure> {
    // A push is judged from the moment that its message is visible.
    if row.per_second != LATENCY_RATE || row.server_visible.is_some() {
        return None;
    }
    let measured = row.server.as_ref()?.p99_us;
    let target = LATENCY_P99_US_MAX.max(LATENCY_SYNCS_MAX * row.raw_sync.p99_us);
    Some(Figure {
        name: row.name.clone(),
        target: format!("p99 ≤ {:.1} ms", target / 1e3),
        measured: format!("{:.1} ms", measured / 1e3),
        holds: measured <= target,
    })
}

/// The last row of a group beside its first.
pub(super) fn comparison(report: &Report, prefix: &str, target: f64) -> Option<Figure> {
    let mut rows = report.comparisons.iter().filter(|row| row.name.starts_with(prefix));
    let (first, last) = (rows.next()?, rows.next_back()?);
    Some(Figure {
        name: format!("{} beside {}", last.name, first.name),
        target: format!("≥ {}", percent(target)),
        measured: percent(last.ratio),
        holds: last.ratio >= target,
    })
}

fn memory(report: &Report) -> Option<Figure> {
    let mut rows = report.memory.iter().filter(|row| row.name.starts_with("memory/"));
    let (idle, full) = (rows.next()?, rows.next()?);
    let over = full.resident_mib - idle.resident_mib;
    Some(Figure {
        name: format!("{} over {}", full.name, idle.name),
        target: "≤ 50 MB".to_owned(),
        measured: format!("{:.1} MB", over * 1_048_576.0 / 1e6),
        holds: over <= MEMORY_OVER_IDLE_MIB_MAX,
    })
}

fn seek(report: &Report) -> Option<Figure> {
    let row = report.times.iter().find(|row| row.name.starts_with("seek/"))?;
    Some(Figure {
        name: row.name.clone(),
        target: format!("< {SEEK_MS_MAX:.0} ms"),
        measured: format!("{:.1} ms", row.took_ms),
        holds: row.took_ms < SEEK_MS_MAX,
    })
}

pub(super) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::{ComparisonRow, MemoryRow, Quantiles};
    use super::*;
    use crate::machine::Machine;
    use crate::plan::Plan;

    fn report() -> Report {
        Report::of(Machine::describe(std::path::Path::new("/")), Plan::quick())
    }

    fn rate_row(name: &str, server: f64, null: f64, raw: Option<f64>) -> RateRow {
        RateRow {
            name: name.to_owned(),
            server: Some(server),
            null: Some(null),
            raw,
            server_cost: None,
            null_cost: None,
        }
    }

    fn quantiles(p99_us: f64) -> Quantiles {
        Quantiles { count: 1, p50_us: 0.0, p90_us: 0.0, p99_us, p999_us: p99_us }
    }

    #[test]
    fn a_rate_is_judged_by_the_lower_of_null_and_raw() {
        let mut report = report();
        report.rates.push(rate_row("publish/100x64", 60.0, 200.0, Some(100.0)));
        report.rates.push(rate_row("publish/1x64", 59.0, 100.0, Some(200.0)));
        report.rates.push(rate_row("drain/200k", 50.0, 100.0, None));
        let holds: Vec<bool> = judge(&report).iter().map(|figure| figure.holds).collect();
        assert_eq!(holds, [true, false, true]);
    }

    #[test]
    fn latency_may_be_three_syncs_on_a_slow_disk() {
        let mut row = LatencyRow {
            name: "stream/latency-5000".to_owned(),
            per_second: 5000,
            server: Some(quantiles(11_000.0)),
            null: quantiles(1.0),
            server_visible: None,
            server_publish: None,
            raw: quantiles(1.0),
            raw_sync: quantiles(3000.0),
        };
        assert!(!latency(&row).unwrap().holds);
        row.raw_sync = quantiles(4000.0);
        assert!(latency(&row).unwrap().holds);
        row.per_second = 1000;
        assert!(latency(&row).is_none());
    }

    #[test]
    fn comparisons_and_memory_are_judged_first_against_last() {
        let mut report = report();
        for (name, ratio) in [("growth/10k", 1.0), ("growth/100k", 0.5), ("growth/1M", 0.95)] {
            report.comparisons.push(ComparisonRow { name: name.to_owned(), rate: 1.0, ratio });
        }
        for (name, resident_mib) in [("memory/idle", 10.0), ("memory/1M", 60.0), ("push/x", 1.0)] {
            report.memory.push(MemoryRow {
                name: name.to_owned(),
                resident_mib,
                peak_mib: resident_mib,
            });
        }
        let holds: Vec<bool> = judge(&report).iter().map(|figure| figure.holds).collect();
        assert_eq!(holds, [true, false]);
    }
}

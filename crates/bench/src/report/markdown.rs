//! A report as Markdown.

use super::{Cost, LatencyRow, Quantiles, RateRow, Report, consume, live, mib, push};
use crate::grpc::{CONNECTION_WINDOW, STREAM_WINDOW};
use crate::load::{OUTSTANDING_BYTES_MAX, OUTSTANDING_MESSAGES_MAX};
use crate::plan::Plan;
use crate::rows::{STREAM_BATCH, STREAM_IN_FLIGHT};
use crate::target::CONNECTIONS;

/// What a figure is when it was not measured.
const NONE: &str = "–";

pub(super) fn write(report: &Report) -> String {
    let mut text = machine(report);
    text += &settings(&report.plan);
    if !report.rates.is_empty() {
        text += &rates(&report.rates);
    }
    if !report.latencies.is_empty() {
        text += &latencies(&report.latencies);
    }
    if !report.comparisons.is_empty() {
        text += &comparisons(report);
    }
    if !report.memory.is_empty() {
        text += &memory(report);
    }
    if !report.times.is_empty() {
        text += &times(report);
    }
    if !report.beside.is_empty() {
        text += &push::beside(&report.beside);
    }
    if !report.cpu.is_empty() {
        text += &consume::table(&report.cpu);
    }
    if !report.figures.is_empty() {
        text += &figures(report);
    }
    text
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let gib = mib(machine.memory_bytes) / 1024.0;
    section(
        "Machine",
        &["", ""],
        &[
            vec!["Processor".to_owned(), machine.processor.clone()],
            vec!["Cores".to_owned(), machine.cores.to_string()],
            vec!["Memory".to_owned(), format!("{gib:.0} GiB")],
            vec!["Kernel".to_owned(), machine.kernel.clone()],
            vec!["File system".to_owned(), machine.file_system.clone()],
        ],
    )
}

fn settings(plan: &Plan) -> String {
    let Plan { rounds, pairs, wal_wraps, stream_lead, .. } = plan;
    let (wal, segment) = (plan.wal_max_bytes >> 20, plan.wal_segment_bytes >> 20);
    let rows = [
        ("Message", format!("{} bytes of data, no attributes", plan.message_bytes)),
        (
            "Server",
            format!("defaults, but `wal_max = \"{wal}MiB\"`, `wal_segment = \"{segment}MiB\"`"),
        ),
        (
            "Load",
            format!(
                "on the same machine; HTTP/2 without a client library, one thread, {CONNECTIONS} \
                 connections, windows of {} MiB a stream and {} MiB a connection",
                STREAM_WINDOW >> 20,
                CONNECTION_WINDOW >> 20
            ),
        ),
        ("Rounds", format!("{rounds}; null, raw and server take turns; the median counts")),
        (
            "publish/BxN",
            format!(
                "B messages a call, N calls in flight, one subscription that never acks; the \
                 write-ahead log is filled at least {wal_wraps} times"
            ),
        ),
        (
            "stream/rate",
            format!(
                "{STREAM_BATCH} messages a call and {STREAM_IN_FLIGHT} calls in flight, received \
                 and acked on one stream ({OUTSTANDING_MESSAGES_MAX} messages and {} MiB \
                 outstanding at most); the publisher is at most {stream_lead} messages ahead",
                OUTSTANDING_BYTES_MAX >> 20
            ),
        ),
        (
            "stream/latency-R",
            "R messages a second, one a call, from the moment a message was due to be sent until \
             the subscriber had it"
                .to_owned(),
        ),
        ("drain/N", "a backlog of N messages streamed and acked".to_owned()),
        ("pull/MxN", "N callers that pull up to M messages and ack them".to_owned()),
        (
            "growth, subscriptions, schema, transform, order, filter, blocked, behind",
            format!("each beside the first of its kind; median of {pairs} pairs that take turns"),
        ),
        (
            "order/N-keys",
            "as stream/rate with N ordering keys in the messages; `free` = the subscription does \
             not keep their order"
                .to_owned(),
        ),
        (
            "filter/one-in-N",
            "a backlog is drained through a filter that one in N messages match; the rate counts \
             all messages"
                .to_owned(),
        ),
        (
            "blocked/N-keys, behind/N",
            "as order/N-keys, while N other keys, or one with N messages behind it, wait for a backoff \
             of 10 minutes"
                .to_owned(),
        ),
    ];
    let rows = rows.into_iter().map(|(name, text)| (name.to_owned(), text));
    let rows = rows.chain(settings_of_groups(plan));
    section("Settings", &["", ""], &rows.map(|(name, text)| vec![name, text]).collect::<Vec<_>>())
}

/// The line about topics that look at their messages.
fn gate_settings() -> (String, String) {
    let text = "100 messages of 1 KiB a call, 8 calls in flight: a schema in binary encoding, or a \
                function that parses JSON, sets a field and writes it; `plain` = the same \
                messages, and a topic that does not look at them";
    ("schema/…, transform/…".to_owned(), text.to_owned())
}

/// The lines of those groups of rows that have a file of their own.
fn settings_of_groups(plan: &Plan) -> Vec<(String, String)> {
    let push_and_live = push::settings(&plan.push).into_iter().chain(live::settings(&plan.live));
    push_and_live.chain([consume::settings(plan), gate_settings()]).collect()
}

fn rates(rows: &[RateRow]) -> String {
    let head = [
        "Row",
        "messages/s",
        "null/s",
        "raw/s",
        "of the limit",
        "CPU s",
        "CPU µs/message",
        "null CPU µs/message",
        "resident MiB",
        "peak MiB",
    ];
    let row = |row: &RateRow| {
        let cost =
            |of: fn(&Cost) -> f64, digits: usize| figure(row.server_cost.as_ref().map(of), digits);
        vec![
            row.name.clone(),
            figure(row.server, 0),
            figure(row.null, 0),
            figure(row.raw, 0),
            row.ratio().map_or(NONE.to_owned(), |ratio| format!("{:.0} %", ratio * 100.0)),
            cost(|cost| cost.cpu_s, 2),
            cost(|cost| cost.cpu_us_per_message, 2),
            figure(row.null_cost.as_ref().map(|cost| cost.cpu_us_per_message), 2),
            cost(|cost| cost.resident_mib, 0),
            cost(|cost| cost.peak_mib, 0),
        ]
    };
    section("Rates", &head, &rows.iter().map(row).collect::<Vec<_>>())
}

fn latencies(rows: &[LatencyRow]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let mut line = |what: &str, quantiles: &Quantiles| {
            let micros = [quantiles.p50_us, quantiles.p90_us, quantiles.p99_us, quantiles.p999_us];
            let mut cells = vec![row.name.clone(), what.to_owned()];
            cells.extend(micros.map(|micros| format!("{:.2}", micros / 1e3)));
            lines.push(cells);
        };
        if let Some(server) = &row.server {
            line("server, received", server);
        }
        if let Some(visible) = &row.server_visible {
            line("server, received since visible", visible);
        }
        line("null, received", &row.null);
        if let Some(server) = &row.server_publish {
            line("server, publish answered", server);
        }
        line("raw, synced", &row.raw);
        line("raw, one sync", &row.raw_sync);
    }
    let head = ["Row", "", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms"];
    section("Latency", &head, &lines)
}

fn comparisons(report: &Report) -> String {
    let rows = report.comparisons.iter().map(|row| {
        let ratio = format!("{:.1} %", row.ratio * 100.0);
        vec![row.name.clone(), figure(Some(row.rate), 0), ratio]
    });
    let rows: Vec<_> = rows.collect();
    section("The server beside itself", &["Row", "messages/s", "of the first"], &rows)
}

fn memory(report: &Report) -> String {
    let rows = report.memory.iter().map(|row| {
        vec![row.name.clone(), figure(Some(row.resident_mib), 1), figure(Some(row.peak_mib), 1)]
    });
    section("Memory", &["Row", "resident MiB", "peak MiB"], &rows.collect::<Vec<_>>())
}

fn times(report: &Report) -> String {
    let rows = report.times.iter().map(|row| vec![row.name.clone(), figure(Some(row.took_ms), 1)]);
    section("Times", &["Row", "ms"], &rows.collect::<Vec<_>>())
}

fn figures(report: &Report) -> String {
    let rows = report.figures.iter().map(|figure| {
        let verdict = if figure.holds { "holds" } else { "**short**" };
        vec![
            figure.name.clone(),
            figure.target.clone(),
            figure.measured.clone(),
            verdict.to_owned(),
        ]
    });
    section("What must hold", &["Figure", "Target", "Measured", ""], &rows.collect::<Vec<_>>())
}

pub(super) fn section(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    let rows: String = rows.iter().map(line).collect();
    format!("## {title}\n\n{}|{rule}\n{rows}\n", line(&head))
}

/// A figure with its thousands set apart.
pub(super) fn figure(figure: Option<f64>, digits: usize) -> String {
    let Some(figure) = figure else { return NONE.to_owned() };
    let text = format!("{figure:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |parts| parts);
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_thousands_set_apart() {
        assert_eq!(figure(Some(1_234_567.4), 0), "1,234,567");
        assert_eq!(figure(Some(999.0), 0), "999");
        assert_eq!(figure(Some(1234.5), 2), "1,234.50");
        assert_eq!(figure(None, 2), NONE);
    }

    #[test]
    fn every_line_of_a_table_is_as_long_as_the_others() {
        let rows = [vec!["a".to_owned(), "µs".to_owned()], vec!["bb".to_owned(), "x".to_owned()]];
        let text = section("T", &["Row", "what"], &rows);
        let lines: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|length| *length == lines[0]), "{text}");
    }
}

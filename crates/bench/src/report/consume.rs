//! The rows of consumers in a report: what their settings are, and what must hold of them.

use super::figures::{Figure, percent};
use super::markdown::{figure, section};
use super::{CpuRow, Report};
use crate::plan::Plan;

/// Processor time of a program with the consumer runtime, beside one with a bare stream.
const RATIO_MAX: f64 = 1.10;

/// Judges the runtime as it comes, beside the first.
pub(super) fn judge(report: &Report) -> Option<Figure> {
    let bare = report.cpu.first()?;
    let runtime = report.cpu.iter().find(|row| row.name == "consume/runtime")?;
    Some(Figure {
        name: format!("{} beside {}", runtime.name, bare.name),
        target: format!("≤ {} of its time", percent(RATIO_MAX)),
        measured: percent(runtime.ratio),
        holds: runtime.ratio <= RATIO_MAX,
    })
}

pub(super) fn table(rows: &[CpuRow]) -> String {
    let rows = rows
        .iter()
        .map(|row| vec![row.name.clone(), figure(Some(row.cpu_us), 2), percent(row.ratio)]);
    let head = ["Row", "CPU µs/message", "of the first"];
    section("Processor time of a consumer", &head, &rows.collect::<Vec<_>>())
}

/// The line about how consumers were measured.
pub(super) fn settings(plan: &Plan) -> (String, String) {
    let Plan { backlog, pairs, .. } = plan;
    (
        "consume/…".to_owned(),
        format!(
            "processor time of the consuming process, on one thread, for a backlog of {backlog} \
             messages; {pairs} rounds in turn; `bare` = decoded and acked on a stream of tonic, \
             `by-hand` = with the same effect in the same memory store, `runtime` = by the \
             consumer runtime with a line for each message, `runtime-quiet` = with lines of errors \
             only"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn the_runtime_is_judged_beside_the_bare_stream() {
        let mut report = Report::of(Machine::describe(std::path::Path::new("/")), Plan::quick());
        let row = |name: &str, ratio| CpuRow { name: name.to_owned(), cpu_us: ratio, ratio };
        report.cpu.push(row("consume/bare", 1.0));
        report.cpu.push(row("consume/by-hand", 2.0));
        assert!(judge(&report).is_none(), "the runtime was not measured");
        report.cpu.push(row("consume/runtime", 1.1));
        assert!(judge(&report).unwrap().holds);
        report.cpu[2].ratio = 1.11;
        assert!(!judge(&report).unwrap().holds);
    }
}

//! Metrics as text: the format of Prometheus (0.0.4) and OpenMetrics (1.0).

use std::fmt::Write;

use broker::HistogramSnapshot;
use http::HeaderMap;
use http::header::ACCEPT;

use super::table::{Kind, Metric};

/// In which form metrics are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// What the asker takes, OpenMetrics where it likes both the same.
    pub(crate) fn asked(headers: &HeaderMap) -> Self {
        let (mut open, mut plain) = (0.0, 0.0_f32);
        for value in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
            for range in value.split(',') {
                let (kind, weight) = weighed(range);
                match kind {
                    "application/openmetrics-text" => open = weight.max(open),
                    "text/plain" | "text/*" | "*/*" => plain = weight.max(plain),
                    _ => {}
                }
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A media range without its parameters, and how much it is wanted.
fn weighed(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=")).map(|q| q.parse().unwrap_or(0.0));
    (kind, weight.unwrap_or(1.0))
}

/// A number to be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    Real(f64),
}

/// Labels and their values.
pub(crate) type Labels<'labels> = &'labels [(&'static str, &'labels str)];

/// Microseconds in the unit in which times are shown.
const SECOND_US: f64 = 1e6;

/// Writes metrics one after the other.
#[derive(Debug)]
pub(crate) struct Writer {
    format: Format,
    out: String,
}

impl Writer {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, out: String::new() }
    }

    /// Begins a metric; its samples follow. Every one is begun once.
    pub(crate) fn begin(&mut self, metric: &Metric) {
        let name = match self.format {
            Format::Prometheus => metric.full_name(),
            Format::OpenMetrics => metric.name.to_owned(),
        };
        let (kind, help) = (metric.kind.as_str(), metric.help);
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        if self.format == Format::OpenMetrics && !metric.unit.is_empty() {
            self.line(format_args!("# UNIT {name} {}", metric.unit));
        }
    }

    /// A sample of a counter or a gauge.
    pub(crate) fn sample(&mut self, metric: &Metric, labels: Labels<'_>, value: Value) {
        let ending = if metric.kind == Kind::Counter { "_total" } else { "" };
        self.put(metric, ending, labels, None, value);
    }

    /// A whole histogram. Its values are microseconds where the unit is seconds.
    pub(crate) fn histogram(
        &mut self,
        metric: &Metric,
        labels: Labels<'_>,
        snapshot: &HistogramSnapshot,
    ) {
        let is_time = metric.unit == "seconds";
        let shown = |value: u64| if is_time { value as f64 / SECOND_US } else { value as f64 };
        let mut below = 0;
        for (bound, count) in snapshot.bounds.iter().zip(&snapshot.counts) {
            below += count;
            let bound = format!("{:?}", shown(*bound));
            self.put(metric, "_bucket", labels, Some(&bound), Value::Count(below));
        }
        let count = snapshot.count();
        self.put(metric, "_bucket", labels, Some("+Inf"), Value::Count(count));
        let sum =
            if is_time { Value::Real(shown(snapshot.sum)) } else { Value::Count(snapshot.sum) };
        self.put(metric, "_sum", labels, None, sum);
        self.put(metric, "_count", labels, None, Value::Count(count));
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn put(
        &mut self,
        metric: &Metric,
        ending: &str,
        labels: Labels<'_>,
        bound: Option<&str>,
        value: Value,
    ) {
        self.out.push_str(metric.name);
        self.out.push_str(ending);
        let mut opening = '{';
        for (name, value) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            self.out.push(opening);
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape(value, &mut self.out);
            self.out.push('"');
            opening = ',';
        }
        if opening == ',' {
            self.out.push('}');
        }
        match value {
            Value::Count(count) => self.line(format_args!(" {count}")),
            Value::Real(real) => self.line(format_args!(" {real}")),
        }
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        self.out.push('\n');
    }
}

fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table;

    fn asked(accept: &str) -> Format {
        Format::asked(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]))
    }

    #[test]
    fn the_accept_header_decides() {
        assert_eq!(Format::asked(&HeaderMap::new()), Format::Prometheus);
        assert_eq!(asked("*/*"), Format::Prometheus);
        assert_eq!(asked("application/json"), Format::Prometheus);
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(asked(prometheus), Format::OpenMetrics);
        assert_eq!(asked("text/plain, application/openmetrics-text;q=0.1"), Format::Prometheus);
        assert_eq!(asked("application/openmetrics-text; q=0"), Format::Prometheus);
    }

    fn written(format: Format) -> String {
        let mut writer = Writer::new(format);
        writer.begin(&table::ACKS);
        writer.sample(&table::ACKS, &[("subscription", "a\\\"b\n")], Value::Count(3));
        writer.begin(&table::COMMIT_LATENCY);
        let snapshot =
            HistogramSnapshot { bounds: &[500, 1_000_000], counts: vec![1, 0, 2], sum: 9_000_250 };
        writer.histogram(&table::COMMIT_LATENCY, &[], &snapshot);
        writer.finish()
    }

    #[test]
    fn the_text_format_of_prometheus() {
        let expected = r#"# HELP postrider_acks_total Acks that took effect.
# TYPE postrider_acks_total counter
postrider_acks_total{subscription="a\\\"b\n"} 3
# HELP postrider_commit_latency_seconds How long a commit group took to be written and synced.
# TYPE postrider_commit_latency_seconds histogram
postrider_commit_latency_seconds_bucket{le="0.0005"} 1
postrider_commit_latency_seconds_bucket{le="1.0"} 1
postrider_commit_latency_seconds_bucket{le="+Inf"} 3
postrider_commit_latency_seconds_sum 9.00025
postrider_commit_latency_seconds_count 3
"#;
        assert_eq!(written(Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_has_units_an_end_and_counters_by_their_family() {
        let text = written(Format::OpenMetrics);
        assert!(text.contains("# TYPE postrider_acks counter\npostrider_acks_total{"), "{text}");
        assert!(text.contains("# UNIT postrider_commit_latency_seconds seconds\n"), "{text}");
        assert!(text.ends_with("_count 3\n# EOF\n"), "{text}");
    }
}

//! The metrics of live subscriptions.

use broker::LiveFigures;

use super::rows::OTHER;
use super::table::{self, Metric};
use super::text::{Value, Writer};
use super::{gauge, label};

/// Gateways, and tenants, with their own series, at most. There is none by collection: there
/// may be as many as documents.
const OWN_MAX: usize = 100;

/// Writes them.
pub(super) fn write(out: &mut Writer, figures: &LiveFigures) {
    for (metric, count) in [
        (&table::LIVE_REGISTERED, figures.registered),
        (&table::LIVE_EXPIRED, figures.expired),
        (&table::LIVE_UNREGISTERED, figures.unregistered),
        (&table::LIVE_REGISTRATION_ERRORS, figures.registration_errors),
        (&table::LIVE_RENEWAL_ERRORS, figures.renewal_errors),
        (&table::LIVE_MESSAGES, figures.messages),
        (&table::LIVE_UNREADABLE, figures.unreadable),
        (&table::LIVE_FRAMES, figures.frames),
        (&table::LIVE_RESYNCS, figures.resyncs),
        (&table::LIVE_ACTIVE, figures.counts.total as u64),
        (&table::LIVE_STREAMS, figures.streams),
        (&table::LIVE_BUFFER, figures.buffer_bytes as u64),
    ] {
        gauge(out, metric, count);
    }
    for (metric, times) in [
        (&table::LIVE_REGISTRATION_TIME, &figures.registration_time),
        (&table::LIVE_RENEWAL_TIME, &figures.renewal_time),
    ] {
        out.begin(metric);
        out.histogram(metric, &[], times);
    }
    write_largest(out, &table::LIVE_BY_GATEWAY, &figures.by_gateway);
    write_largest(out, &table::LIVE_BY_TENANT, &figures.by_tenant);
}

/// A gauge for each of those with the most, and one for all others.
fn write_largest(out: &mut Writer, metric: &Metric, counts: &[(String, usize)]) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_unstable_by(|(one, more), (two, less)| less.cmp(more).then(one.cmp(two)));
    let (own, others) = counts.split_at(counts.len().min(OWN_MAX));
    out.begin(metric);
    for (name, count) in own {
        out.sample(metric, &[(label(metric), name)], Value::Count(*count as u64));
    }
    if !others.is_empty() {
        let sum: usize = others.iter().map(|(_, count)| count).sum();
        out.sample(metric, &[(label(metric), OTHER)], Value::Count(sum as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Format;
    use super::*;

    #[test]
    fn those_beyond_the_first_hundred_are_added_up() {
        let counts: Vec<_> = (0..150).map(|n| (format!("g{n:03}"), n)).collect();
        let mut out = Writer::new(Format::Prometheus);
        write_largest(&mut out, &table::LIVE_BY_GATEWAY, &counts);
        let text = out.finish();
        let name = "postrider_live_subscriptions_by_gateway";
        assert_eq!(text.matches(&format!("{name}{{")).count(), OWN_MAX + 1);
        assert!(text.contains(&format!("{name}{{gateway=\"g149\"}} 149\n")), "{text}");
        assert!(text.contains(&format!("{name}{{gateway=\"other\"}} 1225\n")), "{text}");
        assert!(!text.contains("g049"), "{text}");
    }
}

//! Latency end to end at fixed rates, beside the raw log's at the same rates.

use anyhow::{Context, Result};

use super::Selection;
use crate::load::{AtRate, Latencies, Pace, append_at_rate, stream_at_rate};
use crate::report::{LatencyRow, Quantiles, Report, progress};
use crate::target::{Request, SUBSCRIPTION, TOPIC, Target, Workshop};

/// Runs the latency rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    for &per_second in &workshop.plan.latency_rates {
        let name = format!("stream/latency-{per_second}");
        if selection.holds(&name) {
            let row = measure(workshop, &name, per_second).await.context(name)?;
            report.latencies.push(row);
        }
    }
    Ok(())
}

async fn measure(workshop: &Workshop, name: &str, per_second: u32) -> Result<LatencyRow> {
    let plan = &workshop.plan;
    let null = workshop.null(true).await?;
    let server = workshop.server().await?;
    let raw = workshop.raw_log()?;
    for target in [Some(&null), server.as_ref()].into_iter().flatten() {
        target.create_topic().await?;
        target.create_subscription(SUBSCRIPTION).await?;
    }
    let pace = Pace::lasting(per_second, plan.latency_time)?;
    let stored = Request::new(1, plan.message_bytes).stored();

    let (mut of_null, mut of_server, mut of_raw) = (Sums::new()?, Sums::new()?, Sums::new()?);
    let mut syncs = Latencies::new()?;
    for _ in 0..plan.rounds {
        of_null.add(&stream(&null, plan.message_bytes, pace).await?)?;
        raw.take_syncs();
        of_raw.add(&append_at_rate(&raw, stored.clone(), pace).await?)?;
        raw.take_syncs().into_iter().for_each(|sync| syncs.add(sync));
        if let Some(server) = &server {
            of_server.add(&stream(server, plan.message_bytes, pace).await?)?;
        }
    }
    let row = LatencyRow {
        name: name.to_owned(),
        per_second,
        server: server.as_ref().map(|_| Quantiles::of(&of_server.received)),
        server_visible: None,
        server_publish: server.as_ref().map(|_| Quantiles::of(&of_server.stored)),
        null: Quantiles::of(&of_null.received),
        raw: Quantiles::of(&of_raw.stored),
        raw_sync: Quantiles::of(&syncs),
    };
    progress(&row.line());
    Ok(row)
}

async fn stream(target: &Target, message_bytes: usize, pace: Pace) -> Result<AtRate> {
    let at_rate = stream_at_rate(&target.channel, TOPIC, SUBSCRIPTION, message_bytes, pace).await?;
    target.settle().await?;
    Ok(at_rate)
}

/// The latencies of all rounds.
struct Sums {
    stored: Latencies,
    received: Latencies,
}

impl Sums {
    fn new() -> Result<Self> {
        Ok(Self { stored: Latencies::new()?, received: Latencies::new()? })
    }

    fn add(&mut self, round: &AtRate) -> Result<()> {
        self.stored.merge(&round.stored)?;
        self.received.merge(&round.received)
    }
}

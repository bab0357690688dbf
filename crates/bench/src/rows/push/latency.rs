//! Latency of push at a fixed rate, beside a bare HTTP client's and the raw log's.

use anyhow::{Context, Result};
use serde_json::json;

use super::super::Selection;
use super::create_push;
use super::endpoints::{Journeys, journeys};
use crate::load::{
    Exchange, Latencies, Pace, Pool, Stamp, append_at_rate, call_at_rate, envelope, marked_envelope,
};
use crate::plan::Plan;
use crate::receiver::{self, Manner, Receiver};
use crate::report::{LatencyRow, Quantiles, Report, progress};
use crate::target::{Request, TOPIC, Target, Workshop};

const NAME: &str = "load";

/// Runs the row.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let name = format!("push/latency-{}", workshop.plan.push.latency_rate);
    if selection.holds(&name) {
        let row = measure(workshop, &name).await.context(name)?;
        report.latencies.push(row);
    }
    Ok(())
}

async fn measure(workshop: &Workshop, name: &str) -> Result<LatencyRow> {
    let plan = &workshop.plan;
    let receiver = Receiver::start(1)?;
    let server = started(workshop, &receiver).await?;
    let pool = bare(plan, &receiver).await?;
    let raw = workshop.raw_log()?;
    let stored = Request::new(1, plan.message_bytes).stored();
    let pace = Pace::lasting(plan.push.latency_rate, plan.push.latency_time)?;
    let mut sums = Sums::new()?;
    for _ in 0..plan.rounds {
        let send = |mark| {
            let body = marked_envelope(plan.message_bytes, mark);
            pool.send(usize::try_from(mark).unwrap_or(0), body)
        };
        sums.null.merge(&at_rate(&receiver, pace, send).await?.due)?;
        raw.take_syncs();
        sums.raw.merge(&append_at_rate(&raw, stored.clone(), pace).await?.stored)?;
        raw.take_syncs().into_iter().for_each(|sync| sums.syncs.add(sync));
        if let Some(server) = &server {
            let journeys = publish(server, &receiver, plan, pace).await?;
            sums.server.visible.merge(&journeys.visible)?;
            sums.server.due.merge(&journeys.due)?;
            server.settle().await?;
        }
    }
    let of_server = |latencies| server.as_ref().map(|_| Quantiles::of(latencies));
    let row = LatencyRow {
        name: name.to_owned(),
        per_second: plan.push.latency_rate,
        server: of_server(&sums.server.due),
        server_visible: of_server(&sums.server.visible),
        null: Quantiles::of(&sums.null),
        server_publish: None,
        raw: Quantiles::of(&sums.raw),
        raw_sync: Quantiles::of(&sums.syncs),
    };
    progress(&row.line());
    Ok(row)
}

async fn started(workshop: &Workshop, receiver: &Receiver) -> Result<Option<Target>> {
    let Some(target) = workshop.server().await? else { return Ok(None) };
    target.create_topic().await?;
    let endpoint = receiver.endpoint(Manner::Answers, 0);
    create_push(&target, NAME, NAME, &endpoint, &json!({})).await?;
    Ok(Some(target))
}

async fn bare(plan: &Plan, receiver: &Receiver) -> Result<Pool> {
    let path = receiver::path(Manner::Answers, 0);
    let exchange = Exchange::new(receiver.address(0), &path, envelope(plan.message_bytes))?;
    Pool::open(exchange, plan.push.connections).await
}

async fn publish(
    target: &Target,
    receiver: &Receiver,
    plan: &Plan,
    pace: Pace,
) -> Result<Journeys> {
    let stamp = Stamp::new(TOPIC, plan.message_bytes);
    let caller = target.channel.caller(0, "Publisher/Publish")?;
    let publish = |mark| {
        let (mut caller, request) = (caller.clone(), stamp.marked(mark));
        async move { caller.unary(request).await.map(drop) }
    };
    at_rate(receiver, pace, publish).await
}

/// Sends marked messages at a fixed rate and waits until all have come.
async fn at_rate<F>(receiver: &Receiver, pace: Pace, send: impl FnMut(u64) -> F) -> Result<Journeys>
where
    F: Future<Output = Result<()>>,
{
    receiver.expect(pace.messages(), true);
    let (sent, _) = tokio::try_join!(call_at_rate(pace, send), receiver.wait())?;
    journeys(&sent, &receiver.take_arrivals(), pace, |_| true)
}

/// The latencies of all rounds.
struct Sums {
    server: Journeys,
    null: Latencies,
    raw: Latencies,
    syncs: Latencies,
}

impl Sums {
    fn new() -> Result<Self> {
        Ok(Self {
            server: Journeys { visible: Latencies::new()?, due: Latencies::new()? },
            null: Latencies::new()?,
            raw: Latencies::new()?,
            syncs: Latencies::new()?,
        })
    }
}

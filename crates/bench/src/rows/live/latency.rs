//! From the moment a message was due to be published until a gateway has its frame, beside a null
//! server's stream and the raw log.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::frames::Frames;
use super::message;
use crate::clock;
use crate::load::{
    self, AtRate, Latencies, Pace, Sent, append_at_rate, call_at_rate, stream_at_rate,
};
use crate::plan::LivePlan;
use crate::report::{LatencyRow, Quantiles, Report, progress};
use crate::target::{Request, SUBSCRIPTION, TOPIC, Target, Workshop};

/// Runs the row.
pub(super) async fn run(workshop: &Workshop, server: &Target, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let null = workshop.null(true).await?;
    null.create_topic().await?;
    null.create_subscription(SUBSCRIPTION).await?;
    let raw = workshop.raw_log()?;
    let stored = Request::new(1, plan.message_bytes).stored();
    let pace = Pace::lasting(plan.live.latency_rate, plan.live.latency_time)?;
    let (mut of_server, mut of_null) = (Latencies::new()?, Latencies::new()?);
    let (mut of_raw, mut syncs) = (Latencies::new()?, Latencies::new()?);
    for _ in 0..plan.rounds {
        let AtRate { received, .. } =
            stream_at_rate(&null.channel, TOPIC, SUBSCRIPTION, plan.message_bytes, pace).await?;
        of_null.merge(&received)?;
        raw.take_syncs();
        of_raw.merge(&append_at_rate(&raw, stored.clone(), pace).await?.stored)?;
        raw.take_syncs().into_iter().for_each(|sync| syncs.add(sync));
        of_server.merge(&frames_at_rate(server, &plan.live, pace).await?)?;
        server.settle().await?;
    }
    let row = LatencyRow {
        name: format!("live/latency-{}", plan.live.latency_rate),
        per_second: plan.live.latency_rate,
        server: Some(Quantiles::of(&of_server)),
        server_visible: None,
        server_publish: None,
        null: Quantiles::of(&of_null),
        raw: Quantiles::of(&of_raw),
        raw_sync: Quantiles::of(&syncs),
    };
    progress(&row.line());
    report.latencies.push(row);
    Ok(())
}

/// Publishes messages for the first gateway at a fixed rate, and reads its stream.
async fn frames_at_rate(server: &Target, plan: &LivePlan, pace: Pace) -> Result<Latencies> {
    let mut frames = Frames::open(&server.channel.rest(), "gateway-0").await?;
    // What was kept for the gateway so far comes first.
    let caller = server.channel.caller(1, "Publisher/Publish")?;
    let publish = |mark: u64| {
        let number = usize::try_from(mark).unwrap_or(0) * plan.gateways % plan.subscriptions;
        let request = load::framed(TOPIC, vec![message(plan, number, mark + FIRST)]);
        let mut caller = caller.clone();
        async move { caller.unary(request).await.map(drop) }
    };
    let receive = receive(&mut frames, pace);
    let (sent, received) = tokio::try_join!(call_at_rate(pace, publish), receive)?;
    latencies(&sent, &received, pace)
}

/// Marks below this are of messages that flowed before.
const FIRST: u64 = 1 << 40;

/// When each message came, by its mark.
async fn receive(frames: &mut Frames, pace: Pace) -> Result<Vec<Option<Instant>>> {
    let mut received = vec![None; usize::try_from(pace.messages())?];
    let mut left = received.len();
    while left > 0 {
        let next = tokio::time::timeout(Duration::from_secs(30), frames.next()).await;
        let next = next.context("a message did not come")??;
        let now = clock::now();
        for frame in next {
            let Some(mark) = frame.message.attributes.mark else { continue };
            let mark = mark.parse::<u64>()?.checked_sub(FIRST);
            let place = mark.and_then(|mark| received.get_mut(usize::try_from(mark).ok()?));
            if let Some(place) = place.filter(|place| place.is_none()) {
                *place = Some(now);
                left -= 1;
            }
        }
    }
    Ok(received)
}

fn latencies(sent: &[Sent], received: &[Option<Instant>], pace: Pace) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let warm_up = usize::try_from(pace.warm_up)?;
    for (sent, received) in sent.iter().zip(received).skip(warm_up) {
        let received = received.context("a message did not come")?;
        latencies.add(received.saturating_duration_since(sent.due));
    }
    Ok(latencies)
}

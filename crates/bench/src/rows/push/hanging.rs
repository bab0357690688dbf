//! Very many endpoints that hang: what they cost in memory, and whether others are still served.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use tokio::time::sleep;

use super::super::Selection;
use super::endpoints::{Endpoints, make};
use super::{create_push, create_topic, topic_name};
use crate::clock;
use crate::load::{Latencies, Pace, request_of};
use crate::plan::{Plan, short};
use crate::receiver::{Manner, Receiver};
use crate::report::{BesideRow, MemoryRow, Quantiles, Report, progress};
use crate::target::{Target, Workshop};

/// Ports of the receiver, so that neither local ports nor queues of new connections run out.
const PORTS: usize = 16;

/// Endpoints that do not hang.
const HEALTHY: usize = 10;

/// Messages for each endpoint that hangs.
const MESSAGES: u32 = 4;

/// Open files beside the connections.
const FILES_SPARE: u64 = 1000;

/// When no further request has come for a while, all that will come at first have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_TIME_MAX: Duration = Duration::from_secs(10);

const TOPIC: &str = "hanging";

/// Runs the rows.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    let count = plan.push.hanging_endpoints;
    let group = format!("push/hanging-{}", short(count as u64));
    let names = [format!("{group}/before"), format!("{group}/after")];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    ensure!(files >= count as u64 + FILES_SPARE, "only {files} files may be open (ulimit -n)");
    let receiver = Receiver::start(PORTS)?;
    let Some(target) = workshop.server().await? else { return Ok(()) };
    let healthy = Endpoints::create(&target, &receiver, HEALTHY, 0, plan.message_bytes).await?;
    create_hanging(&target, &receiver, count).await?;

    let before = served(&healthy, plan).await?;
    target.settle().await?;
    let mut memory = vec![MemoryRow::new(&names[0], target.process.memory()?)];
    let held = hang(&target, &receiver, plan).await?;
    progress(&format!("  {held} requests hang"));
    let after = served(&healthy, plan).await.context("beside the endpoints that hang")?;
    memory.push(MemoryRow::new(&names[1], target.process.memory()?));

    memory.iter().for_each(|row| progress(&row.line()));
    report.memory.extend(memory);
    let base = before.quantile(0.99).as_secs_f64().max(f64::MIN_POSITIVE);
    for (name, latencies) in names.into_iter().zip([before, after]) {
        let ratio = latencies.quantile(0.99).as_secs_f64() / base;
        let row = BesideRow { name, received: Quantiles::of(&latencies), ratio };
        progress(&row.line());
        report.beside.push(row);
    }
    Ok(())
}

async fn create_hanging(target: &Target, receiver: &Receiver, count: usize) -> Result<()> {
    create_topic(target, TOPIC).await?;
    let settings = json!({});
    let (start, settings) = (clock::now(), &settings);
    make(count, |number| async move {
        let endpoint = receiver.endpoint(Manner::Hangs, number);
        create_push(target, &format!("hanging-{number}"), TOPIC, &endpoint, settings).await
    })
    .await?;
    let took = start.elapsed().as_secs_f64();
    progress(&format!("  {count} subscriptions created in {took:.1} s"));
    Ok(())
}

/// Publishes to those that hang, and waits until their first requests are there.
async fn hang(target: &Target, receiver: &Receiver, plan: &Plan) -> Result<u64> {
    let request = request_of(&topic_name(TOPIC), MESSAGES, plan.message_bytes);
    target.channel.call("Publisher/Publish", request).await?;
    let start = clock::now();
    let mut before = 0;
    while start.elapsed() < LOOK_TIME_MAX {
        sleep(LOOK_INTERVAL).await;
        let now = receiver.hanging();
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    ensure!(receiver.hanging() > 0, "nothing was pushed to the endpoints that hang");
    Ok(receiver.hanging())
}

async fn served(healthy: &Endpoints<'_>, plan: &Plan) -> Result<Latencies> {
    let order: Vec<usize> = (0..HEALTHY).collect();
    let pace = Pace::lasting(plan.push.healthy_rate, plan.push.healthy_time)?;
    healthy.push_at_rate(&order, pace, |_| true).await
}

//! Live subscriptions: how fast they are registered and renewed while messages flow, what they
//! take, how soon a gateway is told, and how soon they are gone.
//!
//! One server holds them all, and the rows follow each other on it.

mod expiry;
mod frames;
mod latency;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};

use super::Selection;
use crate::clock;
use crate::lean::{self, Attribute, Outgoing};
use crate::load::{self, Pace, call_at_rate};
use crate::plan::{LivePlan, short};
use crate::report::{MemoryRow, RateRow, Report, TimeRow, progress};
use crate::target::{TOPIC, Target, Workshop};

const SUBSCRIPTIONS: &str = "/internal/v1/subscriptions";
/// For the row about expiry; it costs nothing else.
const SETTINGS: &str = "[live]\nnotify_on_expiry = true\n";
/// Messages flow at most so long beside what is measured.
const FLOW_TIME: Duration = Duration::from_secs(600);

/// Runs the rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    if !selection.holds("live/") {
        return Ok(());
    }
    let Some(target) = workshop.server_with(SETTINGS).await? else { return Ok(()) };
    let plan = &workshop.plan.live;
    create_topic(&target).await?;
    target.settle().await?;
    memory(report, "live/memory-0", &target)?;
    register(&target, plan, report).await.context("live/register")?;
    target.settle().await?;
    let name = format!("live/memory-{}", short(plan.subscriptions as u64));
    memory(report, &name, &target)?;
    heartbeats(&target, plan, report).await.context("live/heartbeat")?;
    latency::run(workshop, &target, report).await.context("live/latency")?;
    close(&target, plan, report).await.context("live/close")?;
    if plan.expiring > 0 {
        expiry::run(&target, plan, report).await.context("live/expiry")?;
    }
    Ok(())
}

async fn create_topic(target: &Target) -> Result<()> {
    let labels = [("postrider-live".to_owned(), "true".to_owned())].into();
    let topic = wire::pubsub::Topic { name: TOPIC.to_owned(), labels, ..Default::default() };
    target.channel.call("Publisher/CreateTopic", lean::frame(&topic)).await.map(drop)
}

fn memory(report: &mut Report, name: &str, target: &Target) -> Result<()> {
    let row = MemoryRow::new(name, target.process.memory()?);
    progress(&row.line());
    report.memory.push(row);
    Ok(())
}

/// What a gateway registers: every subscription has a value of its own to wait for.
fn wish(plan: &LivePlan, number: usize) -> Value {
    let gateway = number % plan.gateways;
    json!({
        "gatewayId": format!("gateway-{gateway}"),
        "subscriptionId": id(number),
        "tenant": tenant(gateway),
        "collection": collection(plan, number),
        "filters": [
            { "field": "data.room", "op": "==", "value": room(number) },
            { "field": "data.priority", "op": ">", "value": 5 },
        ],
        "ttl": 3600,
    })
}

fn id(number: usize) -> String {
    format!("subscription-{number}")
}

fn room(number: usize) -> String {
    format!("room-{number}")
}

/// Two of them: one may not have all.
fn tenant(gateway: usize) -> String {
    format!("tenant-{}", gateway % 2)
}

fn collection(plan: &LivePlan, number: usize) -> String {
    format!("rooms/{}/messages", number / plan.gateways % plan.collections)
}

/// A message that one subscription waits for, with a number in an attribute.
fn message(plan: &LivePlan, number: usize, mark: u64) -> Outgoing {
    let attribute = |key: &str, value: String| Attribute { key: key.to_owned(), value };
    let body = json!({
        "room": room(number), "priority": 9, "status": "active", "author": "somebody",
        "text": "what is said in the room, as long as such a thing mostly is",
    });
    Outgoing {
        data: body.to_string().into(),
        attributes: vec![
            attribute("tenant", tenant(number % plan.gateways)),
            attribute("collection", collection(plan, number)),
            attribute("mark", mark.to_string()),
        ],
        ..Outgoing::default()
    }
}

/// Runs `work` while messages flow that nobody waits for: what is kept for gateways must not count
/// as what subscriptions take.
async fn while_messages_flow<T>(
    target: &Target,
    plan: &LivePlan,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let caller = target.channel.caller(1, "Publisher/Publish")?;
    let publish = |mark: u64| {
        let number = plan.subscriptions + usize::try_from(mark).unwrap_or(0);
        let request = load::framed(TOPIC, vec![message(plan, number, mark)]);
        let mut caller = caller.clone();
        async move { caller.unary(request).await.map(drop) }
    };
    tokio::select! {
        done = work => done,
        flowed = call_at_rate(Pace::lasting(plan.flow_rate, FLOW_TIME)?, publish) => {
            flowed?;
            anyhow::bail!("not done while messages flowed")
        }
    }
}

async fn register(target: &Target, plan: &LivePlan, report: &mut Report) -> Result<()> {
    let rest = target.channel.rest();
    let single = |number| {
        let (rest, wish) = (rest.clone(), wish(plan, number));
        async move { rest.call(Method::POST, SUBSCRIPTIONS, &wish).await.map(drop) }
    };
    let singly = async {
        let all = stream::iter((0..plan.single).map(single)).buffer_unordered(plan.in_flight);
        all.try_collect::<Vec<()>>().await
    };
    let start = clock::now();
    while_messages_flow(target, plan, singly).await?;
    rate(report, "live/register-single", plan.single, start.elapsed());

    let left: Vec<usize> = (plan.single..plan.subscriptions).collect();
    let start = clock::now();
    let batches = async {
        for part in left.chunks(plan.batch) {
            let wishes: Vec<_> = part.iter().map(|number| wish(plan, *number)).collect();
            let body = json!({ "subscriptions": wishes });
            let path = format!("{SUBSCRIPTIONS}:batch");
            let answer = rest.call(Method::POST, &path, &body).await?;
            all_went_well(&answer)?;
        }
        Ok(())
    };
    while_messages_flow(target, plan, batches).await?;
    rate(report, "live/register-batch", left.len(), start.elapsed());
    Ok(())
}

/// Whether no item of a call was refused.
fn all_went_well(answer: &[u8]) -> Result<()> {
    let refused = answer.windows(8).any(|part| part == b"\"error\":");
    ensure!(!refused, "refused: {}", String::from_utf8_lossy(&answer[..answer.len().min(500)]));
    Ok(())
}

async fn heartbeats(target: &Target, plan: &LivePlan, report: &mut Report) -> Result<()> {
    let rest = target.channel.rest();
    let all: Vec<usize> = (0..plan.subscriptions).collect();
    let start = clock::now();
    let work = async {
        for part in all.chunks(plan.batch) {
            let ids: Vec<_> = part.iter().map(|number| id(*number)).collect();
            let path = format!("{SUBSCRIPTIONS}:heartbeat");
            let body = json!({ "subscriptionIds": ids });
            all_went_well(&rest.call(Method::PUT, &path, &body).await?)?;
        }
        Ok(())
    };
    while_messages_flow(target, plan, work).await?;
    rate(report, "live/heartbeat-batch", all.len(), start.elapsed());
    Ok(())
}

/// Removes all subscriptions of the last gateway.
async fn close(target: &Target, plan: &LivePlan, report: &mut Report) -> Result<()> {
    let path = format!("/internal/v1/gateways/gateway-{}/subscriptions", plan.gateways - 1);
    let rest = target.channel.rest();
    let start = clock::now();
    rest.call(Method::DELETE, &path, &Value::Null).await?;
    let held = short((plan.subscriptions / plan.gateways) as u64);
    time(report, format!("live/close-gateway-{held}"), start.elapsed());
    Ok(())
}

fn rate(report: &mut Report, name: &str, count: usize, took: Duration) {
    let row = RateRow {
        name: name.to_owned(),
        server: Some(count as f64 / took.as_secs_f64()),
        null: None,
        raw: None,
        server_cost: None,
        null_cost: None,
    };
    progress(&row.line());
    report.rates.push(row);
}

fn time(report: &mut Report, name: String, took: Duration) {
    let row = TimeRow { name, took_ms: took.as_secs_f64() * 1e3 };
    progress(&row.line());
    report.times.push(row);
}

//! Plain push and plain pull, alone and with many FIFO subscriptions beside them, half of which
//! are blocked by an endpoint that fails.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::sleep;

use super::super::comparison::rows;
use super::super::delivery::{self, STREAM_BATCH, STREAM_IN_FLIGHT};
use super::super::{Selection, behaviour};
use super::endpoints::make;
use super::{create_push, create_topic, prepare, push, topic_name};
use crate::clock;
use crate::load::request_of;
use crate::plan::Plan;
use crate::receiver::{Manner, Receiver};
use crate::report::Report;
use crate::target::{Request, SUBSCRIPTION, Target, Workshop};

/// The topic and subscription that is pushed plainly.
const PLAIN: &str = "plain";
/// The topic of the FIFO subscriptions.
const FIFO: &str = "fifo";

/// Messages for each FIFO subscription: what is blocked is the first of them.
const BACKLOG: u64 = 100;

/// How often a blocked one tries again.
const BACKOFF: &str = "1s";

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const BLOCK_TIME_MAX: Duration = Duration::from_secs(30);

/// Runs the rows.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    let fifo = plan.push.fifo_beside;
    let group = |what: &str| {
        let group = format!("push/beside-fifo/{what}");
        [format!("{group}/alone"), format!("{group}/{fifo}")]
    };
    let (pushed, pulled) = (group("push"), group("pull"));
    if !selection.holds_any(&pushed) && !selection.holds_any(&pulled) {
        return Ok(());
    }
    let (receiver, fifo_receiver) = (Receiver::start(1)?, Receiver::start(1)?);
    let mut targets = Vec::new();
    for count in [0, fifo] {
        let Some(target) = started(workshop, &receiver).await? else { return Ok(()) };
        if count > 0 {
            block(&target, &fifo_receiver, count, plan).await?;
        }
        targets.push(target);
    }
    let mut push_rates = vec![Vec::new(); targets.len()];
    let mut pull_rates = vec![Vec::new(); targets.len()];
    // The first pair warms up.
    for pair in 0..=plan.pairs {
        for (index, target) in targets.iter().enumerate() {
            let rates = (push_once(target, &receiver, plan).await?, pull_once(target, plan).await?);
            if pair > 0 {
                push_rates[index].push(rates.0);
                pull_rates[index].push(rates.1);
            }
        }
    }
    report.comparisons.extend(rows(&pushed, &push_rates));
    report.comparisons.extend(rows(&pulled, &pull_rates));
    Ok(())
}

/// A server with a topic that is pushed and one that is pulled.
async fn started(workshop: &Workshop, receiver: &Receiver) -> Result<Option<Target>> {
    let Some(target) = workshop.server().await? else { return Ok(None) };
    target.create_topic().await?;
    target.create_subscription(SUBSCRIPTION).await?;
    create_topic(&target, PLAIN).await?;
    let endpoint = receiver.endpoint(Manner::Answers, 0);
    create_push(&target, PLAIN, PLAIN, &endpoint, &json!({})).await?;
    Ok(Some(target))
}

/// FIFO subscriptions, of which every second one is blocked by its first message.
async fn block(target: &Target, receiver: &Receiver, count: usize, plan: &Plan) -> Result<()> {
    create_topic(target, FIFO).await?;
    let settings = json!({
        "postrider": {"fifo": true},
        "retryPolicy": {"minimumBackoff": BACKOFF, "maximumBackoff": BACKOFF},
    });
    let settings = &settings;
    make(count, |number| async move {
        let manner = if number % 2 == 0 { Manner::Answers } else { Manner::Fails };
        let endpoint = receiver.endpoint(manner, number);
        create_push(target, &format!("fifo-{number}"), FIFO, &endpoint, settings).await
    })
    .await?;
    let blocked = count / 2;
    receiver.expect((count - blocked) as u64 * BACKLOG, false);
    let request = request_of(&topic_name(FIFO), STREAM_BATCH, plan.message_bytes);
    behaviour::fill(target, vec![request], BACKLOG).await?;
    receiver.wait().await?;
    let start = clock::now();
    while receiver.failed() < blocked as u64 {
        ensure!(start.elapsed() < BLOCK_TIME_MAX, "not every failing endpoint was tried");
        sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

async fn push_once(target: &Target, receiver: &Receiver, plan: &Plan) -> Result<f64> {
    let names = [PLAIN.to_owned()];
    let request = request_of(&topic_name(PLAIN), STREAM_BATCH, plan.message_bytes);
    prepare(target, &names, vec![vec![request]], plan.push.pair_messages).await?;
    let done = push(target, receiver, &names, plan.push.pair_messages).await?;
    target.settle().await?;
    receiver.check(1)?;
    Ok(clock::rate(done.messages, done.elapsed))
}

async fn pull_once(target: &Target, plan: &Plan) -> Result<f64> {
    let request = Request::new(STREAM_BATCH, plan.message_bytes);
    let publishers = target.publishers(&request, STREAM_IN_FLIGHT)?;
    let calls = plan.push.pair_messages.div_ceil(u64::from(STREAM_BATCH));
    let (done, subscriber) = delivery::stream(target, plan, publishers, calls).await?;
    subscriber.close().await?;
    target.settle().await?;
    Ok(clock::rate(done.messages, done.elapsed))
}

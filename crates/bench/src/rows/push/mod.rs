//! Push: rates beside a bare HTTP client against the same receiver, latency, and what troubled
//! endpoints cost the others.

mod beside;
mod endpoints;
mod hanging;
mod isolation;
mod keys;
mod latency;
mod rate;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::Selection;
use super::behaviour::fill;
use super::rate::Done;
use crate::receiver::{Received, Receiver};
use crate::report::Report;
use crate::target::{Target, Workshop};

/// Runs the push rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    rate::run(workshop, selection, report).await?;
    keys::run(workshop, selection, report).await.context("push with ordering keys")?;
    latency::run(workshop, selection, report).await?;
    isolation::run(workshop, selection, report).await.context("push isolation")?;
    hanging::run(workshop, selection, report).await.context("push to hanging endpoints")?;
    beside::run(workshop, selection, report).await.context("push beside FIFO")
}

fn topic_name(name: &str) -> String {
    format!("projects/bench/topics/{name}")
}

fn subscription_name(name: &str) -> String {
    format!("projects/bench/subscriptions/{name}")
}

/// A push subscription of a topic, with the fields of `settings` beside.
async fn create_push(
    target: &Target,
    name: &str,
    topic: &str,
    endpoint: &str,
    settings: &Value,
) -> Result<()> {
    let mut body = json!({ "topic": topic_name(topic), "pushConfig": {"pushEndpoint": endpoint} });
    if let (Some(body), Some(settings)) = (body.as_object_mut(), settings.as_object()) {
        body.extend(settings.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    target.channel.rest().put(&subscription_name(name), &body).await
}

async fn create_topic(target: &Target, name: &str) -> Result<()> {
    target.channel.rest().put(&topic_name(name), &json!({})).await
}

/// Pauses subscriptions, or lets them go on.
async fn pause(target: &Target, names: &[String], paused: bool) -> Result<()> {
    let body = json!({
        "subscription": {"postrider": {"paused": paused}},
        "updateMask": "postrider.paused",
    });
    let rest = target.channel.rest();
    let calls = names.iter().map(|name| {
        let (rest, name, body) = (rest.clone(), subscription_name(name), &body);
        async move { rest.patch(&name, body).await }
    });
    try_join_all(calls).await.map(drop)
}

/// Publishes so many messages of each load for paused subscriptions; the requests of a load take
/// turns.
async fn prepare(
    target: &Target,
    names: &[String],
    loads: Vec<Vec<Bytes>>,
    messages: u64,
) -> Result<()> {
    pause(target, names, true).await?;
    for requests in loads {
        fill(target, requests, messages).await?;
    }
    target.settle().await
}

/// Lets paused subscriptions push their backlog, and waits until all of it has come.
async fn push(
    target: &Target,
    receiver: &Receiver,
    names: &[String],
    messages: u64,
) -> Result<Done> {
    receiver.expect(messages, false);
    pause(target, names, false).await?;
    Ok(done(&receiver.wait().await?))
}

/// The rate counts from the first arrival to the last: how long a connection or a change of
/// settings takes is no part of it.
fn done(received: &Received) -> Done {
    Done { messages: received.messages, elapsed: received.elapsed() }
}

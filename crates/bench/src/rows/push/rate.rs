//! How fast a backlog is pushed, beside a bare HTTP client.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::{Value, json};

use super::super::Selection;
use super::super::delivery::STREAM_BATCH;
use super::super::rate::{Done, Tally};
use super::{create_push, create_topic, done, prepare, push, topic_name};
use crate::load::{Exchange, batch_envelope, envelope, request_of};
use crate::plan::Plan;
use crate::process::Memory;
use crate::receiver::{self, Manner, Receiver};
use crate::report::{RateRow, Report, progress};
use crate::target::{Target, Workshop};

/// Messages of the warm-up, as a part of a round's.
const WARM_UP_PART: u64 = 10;

/// Runs the rows that measure a rate.
pub(super) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    for shape in shapes(&workshop.plan) {
        if selection.holds(&shape.name) {
            let row = measure(workshop, &shape).await.with_context(|| shape.name.clone())?;
            report.rates.push(row);
        }
    }
    Ok(())
}

/// What a row pushes, and what the bare client does in its place.
struct Shape {
    name: String,
    endpoints: usize,
    messages: u64,
    /// Of every subscription.
    settings: Value,
    ordered: bool,
    /// Messages a request.
    batch: u32,
    /// Connections of the bare client, each with one request in flight.
    connections: usize,
}

fn shapes(plan: &Plan) -> Vec<Shape> {
    let push = &plan.push;
    let unordered = |name: String, endpoints| Shape {
        name,
        endpoints,
        messages: push.messages,
        settings: json!({}),
        ordered: false,
        batch: 1,
        connections: push.connections,
    };
    let fifo = |name: String, messages, batch, settings| Shape {
        name,
        endpoints: 1,
        messages,
        settings,
        ordered: true,
        batch,
        connections: 1,
    };
    let single = json!({"postrider": {"fifo": true}});
    let batch = json!({"postrider": {"fifo": true, "batch": {"messages": push.batch}}});
    vec![
        unordered("push/unordered".to_owned(), 1),
        unordered(format!("push/unordered-{}", push.endpoints), push.endpoints),
        fifo("push/fifo".to_owned(), push.fifo_messages, 1, single),
        fifo(format!("push/fifo-batch-{}", push.batch), push.messages, push.batch, batch),
    ]
}

async fn measure(workshop: &Workshop, shape: &Shape) -> Result<RateRow> {
    let plan = &workshop.plan;
    let receiver = Receiver::start(1)?;
    let server = Contender::start(workshop, shape, &receiver).await?;
    let (mut of_null, mut of_server) = (Tally::default(), Tally::default());
    for _ in 0..plan.rounds {
        let (done, cpu) = bare(plan, shape, &receiver).await?;
        of_null.add(done, cpu);
        if let Some(server) = &server {
            let (done, cpu) = server.round(shape.messages).await?;
            of_server.add(done, cpu);
        }
    }
    let row = RateRow {
        name: shape.name.clone(),
        server: of_server.rate(),
        null: of_null.rate(),
        raw: None,
        server_cost: server.map(|server| of_server.cost(&server.target)).transpose()?,
        // It is a few threads of the bench, whose memory says nothing.
        null_cost: Some(of_null.cost_with(Memory::default())),
    };
    progress(&row.line());
    Ok(row)
}

/// The bare client's round: as many messages to the same receiver.
async fn bare(plan: &Plan, shape: &Shape, receiver: &Receiver) -> Result<(Done, Duration)> {
    let body = match shape.batch {
        1 => envelope(plan.message_bytes),
        batch => batch_envelope(plan.message_bytes, batch),
    };
    let path = receiver::path(Manner::Answers, 0);
    let mut exchange = Exchange::new(receiver.address(0), &path, body)?;
    if shape.ordered {
        exchange = exchange.ordered();
    }
    if shape.batch > 1 {
        exchange = exchange.batch(shape.batch);
    }
    let requests = shape.messages.div_ceil(u64::from(shape.batch));
    receiver.expect(requests * u64::from(shape.batch), false);
    let cpu = exchange.send(shape.connections, requests).await?;
    Ok((done(&receiver.wait().await?), cpu))
}

/// A server with the subscriptions of a row.
struct Contender<'a> {
    target: Target,
    receiver: &'a Receiver,
    names: Vec<String>,
    /// One for each topic.
    loads: Vec<Vec<Bytes>>,
}

impl<'a> Contender<'a> {
    /// None if only the limits are measured.
    async fn start(
        workshop: &Workshop,
        shape: &Shape,
        receiver: &'a Receiver,
    ) -> Result<Option<Self>> {
        let Some(target) = workshop.server().await? else { return Ok(None) };
        let names: Vec<String> =
            (0..shape.endpoints).map(|index| format!("push-{index}")).collect();
        for (index, name) in names.iter().enumerate() {
            let endpoint = receiver.endpoint(Manner::Answers, index);
            create_topic(&target, name).await?;
            create_push(&target, name, name, &endpoint, &shape.settings).await?;
        }
        let bytes = workshop.plan.message_bytes;
        let load = |name: &String| vec![request_of(&topic_name(name), STREAM_BATCH, bytes)];
        let loads = names.iter().map(load).collect();
        let contender = Self { target, receiver, names, loads };
        contender.round(shape.messages / WARM_UP_PART).await.context("warm-up")?;
        Ok(Some(contender))
    }

    /// Pushes at least so many messages, as many to each endpoint.
    async fn round(&self, messages: u64) -> Result<(Done, Duration)> {
        let Self { target, receiver, names, loads } = self;
        let endpoints = names.len() as u64;
        let share = messages.div_ceil(endpoints).next_multiple_of(u64::from(STREAM_BATCH));
        prepare(target, names, loads.clone(), share).await?;
        receiver.take_connections_max();
        let before = target.process.cpu()?;
        let done = push(target, receiver, names, share * endpoints).await?;
        // Acks that are still to be stored are part of the cost.
        target.settle().await?;
        receiver.check(names.len())?;
        let cpu = target.process.cpu()?.saturating_sub(before);
        progress(&format!("  most connections at once: {}", receiver.take_connections_max()));
        Ok((done, cpu))
    }
}

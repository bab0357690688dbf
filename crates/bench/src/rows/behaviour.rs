//! What a subscription's settings cost: ordering keys, filters, keys that wait, a seek. Each is
//! compared with the same load without it; pairs take turns, and the middle pair counts.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use prost::Message;
use wire::protobuf::{Duration as Span, Timestamp};
use wire::pubsub::{ModifyAckDeadlineRequest, PullRequest, RetryPolicy, SeekRequest, Subscription};

use super::Selection;
use super::comparison::rows;
use super::delivery::{self, STREAM_BATCH, STREAM_IN_FLIGHT};
use super::rate::Done;
use crate::clock;
use crate::lean::{self, Attribute, Delivered, Outgoing};
use crate::load::{self, Goal, Publisher, Subscriber, Wanted};
use crate::plan::{Plan, short};
use crate::report::{Report, TimeRow, progress};
use crate::target::{SUBSCRIPTION, TOPIC, Target, Workshop, subscription};

/// A backoff that does not end while anything is measured.
const BACKOFF_S: i64 = 600;

/// Calls in flight while a load is prepared.
const PREPARE_IN_FLIGHT: u32 = 16;
const PREPARE_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(300);

/// Most messages of one unary pull.
const PULL_MAX: u32 = 1_000;

/// The key that a whole backlog stands behind.
const STUCK: &str = "stuck";

/// Runs the rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    order(workshop, selection, report).await.context("order")?;
    filter(workshop, selection, report).await.context("filter")?;
    blocked(workshop, selection, report).await.context("blocked")?;
    behind(workshop, selection, report).await.context("behind")?;
    seek(workshop, selection, report).await.context("seek")
}

/// With ordering keys, and the same messages without their order kept.
async fn order(workshop: &Workshop, selection: &Selection, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let names = ["order/free".to_owned(), format!("order/{}-keys", short(plan.keys.into()))];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let Some(free) = started(workshop, &subscription()).await? else { return Ok(()) };
    let Some(ordered) = started(workshop, &by_key()).await? else { return Ok(()) };
    let rates = take_turns(plan, &[free, ordered]).await?;
    report.comparisons.extend(rows(&names, &rates));
    Ok(())
}

/// With many keys that wait for their backoff, and with none.
async fn blocked(workshop: &Workshop, selection: &Selection, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let names =
        ["blocked/none".to_owned(), format!("blocked/{}-keys", short(plan.keys_blocked.into()))];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let Some(none) = started(workshop, &by_key()).await? else { return Ok(()) };
    let Some(blocked) = started(workshop, &by_key()).await? else { return Ok(()) };
    let keys = (0..plan.keys_blocked).map(|key| format!("{STUCK}-{key}"));
    let batch = usize::try_from(STREAM_BATCH)?;
    let messages: Vec<Outgoing> = keys.map(|key| message(plan, key, &[])).collect();
    // A call takes one key.
    for part in messages.chunks(batch) {
        let requests = part.iter().map(|one| load::framed(TOPIC, vec![one.clone()]));
        let calls = requests.map(|request| blocked.channel.call("Publisher/Publish", request));
        futures::future::try_join_all(calls).await?;
    }
    give_back(&blocked, plan.keys_blocked.into()).await?;
    let rates = take_turns(plan, &[none, blocked]).await?;
    report.comparisons.extend(rows(&names, &rates));
    Ok(())
}

/// With one key that waits and very many messages behind it, and with none.
async fn behind(workshop: &Workshop, selection: &Selection, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let names = ["behind/none".to_owned(), format!("behind/{}", short(plan.behind_one_key))];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let Some(none) = started(workshop, &by_key()).await? else { return Ok(()) };
    let Some(stuck) = started(workshop, &by_key()).await? else { return Ok(()) };
    let one = load::framed(TOPIC, vec![message(plan, STUCK.to_owned(), &[])]);
    stuck.channel.call("Publisher/Publish", one).await?;
    give_back(&stuck, 1).await?;
    let many = |_| message(plan, STUCK.to_owned(), &[]);
    let request = load::framed(TOPIC, (0..STREAM_BATCH).map(many).collect());
    fill(&stuck, vec![request], plan.behind_one_key).await?;
    let rates = take_turns(plan, &[none, stuck]).await?;
    report.comparisons.extend(rows(&names, &rates));
    Ok(())
}

/// Draining everything, and draining what a filter lets through.
async fn filter(workshop: &Workshop, selection: &Selection, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let names = ["filter/all".to_owned(), format!("filter/one-in-{}", plan.filter_one_in)];
    if !selection.holds_any(&names) {
        return Ok(());
    }
    let some = Subscription { filter: "attributes.kind = \"wanted\"".to_owned(), ..subscription() };
    let Some(all) = started(workshop, &subscription()).await? else { return Ok(()) };
    let Some(some) = started(workshop, &some).await? else { return Ok(()) };
    let request = load::framed(TOPIC, (0..STREAM_BATCH).map(|at| marked(plan, at)).collect());
    let mut rates = vec![Vec::new(), Vec::new()];
    for _ in 0..plan.pairs {
        for (index, (target, one_in)) in
            [(&all, 1), (&some, plan.filter_one_in)].into_iter().enumerate()
        {
            fill(target, vec![request.clone()], plan.filter_backlog).await?;
            target.settle().await?;
            let start = clock::now();
            let mut subscriber = Subscriber::open(&target.channel, SUBSCRIPTION).await?;
            let messages = plan.filter_backlog / u64::from(one_in);
            let received = subscriber.receive(&Wanted { messages, lead: None }).await?;
            rates[index].push(clock::rate(plan.filter_backlog, received.end - start));
            subscriber.close().await?;
        }
    }
    report.comparisons.extend(rows(&names, &rates));
    Ok(())
}

/// A seek back over a backlog that was acked and is retained.
async fn seek(workshop: &Workshop, selection: &Selection, report: &mut Report) -> Result<()> {
    let plan = &workshop.plan;
    let name = format!("seek/back-{}", short(plan.sought_back));
    if !selection.holds(&name) {
        return Ok(());
    }
    let kept = Subscription { retain_acked_messages: true, ..subscription() };
    let Some(target) = started(workshop, &kept).await? else { return Ok(()) };
    target.fill(plan.sought_back, plan.message_bytes).await?;
    // All of it is acked at once by a seek to the end of time, and then wanted again.
    seek_to(&target, i64::from(i32::MAX)).await?;
    target.settle().await?;
    let start = clock::now();
    seek_to(&target, 0).await?;
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut subscriber = Subscriber::open(&target.channel, SUBSCRIPTION).await?;
    let messages = plan.sought_back;
    let received = subscriber.receive(&Wanted { messages, lead: None }).await?;
    ensure!(received.messages >= messages, "only {} messages came again", received.messages);
    let row = TimeRow { name, took_ms };
    progress(&row.line());
    report.times.push(row);
    Ok(())
}

async fn seek_to(target: &Target, seconds: i64) -> Result<()> {
    let request = SeekRequest {
        subscription: SUBSCRIPTION.to_owned(),
        target: Some(wire::pubsub::seek_request::Target::Time(Timestamp { seconds, nanos: 0 })),
    };
    target.channel.call("Subscriber/Seek", lean::frame(&request)).await.map(drop)
}

fn by_key() -> Subscription {
    let backoff = Some(Span { seconds: BACKOFF_S, nanos: 0 });
    Subscription {
        enable_message_ordering: true,
        retry_policy: Some(RetryPolicy { minimum_backoff: backoff, maximum_backoff: backoff }),
        ..subscription()
    }
}

async fn started(workshop: &Workshop, subscription: &Subscription) -> Result<Option<Target>> {
    let Some(target) = workshop.server().await? else { return Ok(None) };
    target.create_topic().await?;
    target.create(subscription).await?;
    let calls = workshop.plan.warm_up.div_ceil(u64::from(STREAM_BATCH));
    let publishers = publishers(&target, keyed(&workshop.plan))?;
    if subscription.filter.is_empty() {
        stream(&target, &workshop.plan, publishers, calls).await?;
    }
    Ok(Some(target))
}

fn message(plan: &Plan, ordering_key: String, attributes: &[(&str, &str)]) -> Outgoing {
    let attributes = attributes
        .iter()
        .map(|(key, value)| Attribute { key: (*key).to_owned(), value: (*value).to_owned() });
    let attributes = attributes.collect();
    Outgoing { data: load::filler(plan.message_bytes), attributes, ordering_key }
}

/// One in so many carries what the filter wants.
fn marked(plan: &Plan, at: u32) -> Outgoing {
    let kind = if at.is_multiple_of(plan.filter_one_in) { "wanted" } else { "other" };
    message(plan, String::new(), &[("kind", kind), ("source", "bench")])
}

/// Requests that have every key in turn; all messages of a request have the same.
pub(super) fn keyed(plan: &Plan) -> Vec<Bytes> {
    let request = |key: u32| {
        let messages = (0..STREAM_BATCH).map(|_| message(plan, format!("key-{key}"), &[]));
        load::framed(TOPIC, messages.collect())
    };
    (0..plan.keys).map(request).collect()
}

fn publishers(target: &Target, requests: Vec<Bytes>) -> Result<Vec<Publisher>> {
    let requests: Arc<[Bytes]> = requests.into();
    let publisher = |index| {
        let index = usize::try_from(index)?;
        let caller = target.channel.caller(index, "Publisher/Publish")?;
        Ok(Publisher::new(caller, Arc::clone(&requests), index, STREAM_BATCH))
    };
    (0..STREAM_IN_FLIGHT.min(PREPARE_IN_FLIGHT)).map(publisher).collect()
}

/// Publishes at least so many messages by requests of [`STREAM_BATCH`] messages that take turns.
pub(super) async fn fill(target: &Target, requests: Vec<Bytes>, messages: u64) -> Result<()> {
    let calls = messages.div_ceil(u64::from(STREAM_BATCH));
    let goal = Goal::calls(calls, PREPARE_TIME_MAX);
    let slice = load::run(publishers(target, requests)?, goal).await?;
    ensure!(slice.calls == calls, "only {} of {calls} calls were made in time", slice.calls);
    Ok(())
}

/// Pulls so many messages and gives each back.
async fn give_back(target: &Target, messages: u64) -> Result<()> {
    let mut left = messages;
    while left > 0 {
        let pull = PullRequest {
            subscription: SUBSCRIPTION.to_owned(),
            max_messages: i32::try_from(PULL_MAX)?,
            ..Default::default()
        };
        let answer = target.channel.call("Subscriber/Pull", lean::frame(&pull)).await?;
        let received = Delivered::decode(answer)?.received;
        ensure!(!received.is_empty(), "nothing to give back");
        left = left.saturating_sub(received.len() as u64);
        let ack_ids = received.iter().map(|one| String::from_utf8_lossy(&one.ack_id).into_owned());
        let nack = ModifyAckDeadlineRequest {
            subscription: SUBSCRIPTION.to_owned(),
            ack_ids: ack_ids.collect(),
            ack_deadline_seconds: 0,
        };
        target.channel.call("Subscriber/ModifyAckDeadline", lean::frame(&nack)).await?;
    }
    Ok(())
}

async fn stream(
    target: &Target,
    plan: &Plan,
    publishers: Vec<Publisher>,
    calls: u64,
) -> Result<Done> {
    let (done, subscriber) = delivery::stream(target, plan, publishers, calls).await?;
    subscriber.close().await?;
    Ok(done)
}

/// Rates of each target end to end, pair by pair.
async fn take_turns(plan: &Plan, targets: &[Target]) -> Result<Vec<Vec<f64>>> {
    let calls = plan.pair_messages.div_ceil(u64::from(STREAM_BATCH));
    let mut rates = vec![Vec::new(); targets.len()];
    for _ in 0..plan.pairs {
        for (index, target) in targets.iter().enumerate() {
            let publishers = publishers(target, keyed(plan))?;
            let done = stream(target, plan, publishers, calls).await?;
            target.settle().await?;
            rates[index].push(clock::rate(done.messages, done.elapsed));
        }
    }
    Ok(rates)
}

//! The parts about publishing, pulling and order.

use serde_json::{Value, json};

use super::receiver::Push;
use super::stage::Stage;
use crate::cli::Failure;
use crate::cli::messages;
use crate::cli::table::plain;

pub(super) fn publish_and_pull(stage: &Stage) -> Result<(), Failure> {
    stage.part("Publish and pull")?;
    let (topic, billing) = (stage.topic("orders")?, stage.subscription("billing")?);
    stage.command("topic create orders")?;
    stage.make(&topic, &json!({}))?;
    stage.command("subscription create billing --topic orders")?;
    stage.make(&billing, &json!({"topic": topic.as_str()}))?;
    stage.command("publish orders 'order 1' 'order 2' 'order 3'")?;
    stage.publish(&topic, "", &["order 1", "order 2", "order 3"])?;
    stage.say("   Answered: all three are on disk and would survive a power cut.")?;
    stage.command("pull billing --ack")?;
    let received = stage.until("three messages", || {
        let pull = json!({"maxMessages": 10, "returnImmediately": true});
        let answer = stage.client.post(&format!("{}:pull", billing.path()), &pull)?;
        let received = answer["receivedMessages"].as_array().cloned().unwrap_or_default();
        Ok(if received.is_empty() { None } else { Some(received) })
    })?;
    for one in &received {
        stage.say(&format!("   {}", messages::line(&one["message"], "").trim_end()))?;
    }
    let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
    stage.client.post(&format!("{}:acknowledge", billing.path()), &json!({ "ackIds": ids }))?;
    stage.say("   Acked: they never come again.")
}

pub(super) fn push_in_order(stage: &Stage) -> Result<(), Failure> {
    stage.part("Push in order, to an endpoint that fails")?;
    let (topic, shipping) = (stage.topic("parcels")?, stage.subscription("shipping")?);
    stage.make(&topic, &json!({}))?;
    let endpoint = stage.receiver.url("/shipping");
    stage.command(&format!(
        "subscription create shipping --topic parcels --ordering --endpoint {endpoint}"
    ))?;
    stage.make(
        &shipping,
        &json!({
            "topic": topic.as_str(), "enableMessageOrdering": true,
            "pushConfig": {"pushEndpoint": endpoint}, "retryPolicy": stage.retry_policy(),
        }),
    )?;
    stage.receiver.fail("/shipping", "ann 1", 500, 2);
    stage.say("   The endpoint will answer 500 to \"ann 1\", twice.")?;
    stage.publish(&topic, "ann", &["ann 1", "ann 2"])?;
    stage.publish(&topic, "bob", &["bob 1", "bob 2"])?;
    let pushes = watch(stage, "/shipping", 4)?;
    let order: Vec<&str> = acked(&pushes).collect();
    let place = |text: &str| order.iter().position(|one| *one == text);
    if place("ann 1") >= place("ann 2") || place("bob 1") >= place("bob 2") {
        return Err(Failure::failed(format!("out of order: {order:?}")));
    }
    stage.say("   Ann's second parcel waited for her first. Bob's waited for nobody.")?;
    stage.command("attempts shipping --class http_5xx")?;
    let attempts = stage.until("the attempts", || {
        let path = format!("{}/attempts?class=http_5xx", shipping.path());
        let answer = stage.client.get(&path)?;
        let attempts = answer["attempts"].as_array().cloned().unwrap_or_default();
        Ok(if attempts.len() >= 2 { Some(attempts) } else { None })
    })?;
    for one in &attempts {
        let [time, message, attempt, status] =
            ["time", "messageId", "attempt", "status"].map(|field| plain(&one[field]));
        stage.say(&format!("   {time}  message {message}  attempt {attempt}  status {status}"))?;
    }
    Ok(())
}

pub(super) fn push_fifo(stage: &Stage) -> Result<(), Failure> {
    stage.part("FIFO: a whole subscription in order")?;
    let (topic, ledger) = (stage.topic("orders")?, stage.subscription("ledger")?);
    let endpoint = stage.receiver.url("/ledger");
    stage.command(&format!(
        "subscription create ledger --topic orders --fifo --endpoint {endpoint}"
    ))?;
    stage.make(
        &ledger,
        &json!({
            "topic": topic.as_str(), "pushConfig": {"pushEndpoint": endpoint},
            "retryPolicy": stage.retry_policy(),
            "postrider": {"fifo": true, "maxAttempts": 100},
        }),
    )?;
    stage.receiver.fail("/ledger", "entry 1", 503, 2);
    stage.publish(&topic, "", &["entry 1", "entry 2", "entry 3"])?;
    let pushes = watch(stage, "/ledger", 3)?;
    let order: Vec<&str> = acked(&pushes).collect();
    if order != ["entry 1", "entry 2", "entry 3"] {
        return Err(Failure::failed(format!("out of order: {order:?}")));
    }
    stage.say("   Nothing overtook the failed entry, whatever its key.")
}

fn acked(pushes: &[Push]) -> impl Iterator<Item = &str> {
    pushes.iter().filter(|push| push.status == 200).map(|push| push.text.as_str())
}

/// Reports pushes as they arrive, until this many are acked; returns what arrived.
pub(super) fn watch(stage: &Stage, path: &str, count: usize) -> Result<Vec<Push>, Failure> {
    let mut told = 0;
    loop {
        let pushes = stage.until("pushes", || {
            let pushes = stage.receiver.at(path);
            Ok(if pushes.len() > told { Some(pushes) } else { None })
        })?;
        for push in pushes.iter().skip(told) {
            let came = if push.status == 200 { "acked" } else { "failed, comes again" };
            stage.say(&format!("   pushed {:?}: {} ({came})", push.text, push.status))?;
        }
        told = pushes.len();
        if acked(&pushes).count() >= count {
            return Ok(pushes);
        }
    }
}

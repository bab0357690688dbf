//! Messages at a steady rate, to see the figures move.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::cli::Failure;

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(200);

/// Publishes, pulls and lets some fail for this long.
pub(super) fn run(stage: &Stage, time: Duration) -> Result<(), Failure> {
    stage.part("Messages at a steady rate, some of which fail")?;
    let end = stage.client.now().plus(time);
    let (orders, parcels) = (stage.topic("orders")?, stage.topic("parcels")?);
    let mut round = 0_u64;
    while stage.client.now() < end {
        round += 1;
        let texts: Vec<String> = (0..10).map(|number| format!("load {round}.{number}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        if round.is_multiple_of(10) {
            // Now of one class, now of another; strict gives its message up.
            let status = if round.is_multiple_of(20) { 500 } else { 404 };
            for path in ["/strict", "/shipping", "/ledger"] {
                let times = if path == "/strict" { u32::MAX } else { 2 };
                stage.receiver.fail(path, texts[0], status, times);
            }
        }
        stage.publish(&orders, "", &texts)?;
        stage.publish(&parcels, &format!("key {}", round % 5), &texts)?;
        pull_some(stage, round)?;
        std::thread::sleep(ROUND);
    }
    stage.say(&format!("   {round} rounds, {} pushes acked", stage.receiver.acked()))
}

/// Acks what is there; each tenth time gives one back.
fn pull_some(stage: &Stage, round: u64) -> Result<(), Failure> {
    let billing = stage.subscription("billing")?;
    let pull = json!({"maxMessages": 100, "returnImmediately": true});
    let answer = stage.client.post(&format!("{}:pull", billing.path()), &pull)?;
    let ids: Vec<Value> = answer["receivedMessages"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| one["ackId"].clone())
        .collect();
    let back = usize::from(round.is_multiple_of(10)).min(ids.len());
    let (back, done) = ids.split_at(back);
    if !done.is_empty() {
        stage.client.post(&format!("{}:acknowledge", billing.path()), &json!({"ackIds": done}))?;
    }
    if !back.is_empty() {
        let nack = json!({"ackIds": back, "ackDeadlineSeconds": 0});
        stage.client.post(&format!("{}:modifyAckDeadline", billing.path()), &nack)?;
    }
    Ok(())
}

//! The part about a message that fails for good, and what becomes of it.

use serde_json::{Value, json};

use super::stage::Stage;
use crate::cli::Failure;
use crate::cli::client::Ours;
use crate::cli::names::{Name, path};
use crate::cli::table::plain;

const BAD: &str = "order without an address";

pub(super) fn give_up_and_replay(stage: &Stage) -> Result<(), Failure> {
    stage.part("Dead letters, and their replay")?;
    let strict = set_up(stage)?;
    stage.receiver.fail("/strict", BAD, 422, u32::MAX);
    stage.say("   The endpoint will answer 422 to one of two orders, always.")?;
    stage.publish(&stage.topic("orders")?, "", &[BAD, "good order"])?;
    let letter = stage.until("the dead letter", || first_letter(stage, &strict))?;
    for push in stage.receiver.at("/strict") {
        stage.say(&format!("   pushed {:?}: {}", push.text, push.status))?;
    }
    stage.command("dead-letter list --subscription strict")?;
    let [id, attempts, class, status] =
        ["messageId", "attempts", "errorClass", "lastStatus"].map(|field| plain(&letter[field]));
    stage.say(&format!(
        "   letter {id}: given up after {attempts} attempts, {class}, last status {status}"
    ))?;
    stage.say("   Someone fixes the endpoint.")?;
    stage.receiver.repair("/strict");
    stage.command("dead-letter replay --subscription strict --all")?;
    replay(stage, &strict)?;
    let pushes = watch_for_replayed(stage)?;
    stage.say(&format!("   pushed {BAD:?}: 200, original_message_id={pushes}"))?;
    stage.say("   It went only to the subscription it came from.")
}

fn set_up(stage: &Stage) -> Result<Name, Failure> {
    let dead = stage.topic("given-up")?;
    stage.make(&dead, &json!({}))?;
    stage.make(&stage.subscription("given-up")?, &json!({"topic": dead.as_str()}))?;
    let strict = stage.subscription("strict")?;
    let endpoint = stage.receiver.url("/strict");
    stage.command(&format!(
        "subscription create strict --topic orders --dead-letter-topic given-up --max-attempts 5 \
         --endpoint {endpoint}"
    ))?;
    stage.make(
        &strict,
        &json!({
            "topic": stage.topic("orders")?.as_str(), "pushConfig": {"pushEndpoint": endpoint},
            "retryPolicy": stage.retry_policy(),
            "deadLetterPolicy": {"deadLetterTopic": dead.as_str(), "maxDeliveryAttempts": 5},
        }),
    )?;
    Ok(strict)
}

fn first_letter(stage: &Stage, strict: &Name) -> Result<Option<Value>, Failure> {
    let asked = format!("{}/deadLetters", strict.path());
    let page = stage.client.get_ours("dead letters", Ours::Of(strict), &asked)?;
    Ok(page["deadLetters"].get(0).cloned())
}

fn replay(stage: &Stage, strict: &Name) -> Result<(), Failure> {
    let asked = format!("{}/deadLetters:replay", strict.path());
    let all = json!({"all": true});
    let replay = stage.client.post_ours("dead letters", Ours::Of(strict), &asked, &all)?;
    let name = path(&plain(&replay["name"]));
    let ended = stage.until("the replay", || {
        let replay = stage.client.get(&name)?;
        Ok(if replay["state"] == "running" { None } else { Some(replay) })
    })?;
    if ended["state"] != "done" {
        return Err(Failure::failed(format!("the replay ended {}", plain(&ended["state"]))));
    }
    Ok(())
}

/// Waits until the repaired message is acked; the id it had at first.
fn watch_for_replayed(stage: &Stage) -> Result<String, Failure> {
    let found = stage.until("the replayed message", || {
        let mut pushes = stage.receiver.at("/strict").into_iter();
        Ok(pushes.find(|push| push.text == BAD && push.status == 200))
    })?;
    Ok(plain(&found.attributes["original_message_id"]))
}

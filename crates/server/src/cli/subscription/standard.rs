//! `--standard`: the set-up that is advised for most subscriptions.

use http::{Method, StatusCode};
use serde_json::json;

use super::changes::Changes;
use super::settings::Settings;
use crate::cli::client::{Client, Problem};
use crate::cli::names::Name;
use crate::cli::{Failure, note};

const ATTEMPTS: u32 = 5;
const ACK_DEADLINE_S: u32 = 60;

/// Makes the dead letter topic of the subscription `name` and a subscription on it, where they are
/// not there yet, and puts down the rest. `settings` come after it and win.
pub(super) fn apply(
    client: &Client,
    name: &Name,
    settings: &Settings,
    changes: &mut Changes,
) -> Result<(), Failure> {
    if !settings.has_dead_letter_topic() {
        let id = format!("{}.dlq", name.id());
        let topic = name.sibling("topics", &id);
        make(client, &topic, &json!({}))?;
        // It must outlive a long time without anybody looking.
        let reader = json!({"topic": topic.as_str(), "expirationPolicy": {}});
        make(client, &name.sibling("subscriptions", &id), &reader)?;
        changes.set("deadLetterPolicy.deadLetterTopic", topic.as_str().into());
    }
    changes.set("deadLetterPolicy.maxDeliveryAttempts", ATTEMPTS.into());
    if !settings.has_own_backoff() {
        changes.set("retryPolicy.minimumBackoff", "10s".into());
        changes.set("retryPolicy.maximumBackoff", "600s".into());
    }
    if !settings.has_endpoint() {
        changes.set("ackDeadlineSeconds", ACK_DEADLINE_S.into());
    }
    Ok(())
}

fn make(client: &Client, name: &Name, body: &serde_json::Value) -> Result<(), Failure> {
    match client.call(Method::PUT, &name.path(), Some(body)) {
        Ok(_) => {
            note(&format!("made {name}"));
            Ok(())
        }
        Err(Problem::Refused { code: StatusCode::CONFLICT, .. }) => {
            note(&format!("{name} is there already"));
            Ok(())
        }
        Err(problem) => Err(client.failure(problem)),
    }
}

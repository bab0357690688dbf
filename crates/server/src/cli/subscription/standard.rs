//! `--standard`: the recommended setup for most subscriptions.

use http::Method;
use serde_json::json;

use crate::cli::changes::Changes;
use crate::cli::client::{Client, Problem};
use crate::cli::create::{Created, create};
use crate::cli::names::Name;
use crate::cli::settings::Given;
use crate::cli::{Failure, note, warn};

const ATTEMPTS: u32 = 5;
const ACK_DEADLINE_S: u32 = 60;

/// Puts down what is advised for the subscription `name`; what is `given` comes after it and wins.
/// Returns the dead letter topic that must be there first, if it is the advised one.
pub(super) fn apply(name: &Name, given: &Given, changes: &mut Changes) -> Option<Name> {
    let topic = name.sibling("topics", &format!("{}.dlq", name.id()));
    let is_advised = !given.has("dead-letter-topic");
    if is_advised {
        changes.set("deadLetterPolicy.deadLetterTopic", topic.as_str().into());
    }
    changes.set("deadLetterPolicy.maxDeliveryAttempts", ATTEMPTS.into());
    if !given.has("backoff") {
        changes.set("retryPolicy.minimumBackoff", "10s".into());
        changes.set("retryPolicy.maximumBackoff", "600s".into());
    }
    if !given.has("endpoint") {
        changes.set("ackDeadlineSeconds", ACK_DEADLINE_S.into());
    }
    is_advised.then_some(topic)
}

/// What was made for a subscription, and goes again if that cannot be made.
#[derive(Default)]
pub(super) struct Scaffold {
    made: Vec<Name>,
}

impl Scaffold {
    /// Makes the dead letter topic and a subscription on it, where they are not there yet.
    pub(super) fn raise(client: &Client, topic: &Name) -> Result<Self, Failure> {
        let mut scaffold = Self::default();
        let reader = topic.sibling("subscriptions", topic.id());
        // It must outlive a long time without anyone looking.
        let body = json!({"topic": topic.as_str(), "expirationPolicy": {}});
        let raised = scaffold.make(client, topic, &json!({}));
        let raised = raised.and_then(|()| scaffold.make(client, &reader, &body));
        match raised {
            Ok(()) => Ok(scaffold),
            Err(problem) => {
                scaffold.settle(client, &problem);
                Err(client.failure(problem))
            }
        }
    }

    fn make(
        &mut self,
        client: &Client,
        name: &Name,
        body: &serde_json::Value,
    ) -> Result<(), Problem> {
        match create(client, name, body, true)? {
            Created::Made(_) => self.made.push(name.clone()),
            Created::There(_) => note(&format!("{name} is there already")),
        }
        Ok(())
    }

    /// Tells what was made, now that it stays.
    pub(super) fn tell(&self) {
        for name in &self.made {
            note(&format!("made {name}"));
        }
    }

    /// Takes away what was made if the server said no; if it did not say anything, the
    /// subscription may be there and need it.
    pub(super) fn settle(&self, client: &Client, problem: &Problem) {
        match problem {
            Problem::Refused { .. } => self.take_down(client),
            _ => self.tell(),
        }
    }

    /// Takes away what was made, the last first.
    pub(super) fn take_down(&self, client: &Client) {
        for name in self.made.iter().rev() {
            if let Err(problem) = client.call(Method::DELETE, &name.path(), None) {
                let problem = client.failure(problem).problem;
                warn(&format!("{name} was created for it and still exists: {problem}"));
            }
        }
    }
}

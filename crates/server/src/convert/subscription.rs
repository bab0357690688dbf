//! Subscriptions.

use domain::export::ExportState;
use domain::name::DELETED_TOPIC;
use domain::push::Secret;
use domain::subscription::{Change, SigningAsk};
use domain::{Subscription, SubscriptionName, TopicName};
use wire::pubsub;

use super::wanted::{Wanted, googles};
use crate::status::Result;

impl Wanted<Subscription> {
    /// The subscription to be made. Without a name it gets one in the topic's project.
    pub(crate) fn made(&self) -> Result<Subscription> {
        let topic = TopicName::parse("topic", self.name("topic"));
        let name = match (self.name("name"), &topic) {
            ("", Ok(topic)) => {
                let id = broker::make_id()?;
                &format!("{}/subscriptions/subscription-{id}", topic.project())
            }
            (given, _) => given,
        };
        let plain = Subscription::new(SubscriptionName::parse("name", name)?, topic?);
        Ok(with_spare_secret(self.given()?)?.apply(&plain)?)
    }

    /// What an update changes: the settings that `paths` name.
    pub(crate) fn change(&self, paths: &[String]) -> Result<Change> {
        Ok(with_spare_secret(self.masked(paths)?)?)
    }

    /// Whether `path` names what cannot be changed, and the update gives it as it is.
    pub(crate) fn is_unchanged(&self, path: &str, current: &broker::Subscription) -> bool {
        self.repeats(path, &current.settings(), &subscription_to_wire(current))
    }
}

/// Signing that is turned on needs a secret where there is none.
pub(crate) fn with_spare_secret(mut change: Change) -> broker::Result<Change> {
    if change.joined.signing == Some(SigningAsk::On) {
        change.joined.spare_secret = Some(broker::make_secret()?);
    }
    Ok(change)
}

/// The secret that `change` has set, if it has: this once it is shown.
pub(crate) fn secret_set(change: &Change, settings: &Subscription) -> Option<Secret> {
    let asked = match &change.joined.signing {
        Some(SigningAsk::On) => change.joined.spare_secret.as_ref(),
        Some(SigningAsk::With(secret)) => Some(secret),
        Some(SigningAsk::Off) | None => None,
    };
    let in_force = settings.signing.as_ref().map(|signing| &signing.secret);
    asked.filter(|secret| in_force == Some(*secret)).cloned()
}

/// `wire` without what only the server sets: a number there may stand for no word this version
/// knows, and JSON has no text for it.
pub(crate) fn without_states(mut wire: pubsub::Subscription) -> pubsub::Subscription {
    if let Some(config) = &mut wire.bigquery_config {
        config.state = 0;
    }
    if let Some(config) = &mut wire.bigtable_config {
        config.state = 0;
    }
    wire
}

/// A subscription as it is shown.
pub(crate) fn subscription_to_wire(subscription: &broker::Subscription) -> pubsub::Subscription {
    let topic = subscription.topic();
    let topic_retention = topic.settings().message_retention.filter(|_| !topic.is_deleted());
    let mut wire = settings_to_wire(&subscription.settings());
    if topic.is_deleted() {
        DELETED_TOPIC.clone_into(&mut wire.topic);
    }
    wire.topic_message_retention_duration = topic_retention.map(Into::into);
    show_export_state(subscription, &mut wire);
    wire
}

/// How exporting goes. What keeps it from going on is also a trouble of the whole subscription.
fn show_export_state(subscription: &broker::Subscription, wire: &mut pubsub::Subscription) {
    let Some(config) = &mut wire.cloud_storage_config else { return };
    let state = subscription.export_figures().unwrap_or_default().state;
    let shown = pubsub::cloud_storage_config::State::from_str_name(state.as_str());
    config.state = shown.unwrap_or_default().into();
    if state != ExportState::Active {
        wire.state = pubsub::subscription::State::ResourceError.into();
    }
}

/// What follows from the settings alone. Only what is Google's is in it.
pub(super) fn settings_to_wire(settings: &Subscription) -> pubsub::Subscription {
    pubsub::Subscription {
        name: settings.name.to_string(),
        topic: settings.topic.to_string(),
        detached: settings.detached,
        state: match settings.export() {
            // What it writes to is not here.
            Some(_) => pubsub::subscription::State::ResourceError.into(),
            None => pubsub::subscription::State::Active.into(),
        },
        ..googles(settings)
    }
}

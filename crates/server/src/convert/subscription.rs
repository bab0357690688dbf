//! Subscriptions: between Google's definition, with what is ours beside it, and the document that
//! the table of settings reads.

use domain::name::DELETED_TOPIC;
use domain::push::Secret;
use domain::setting::{self, Document, snake};
use domain::subscription::{self, Change, NOT_BUILT, SETTINGS, SigningAsk, is_not_built};
use domain::{Invalid, Subscription, SubscriptionName, TopicName};
use serde::Serialize;
use serde_json::Value;
use wire::pubsub;

use crate::status::{Refusal, Result};

/// A subscription as a request gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Its settings.
    document: Document,
    /// Whether the call came on a way that can give what Google's definition has no field for.
    has_ours: bool,
}

impl Wanted {
    /// As a call over gRPC gives it.
    pub(crate) fn google(wire: &pubsub::Subscription) -> Result<Self> {
        Ok(Self { document: document_of(wire)?, has_ours: false })
    }

    /// As a call over REST gives it: `ours` was taken out of its JSON before.
    pub(crate) fn with_ours(wire: &pubsub::Subscription, ours: Document) -> Result<Self> {
        let mut document = document_of(wire)?;
        merge(&mut document.0, ours.0);
        Ok(Self { document, has_ours: true })
    }

    /// The subscription to be made.
    pub(crate) fn made(&self) -> Result<Subscription> {
        let name = |field: &str| self.document.get(field).and_then(Value::as_str).unwrap_or("");
        let plain = Subscription::new(
            SubscriptionName::parse("name", name("name"))?,
            TopicName::parse("topic", name("topic"))?,
        );
        NOT_BUILT.into_iter().chain(["tags"]).try_for_each(|field| self.refuse(field))?;
        let change = with_spare_secret(Change::creating(&self.document)?)?;
        Ok(change.apply(&plain)?)
    }

    /// What an update changes: the settings that `paths` name.
    pub(crate) fn change(&self, paths: &[String]) -> Result<Change> {
        paths.iter().filter_map(|path| is_not_built(path)).try_for_each(|at| self.refuse(at))?;
        Ok(with_spare_secret(Change::by_mask(&self.document, self.has_ours, paths)?)?)
    }

    /// Whether `path` names what cannot be changed, and the update gives it as it is.
    pub(crate) fn is_unchanged(&self, path: &str, current: &broker::Subscription) -> bool {
        let given = self.document.get(path);
        match setting::named(SETTINGS, path) {
            Some((setting, _)) if setting.is_fixed => {
                let shown = (setting.show)(&current.settings());
                // What is not given stands for its default only where that is nothing.
                let is_given = given.is_some() || matches!(shown, Value::Null | Value::Bool(false));
                let is_reachable = self.has_ours || !setting.is_in_our_object();
                let given = subscription::normal(setting, given.unwrap_or(&Value::Null));
                is_given && is_reachable && given == Some(shown)
            }
            _ if subscription::is_fixed(path) => {
                let shown = document_of(&subscription_to_wire(current));
                shown.is_ok_and(|shown| given == shown.get(path))
            }
            _ => false,
        }
    }

    fn refuse(&self, field: &'static str) -> Result<()> {
        match self.document.get(field) {
            Some(_) => Err(Refusal::field_not_built(field)),
            None => Ok(()),
        }
    }
}

/// Signing that is turned on needs a secret where there is none.
pub(crate) fn with_spare_secret(mut change: Change) -> broker::Result<Change> {
    if change.signing == Some(SigningAsk::On) {
        change.spare_secret = Some(broker::make_secret()?);
    }
    Ok(change)
}

/// The secret that `change` has set, if it has: this once it is shown.
pub(crate) fn secret_set(change: &Change, settings: &Subscription) -> Option<Secret> {
    let asked = match &change.signing {
        Some(SigningAsk::On) => change.spare_secret.as_ref(),
        Some(SigningAsk::With(secret)) => Some(secret),
        Some(SigningAsk::Off) | None => None,
    };
    let in_force = settings.signing.as_ref().map(|signing| &signing.secret);
    asked.filter(|secret| in_force == Some(*secret)).cloned()
}

/// A message of Google's as JSON. Only a duration can be one that JSON has no text for.
fn document_of(wire: &impl Serialize) -> Result<Document, Invalid> {
    let mut track = serde_path_to_error::Track::new();
    let serializer =
        serde_path_to_error::Serializer::new(serde_json::value::Serializer, &mut track);
    match wire.serialize(serializer) {
        Ok(Value::Object(fields)) => Ok(Document(fields)),
        Ok(_) => Ok(Document::default()),
        Err(_) => {
            let field = snake(&track.path().to_string());
            Err(Invalid::new(field, "negative, or not a valid duration"))
        }
    }
}

/// Puts `more` over `fields`, object by object.
fn merge(fields: &mut serde_json::Map<String, Value>, more: serde_json::Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
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
    wire
}

/// What follows from the settings alone. Only what is Google's is in it.
pub(super) fn settings_to_wire(settings: &Subscription) -> pubsub::Subscription {
    let mut google = Document::default();
    let googles = SETTINGS.iter().filter(|setting| !setting.is_ours());
    subscription::show(googles, settings, &mut google);
    if let Some(Value::Object(push)) = google.0.get_mut("pushConfig") {
        push.remove("timeoutSeconds");
    }
    let wire = serde_json::from_value(Value::Object(google.0)).unwrap_or_default();
    pubsub::Subscription {
        name: settings.name.to_string(),
        topic: settings.topic.to_string(),
        detached: settings.detached,
        state: pubsub::subscription::State::Active.into(),
        ..wire
    }
}

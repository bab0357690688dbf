//! Telling of alerts: as messages on a topic of the server's own, which are pushed to one endpoint
//! where the settings name one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::alert::{Settings, Transition};
use domain::limits::PUBLISH_MESSAGES_MAX;
use domain::push::{Endpoint, PushConfig};
use domain::subscription::{Change, Joined, PushChange};
use domain::{Filter, Message, RetryPolicy, SubscriptionName, Timestamp, Topic, TopicName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{AlertView, Alerts};
use crate::error::{Error, Resource, Result};
use crate::options::AlertOptions;

/// Where alerts are published.
const TOPIC: &str = "projects/_postrider/topics/alerts";
/// What pushes them to the one endpoint of the settings.
const WEBHOOK: &str = "projects/_postrider/subscriptions/alerts-webhook";
/// How long alerts are kept, subscribed or not, so that whoever comes later can read them.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// An alert that was only pending is not pushed.
const WEBHOOK_FILTER: &str = r#"attributes.state = "firing" OR attributes.before = "firing""#;
/// Messages that wait to be published, at most; the oldest go first.
const UNSENT_MAX: usize = 20_000;

/// Messages that are still to be published.
#[derive(Default)]
pub(super) struct Outbox {
    unsent: Mutex<VecDeque<Message>>,
    added: Notify,
}

impl Outbox {
    pub(super) fn add(&self, messages: impl Iterator<Item = Message>) {
        let mut unsent = self.unsent.lock();
        let before = unsent.len();
        unsent.extend(messages);
        if unsent.len() == before {
            return;
        }
        let excess = unsent.len().saturating_sub(UNSENT_MAX);
        if excess > 0 {
            unsent.drain(..excess);
            tracing::warn!(dropped = excess, "alerts could not be published for too long");
        }
        self.added.notify_one();
    }

    /// As many of those that wait as one publish takes, as soon as one does.
    async fn take(&self) -> Vec<Message> {
        loop {
            let added = self.added.notified();
            let taken = {
                let mut unsent = self.unsent.lock();
                let count = unsent.len().min(PUBLISH_MESSAGES_MAX);
                unsent.drain(..count).collect::<Vec<Message>>()
            };
            if !taken.is_empty() {
                return taken;
            }
            added.await;
        }
    }

    /// They wait again, before all others.
    fn put_back(&self, messages: Vec<Message>) {
        let mut unsent = self.unsent.lock();
        for message in messages.into_iter().rev() {
            unsent.push_front(message);
        }
    }
}

/// The message for an alert.
pub(super) fn message(
    name: Option<&SubscriptionName>,
    transition: &Transition,
    at: Timestamp,
) -> Message {
    let view = AlertView::new(name, &transition.alert);
    let mut attributes = BTreeMap::from(
        [
            ("rule", view.rule.as_str()),
            ("severity", view.severity.as_str()),
            ("state", view.state.as_str()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    if let Some(name) = name {
        attributes.insert("subscription".to_owned(), name.to_string());
    }
    if let Some(before) = transition.before {
        attributes.insert("before".to_owned(), before.as_str().to_owned());
    }
    let mut data = serde_json::json!(view);
    if let Some(fields) = data.as_object_mut() {
        fields.insert("at".to_owned(), at.rfc3339_micros().into());
    }
    Message { data: data.to_string().into(), attributes, ordering_key: String::new() }
}

impl Alerts {
    /// Publishes what is told, forever. What cannot be published is tried again a while later.
    pub(crate) async fn send(self: Arc<Self>, options: AlertOptions) {
        let outbox = &self.known.outbox;
        let clock = &self.access.clock;
        loop {
            let messages = outbox.take().await;
            if let Err(error) = self.publish(messages.clone(), &options).await {
                tracing::warn!(%error, "alerts could not be published, and will be tried again");
                outbox.put_back(messages);
                clock.sleep_until(clock.now().plus(options.interval)).await;
            }
        }
    }

    async fn publish(&self, messages: Vec<Message>, options: &AlertOptions) -> Result<()> {
        let name = TopicName::parse("alerts.topic", TOPIC)?;
        match self.append(&name, messages.clone()).await {
            Err(Error::NotFound(Resource::Topic, _)) => {
                self.prepare(options).await?;
                self.append(&name, messages).await
            }
            published => published,
        }
    }

    async fn append(&self, topic: &TopicName, messages: Vec<Message>) -> Result<()> {
        self.access.check_serving()?;
        self.registry.topic(topic)?.publish(messages).await.map(drop)
    }

    /// Makes the topic where it is missing, and the subscription that pushes as the settings ask.
    pub(crate) async fn prepare(&self, options: &AlertOptions) -> Result<()> {
        let name = TopicName::parse("alerts.topic", TOPIC)?;
        if self.registry.topic(&name).is_err() {
            let settings = Topic { message_retention: Some(RETENTION), ..Topic::new(name.clone()) };
            self.admin.create_topic(settings).await?;
        }
        let subscription = SubscriptionName::parse("alerts.webhook", WEBHOOK)?;
        let current = self.registry.subscription(&subscription);
        let current = current.ok().map(|current| current.settings());
        let wanted = match &options.endpoint {
            Some(endpoint) => Some(webhook(&subscription, name, endpoint)?),
            None => None,
        };
        match (current, wanted) {
            (None, None) => Ok(()),
            (None, Some(wanted)) => self.admin.create_subscription(wanted).await.map(drop),
            (Some(_), None) => self.admin.delete_subscription(&subscription).await,
            (Some(current), Some(wanted)) if *current == wanted => Ok(()),
            (Some(current), Some(wanted)) => self.change(&current, wanted).await,
        }
    }

    /// What waits for an endpoint that was moved goes to where it is now.
    async fn change(
        &self,
        current: &domain::Subscription,
        wanted: domain::Subscription,
    ) -> Result<()> {
        let name = &wanted.name;
        let moved = domain::Subscription { push: wanted.push.clone(), ..current.clone() };
        if moved != wanted {
            self.admin.delete_subscription(name).await?;
            return self.admin.create_subscription(wanted).await.map(drop);
        }
        let push = PushChange { whole: Some(wanted.push.clone()), ..PushChange::default() };
        let change = Change::joining(Joined { push, ..Joined::default() });
        self.admin.update_subscription(name, change).await.map(drop)
    }
}

fn webhook(
    name: &SubscriptionName,
    topic: TopicName,
    endpoint: &Endpoint,
) -> Result<domain::Subscription> {
    Ok(domain::Subscription {
        push: Some(PushConfig::new(endpoint.clone())),
        filter: Some(Filter::parse("alerts.webhook", WEBHOOK_FILTER)?),
        retry_policy: Some(RetryPolicy::default()),
        message_retention: RETENTION,
        expiration: None,
        alerts: Settings::off(),
        description: "pushes alerts to alerts.webhook".to_owned(),
        ..domain::Subscription::new(name.clone(), topic)
    })
}

//! Subscriptions: made, found, changed, read and ended.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Flow, Lease};
use domain::push::Secret;
use domain::{ProjectName, SubscriptionName, Timestamp};
use storage::Kind;

use super::{Admin, Broker, Page, exists, gone, page, readable};
use crate::consumer::{self, Consumer};
use crate::definition::StoredSubscription;
use crate::error::{Error, Resource, Result};
use crate::secret::make_secret;
use crate::subscription::Subscription;
use crate::topic::Topic;

impl Broker {
    /// Creates a subscription. It and the place where it starts are on stable storage when this
    /// returns.
    pub async fn create_subscription(
        &self,
        settings: domain::Subscription,
    ) -> Result<Arc<Subscription>> {
        settings.validate()?;
        self.check_account(None, &settings)?;
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let name = settings.name.clone();
            if broker.subscriptions.read().contains_key(&name) {
                return Err(Error::AlreadyExists(Resource::Subscription, name.to_string()));
            }
            let topic = broker.topic(&settings.topic)?;
            let progress = broker.progress_from(settings.start, &topic).await?;
            let cursor = progress.cursor();
            let stored = StoredSubscription { settings, topic: topic.id(), cursor, gone: None };
            let value = readable(stored.encode(), name.as_str())?;
            let catalogue = &broker.engine.catalogue;
            let put = catalogue.put(Kind::Subscription, name.as_str(), value, None).await;
            let entry =
                put.map_err(|error| exists(error, Resource::Subscription, name.as_str()))?;
            let used_at = broker.runtime.clock.wall();
            let subscription = broker.load_subscription(&entry, used_at, &mut admin).await?;
            subscription.touch(used_at);
            // Between what snapshots keep there may be what nothing does.
            if progress.acked_above_count() > 0 {
                subscription.seek(|_, _, _| progress)?.await?;
            }
            broker.push.look_at(&subscription);
            broker.audit_push(None, &subscription.settings());
            Ok(subscription)
        })
        .await
    }

    /// The subscription of that name.
    pub fn subscription(&self, name: &SubscriptionName) -> Result<Arc<Subscription>> {
        let found = self.subscriptions.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Subscription, name.to_string()))
    }

    /// Subscriptions of `project` in name order, after the name `after`.
    pub fn list_subscriptions(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        page(&self.subscriptions.read(), after, limit, |name| name.is_in(project))
    }

    /// The subscriptions on `topic` in name order, after the name `after`.
    pub fn list_topic_subscriptions(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        let all = topic.subscriptions();
        let by_name =
            all.into_iter().map(|subscription| (subscription.name().clone(), subscription));
        page(&by_name.collect(), after, limit, |_| true)
    }

    /// Changes a subscription's settings.
    pub async fn update_subscription(
        &self,
        name: &SubscriptionName,
        change: domain::subscription::Change,
    ) -> Result<Arc<Subscription>> {
        let name = name.clone();
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let subscription = broker.subscription(&name)?;
            let before = subscription.settings();
            let settings = change.apply(&before)?;
            broker.check_account(Some(&before), &settings)?;
            broker.store_settings(&mut admin, &subscription, settings).await?;
            broker.audit_push(Some(&before), &subscription.settings());
            Ok(subscription)
        })
        .await
    }

    /// Signs the pushes of a subscription with `secret` from now on, or with one that is made, and
    /// for a day with the one before it too. Returns the new one and when the last secret before
    /// it ends.
    pub async fn rotate_secret(
        &self,
        name: &SubscriptionName,
        secret: Option<Secret>,
    ) -> Result<(Secret, Timestamp)> {
        let name = name.clone();
        let secret = secret.map_or_else(make_secret, Ok)?;
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let subscription = broker.subscription(&name)?;
            let settings = subscription.settings();
            let Some(signing) = &settings.signing else {
                let why = format!(
                    "the pushes of subscription {name} are not signed; set postrider.signing first"
                );
                return Err(Error::FailedPrecondition(why));
            };
            let now = broker.runtime.clock.wall();
            let rotated = signing.rotated(secret.clone(), now);
            let until = rotated.previous_valid_until(now).unwrap_or(now);
            let settings = domain::Subscription { signing: Some(rotated), ..(*settings).clone() };
            settings.validate()?;
            broker.store_settings(&mut admin, &subscription, settings).await?;
            broker.audit("rotate secret", name.to_string(), None);
            Ok((secret, until))
        })
        .await
    }

    /// Cuts a subscription off from its topic for good: its backlog is dropped, and whoever asks
    /// it for messages is refused.
    pub async fn detach_subscription(&self, name: &SubscriptionName) -> Result<()> {
        let name = name.clone();
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let subscription = broker.subscription(&name)?;
            let settings = subscription.settings();
            if settings.detached {
                return Ok(());
            }
            let settings = domain::Subscription { detached: true, ..(*settings).clone() };
            broker.store_settings(&mut admin, &subscription, settings).await?;
            subscription.topic().detach(&subscription);
            broker.drop_if_unused(subscription.topic());
            broker.audit("detach", name.to_string(), None);
            Ok(subscription.drop_backlog().await.map(drop)?)
        })
        .await
    }

    /// Stores changed settings and puts them in force.
    async fn store_settings(
        &self,
        admin: &mut Admin,
        subscription: &Arc<Subscription>,
        settings: domain::Subscription,
    ) -> Result<()> {
        let (before, version) = subscription.versioned();
        let name = before.name.as_str();
        let stored = StoredSubscription {
            settings: settings.clone(),
            topic: subscription.topic().id(),
            cursor: subscription.first(),
            gone: subscription.gone_with(&settings),
        };
        let value = readable(stored.encode(), name)?;
        let put = self.engine.catalogue.put(Kind::Subscription, name, value, Some(version)).await;
        let entry = put.map_err(|error| gone(error, Resource::Subscription, name))?;
        self.note_policy(admin, Some(&before), Some(&settings));
        subscription.set_settings(Arc::new(settings), stored.gone, entry.version);
        self.push.look_at(subscription);
        self.plan_expiry(subscription);
        Ok(())
    }

    /// Deletes a subscription with its backlog.
    pub async fn delete_subscription(&self, name: &SubscriptionName) -> Result<()> {
        let name = name.clone();
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let subscription = broker.subscription(&name)?;
            broker.end_subscription(&mut admin, &subscription).await?;
            broker.audit("delete", name.to_string(), None);
            Ok(())
        })
        .await
    }

    /// Deletes a subscription that nobody used for its time. False if somebody did after all.
    pub(crate) async fn expire_subscription(&self, name: &SubscriptionName) -> Result<bool> {
        let name = name.clone();
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let now = broker.runtime.retention_now();
            let Ok(subscription) = broker.subscription(&name) else { return Ok(false) };
            if subscription.expires_at(now).is_none_or(|at| at > now) {
                return Ok(false);
            }
            broker.end_subscription(&mut admin, &subscription).await?;
            Ok(true)
        })
        .await
    }

    async fn end_subscription(
        &self,
        admin: &mut Admin,
        subscription: &Arc<Subscription>,
    ) -> Result<()> {
        let (settings, version) = subscription.versioned();
        let name = settings.name.as_str();
        let deleted = self.engine.catalogue.delete(Kind::Subscription, name, version).await;
        deleted.map_err(|error| gone(error, Resource::Subscription, name))?;
        self.subscriptions.write().remove(&settings.name);
        subscription.mark_deleted();
        self.push.look_at(subscription);
        subscription.topic().detach(subscription);
        self.note_policy(admin, Some(&settings), None);
        self.drop_if_unused(subscription.topic());
        self.runtime.changed.forget(subscription.id());
        self.runtime.attempts.forget(subscription.id());
        Ok(())
    }

    /// Has the chore look at `subscription` when it expires.
    pub(super) fn plan_expiry(&self, subscription: &Subscription) {
        if let Some(at) = subscription.expires_at(self.runtime.clock.wall()) {
            self.runtime.expiries.plan(at);
        }
    }

    /// Leases up to `records_max` records of `name`, waiting up to `wait` for the first.
    pub async fn pull(
        &self,
        name: &SubscriptionName,
        records_max: usize,
        wait: Duration,
    ) -> Result<Vec<Lease>> {
        let subscription = self.subscription(name)?;
        consumer::pull(subscription, &*self.runtime.clock, records_max, wait).await
    }

    /// Opens a stream of leases with their `ack_deadline`, as many at a time as `flow` allows.
    pub fn stream(
        &self,
        name: &SubscriptionName,
        flow: Flow,
        ack_deadline: Duration,
    ) -> Result<Consumer> {
        let subscription = self.subscription(name)?;
        consumer::stream(subscription, flow, ack_deadline)
    }
}

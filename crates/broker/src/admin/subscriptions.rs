//! Subscriptions: made, changed and ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::push::Secret;
use domain::{SubscriptionName, Timestamp};
use storage::Kind;

use super::{Admin, SUBSCRIPTION, USED, kept_for};
use crate::catalogue::readable;
use crate::definition::{StoredSubscription, Unreadable};
use crate::error::{Error, Resource, Result};
use crate::runtime::Runtime;
use crate::secret::make_secret;
use crate::subscription::Subscription;
use crate::transform::Functions;

impl Admin {
    /// Creates a subscription. It and the place where it starts are on stable storage when this
    /// returns.
    pub(crate) async fn create_subscription(
        self: &Arc<Self>,
        settings: domain::Subscription,
    ) -> Result<Arc<Subscription>> {
        settings.validate()?;
        self.check_account(None, &settings)?;
        self.shards.of(&settings.topic)?;
        self.host.transforms.check(settings.name.as_str(), &settings.transforms).await?;
        self.check_bucket(None, &settings)?;
        let admin = Arc::clone(self);
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let name = settings.name.clone();
            if admin.registry.has_subscription(&name) {
                return Err(Error::AlreadyExists(Resource::Subscription, name.to_string()));
            }
            let shard = admin.shards.of(&settings.topic)?;
            let topic = admin.registry.topic(&settings.topic)?;
            let progress = admin.seeker.progress_from(settings.start, &topic).await?;
            let cursor = progress.cursor();
            let stored = StoredSubscription { settings, topic: topic.id(), cursor, gone: None };
            let value = readable(stored.encode(), name.as_str())?;
            let entry = admin.catalogue.create(SUBSCRIPTION, name.as_str(), value).await?;
            let used_at = admin.host.clock.wall();
            let loaded = admin.load_subscriptions(&shard, vec![(entry, used_at)]);
            let subscription = loaded.await?.pop().ok_or_else(Error::broken_off)?;
            subscription.touch(used_at);
            // Between what snapshots keep there may be what nothing does.
            if progress.acked_above_count() > 0 {
                subscription.seek(|_, _, _| progress)?.await?;
            }
            admin.dependants.push.look_at(&subscription);
            admin.dependants.export.look_at(&subscription);
            admin.audit_push(None, &subscription.settings());
            admin.audit_export(None, &subscription.settings());
            Ok(subscription)
        };
        self.catalogue.change(change).await
    }

    /// Changes a subscription's settings.
    pub(crate) async fn update_subscription(
        self: &Arc<Self>,
        name: &SubscriptionName,
        change: domain::subscription::Change,
    ) -> Result<Arc<Subscription>> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let current = self.registry.subscription(&name)?.settings();
        let tried = change.clone().apply(&current)?.transforms;
        if tried != current.transforms {
            self.host.transforms.check(name.as_str(), &tried).await?;
        }
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let subscription = admin.registry.subscription(&name)?;
            let before = subscription.settings();
            let settings = change.apply(&before)?;
            if ![&tried, &before.transforms].contains(&&settings.transforms) {
                return Err(Error::Contended(Resource::Subscription, name.to_string()));
            }
            admin.check_account(Some(&before), &settings)?;
            admin.check_bucket(Some(&before), &settings)?;
            admin.store_settings(&subscription, settings).await?;
            admin.audit_push(Some(&before), &subscription.settings());
            admin.audit_export(Some(&before), &subscription.settings());
            Ok(subscription)
        };
        self.catalogue.change(change).await
    }

    /// Signs the pushes of a subscription with `secret` from now on, or with one that is made, and
    /// for a day with the one before it too. Returns the new one and when the last secret before
    /// it ends.
    pub(crate) async fn rotate_secret(
        self: &Arc<Self>,
        name: &SubscriptionName,
        secret: Option<Secret>,
    ) -> Result<(Secret, Timestamp)> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let secret = secret.map_or_else(make_secret, Ok)?;
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let subscription = admin.registry.subscription(&name)?;
            let settings = subscription.settings();
            let Some(signing) = &settings.signing else {
                let why = format!(
                    "the pushes of subscription {name} are not signed; set postrider.signing first"
                );
                return Err(Error::FailedPrecondition(why));
            };
            let now = admin.host.clock.wall();
            let rotated = signing.rotated(secret.clone(), now);
            let until = rotated.previous_valid_until(now).unwrap_or(now);
            let settings = domain::Subscription { signing: Some(rotated), ..(*settings).clone() };
            settings.validate()?;
            admin.store_settings(&subscription, settings).await?;
            admin.host.auditor.record("rotate secret", name.to_string(), None);
            Ok((secret, until))
        };
        self.catalogue.change(change).await
    }

    /// Cuts a subscription off from its topic for good: its backlog is dropped, and whoever asks
    /// it for messages is refused.
    pub(crate) async fn detach_subscription(
        self: &Arc<Self>,
        name: &SubscriptionName,
    ) -> Result<()> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let subscription = admin.registry.subscription(&name)?;
            let settings = subscription.settings();
            if settings.detached {
                return Ok(());
            }
            let settings = domain::Subscription { detached: true, ..(*settings).clone() };
            admin.store_settings(&subscription, settings).await?;
            subscription.readers().detach(&subscription);
            admin.registry.drop_if_unused(subscription.readers());
            admin.host.auditor.record("detach", name.to_string(), None);
            Ok(subscription.drop_backlog().await.map(drop)?)
        };
        self.catalogue.change(change).await
    }

    /// Stores changed settings and puts them in force.
    async fn store_settings(
        &self,
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
        let functions = Functions::new(name, &settings.transforms)?;
        let value = readable(stored.encode(), name)?;
        let entry = self.catalogue.update(SUBSCRIPTION, name, value, version).await?;
        self.list_subscription((subscription.id(), entry.version), Some(&before), &settings);
        subscription.set_settings(Arc::new(settings), functions, stored.gone, entry.version);
        self.dependants.push.look_at(subscription);
        self.dependants.export.look_at(subscription);
        self.plan_expiry(subscription);
        Ok(())
    }

    /// Deletes a subscription with its backlog.
    pub(crate) async fn delete_subscription(
        self: &Arc<Self>,
        name: &SubscriptionName,
    ) -> Result<()> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let subscription = admin.registry.subscription(&name)?;
            admin.end_subscription(&subscription).await?;
            admin.host.auditor.record("delete", name.to_string(), None);
            Ok(())
        };
        self.catalogue.change(change).await
    }

    /// Deletes a subscription that nobody used for its time. False if someone did after all.
    pub(crate) async fn expire_subscription(
        self: &Arc<Self>,
        name: &SubscriptionName,
    ) -> Result<bool> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let Ok(subscription) = admin.registry.subscription(&name) else { return Ok(false) };
            let now = subscription.topic().runtime().retention_now();
            if subscription.expires_at(now).is_none_or(|at| at > now) {
                return Ok(false);
            }
            admin.end_subscription(&subscription).await?;
            Ok(true)
        };
        self.catalogue.change(change).await
    }

    async fn end_subscription(&self, subscription: &Arc<Subscription>) -> Result<()> {
        let (settings, version) = subscription.versioned();
        let name = settings.name.as_str();
        self.catalogue.delete(SUBSCRIPTION, name, version).await?;
        self.let_go(subscription);
        self.dependants.attempts.forget(subscription.id());
        Ok(())
    }

    /// Lets go of a subscription that is not in the catalogue anymore.
    pub(super) fn let_go(&self, subscription: &Arc<Subscription>) {
        let settings = subscription.settings();
        self.registry.remove_subscription(&settings.name);
        subscription.mark_deleted();
        self.dependants.push.look_at(subscription);
        self.dependants.export.look_at(subscription);
        subscription.readers().detach(subscription);
        self.unlist_subscription(subscription.id(), &settings);
        self.registry.drop_if_unused(subscription.readers());
        subscription.topic().runtime().changed.forget(subscription.id());
    }

    /// Has the chore look at `subscription` when it expires.
    pub(super) fn plan_expiry(&self, subscription: &Subscription) {
        if let Some(at) = subscription.expires_at(self.host.clock.wall()) {
            subscription.topic().runtime().expiries.plan(at);
        }
    }

    /// Saves when every subscription of a shard was last used, if that has changed.
    pub(crate) async fn save_used(&self, shard: &Runtime) -> Result<()> {
        let mut ledger = self.catalogue.lock().await;
        if !shard.expiries.take_used() {
            return Ok(());
        }
        let now = self.host.clock.wall();
        let ledger = ledger.of(shard.shard);
        let subscriptions = self.registry.subscriptions_in(shard.shard);
        let used: BTreeMap<u64, u64> = subscriptions
            .iter()
            .map(|subscription| (subscription.id().0, subscription.used_at(now).0))
            .collect();
        let name = kept_for(USED, shard.shard);
        let value = readable(serde_json::to_vec(&used).map_err(Unreadable::Json), &name)?;
        let store = self.catalogue.store();
        match store.put(Kind::Bookkeeping, &name, Bytes::from(value), ledger.used_version).await {
            Ok(entry) => {
                ledger.used_version = Some(entry.version);
                Ok(())
            }
            Err(error) => {
                shard.expiries.note_use();
                Err(error.into())
            }
        }
    }
}

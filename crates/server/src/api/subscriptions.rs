//! Subscriptions: made, found, changed, ended.

use std::sync::Arc;

use broker::{Cursor, Subscription};
use domain::push::Secret;
use domain::subscription::{Change, warnings};
use domain::{ProjectName, SubscriptionName, Timestamp, TopicName};
use wire::protobuf::{Empty, FieldMask};
use wire::pubsub;

use super::{Api, paging};
use crate::convert::{self, Wanted};
use crate::status::{Refusal, Result};

/// A subscription that was made or changed, and what its owner should know about it.
pub(crate) struct Warned {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) warnings: Vec<String>,
    /// The signing secret, where this call has set it: it is never shown again.
    pub(crate) secret: Option<Secret>,
}

impl Api {
    pub(crate) async fn create_subscription(
        &self,
        wanted: &Wanted<domain::Subscription>,
    ) -> Result<Warned> {
        let settings = wanted.made()?;
        settings.name.check_not_own("name")?;
        self.check_only_kept(wanted.only_kept(None))?;
        let dead_letters = settings.dead_letter_policy.as_ref().map(|policy| &policy.topic);
        self.check_dead_letter_topic(dead_letters)?;
        let secret = settings.signing.as_ref().map(|signing| signing.secret.clone());
        let subscription = self.broker.create_subscription(settings).await?;
        let settings = subscription.settings();
        let mut warnings = warnings(None, &settings, 0);
        warnings.extend(self.endpoint_warning(None, &settings).await);
        Ok(Warned { subscription, warnings, secret })
    }

    /// A dead letter topic must be there when it is named; it may be deleted later.
    fn check_dead_letter_topic(&self, named: Option<&TopicName>) -> Result<()> {
        match named.map(|topic| self.broker.topic(topic)) {
            Some(Err(missing)) => Err(Refusal::from(missing)
                .about("dead_letter_policy.dead_letter_topic", "create it first")),
            _ => Ok(()),
        }
    }

    /// That nothing will be pushed to an endpoint that was just given.
    async fn endpoint_warning(
        &self,
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) -> Option<String> {
        let endpoint = |one: &domain::Subscription| one.push.as_ref().map(|p| p.endpoint.clone());
        if before.and_then(endpoint) == endpoint(after) {
            return None;
        }
        let refusal = self.broker.endpoint_refusal(after).await?;
        Some(format!("this endpoint will get no pushes: {refusal}"))
    }

    /// The subscription of that name, as a request's `subscription` field gives it.
    pub(crate) fn subscription(&self, name: &str) -> Result<Arc<Subscription>> {
        let name = SubscriptionName::parse("subscription", name)?;
        Ok(self.broker.subscription(&name)?)
    }

    /// Changes what `mask` names to what `wanted` has.
    pub(crate) async fn update_subscription(
        &self,
        name: &str,
        wanted: &Wanted<domain::Subscription>,
        mask: Option<FieldMask>,
    ) -> Result<Warned> {
        let name = SubscriptionName::parse("subscription.name", name)?;
        let mut paths = mask.unwrap_or_default().paths;
        if paths.iter().any(|path| Change::is_fixed(path)) {
            let current = self.broker.subscription(&name)?;
            paths.retain(|path| !wanted.is_unchanged(path, &current));
            if paths.is_empty() {
                return self.change_subscription(&name, Change::default()).await;
            }
        }
        let change = wanted.change(&paths)?;
        self.check_only_kept(wanted.only_kept(Some(&paths)))?;
        self.change_subscription(&name, change).await
    }

    async fn change_subscription(&self, name: &SubscriptionName, change: Change) -> Result<Warned> {
        name.check_not_own("subscription")?;
        let before = self.broker.subscription(name)?;
        let (before, outstanding) = (before.settings(), before.outstanding());
        let dead_letters = change.joined.dead_letter_policy.topic.clone().flatten();
        if dead_letters.is_some() {
            // What breaks a rule is refused for that first.
            change.clone().apply(&before)?;
            self.check_dead_letter_topic(dead_letters.as_ref())?;
        }
        let subscription = self.broker.update_subscription(name, change.clone()).await?;
        let settings = subscription.settings();
        let secret = convert::secret_set(&change, &settings);
        let mut warnings = warnings(Some(&before), &settings, outstanding);
        warnings.extend(self.endpoint_warning(Some(&before), &settings).await);
        Ok(Warned { subscription, warnings, secret })
    }

    /// A page of subscriptions and the token of the next.
    pub(crate) fn list_subscriptions(
        &self,
        request: &pubsub::ListSubscriptionsRequest,
    ) -> Result<(Vec<Arc<Subscription>>, String)> {
        let project = ProjectName::parse("project", &request.project)?;
        let size = paging::page_size(request.page_size)?;
        let after = paging::after(&request.page_token, |name| {
            SubscriptionName::parse("", name).is_ok_and(|name| name.is_in(&project))
        })?;
        let (page, next) = self.broker.list_subscriptions(&project, after.as_deref(), size);
        Ok((page, paging::token(next)))
    }

    pub(crate) async fn delete_subscription(
        &self,
        request: &pubsub::DeleteSubscriptionRequest,
    ) -> Result<Empty> {
        let name = SubscriptionName::parse("subscription", &request.subscription)?;
        name.check_not_own("subscription")?;
        self.broker.delete_subscription(&name).await?;
        Ok(Empty {})
    }

    /// The same as an update that names the push config.
    pub(crate) async fn modify_push_config(
        &self,
        name: &str,
        wanted: &Wanted<domain::Subscription>,
    ) -> Result<Warned> {
        let name = SubscriptionName::parse("subscription", name)?;
        self.change_subscription(&name, wanted.change(&["push_config".to_owned()])?).await
    }

    /// Signs pushes with a new secret, given or made. Returns it and until when the last of those
    /// before it counts too.
    pub(crate) async fn rotate_secret(
        &self,
        name: &str,
        secret: Option<Secret>,
    ) -> Result<(Secret, Timestamp)> {
        let name = SubscriptionName::parse("subscription", name)?;
        Ok(self.broker.rotate_secret(&name, secret).await?)
    }

    /// The cursor as it was last saved.
    pub(crate) fn cursor(&self, name: &str) -> Result<Cursor> {
        Ok(self.subscription(name)?.cursor())
    }
}

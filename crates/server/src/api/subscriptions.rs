//! Subscriptions: made, found, changed, ended.

use std::sync::Arc;

use broker::{Cursor, Subscription};
use domain::subscription::warnings;
use domain::{ProjectName, SubscriptionName};
use wire::protobuf::Empty;
use wire::pubsub;

use super::{Api, paging};
use crate::convert::{self, Extras};
use crate::status::{Refusal, Result};

/// A subscription that was made or changed, and what its owner should know about it.
pub(crate) struct Warned {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) warnings: Vec<String>,
}

impl Api {
    pub(crate) async fn create_subscription(
        &self,
        request: pubsub::Subscription,
        extras: Extras,
    ) -> Result<Warned> {
        let settings = convert::subscription_from_wire(request, extras)?;
        let subscription = self.broker.create_subscription(settings).await?;
        let warnings = warnings(None, &subscription.settings(), 0);
        Ok(Warned { subscription, warnings })
    }

    /// The subscription of that name, as a request's `subscription` field gives it.
    pub(crate) fn subscription(&self, name: &str) -> Result<Arc<Subscription>> {
        let name = SubscriptionName::parse("subscription", name)?;
        Ok(self.broker.subscription(&name)?)
    }

    /// Without `extras` the call came on a way that cannot give them.
    pub(crate) async fn update_subscription(
        &self,
        request: pubsub::UpdateSubscriptionRequest,
        extras: Option<Extras>,
    ) -> Result<Warned> {
        let wanted = request.subscription.unwrap_or_default();
        let name = SubscriptionName::parse("subscription.name", &wanted.name)?;
        let paths = request.update_mask.unwrap_or_default().paths;
        let change = convert::subscription_change(&wanted, extras.as_ref(), &paths)?;
        let before = self.broker.subscription(&name)?;
        let (before, outstanding) = (before.settings(), before.outstanding());
        let subscription = self.broker.update_subscription(&name, change).await?;
        let warnings = warnings(Some(&before), &subscription.settings(), outstanding);
        Ok(Warned { subscription, warnings })
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
        self.broker.delete_subscription(&name).await?;
        Ok(Empty {})
    }

    /// An empty setting makes a pull subscription, which all of them are.
    pub(crate) fn modify_push_config(
        &self,
        request: &pubsub::ModifyPushConfigRequest,
    ) -> Result<Empty> {
        self.subscription(&request.subscription)?;
        if convert::is_push(request.push_config.as_ref()) {
            return Err(Refusal::field_not_built("push_config"));
        }
        Ok(Empty {})
    }

    /// The cursor as it was last saved.
    pub(crate) fn cursor(&self, name: &str) -> Result<Cursor> {
        Ok(self.subscription(name)?.cursor())
    }
}

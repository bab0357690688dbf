//! Sending a subscription elsewhere, and cutting it off.

use broker::SeekTarget;
use domain::{Invalid, SnapshotName, SubscriptionName};
use wire::pubsub;
use wire::pubsub::seek_request::Target;

use super::Api;
use crate::convert;
use crate::status::Result;

impl Api {
    pub(crate) async fn seek(&self, request: &pubsub::SeekRequest) -> Result<pubsub::SeekResponse> {
        let name = SubscriptionName::parse("subscription", &request.subscription)?;
        let target = match &request.target {
            Some(Target::Time(time)) => SeekTarget::Time(convert::timestamp("time", *time)?),
            Some(Target::Snapshot(snapshot)) => {
                SeekTarget::Snapshot(SnapshotName::parse("snapshot", snapshot)?)
            }
            None => return Err(Invalid::new("target", "a time or a snapshot is needed").into()),
        };
        self.broker.seek(&name, target).await?;
        Ok(pubsub::SeekResponse {})
    }

    pub(crate) async fn detach_subscription(
        &self,
        request: &pubsub::DetachSubscriptionRequest,
    ) -> Result<pubsub::DetachSubscriptionResponse> {
        let name = SubscriptionName::parse("subscription", &request.subscription)?;
        name.check_not_own("subscription")?;
        self.broker.detach_subscription(&name).await?;
        Ok(pubsub::DetachSubscriptionResponse {})
    }
}

//! Snapshots: made, found, changed, ended.

use broker::Snapshot;
use domain::name::DELETED_TOPIC;
use domain::validate::tags_warning;
use domain::{ProjectName, SnapshotName, SubscriptionName, TopicName};
use serde::Serialize;
use wire::protobuf::Empty;
use wire::pubsub;

use super::{Api, paging};
use crate::convert;
use crate::status::Result;

/// A snapshot that was made, and what its owner should know about it.
#[derive(Serialize)]
pub(crate) struct WarnedSnapshot {
    #[serde(flatten)]
    pub(crate) snapshot: pubsub::Snapshot,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl Api {
    pub(crate) async fn create_snapshot(
        &self,
        request: pubsub::CreateSnapshotRequest,
    ) -> Result<WarnedSnapshot> {
        let subscription = SubscriptionName::parse("subscription", &request.subscription);
        let name = match (request.name.as_str(), &subscription) {
            // Without a name it gets one in the subscription's project.
            ("", Ok(of)) => &format!("{}/snapshots/snapshot-{}", of.project(), broker::make_id()?),
            (given, _) => given,
        };
        let (name, subscription) = (SnapshotName::parse("name", name)?, subscription?);
        let warnings = tags_warning(&request.tags).into_iter().collect();
        let (labels, tags) = (request.labels, request.tags);
        let made = self.broker.create_snapshot(name, &subscription, labels, tags).await?;
        Ok(WarnedSnapshot { snapshot: shown(&made), warnings })
    }

    pub(crate) fn get_snapshot(
        &self,
        request: &pubsub::GetSnapshotRequest,
    ) -> Result<pubsub::Snapshot> {
        let name = SnapshotName::parse("snapshot", &request.snapshot)?;
        Ok(shown(&*self.broker.snapshot(&name)?))
    }

    pub(crate) async fn update_snapshot(
        &self,
        request: pubsub::UpdateSnapshotRequest,
    ) -> Result<pubsub::Snapshot> {
        let wanted = request.snapshot.unwrap_or_default();
        let name = SnapshotName::parse("snapshot.name", &wanted.name)?;
        let paths = request.update_mask.unwrap_or_default().paths;
        let change = convert::snapshot_change(&wanted, &paths)?;
        let updated = self.broker.update_snapshot(&name, change).await?;
        Ok(shown(&updated))
    }

    pub(crate) fn list_snapshots(
        &self,
        request: &pubsub::ListSnapshotsRequest,
    ) -> Result<pubsub::ListSnapshotsResponse> {
        let project = ProjectName::parse("project", &request.project)?;
        let size = paging::page_size(request.page_size)?;
        let after = paging::after(&request.page_token, |name| {
            SnapshotName::parse("", name).is_ok_and(|name| name.is_in(&project))
        })?;
        let (page, next) = self.broker.list_snapshots(&project, after.as_deref(), size);
        Ok(pubsub::ListSnapshotsResponse {
            snapshots: page.iter().map(|one| shown(one)).collect(),
            next_page_token: paging::token(next),
        })
    }

    pub(crate) fn list_topic_snapshots(
        &self,
        request: &pubsub::ListTopicSnapshotsRequest,
    ) -> Result<pubsub::ListTopicSnapshotsResponse> {
        let name = TopicName::parse("topic", &request.topic)?;
        let size = paging::page_size(request.page_size)?;
        let after =
            paging::after(&request.page_token, |name| SnapshotName::parse("", name).is_ok())?;
        let topic = self.broker.topic(&name)?;
        let (page, next) = self.broker.list_topic_snapshots(&topic, after.as_deref(), size);
        Ok(pubsub::ListTopicSnapshotsResponse {
            snapshots: page.iter().map(|one| one.settings().name.to_string()).collect(),
            next_page_token: paging::token(next),
        })
    }

    pub(crate) async fn delete_snapshot(
        &self,
        request: &pubsub::DeleteSnapshotRequest,
    ) -> Result<Empty> {
        let name = SnapshotName::parse("snapshot", &request.snapshot)?;
        self.broker.delete_snapshot(&name).await?;
        Ok(Empty {})
    }
}

/// A snapshot as it is shown; its topic may be gone, or be another one of the same name.
fn shown(snapshot: &Snapshot) -> pubsub::Snapshot {
    let mut shown = convert::snapshot_to_wire(&snapshot.settings());
    if snapshot.topic().is_deleted() {
        DELETED_TOPIC.clone_into(&mut shown.topic);
    }
    shown
}

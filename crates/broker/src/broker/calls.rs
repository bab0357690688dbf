//! Calls for topics, subscriptions, snapshots and schemas: create, get, change, use and delete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Flow, Lease};
use domain::push::Secret;
use domain::{
    Message, ProjectName, SchemaName, SnapshotName, SubscriptionName, Timestamp, TopicName,
    Transform,
};
use schemas::{Encoding, Kind, RevisionId};
use transforms::{Failure, Outcome};

use super::Broker;
use crate::catalogue::Page;
use crate::consumer::{self, Consumer};
use crate::error::Result;
use crate::runtime::Host;
use crate::schema::{Against, Revised, Schema};
use crate::seek::SeekTarget;
use crate::snapshot::Snapshot;
use crate::subscription::Subscription;
use crate::topic::{Published, Topic};
use crate::transform::TransformFigures;

/// Topics.
impl Broker {
    /// Creates a topic; it exists on stable storage when this returns.
    pub async fn create_topic(&self, settings: domain::Topic) -> Result<Arc<Topic>> {
        self.admin.create_topic(settings).await
    }

    /// The topic with that name.
    pub fn topic(&self, name: &TopicName) -> Result<Arc<Topic>> {
        self.registry.topic(name)
    }

    /// Topics of `project` in name order, after the name `after`.
    pub fn list_topics(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Topic> {
        self.registry.list_topics(project, after, limit)
    }

    /// Changes a topic's settings.
    pub async fn update_topic(
        &self,
        name: &TopicName,
        change: domain::topic::Change,
    ) -> Result<Arc<Topic>> {
        self.admin.update_topic(name, change).await
    }

    /// Deletes a topic. Its subscriptions live on with what they have not delivered yet, and so do
    /// its snapshots.
    pub async fn delete_topic(&self, name: &TopicName) -> Result<()> {
        self.admin.delete_topic(name).await
    }

    /// Appends `messages` to a topic; returns their offsets once they are durable.
    pub async fn publish(&self, topic: &TopicName, messages: Vec<Message>) -> Result<Published> {
        let topic = self.registry.topic(topic)?;
        topic.runtime().check_serving()?;
        topic.publish(messages).await
    }
}

/// Transforms.
impl Broker {
    /// Tries the code of a transform; `owner` is who has it tried.
    pub async fn validate_transform(&self, owner: &str, transform: Transform) -> Result<()> {
        self.host.transforms.check(owner, &[transform]).await
    }

    /// What each of `transforms` makes of a message, one after the other, up to the first that
    /// fails or drops it.
    pub async fn try_transforms(
        &self,
        owner: &str,
        transforms: &[Transform],
        message: Message,
    ) -> Result<Vec<Result<Outcome, Failure>>> {
        let Host { transforms: runner, clock, .. } = &*self.host;
        runner.check(owner, transforms).await?;
        runner.try_out(&**clock, owner, transforms, message).await
    }

    /// What became of the messages that went through transforms since the start.
    pub fn transform_figures(&self) -> TransformFigures {
        self.host.transforms.figures()
    }
}

/// Subscriptions.
impl Broker {
    /// Creates a subscription. It and its starting point are on stable storage when this returns.
    pub async fn create_subscription(
        &self,
        settings: domain::Subscription,
    ) -> Result<Arc<Subscription>> {
        self.admin.create_subscription(settings).await
    }

    /// The subscription with that name.
    pub fn subscription(&self, name: &SubscriptionName) -> Result<Arc<Subscription>> {
        self.registry.subscription(name)
    }

    /// Subscriptions of `project` in name order, after the name `after`.
    pub fn list_subscriptions(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        self.registry.list_subscriptions(project, after, limit)
    }

    /// The subscriptions on `topic` in name order, after the name `after`.
    pub fn list_topic_subscriptions(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        self.registry.list_topic_subscriptions(topic, after, limit)
    }

    /// Changes a subscription's settings.
    pub async fn update_subscription(
        &self,
        name: &SubscriptionName,
        change: domain::subscription::Change,
    ) -> Result<Arc<Subscription>> {
        self.admin.update_subscription(name, change).await
    }

    /// Signs the pushes of a subscription with `secret` from now on, or with a generated one, and
    /// for a day also with the previous one. Returns the new one and when the last previous secret
    /// ends.
    pub async fn rotate_secret(
        &self,
        name: &SubscriptionName,
        secret: Option<Secret>,
    ) -> Result<(Secret, Timestamp)> {
        self.admin.rotate_secret(name, secret).await
    }

    /// Detaches a subscription from its topic for good: its backlog is dropped, and requests for
    /// messages are refused.
    pub async fn detach_subscription(&self, name: &SubscriptionName) -> Result<()> {
        self.admin.detach_subscription(name).await
    }

    /// Deletes a subscription with its backlog.
    pub async fn delete_subscription(&self, name: &SubscriptionName) -> Result<()> {
        self.admin.delete_subscription(name).await
    }

    /// Leases up to `records_max` records of `name`, waiting up to `wait` for the first.
    pub async fn pull(
        &self,
        name: &SubscriptionName,
        records_max: usize,
        wait: Duration,
    ) -> Result<Vec<Lease>> {
        let subscription = self.subscription(name)?;
        consumer::pull(subscription, &*self.host.clock, records_max, wait).await
    }

    /// Opens a stream of leases with this `ack_deadline`, as many at a time as `flow` allows.
    pub fn stream(
        &self,
        name: &SubscriptionName,
        flow: Flow,
        ack_deadline: Duration,
    ) -> Result<Consumer> {
        consumer::stream(self.subscription(name)?, flow, ack_deadline)
    }

    /// Moves a subscription to another point. Durable when it returns; ack ids issued before no
    /// longer count.
    pub async fn seek(&self, name: &SubscriptionName, target: SeekTarget) -> Result<()> {
        self.seeker.seek(name, target).await
    }
}

/// Snapshots.
impl Broker {
    /// Takes a snapshot of what `subscription` has acked. Everything it has not acked, and
    /// everything published from now on, is kept until the snapshot expires: after 7 days minus the
    /// age of the oldest unacked message. `FailedPrecondition` if that is less than an hour.
    pub async fn create_snapshot(
        &self,
        name: SnapshotName,
        subscription: &SubscriptionName,
        labels: BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>> {
        self.admin.create_snapshot(name, subscription, labels, tags).await
    }

    /// The snapshot with that name.
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Arc<Snapshot>> {
        self.registry.snapshot(name)
    }

    /// Snapshots of `project` in name order, after the name `after`.
    pub fn list_snapshots(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        self.registry.list_snapshots(project, after, limit)
    }

    /// The snapshots of subscriptions on `topic` in name order, after the name `after`.
    pub fn list_topic_snapshots(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        self.registry.list_topic_snapshots(topic, after, limit)
    }

    /// Changes a snapshot's labels or expiry time.
    pub async fn update_snapshot(
        &self,
        name: &SnapshotName,
        change: domain::snapshot::Change,
    ) -> Result<Arc<Snapshot>> {
        self.admin.update_snapshot(name, change).await
    }

    /// Deletes a snapshot. Messages that only it kept are dropped.
    pub async fn delete_snapshot(&self, name: &SnapshotName) -> Result<()> {
        self.admin.delete_snapshot(name).await
    }
}

/// Schemas.
impl Broker {
    /// Creates a schema with one revision; it exists on stable storage when this returns.
    pub async fn create_schema(
        &self,
        name: SchemaName,
        kind: Kind,
        definition: String,
    ) -> Result<Revised> {
        self.schemas.create(name, kind, definition).await
    }

    /// The schema with that name.
    pub fn schema(&self, name: &SchemaName) -> Result<Arc<Schema>> {
        self.schemas.get(name)
    }

    /// Schemas of `project` in name order, after the name `after`.
    pub fn list_schemas(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Schema> {
        self.schemas.list(project, after, limit)
    }

    /// Adds a revision to a schema.
    pub async fn commit_schema(
        &self,
        name: &SchemaName,
        kind: Kind,
        definition: String,
    ) -> Result<Revised> {
        self.schemas.commit(name, kind, definition).await
    }

    /// Adds a revision that is a copy of an older one.
    pub async fn roll_back_schema(&self, name: &SchemaName, id: RevisionId) -> Result<Revised> {
        self.schemas.roll_back(name, id).await
    }

    /// Deletes a revision of a schema, unless it is the only one.
    pub async fn delete_schema_revision(
        &self,
        name: &SchemaName,
        id: RevisionId,
    ) -> Result<Revised> {
        self.schemas.delete_revision(name, id).await
    }

    /// Deletes a schema with its revisions. Topics that name it accept no more messages.
    pub async fn delete_schema(&self, name: &SchemaName) -> Result<()> {
        self.schemas.delete(name).await
    }

    /// Whether a definition is valid.
    pub async fn validate_schema(&self, kind: Kind, definition: String) -> Result<()> {
        self.schemas.validate(kind, definition).await
    }

    /// Whether a message is valid for a schema, or for a definition that is given with it.
    pub async fn validate_message(
        &self,
        against: Against,
        encoding: Encoding,
        message: Bytes,
    ) -> Result<()> {
        self.schemas.validate_message(against, encoding, message).await
    }
}

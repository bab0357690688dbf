//! `google.pubsub.v1.Subscriber`.

use tonic::{Request, Response, Status, Streaming};
use wire::protobuf::Empty;
use wire::pubsub::subscriber_server::Subscriber;
use wire::pubsub::{
    AcknowledgeRequest, CreateSnapshotRequest, DeleteSnapshotRequest, DeleteSubscriptionRequest,
    GetSnapshotRequest, GetSubscriptionRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    ListSubscriptionsRequest, ListSubscriptionsResponse, ModifyAckDeadlineRequest,
    ModifyPushConfigRequest, PullRequest, PullResponse, SeekRequest, SeekResponse, Snapshot,
    StreamingPullRequest, StreamingPullResponse, Subscription, UpdateSnapshotRequest,
    UpdateSubscriptionRequest,
};

use super::Service;
use super::framed::{Framed, Nothing};
use super::streaming_pull;
use super::warnings::Warnings;
use crate::api::Warned;
use crate::convert::{Wanted, subscription_to_wire, without_states};

#[tonic::async_trait]
impl Subscriber for Service {
    async fn create_subscription(
        &self,
        request: Request<Subscription>,
    ) -> Result<Response<Subscription>, Status> {
        let wanted = Wanted::google(&without_states(request.into_inner()))?;
        Ok(warned(self.api.create_subscription(&wanted).await?))
    }

    async fn get_subscription(
        &self,
        request: Request<GetSubscriptionRequest>,
    ) -> Result<Response<Subscription>, Status> {
        let found = self.api.subscription(&request.get_ref().subscription)?;
        Ok(Response::new(subscription_to_wire(&found)))
    }

    async fn update_subscription(
        &self,
        request: Request<UpdateSubscriptionRequest>,
    ) -> Result<Response<Subscription>, Status> {
        let UpdateSubscriptionRequest { subscription, update_mask } = request.into_inner();
        let subscription = without_states(subscription.unwrap_or_default());
        let wanted = Wanted::google(&subscription)?;
        let updated = self.api.update_subscription(&subscription.name, &wanted, update_mask);
        Ok(warned(updated.await?))
    }

    async fn list_subscriptions(
        &self,
        request: Request<ListSubscriptionsRequest>,
    ) -> Result<Response<ListSubscriptionsResponse>, Status> {
        let (page, next_page_token) = self.api.list_subscriptions(request.get_ref())?;
        let subscriptions = page.iter().map(|one| subscription_to_wire(one)).collect();
        Ok(Response::new(ListSubscriptionsResponse { subscriptions, next_page_token }))
    }

    async fn delete_subscription(
        &self,
        request: Request<DeleteSubscriptionRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.delete_subscription(request.get_ref()).await?))
    }

    async fn modify_ack_deadline(
        &self,
        request: Request<ModifyAckDeadlineRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.modify_ack_deadline(request.get_ref()).await?))
    }

    async fn acknowledge(
        &self,
        request: Request<AcknowledgeRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.acknowledge(request.get_ref()).await?))
    }

    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<PullResponse>, Status> {
        Ok(Response::new(self.api.pull(request.get_ref()).await?))
    }

    type StreamingPullStream = Nothing<StreamingPullResponse>;

    async fn streaming_pull(
        &self,
        request: Request<Streaming<StreamingPullRequest>>,
    ) -> Result<Response<Self::StreamingPullStream>, Status> {
        let opened = streaming_pull::open(&self.api, request, self.first_request_timeout);
        Ok(Framed::attach(opened.await?))
    }

    async fn modify_push_config(
        &self,
        request: Request<ModifyPushConfigRequest>,
    ) -> Result<Response<Empty>, Status> {
        let ModifyPushConfigRequest { subscription, push_config } = request.into_inner();
        let wanted = Wanted::google(&Subscription { push_config, ..Subscription::default() })?;
        let modified = self.api.modify_push_config(&subscription, &wanted).await?;
        let mut response = Response::new(Empty {});
        Warnings::attach(modified.warnings, &mut response);
        Ok(response)
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<Snapshot>, Status> {
        Ok(Response::new(self.api.get_snapshot(request.get_ref())?))
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        Ok(Response::new(self.api.list_snapshots(request.get_ref())?))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<Snapshot>, Status> {
        let made = self.api.create_snapshot(request.into_inner()).await?;
        let mut response = Response::new(made.snapshot);
        Warnings::attach(made.warnings, &mut response);
        Ok(response)
    }

    async fn update_snapshot(
        &self,
        request: Request<UpdateSnapshotRequest>,
    ) -> Result<Response<Snapshot>, Status> {
        Ok(Response::new(self.api.update_snapshot(request.into_inner()).await?))
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.delete_snapshot(request.get_ref()).await?))
    }

    async fn seek(&self, request: Request<SeekRequest>) -> Result<Response<SeekResponse>, Status> {
        Ok(Response::new(self.api.seek(request.get_ref()).await?))
    }
}

/// The answer about a subscription that was made or changed.
fn warned(warned: Warned) -> Response<Subscription> {
    let mut response = Response::new(subscription_to_wire(&warned.subscription));
    Warnings::attach(warned.warnings, &mut response);
    response
}

//! `google.pubsub.v1.Publisher`.

use tonic::{Request, Response, Status};
use wire::protobuf::Empty;
use wire::pubsub::publisher_server::Publisher;
use wire::pubsub::{
    DeleteTopicRequest, DetachSubscriptionRequest, DetachSubscriptionResponse, GetTopicRequest,
    ListTopicSnapshotsRequest, ListTopicSnapshotsResponse, ListTopicSubscriptionsRequest,
    ListTopicSubscriptionsResponse, ListTopicsRequest, ListTopicsResponse, PublishRequest,
    PublishResponse, Topic, UpdateTopicRequest,
};

use super::Service;

#[tonic::async_trait]
impl Publisher for Service {
    async fn create_topic(&self, request: Request<Topic>) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.api.create_topic(request.into_inner()).await?))
    }

    async fn update_topic(
        &self,
        request: Request<UpdateTopicRequest>,
    ) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.api.update_topic(request.into_inner()).await?))
    }

    async fn publish(
        &self,
        request: Request<PublishRequest>,
    ) -> Result<Response<PublishResponse>, Status> {
        Ok(Response::new(self.api.publish(request.into_inner()).await?))
    }

    async fn get_topic(
        &self,
        request: Request<GetTopicRequest>,
    ) -> Result<Response<Topic>, Status> {
        Ok(Response::new(self.api.get_topic(request.get_ref())?))
    }

    async fn list_topics(
        &self,
        request: Request<ListTopicsRequest>,
    ) -> Result<Response<ListTopicsResponse>, Status> {
        Ok(Response::new(self.api.list_topics(request.get_ref())?))
    }

    async fn list_topic_subscriptions(
        &self,
        request: Request<ListTopicSubscriptionsRequest>,
    ) -> Result<Response<ListTopicSubscriptionsResponse>, Status> {
        Ok(Response::new(self.api.list_topic_subscriptions(request.get_ref())?))
    }

    async fn list_topic_snapshots(
        &self,
        request: Request<ListTopicSnapshotsRequest>,
    ) -> Result<Response<ListTopicSnapshotsResponse>, Status> {
        Ok(Response::new(self.api.list_topic_snapshots(request.get_ref())?))
    }

    async fn delete_topic(
        &self,
        request: Request<DeleteTopicRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.delete_topic(request.get_ref()).await?))
    }

    async fn detach_subscription(
        &self,
        request: Request<DetachSubscriptionRequest>,
    ) -> Result<Response<DetachSubscriptionResponse>, Status> {
        Ok(Response::new(self.api.detach_subscription(request.get_ref()).await?))
    }
}

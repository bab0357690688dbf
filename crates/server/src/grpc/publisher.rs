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
use super::warnings::Warnings;
use crate::api::WarnedTopic;
use crate::convert::{Wanted, topic_to_wire, with_known_words};

/// The answer about a topic that was made or changed.
fn warned(warned: WarnedTopic) -> Response<Topic> {
    let mut response = Response::new(topic_to_wire(&warned.topic));
    Warnings::attach(warned.warnings, &mut response);
    response
}

#[tonic::async_trait]
impl Publisher for Service {
    async fn create_topic(&self, request: Request<Topic>) -> Result<Response<Topic>, Status> {
        let wanted = Wanted::google(&with_known_words(request.into_inner()))?;
        Ok(warned(self.api.create_topic(&wanted).await?))
    }

    async fn update_topic(
        &self,
        request: Request<UpdateTopicRequest>,
    ) -> Result<Response<Topic>, Status> {
        let UpdateTopicRequest { topic, update_mask } = request.into_inner();
        let topic = with_known_words(topic.unwrap_or_default());
        let wanted = Wanted::google(&topic)?;
        Ok(warned(self.api.update_topic(&topic.name, &wanted, update_mask).await?))
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
        Ok(Response::new(topic_to_wire(&*self.api.topic(&request.get_ref().topic)?)))
    }

    async fn list_topics(
        &self,
        request: Request<ListTopicsRequest>,
    ) -> Result<Response<ListTopicsResponse>, Status> {
        let (page, next_page_token) = self.api.list_topics(request.get_ref())?;
        let topics = page.iter().map(|topic| topic_to_wire(topic)).collect();
        Ok(Response::new(ListTopicsResponse { topics, next_page_token }))
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

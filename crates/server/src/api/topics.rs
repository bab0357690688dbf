//! Topics, and publishing to them.

use domain::topic::is_fixed;
use domain::{Message, ProjectName, SubscriptionName, TopicName, validate};
use wire::protobuf::Empty;
use wire::pubsub;

use super::{Api, paging};
use crate::convert;
use crate::status::Result;

impl Api {
    pub(crate) async fn create_topic(&self, request: pubsub::Topic) -> Result<pubsub::Topic> {
        let topic = convert::topic_from_wire(request)?;
        topic.name.check_not_own("name")?;
        let created = self.broker.create_topic(topic).await?;
        Ok(convert::topic_to_wire(&created.settings()))
    }

    pub(crate) fn get_topic(&self, request: &pubsub::GetTopicRequest) -> Result<pubsub::Topic> {
        let name = TopicName::parse("topic", &request.topic)?;
        Ok(convert::topic_to_wire(&self.broker.topic(&name)?.settings()))
    }

    pub(crate) async fn update_topic(
        &self,
        request: pubsub::UpdateTopicRequest,
    ) -> Result<pubsub::Topic> {
        let topic = request.topic.unwrap_or_default();
        let name = TopicName::parse("topic.name", &topic.name)?;
        name.check_not_own("topic.name")?;
        let mut paths = request.update_mask.unwrap_or_default().paths;
        if paths.iter().any(|path| is_fixed(path)) {
            let current = self.broker.topic(&name)?.settings();
            paths.retain(|path| !convert::is_topic_unchanged(path, &topic, &current));
            if paths.is_empty() {
                return Ok(convert::topic_to_wire(&current));
            }
        }
        let change = convert::topic_change(&topic, &paths)?;
        let updated = self.broker.update_topic(&name, change).await?;
        Ok(convert::topic_to_wire(&updated.settings()))
    }

    pub(crate) fn list_topics(
        &self,
        request: &pubsub::ListTopicsRequest,
    ) -> Result<pubsub::ListTopicsResponse> {
        let project = ProjectName::parse("project", &request.project)?;
        let size = paging::page_size(request.page_size)?;
        let after = paging::after(&request.page_token, |name| {
            TopicName::parse("", name).is_ok_and(|name| name.is_in(&project))
        })?;
        let (topics, next) = self.broker.list_topics(&project, after.as_deref(), size);
        Ok(pubsub::ListTopicsResponse {
            topics: topics.iter().map(|topic| convert::topic_to_wire(&topic.settings())).collect(),
            next_page_token: paging::token(next),
        })
    }

    pub(crate) fn list_topic_subscriptions(
        &self,
        request: &pubsub::ListTopicSubscriptionsRequest,
    ) -> Result<pubsub::ListTopicSubscriptionsResponse> {
        let name = TopicName::parse("topic", &request.topic)?;
        let size = paging::page_size(request.page_size)?;
        let after =
            paging::after(&request.page_token, |name| SubscriptionName::parse("", name).is_ok())?;
        let topic = self.broker.topic(&name)?;
        let (page, next) = self.broker.list_topic_subscriptions(&topic, after.as_deref(), size);
        Ok(pubsub::ListTopicSubscriptionsResponse {
            subscriptions: page.iter().map(|one| one.name().to_string()).collect(),
            next_page_token: paging::token(next),
        })
    }

    /// There are none, which clients that list them first may know.
    pub(crate) fn list_schemas(
        &self,
        request: &pubsub::ListSchemasRequest,
    ) -> Result<pubsub::ListSchemasResponse> {
        ProjectName::parse("parent", &request.parent)?;
        paging::page_size(request.page_size)?;
        Ok(pubsub::ListSchemasResponse::default())
    }

    pub(crate) async fn delete_topic(&self, request: &pubsub::DeleteTopicRequest) -> Result<Empty> {
        let name = TopicName::parse("topic", &request.topic)?;
        name.check_not_own("topic")?;
        self.broker.delete_topic(&name).await?;
        Ok(Empty {})
    }

    pub(crate) async fn publish(
        &self,
        request: pubsub::PublishRequest,
    ) -> Result<pubsub::PublishResponse> {
        let topic = TopicName::parse("topic", &request.topic)?;
        topic.check_not_own("topic")?;
        let messages: Vec<Message> =
            request.messages.into_iter().map(convert::message_from_wire).collect();
        validate::publish(&messages)?;
        let offsets = self.broker.publish(&topic, messages).await?;
        let message_ids = (offsets.from.0..offsets.to.0).map(|offset| offset.to_string()).collect();
        Ok(pubsub::PublishResponse { message_ids })
    }
}

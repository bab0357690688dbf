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
        let (topic, schema) = convert::topic_from_wire(request)?;
        topic.name.check_not_own("name")?;
        let created = self.broker.create_topic_with(topic, schema).await?;
        Ok(convert::topic_to_wire(&created))
    }

    pub(crate) fn get_topic(&self, request: &pubsub::GetTopicRequest) -> Result<pubsub::Topic> {
        let name = TopicName::parse("topic", &request.topic)?;
        Ok(convert::topic_to_wire(&*self.broker.topic(&name)?))
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
            let current = self.broker.topic(&name)?;
            let settings = current.settings();
            paths.retain(|path| !convert::is_topic_unchanged(path, &topic, &settings));
            if paths.is_empty() {
                return Ok(convert::topic_to_wire(&current));
            }
        }
        let (change, schema) = convert::topic_change(&topic, &paths)?;
        let updated = self.broker.update_topic_with(&name, change, schema).await?;
        Ok(convert::topic_to_wire(&updated))
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
            topics: topics.iter().map(|topic| convert::topic_to_wire(topic)).collect(),
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
        let mut messages: Vec<Message> =
            request.messages.into_iter().map(convert::message_from_wire).collect();
        validate::publish(&mut messages)?;
        let offsets = self.broker.publish(&topic, messages).await?;
        let message_ids = (offsets.from.0..offsets.to.0).map(|offset| offset.to_string()).collect();
        Ok(pubsub::PublishResponse { message_ids })
    }
}

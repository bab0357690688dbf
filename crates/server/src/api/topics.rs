//! Topics, and publishing to them.

use std::sync::Arc;

use broker::Topic;
use domain::topic::{Change, warnings};
use domain::{Message, ProjectName, SubscriptionName, TopicName, validate};
use tonic::Code;
use wire::protobuf::{Empty, FieldMask};
use wire::pubsub;

use super::{Api, paging};
use crate::convert::{self, Wanted};
use crate::status::{Refusal, Result};

/// A topic that was made or changed, and what its owner should know about it.
pub(crate) struct WarnedTopic {
    pub(crate) topic: Arc<Topic>,
    pub(crate) warnings: Vec<String>,
}

impl Api {
    pub(crate) async fn create_topic(&self, wanted: &Wanted<domain::Topic>) -> Result<WarnedTopic> {
        let settings = wanted.made()?;
        settings.name.check_not_own("name")?;
        self.check_only_kept(wanted.only_kept(None))?;
        let topic = self.broker.create_topic(settings).await?;
        let warnings = warnings(None, &topic.settings());
        Ok(WarnedTopic { topic, warnings })
    }

    /// The topic of that name, as a request's `topic` field gives it.
    pub(crate) fn topic(&self, name: &str) -> Result<Arc<Topic>> {
        Ok(self.broker.topic(&TopicName::parse("topic", name)?)?)
    }

    /// Changes what `mask` names to what `wanted` has.
    pub(crate) async fn update_topic(
        &self,
        name: &str,
        wanted: &Wanted<domain::Topic>,
        mask: Option<FieldMask>,
    ) -> Result<WarnedTopic> {
        let name = TopicName::parse("topic.name", name)?;
        name.check_not_own("topic.name")?;
        let mut paths = mask.unwrap_or_default().paths;
        if paths.iter().any(|path| Change::is_fixed(path)) {
            let current = self.broker.topic(&name)?;
            paths.retain(|path| !wanted.is_unchanged(path, &current));
            if paths.is_empty() {
                return Ok(WarnedTopic { topic: current, warnings: Vec::new() });
            }
        }
        let change = wanted.change(&paths)?;
        self.check_only_kept(wanted.only_kept(Some(&paths)))?;
        let before = self.broker.topic(&name)?.settings();
        let topic = self.broker.update_topic(&name, change).await?;
        let warnings = warnings(Some(&before), &topic.settings());
        Ok(WarnedTopic { topic, warnings })
    }

    /// A page of topics and the token of the next.
    pub(crate) fn list_topics(
        &self,
        request: &pubsub::ListTopicsRequest,
    ) -> Result<(Vec<Arc<Topic>>, String)> {
        let project = ProjectName::parse("project", &request.project)?;
        let size = paging::page_size(request.page_size)?;
        let after = paging::after(&request.page_token, |name| {
            TopicName::parse("", name).is_ok_and(|name| name.is_in(&project))
        })?;
        let (page, next) = self.broker.list_topics(&project, after.as_deref(), size);
        Ok((page, paging::token(next)))
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
        // The status that Google's service has for it, which its documents leave open.
        validate::one_ordering_key(&messages)
            .map_err(|invalid| Refusal::from(invalid).with(Code::FailedPrecondition))?;
        let published = self.broker.publish(&topic, messages).await?;
        Ok(pubsub::PublishResponse { message_ids: published.message_ids() })
    }
}

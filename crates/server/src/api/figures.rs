//! Figures of one project.

use broker::{Obstacles, SubscriptionFigures, TopicFigures};
use domain::{ProjectName, SubscriptionName};

use super::Api;
use crate::status::Result;

impl Api {
    /// What keeps a subscription from delivering.
    pub(crate) fn obstacles(&self, name: &str) -> Result<Obstacles> {
        Ok(self.broker.obstacles(&SubscriptionName::parse("subscription", name)?)?)
    }

    /// What the subscriptions and the topics of a project do, each in name order.
    pub(crate) fn figures(
        &self,
        project: &str,
    ) -> Result<(Vec<SubscriptionFigures>, Vec<TopicFigures>)> {
        let project = ProjectName::parse("project", project)?;
        let mut subscriptions = self.broker.figures();
        subscriptions.retain(|one| one.name.is_in(&project));
        let mut topics = self.broker.topic_figures();
        topics.retain(|one| one.name.is_in(&project));
        Ok((subscriptions, topics))
    }
}

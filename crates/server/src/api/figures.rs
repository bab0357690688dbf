//! Figures of one project.

use broker::{SubscriptionFigures, TopicFigures};
use domain::ProjectName;

use super::Api;
use crate::status::Result;

impl Api {
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

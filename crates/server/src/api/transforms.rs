//! Trying message transforms out before, or without, setting them.

use domain::{Message, ProjectName, SubscriptionName, TopicName, Transform, validate};
use transforms::{Failure, Outcome};

use super::Api;
use crate::status::Result;

/// Which transforms are tried.
pub(crate) enum Tried {
    /// These.
    Given(Vec<Transform>),
    /// Those of a topic.
    OfTopic(TopicName),
    /// Those of a subscription.
    OfSubscription(SubscriptionName),
}

impl Api {
    /// Says what is wrong with a transform, if anything is.
    pub(crate) async fn validate_transform(
        &self,
        project: &ProjectName,
        transform: Transform,
    ) -> Result<()> {
        Ok(self.broker.validate_transform(project.as_str(), transform).await?)
    }

    /// What each transform makes of a message, one after the other.
    pub(crate) async fn try_transforms(
        &self,
        project: &ProjectName,
        tried: Tried,
        mut message: Message,
    ) -> Result<Vec<Result<Outcome, Failure>>> {
        validate::publish(std::slice::from_mut(&mut message))?;
        let transforms = match tried {
            Tried::Given(transforms) => transforms,
            Tried::OfTopic(name) => self.broker.topic(&name)?.settings().transforms.clone(),
            Tried::OfSubscription(name) => {
                self.broker.subscription(&name)?.settings().transforms.clone()
            }
        };
        Ok(self.broker.try_transforms(project.as_str(), &transforms, message).await?)
    }
}

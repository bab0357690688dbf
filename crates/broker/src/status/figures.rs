//! The figures of topics and subscriptions, put together.

use domain::SubscriptionName;

use super::Observer;
use crate::dead_letter_admin::letters_waiting;
use crate::error::Result;
use crate::figures::{Obstacles, SubscriptionFigures, TopicFigures};
use crate::subscription::Subscription;

impl Observer {
    /// The figures of every subscription, in name order. Reads nothing from disk.
    pub(crate) fn figures(&self) -> Vec<SubscriptionFigures> {
        let all = self.registry.all_subscriptions();
        all.iter().map(|subscription| self.figures_of(subscription)).collect()
    }

    /// The figures of one subscription.
    pub(crate) fn figures_of(&self, subscription: &Subscription) -> SubscriptionFigures {
        let now = self.access.now();
        let endpoint = |address: &str| self.push.endpoint(now.moment, address);
        let figures = subscription.figures(now, &endpoint);
        let dead_letters_waiting = letters_waiting(&self.registry, &figures.name);
        SubscriptionFigures { dead_letters_waiting, ..figures }
    }

    /// What keeps the subscription of that name from delivering.
    pub(crate) fn obstacles(&self, name: &SubscriptionName) -> Result<Obstacles> {
        let now = self.access.now();
        let endpoint = |address: &str| self.push.endpoint(now.moment, address);
        Ok(self.registry.subscription(name)?.obstacles(now, &endpoint))
    }

    /// The figures of every topic there is, in name order.
    pub(crate) fn topic_figures(&self) -> Vec<TopicFigures> {
        self.registry.living_topics().iter().map(|topic| topic.figures()).collect()
    }
}

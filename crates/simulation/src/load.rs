//! Clients: publishers, consumers, and those who make, look at and delete.

mod acts;
mod consumers;
mod messages;

pub(crate) use acts::{
    ATTEMPTS_MAX, create, delete, list, publish, replay, seek, set_up, snapshot,
};
pub(crate) use consumers::DEADLINE;

use domain::{SnapshotName, SubscriptionName, TopicName};

use crate::history::Answer;
use crate::net::Taken;

pub(crate) fn topic_name(id: &str) -> TopicName {
    TopicName::parse("name", &format!("projects/p/topics/{id}")).expect("a name")
}

fn subscription_name(id: &str) -> SubscriptionName {
    SubscriptionName::parse("name", &format!("projects/p/subscriptions/{id}")).expect("a name")
}

fn snapshot_name(id: &str) -> SnapshotName {
    SnapshotName::parse("name", &format!("projects/p/snapshots/{id}")).expect("a name")
}

/// The answer of a broker, as a client sees it.
fn taken<T>(
    answer: broker::Result<T>,
    tell: impl FnOnce(T) -> Answer,
) -> Taken<(Answer, Result<(), broker::Error>)> {
    match answer {
        Ok(answer) => Taken::Answered((tell(answer), Ok(()))),
        Err(error) if is_elsewhere(&error) => Taken::Elsewhere,
        Err(error) => Taken::Answered((Answer::Failed(error.to_string()), Err(error))),
    }
}

/// Whether the node has nothing to do with it, so that another can be asked.
fn is_elsewhere(error: &broker::Error) -> bool {
    matches!(error, broker::Error::NotOwner(_) | broker::Error::LeaseOver)
}

//! Configurations that are legal but will cause trouble: what is wrong and what to do.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{SubscriptionName, TopicName};
use crate::subscription::Subscription;

/// Something worth fixing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule, as a word that never changes.
    pub code: &'static str,
    /// The full name of the subscription or topic.
    pub resource: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// The code of a subscription whose dead letter topic does not exist.
pub const DEAD_LETTER_TOPIC_MISSING: &str = "dead_letter_topic_missing";

/// What is worth fixing about `subscriptions` and the existing `topics`, in the order of the
/// subscriptions; topics come last.
pub fn lint<'all>(
    subscriptions: impl IntoIterator<Item = &'all Subscription>,
    topics: &BTreeSet<TopicName>,
) -> Vec<Finding> {
    let attached: Vec<_> = subscriptions.into_iter().filter(|one| !one.detached).collect();
    let named = named_by(&attached);
    let mut findings = Vec::new();
    for subscription in &attached {
        if let Some(policy) = &subscription.dead_letter_policy {
            if !topics.contains(&policy.topic) {
                findings.push(missing(subscription, &policy.topic));
            }
        } else if !named.contains_key(&subscription.topic) {
            findings.push(no_policy(subscription));
        }
        if subscription.fifo && subscription.attempts_allowed().is_none() {
            findings.push(endless_fifo(subscription));
        }
    }
    let read: BTreeSet<_> = attached.iter().map(|one| &one.topic).collect();
    let unread =
        named.iter().filter(|(topic, _)| topics.contains(**topic) && !read.contains(*topic));
    findings.extend(unread.map(|(topic, by)| unread_topic(topic, by)));
    findings
}

/// The dead letter topics, each with one subscription that names it.
fn named_by<'all>(
    subscriptions: &[&'all Subscription],
) -> BTreeMap<&'all TopicName, &'all SubscriptionName> {
    let policies = subscriptions
        .iter()
        .filter_map(|one| Some((&one.dead_letter_policy.as_ref()?.topic, &one.name)));
    policies.collect()
}

fn no_policy(subscription: &Subscription) -> Finding {
    let problem = match subscription.attempts_allowed() {
        Some(attempts) => {
            format!("a message that fails {attempts} times is dropped: no dead letter policy")
        }
        None => "a message that always fails is retried forever: no dead letter policy".to_owned(),
    };
    Finding {
        code: "no_dead_letter_policy",
        resource: subscription.name.to_string(),
        problem,
        remedy: "create a topic for dead letters and name it in deadLetterPolicy".to_owned(),
    }
}

fn missing(subscription: &Subscription, topic: &TopicName) -> Finding {
    Finding {
        code: DEAD_LETTER_TOPIC_MISSING,
        resource: subscription.name.to_string(),
        problem: format!("its dead letter topic {topic} does not exist"),
        remedy: format!("create {topic}, or name another topic in deadLetterPolicy"),
    }
}

fn endless_fifo(subscription: &Subscription) -> Finding {
    Finding {
        code: "fifo_without_end",
        resource: subscription.name.to_string(),
        problem: "one message that always fails blocks this FIFO subscription forever".to_owned(),
        remedy: "set deadLetterPolicy, or postrider.maxAttempts".to_owned(),
    }
}

fn unread_topic(topic: &TopicName, by: &SubscriptionName) -> Finding {
    Finding {
        code: "dead_letter_topic_unread",
        resource: topic.to_string(),
        problem: format!("nobody is subscribed to this dead letter topic, used by {by}"),
        remedy: "subscribe to it, or look at it with postrider dead-letter list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::DeadLetterPolicy;

    fn topic(id: &str) -> TopicName {
        TopicName::parse("", &format!("projects/p/topics/{id}")).unwrap()
    }

    fn on(id: &str, topic_id: &str) -> Subscription {
        let name = SubscriptionName::parse("", &format!("projects/p/subscriptions/{id}")).unwrap();
        Subscription::new(name, topic(topic_id))
    }

    fn with_policy(id: &str, topic_id: &str, dead: &str) -> Subscription {
        let policy = DeadLetterPolicy::new(topic(dead), Some(5), None);
        Subscription { dead_letter_policy: Some(policy), ..on(id, topic_id) }
    }

    fn found(subscriptions: &[Subscription], topics: &[&str]) -> Vec<(&'static str, String)> {
        let topics = topics.iter().map(|id| topic(id)).collect();
        let findings = lint(subscriptions, &topics);
        for finding in &findings {
            assert!(!finding.problem.is_empty() && !finding.remedy.is_empty());
        }
        findings.into_iter().map(|finding| (finding.code, finding.resource)).collect()
    }

    fn subscription(id: &str) -> String {
        format!("projects/p/subscriptions/{id}")
    }

    #[test]
    fn a_sound_set_up_has_nothing_to_tell() {
        let sound = [with_policy("sub", "orders", "dead"), on("undertaker", "dead")];
        assert!(found(&sound, &["orders", "dead"]).is_empty());
    }

    #[test]
    fn a_subscription_without_a_policy_is_told_unless_it_reads_dead_letters() {
        let all = [on("sub", "orders"), Subscription { detached: true, ..on("gone", "orders") }];
        assert_eq!(found(&all, &["orders"]), [("no_dead_letter_policy", subscription("sub"))]);
        let dropping = Subscription { attempts_max: Some(3), ..on("sub", "orders") };
        let problem = lint([&dropping], &BTreeSet::new()).remove(0).problem;
        assert!(problem.contains("fails 3 times is dropped"), "{problem}");
    }

    #[test]
    fn dead_letter_topics_that_nobody_reads_or_that_are_missing_are_told() {
        let all = [with_policy("sub", "orders", "dead")];
        let unread = ("dead_letter_topic_unread", "projects/p/topics/dead".to_owned());
        assert_eq!(found(&all, &["orders", "dead"]), [unread]);
        let missing = ("dead_letter_topic_missing", subscription("sub"));
        assert_eq!(found(&all, &["orders"]), [missing]);
    }

    #[test]
    fn fifo_needs_an_end_of_attempts() {
        let endless = Subscription { fifo: true, ..on("sub", "orders") };
        assert_eq!(
            found(std::slice::from_ref(&endless), &["orders"]),
            [
                ("no_dead_letter_policy", subscription("sub")),
                ("fifo_without_end", subscription("sub"))
            ]
        );
        let ends = Subscription { attempts_max: Some(9), ..endless };
        assert_eq!(found(&[ends], &["orders"]), [("no_dead_letter_policy", subscription("sub"))]);
    }
}

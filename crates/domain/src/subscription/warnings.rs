//! Settings that are legal and may still surprise.

use super::Subscription;
use super::pushing::hurries_to_dead_letters;
use crate::validate::tags_warning;

/// What the owner of a subscription should know about the settings `after`, which replace
/// `before` (`None` = it is new) while `outstanding` leases are out. Plain ASCII.
pub fn warnings(
    before: Option<&Subscription>,
    after: &Subscription,
    outstanding: usize,
) -> Vec<String> {
    let becomes = |is: fn(&Subscription) -> bool| is(after) && !before.is_some_and(is);
    let mut warnings = Vec::new();
    if becomes(|one| one.fifo) {
        warnings.push(
            "FIFO is on: only one consumer at a time gets messages, and a failing message holds up \
             all behind it; expect lower throughput and higher latency"
                .to_owned(),
        );
    }
    if let Some(before) = before
        && outstanding > 0
        && loosens(before, after)
    {
        warnings.push(format!(
            "the ordering changed while messages are outstanding ({outstanding}): order is not \
             kept between those and later ones"
        ));
    }
    if becomes(dead_letters_to_itself) {
        warnings.push(format!(
            "the dead letter topic is the subscription's own topic {}: a message that fails comes \
             back and fails again forever",
            after.topic
        ));
    }
    if becomes(drops_messages) {
        warnings.push(
            "a message that runs out of attempts is dropped: there is no dead letter policy"
                .to_owned(),
        );
    }
    if becomes(hurries_to_dead_letters) {
        warnings.push(
            "a failing push may become a dead letter within seconds: without a retry policy the \
             first wait is 100 ms and each one after is twice as long, up to 60 s, unless \
             push.retry_default says otherwise; set a retry policy or postrider.backoff"
                .to_owned(),
        );
    }
    if becomes(|one| one.export().is_some()) {
        warnings.extend(after.export_warning());
    }
    if before.is_none() {
        warnings.extend(tags_warning(&after.tags));
    }
    warnings
}

/// Whether messages that had to go in order no longer do.
fn loosens(before: &Subscription, after: &Subscription) -> bool {
    let changes_lanes = before.lane_by.is_some() && before.lane_by != after.lane_by;
    !after.fifo && (before.fifo || changes_lanes)
}

fn dead_letters_to_itself(subscription: &Subscription) -> bool {
    let policy = subscription.dead_letter_policy.as_ref();
    policy.is_some_and(|policy| policy.topic == subscription.topic)
}

fn drops_messages(subscription: &Subscription) -> bool {
    use crate::policy::Poison;
    subscription.attempts_asked().is_some()
        && subscription.dead_letter_policy.is_none()
        && subscription.poison == Poison::Skip
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dead_letters, pushing, subscription};
    use super::*;
    use crate::policy::Poison;

    fn one(before: Option<&Subscription>, after: &Subscription, outstanding: usize) -> String {
        let mut warnings = warnings(before, after, outstanding);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let warning = warnings.remove(0);
        assert!(warning.is_ascii());
        warning
    }

    #[test]
    fn plain_settings_need_no_warning() {
        let plain = subscription();
        assert!(warnings(None, &plain, 0).is_empty());
        assert!(warnings(Some(&plain), &plain, 7).is_empty());
    }

    #[test]
    fn fifo_is_warned_about_when_it_is_turned_on() {
        let fifo = Subscription { fifo: true, ..subscription() };
        for before in [None, Some(&subscription())] {
            assert!(one(before, &fifo, 3).contains("lower throughput"));
        }
        assert!(warnings(Some(&fifo), &fifo, 3).is_empty());
    }

    #[test]
    fn losing_an_order_is_warned_about_while_messages_are_outstanding() {
        let fifo = Subscription { fifo: true, ..subscription() };
        let by = |key: &str| Subscription { lane_by: Some(key.to_owned()), ..subscription() };
        for (before, after) in [
            (&fifo, &subscription()),
            (&fifo, &by("kind")),
            (&by("kind"), &subscription()),
            (&by("kind"), &by("other")),
        ] {
            assert!(one(Some(before), after, 2).contains("outstanding (2)"));
            assert!(warnings(Some(before), after, 0).is_empty());
        }
        assert!(warnings(Some(&subscription()), &by("kind"), 2).is_empty());
        assert!(one(Some(&by("kind")), &fifo, 2).contains("FIFO is on"));
    }

    #[test]
    fn dead_lettering_into_the_own_topic_is_warned_about() {
        let own = dead_letters("projects/p/topics/orders", 5);
        assert!(one(None, &own, 0).contains("own topic projects/p/topics/orders"));
        assert!(warnings(Some(&own), &own, 0).is_empty());
        assert!(warnings(None, &dead_letters("projects/p/topics/dead", 5), 0).is_empty());
    }

    #[test]
    fn dead_letters_of_a_push_without_waits_are_warned_about() {
        let dead = dead_letters("projects/p/topics/dead", 5);
        let hasty = Subscription { push: pushing().push, ..dead.clone() };
        for before in [None, Some(&dead)] {
            assert!(one(before, &hasty, 0).contains("retry policy"));
        }
        assert!(warnings(Some(&hasty), &hasty, 0).is_empty());
        let policy = Some(crate::policy::RetryPolicy::default());
        let waiting = Subscription { retry_policy: policy, ..hasty.clone() };
        assert!(warnings(None, &waiting, 0).is_empty());
        let ladder = crate::Backoff::Ladder([std::time::Duration::from_secs(5)].into());
        assert!(warnings(None, &Subscription { backoff: Some(ladder), ..hasty }, 0).is_empty());
        assert!(warnings(None, &pushing(), 0).is_empty());
    }

    #[test]
    fn dropping_messages_is_warned_about() {
        let dropping = Subscription { attempts_max: Some(3), ..subscription() };
        assert!(one(None, &dropping, 0).contains("dropped"));
        let halting = Subscription { poison: Poison::Halt, fifo: true, ..dropping };
        assert!(warnings(None, &halting, 0).iter().all(|warning| !warning.contains("dropped")));
        let kept = dead_letters("projects/p/topics/dead", 3);
        assert!(warnings(None, &Subscription { attempts_max: Some(3), ..kept }, 0).is_empty());
    }
}

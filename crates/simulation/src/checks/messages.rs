//! D2, D3, D4 and F1: what arrives was published, whole, under one id, and passes the filter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use testkit::checker::{Checker, Content, Event as Noted};

use super::facts::{Facts, Publish, Subscription};
use super::{Promise, Violation, broken};
use crate::history::{Answer, Ask, Entry, Event, Id, Seen, Sent};

pub(super) fn check(facts: &Facts, history: &[Entry], found: &mut Vec<Violation>) {
    let mut checker = Checker::default();
    for entry in history {
        match &entry.event {
            Event::Asked(call, Ask::Publish(topic, messages)) => {
                checker.note(Noted::PublishSent {
                    request: *call,
                    topic: topic.as_ref().to_owned(),
                    messages: messages.iter().map(content).collect(),
                });
            }
            Event::Asked(_, Ask::CreateSubscription(id)) => {
                if let Some(subscription) = facts.subscriptions.get(id) {
                    checker.note(Noted::Subscribed {
                        subscription: id.as_ref().to_owned(),
                        topic: subscription.settings.topic.as_ref().to_owned(),
                        exactly_once: false,
                    });
                }
            }
            Event::Answered(call, _, Answer::Ids(ids)) => {
                checker.note(Noted::PublishAnswered { request: *call, ids: ids.clone() });
            }
            Event::Leased(id, _, _, seen) => {
                for seen in seen {
                    if seen.original.is_none() {
                        checker.note(delivered(id, seen));
                    }
                    check_one(facts, id, seen, found);
                }
            }
            _ => {}
        }
    }
    found.extend(checker.violations().iter().cloned());
    for subscription in facts.subscriptions.values() {
        check_holes(facts, subscription, found);
    }
}

fn delivered(id: &Id, seen: &Seen) -> Noted {
    Noted::Delivered {
        subscription: id.as_ref().to_owned(),
        id: seen.id,
        content: Content { key: seen.key.clone(), digest: digest(&seen.text) },
        ack_id: seen.lease,
    }
}

fn content(sent: &Sent) -> Content {
    Content { key: sent.key.to_owned(), digest: digest(&sent.text) }
}

fn digest(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the checker of contents does not look at.
fn check_one(facts: &Facts, id: &Id, seen: &Seen, found: &mut Vec<Violation>) {
    let Some(subscription) = facts.subscriptions.get(id) else { return };
    if !seen.is_whole {
        let what = format!("{id}: {} arrives with other bytes than {}", seen.id, seen.text);
        found.push(broken(Promise::D2, what));
    }
    if !subscription.settings.wants(&seen.kind) {
        let what = format!("{id}: {} is of kind {}, which is kept out", seen.id, seen.kind);
        found.push(broken(Promise::F1, what));
    }
    if let (Some(of), Some(original)) = (&seen.letter_of, seen.original) {
        let source = facts.subscriptions.get(of.as_str());
        let topic = source.and_then(|source| facts.topic_of(source));
        let is_known = topic.is_some_and(|topic| {
            topic.ids.get(&original) == Some(&seen.text) && topic.sent(&seen.text).is_some()
        });
        if !is_known {
            let what = format!("letter {} of {of} holds {original}, never published", seen.id);
            found.push(broken(Promise::D2, what));
        }
    } else if let Some(original) = seen.original
        && !facts.letters.contains_key(&(Arc::clone(id), original))
    {
        let what = format!("{id}: {} was replayed for {original}, no letter", seen.id);
        found.push(broken(Promise::D2, what));
    }
}

/// Of a publish that nobody answered, the first messages of a key may have arrived, not others.
fn check_holes(facts: &Facts, subscription: &Subscription, found: &mut Vec<Violation>) {
    let Some(topic) = facts.topic_of(subscription) else { return };
    if !subscription.seeks.is_empty() || subscription.deleted.is_some() {
        return;
    }
    let arrived: BTreeSet<&Id> =
        subscription.records.values().filter_map(|record| record.text.as_ref()).collect();
    for publish in topic.publishes.iter().filter(|publish| publish.ids.is_none()) {
        check_publish(subscription, publish, &arrived, found);
    }
}

fn check_publish(
    subscription: &Subscription,
    publish: &Publish,
    arrived: &BTreeSet<&Id>,
    found: &mut Vec<Violation>,
) {
    // What was sent before it existed may have been stored before.
    if subscription.created.is_none_or(|created| created.place > publish.span.sent) {
        return;
    }
    let mut missing: BTreeMap<&str, &Id> = BTreeMap::new();
    for message in &publish.messages {
        if !subscription.settings.wants(message.kind) {
            continue;
        }
        if !arrived.contains(&message.text) {
            missing.entry(message.key).or_insert(&message.text);
        } else if let Some(hole) = missing.get(message.key) {
            let id = &subscription.settings.id;
            let what = format!("{id}: {} arrived and {hole} did not", message.text);
            found.push(broken(Promise::D3, what));
        }
    }
}

//! D1 and L1: what was published and is not settled must come.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{Facts, Place, Record, Subscription, Topic};
use crate::history::{Goal, Id};

/// What is still to come, in words.
pub(super) fn owed(facts: &Facts) -> Vec<String> {
    let mut owed = Vec::new();
    for (id, subscription) in &facts.subscriptions {
        if subscription.deleted.is_none()
            && let Some(topic) = facts.topic_of(subscription)
        {
            owed_messages(facts, id, subscription, topic, &mut owed);
        }
        owed_replays(facts, id, subscription, &mut owed);
    }
    owed_letters(facts, &mut owed);
    owed
}

fn owed_messages(
    facts: &Facts,
    id: &Id,
    subscription: &Subscription,
    topic: &Topic,
    owed: &mut Vec<String>,
) {
    let Some(since) = owed_since(subscription) else { return };
    let by_text: BTreeMap<&Id, (u64, &Record)> = subscription
        .records
        .iter()
        .filter(|(_, record)| record.original.is_none())
        .filter_map(|(id, record)| Some((record.text.as_ref()?, (*id, record))))
        .collect();
    for publish in &topic.publishes {
        for message in &publish.messages {
            let wanted = subscription.settings.wants(message.kind);
            match by_text.get(&message.text) {
                // What came and is not settled comes again, whoever published it and when.
                Some((number, record)) if !is_settled(facts, id, *number, record, subscription) => {
                    owed.push(format!("{id}: {} came, and must come again", message.text));
                }
                None if wanted && publish.ids.is_some() && publish.span.sent >= since => {
                    owed.push(format!("{id}: {} must come", message.text));
                }
                Some(_) | None => {}
            }
        }
    }
    owed_by_snapshot(id, subscription, topic, owed);
}

/// From where on a subscription gets all that is sent; `None` = nobody knows.
fn owed_since(subscription: &Subscription) -> Option<Place> {
    let created = subscription.created?.place;
    // A seek that is not answered may happen at any time.
    let mut since = created;
    for seek in &subscription.seeks {
        since = since.max(seek.span.done()?.place);
    }
    Some(since)
}

fn is_settled(
    facts: &Facts,
    id: &Id,
    number: u64,
    record: &Record,
    subscription: &Subscription,
) -> bool {
    let Some(last) = record.leases.last() else { return true };
    record.acks.iter().any(|ack| ack.span.end.is_none_or(|end| end.place >= last.place))
        || facts.letters.contains_key(&(Arc::clone(id), number))
        || subscription.seeks.iter().any(|seek| seek.span.may_be_after(last.place))
}

/// What was unacked in a snapshot comes again after a seek to it.
fn owed_by_snapshot(id: &Id, subscription: &Subscription, topic: &Topic, owed: &mut Vec<String>) {
    let Some(seek) = subscription.seeks.last() else { return };
    let (Goal::Snapshot(name), Some(done)) = (&seek.goal, seek.span.done()) else { return };
    // With an older one that is not answered nobody knows which was the last.
    if subscription.seeks.iter().any(|seek| seek.span.end.is_none()) {
        return;
    }
    if subscription
        .seeks
        .iter()
        .any(|other| other.span.sent != seek.span.sent && other.span.may_be_after(seek.span.sent))
    {
        return;
    }
    let Some(snapshot) = subscription.snapshots.get(name) else { return };
    let Some(taken) = snapshot.done() else { return };
    // Another seek before the snapshot may have settled all there was.
    let was_sought = subscription.seeks.iter().any(|seek| seek.span.sent < taken.place);
    let Some(created) = subscription.created.filter(|_| !was_sought) else { return };
    for publish in &topic.publishes {
        let is_in = publish.span.done().is_some_and(|end| end.place < snapshot.sent)
            && publish.span.sent > created.place;
        let ids = publish.ids.iter().flatten().filter(|_| is_in);
        for (number, message) in ids.zip(&publish.messages) {
            if !subscription.settings.wants(message.kind) {
                continue;
            }
            let record = subscription.records.get(number);
            let acks = record.map_or(&[][..], |record| &record.acks);
            let was_acked = acks.iter().any(|ack| ack.span.sent < taken.place);
            let leases = record.map_or(&[][..], |record| &record.leases);
            let came_again = leases.iter().any(|lease| lease.place > seek.span.sent);
            if !was_acked && !came_again {
                let text = &message.text;
                owed.push(format!("{id}: {text} must come again after the seek at {}", done.at));
            }
        }
    }
}

/// Letters whose replay was answered come back.
fn owed_replays(facts: &Facts, id: &Id, subscription: &Subscription, owed: &mut Vec<String>) {
    let came: Vec<u64> =
        subscription.records.values().filter_map(|record| record.original).collect();
    for (_, letters) in subscription.replays.iter().filter(|(span, _)| span.done().is_some()) {
        let of_letter = facts.letters.iter().filter(|((of, _), _)| of == id);
        for ((_, original), ids) in of_letter {
            if ids.iter().any(|letter| letters.contains(letter)) && !came.contains(original) {
                owed.push(format!("{id}: the replay of {original} must come"));
            }
        }
    }
    for (number, record) in &subscription.records {
        if record.original.is_some()
            && subscription.deleted.is_none()
            && !is_settled(facts, id, *number, record, subscription)
        {
            owed.push(format!("{id}: {number}, replayed, must come again"));
        }
    }
}

/// Letters that came must be settled, as everything else.
fn owed_letters(facts: &Facts, owed: &mut Vec<String>) {
    for (id, subscription) in &facts.subscriptions {
        if subscription.settings.topic.as_ref() != "letters" {
            continue;
        }
        for (number, record) in &subscription.records {
            if !is_settled(facts, id, *number, record, subscription) {
                owed.push(format!("{id}: letter {number} must come again"));
            }
        }
    }
}

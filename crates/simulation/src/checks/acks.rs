//! A1 and A2: an ack sticks, and a stale one does not count.

use std::time::Duration;

use domain::delivery::Ordering;

use super::facts::{Ack, End, Facts, Lease, Record, Subscription};
use super::{Promise, Violation, broken};
use crate::load::DEADLINE;

/// An ordinary ack is on its way to the log for at most so long, in microseconds.
const RIDE: u64 = 50_000;

pub(super) fn check(facts: &Facts, found: &mut Vec<Violation>) {
    for subscription in facts.subscriptions.values() {
        for (id, record) in &subscription.records {
            for ack in &record.acks {
                let lease = record.leases.iter().find(|lease| lease.number == ack.lease);
                if let (Some(done), Some(lease)) = (ack.span.done(), lease) {
                    let acked = Acked { facts, subscription, id: *id, record, lease, ack, done };
                    found.extend(acked.comes_again());
                    found.extend(acked.is_stale());
                }
            }
        }
    }
}

/// An ack that was answered as done.
struct Acked<'facts> {
    facts: &'facts Facts,
    subscription: &'facts Subscription,
    id: u64,
    record: &'facts Record,
    /// What was acked.
    lease: &'facts Lease,
    ack: &'facts Ack,
    done: End,
}

impl Acked<'_> {
    fn comes_again(&self) -> Option<Violation> {
        let Self { subscription, id, done, .. } = self;
        let again = self.record.leases.iter().find(|lease| lease.place > done.place)?;
        // A seek makes ids of before it void.
        let was_sought = subscription
            .seeks
            .iter()
            .any(|seek| seek.span.sent < again.place && seek.span.may_be_after(self.lease.place));
        let exactly_once = subscription.settings.exactly_once;
        let may_be_lost = !exactly_once && (self.is_lost(again) || !self.is_final(again));
        let name = &subscription.settings.id;
        let what = || {
            format!("{name}: {id} came again at {}, its ack was answered at {}", again.at, done.at)
        };
        (!was_sought && !may_be_lost).then(|| broken(Promise::A1, what()))
    }

    /// Whether what the node had not made durable may have been lost.
    fn is_lost(&self, again: &Lease) -> bool {
        // A store that fails may have kept the node from its lease at any time.
        if self.facts.is_faulty && self.lease.epoch != again.epoch {
            return true;
        }
        let done = self.done;
        self.facts.troubles.iter().any(|trouble| {
            trouble.life == done.life
                && done.at.saturating_add(RIDE) >= trouble.from
                && done.at <= trouble.to
                && trouble.from <= again.at
        })
    }

    /// Whether an ordinary ack had nothing unsettled before it in its lane, and an id that counts.
    fn is_final(&self, again: &Lease) -> bool {
        let Self { subscription, record, lease, ack, done, .. } = self;
        let settings = &subscription.settings;
        // Before its record was read again nobody knows its lane, and any may come back.
        if settings.ordering != Ordering::None && lease.epoch != again.epoch {
            return false;
        }
        let Some(lane) = settings.lane(&record.key) else { return true };
        // An id counts no longer once its record has come back, which is so when its time is over.
        let newest = record.leases.iter().rfind(|lease| lease.place < ack.span.sent);
        let is_newest = newest.is_some_and(|newest| newest.number == ack.lease);
        is_newest && is_in_time(lease, *done) && self.are_all_seen(lane) && self.is_first(lane)
    }

    /// Whether everything before it in its lane had come.
    fn are_all_seen(&self, lane: &str) -> bool {
        let subscription = self.subscription;
        let (settings, created) = (&subscription.settings, subscription.created);
        let Some(topic) = self.facts.topic_of(subscription) else { return false };
        topic.ids.range(..self.id).all(|(before, text)| {
            subscription.records.contains_key(before)
                || topic.sent(text).is_none_or(|(publish, sent)| {
                    settings.lane(sent.key) != Some(lane)
                        || !settings.wants(sent.kind)
                        || created.is_none_or(|made| made.place > publish.span.sent)
                })
        })
    }

    /// Whether all that came before it in its lane was settled.
    fn is_first(&self, lane: &str) -> bool {
        let Self { subscription, lease, done, .. } = self;
        let records = subscription.records.range(..self.id);
        let mut before =
            records.filter(|(_, one)| subscription.settings.lane(&one.key) == Some(lane));
        before.all(|(_, before)| {
            // One that came back since took this id along.
            let comes_back = |other: &Lease| other.place > lease.place && other.place < done.place;
            !before.leases.iter().any(comes_back) && is_settled(before, *done)
        })
    }

    /// With exactly-once only the newest lease counts, and only where it was given.
    fn is_stale(&self) -> Option<Violation> {
        let Self { subscription, id, record, lease, ack, done, .. } = self;
        let settings = &subscription.settings;
        // Repeating one that has settled its message is no error.
        let is_repeated = |other: &Ack| other.lease == ack.lease && other.span.sent < ack.span.sent;
        if !settings.exactly_once || record.acks.iter().any(is_repeated) {
            return None;
        }
        let newer = |other: &&Lease| other.number > lease.number && other.place < ack.span.sent;
        let why = match record.leases.iter().find(newer) {
            Some(newer) => format!("it was leased again at {}", newer.at),
            None if lease.life != done.life => "its lease's node was gone".to_owned(),
            None => return None,
        };
        let what = format!("{}: the ack of {id} counted at {}: {why}", settings.id, done.at);
        Some(broken(Promise::A2, what))
    }
}

/// Whether the last lease before `done` was acked before it, and in time.
fn is_settled(record: &Record, done: End) -> bool {
    let last = record.leases.iter().rfind(|lease| lease.place < done.place);
    last.is_none_or(|last| {
        let mut acks = record.acks.iter().filter(|ack| ack.lease == last.number);
        acks.any(|ack| {
            let end = ack.span.done();
            end.is_some_and(|end| end.place <= done.place && is_in_time(last, end))
        })
    })
}

fn is_in_time(lease: &Lease, end: End) -> bool {
    let deadline = u64::try_from(Duration::as_micros(&DEADLINE)).unwrap_or(u64::MAX);
    end.at < lease.at.saturating_add(deadline)
}

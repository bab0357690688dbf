//! O1: in a lane nothing comes before what is unsettled in front of it, and to one consumer only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::facts::{Facts, Lease, Place, Record, Subscription};
use super::{Promise, Violation, broken};

pub(super) fn check(facts: &Facts, found: &mut Vec<Violation>) {
    for subscription in facts.subscriptions.values() {
        for (lane, ids) in lanes(facts, subscription) {
            check_lane(facts, subscription, &lane, &ids, found);
        }
    }
}

/// The messages of each lane that are known to be for the subscription.
fn lanes(facts: &Facts, subscription: &Subscription) -> BTreeMap<String, BTreeSet<u64>> {
    let settings = &subscription.settings;
    let mut lanes: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let (Some(topic), Some(created)) = (facts.topic_of(subscription), subscription.created) else {
        return lanes;
    };
    for (id, text) in &topic.ids {
        if let Some((publish, sent)) = topic.sent(text)
            && publish.span.sent > created.place
            && settings.wants(sent.kind)
            && let Some(lane) = settings.lane(sent.key)
        {
            lanes.entry(lane.to_owned()).or_default().insert(*id);
        }
    }
    for (id, record) in &subscription.records {
        if let Some(lane) = settings.lane(&record.key) {
            lanes.entry(lane.to_owned()).or_default().insert(*id);
        }
    }
    lanes
}

fn check_lane(
    facts: &Facts,
    subscription: &Subscription,
    lane: &str,
    ids: &BTreeSet<u64>,
    found: &mut Vec<Violation>,
) {
    let records = ids.iter().filter_map(|id| Some((*id, subscription.records.get(id)?)));
    let mut leases: Vec<(u64, &Lease)> =
        records.flat_map(|(id, record)| record.leases.iter().map(move |one| (id, one))).collect();
    leases.sort_by_key(|(_, lease)| lease.number);
    let mut last: BTreeMap<u64, &Lease> = BTreeMap::new();
    for (id, lease) in leases {
        if let Some(era) = era(subscription, lease.place) {
            last.retain(|_, lease| lease.place > era.unwrap_or(0));
            if let Some(why) = too_early(facts, subscription, ids, id, lease, &last, era) {
                let name = &subscription.settings.id;
                let what = format!("{name}: lane {lane:?}: {id} came at {}: {why}", lease.at);
                found.push(broken(Promise::O1, what));
                // What follows from it says nothing new.
                return;
            }
        }
        last.insert(id, lease);
    }
}

/// Where the last seek before `place` was done, if there was one; `None` = one may be under way.
fn era(subscription: &Subscription, place: Place) -> Option<Option<Place>> {
    let mut era = None;
    for seek in subscription.seeks.iter().filter(|seek| seek.span.sent < place) {
        let done = seek.span.done().filter(|done| done.place < place)?;
        era = era.max(Some(done.place));
    }
    Some(era)
}

/// Why a lease of `id` was given too early.
fn too_early(
    facts: &Facts,
    subscription: &Subscription,
    ids: &BTreeSet<u64>,
    id: u64,
    lease: &Lease,
    last: &BTreeMap<u64, &Lease>,
    era: Option<Place>,
) -> Option<String> {
    let exactly_once = subscription.settings.exactly_once;
    // The last time that something in front came back: acks behind it from before are void.
    let mut front = 0;
    for before in ids.range(..id) {
        let given = last.get(before);
        let record = subscription.records.get(before);
        // After a seek only what came since is known to be due.
        if era.is_some() && given.is_none() {
            continue;
        }
        let since = if exactly_once { 0 } else { front };
        let is_settled = record.is_some_and(|record| {
            may_be_settled(record, lease, since) || is_letter(facts, subscription, *before, record)
        });
        if !is_settled {
            let Some(given) = given else { return Some(format!("{before} never came before")) };
            if given.consumer != lease.consumer || given.epoch != lease.epoch {
                return Some(format!("{before} is another's, since {}", given.at));
            }
            if given.place < since {
                return Some(format!("{before} was taken back along and did not come"));
            }
            if record.is_some_and(|record| is_given_back(record, given, lease.place)) {
                return Some(format!("{before} was given back and did not come"));
            }
        }
        let back = given.filter(|given| given.is_back && given.epoch == lease.epoch);
        front = front.max(back.map_or(0, |given| given.place));
    }
    None
}

/// Whether an ack of it may have counted before `lease` and since `since`. One of an earlier epoch
/// counts whenever it comes.
fn may_be_settled(record: &Record, lease: &Lease, since: Place) -> bool {
    record.acks.iter().any(|ack| {
        let of = record.leases.iter().find(|one| one.number == ack.lease);
        let is_late = of.is_some_and(|one| one.epoch != lease.epoch);
        ack.span.sent < lease.place && (is_late || ack.span.may_be_after(since))
    })
}

fn is_given_back(record: &Record, given: &Lease, place: Place) -> bool {
    let mut nacks = record.nacks.iter().filter(|nack| nack.lease == given.number);
    nacks.any(|nack| nack.span.done().is_some_and(|done| done.place < place))
}

fn is_letter(facts: &Facts, subscription: &Subscription, id: u64, record: &Record) -> bool {
    let first = record.original.unwrap_or(id);
    facts.letters.contains_key(&(Arc::clone(&subscription.settings.id), first))
}

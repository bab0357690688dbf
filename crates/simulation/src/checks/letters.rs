//! X1: what is given up becomes one letter, after all its attempts; a letter is replayed once.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::{Promise, Violation, broken};
use crate::load::ATTEMPTS_MAX;

pub(super) fn check(facts: &Facts, found: &mut Vec<Violation>) {
    for ((of, original), letters) in &facts.letters {
        let mut say = |what: String| {
            found.push(broken(Promise::X1, format!("{of}: {original} became letter {what}")));
        };
        if letters.len() > 1 {
            say(format!("more than once: {letters:?}"));
        }
        let Some(subscription) = facts.subscriptions.get(of) else { continue };
        let Some(record) = subscription.records.get(original) else {
            say("and never came".to_owned());
            continue;
        };
        if record.leases.len() < ATTEMPTS_MAX as usize {
            say(format!("after {} deliveries", record.leases.len()));
        }
        let is_acked = record.acks.iter().any(|ack| ack.span.done().is_some());
        if subscription.settings.exactly_once && is_acked {
            say("although it was acked".to_owned());
        }
    }
    for (id, subscription) in &facts.subscriptions {
        let mut replayed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (number, record) in &subscription.records {
            if let Some(original) = record.original.filter(|_| !is_undertaker(id)) {
                replayed.entry(original).or_default().push(*number);
            }
        }
        for (original, numbers) in replayed.iter().filter(|(_, numbers)| numbers.len() > 1) {
            let what = format!("{id}: the letter of {original} was replayed as {numbers:?}");
            found.push(broken(Promise::X1, what));
        }
    }
}

fn is_undertaker(id: &str) -> bool {
    id == "undertaker"
}

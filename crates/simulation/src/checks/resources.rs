//! R1: what was made is there, and what was deleted is not.

use std::collections::BTreeMap;

use super::facts::Place;
use super::{Promise, Violation, broken};
use crate::history::{Answer, Ask, Entry, Event};

/// What happened to a topic or a subscription, whose names are used once.
#[derive(Default)]
struct Life {
    made: Option<Place>,
    /// Calls to make it that nobody has answered: they may do so at any time.
    making: usize,
    /// A call to make it that failed, or was answered after a deletion was sent.
    may_be_made_again: bool,
    deletion_sent: Option<Place>,
    deleted: Option<Place>,
}

impl Life {
    fn note_made(&mut self, place: Place) {
        self.made.get_or_insert(place);
        self.making -= 1;
        self.may_be_made_again |= self.deletion_sent.is_some();
    }
}

pub(super) fn check(history: &[Entry], found: &mut Vec<Violation>) {
    let mut lives: BTreeMap<String, Life> = BTreeMap::new();
    let mut calls: BTreeMap<u64, (Place, &Ask)> = BTreeMap::new();
    for (place, entry) in history.iter().enumerate() {
        match &entry.event {
            Event::Asked(call, ask) => {
                calls.insert(*call, (place, ask));
                match named(ask) {
                    Some((name, true)) => {
                        lives.entry(name).or_default().deletion_sent.get_or_insert(place);
                    }
                    Some((name, false)) => lives.entry(name).or_default().making += 1,
                    None => {}
                }
            }
            Event::Answered(call, _, Answer::Done) => {
                let Some((_, ask)) = calls.get(call) else { continue };
                match named(ask) {
                    Some((name, false)) => lives.entry(name).or_default().note_made(place),
                    Some((name, true)) => {
                        lives.entry(name).or_default().deleted.get_or_insert(place);
                    }
                    None => {}
                }
            }
            Event::Answered(call, _, Answer::Found(names)) => {
                let Some((sent, _)) = calls.get(call) else { continue };
                for (name, life) in &lives {
                    let is_there = names.contains(name);
                    let must =
                        life.made.is_some_and(|made| made < *sent) && life.deletion_sent.is_none();
                    let must_not = life.deleted.is_some_and(|deleted| deleted < *sent)
                        && life.making == 0
                        && !life.may_be_made_again;
                    if must && !is_there || must_not && is_there {
                        let is = if is_there { "is" } else { "is not" };
                        let what = format!("{name} {is} there at {}", entry.at);
                        found.push(broken(Promise::R1, what));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The name of what is made, or (`true`) deleted.
fn named(ask: &Ask) -> Option<(String, bool)> {
    Some(match ask {
        Ask::CreateTopic(id) => (format!("topics/{id}"), false),
        Ask::DeleteTopic(id) => (format!("topics/{id}"), true),
        Ask::CreateSubscription(id) => (format!("subscriptions/{id}"), false),
        Ask::DeleteSubscription(id) => (format!("subscriptions/{id}"), true),
        _ => return None,
    })
}

//! Which promises a history breaks, from nothing but what clients asked for and were answered.
//!
//! D1  an answered publish reaches every subscription whose filter it matches, until it is settled
//! D2  nothing arrives that was not published, nor with other bytes
//! D3  of a publish without an answer no message is missing before one of its key that arrives
//! D4  ids are unique in a topic for ever, and grow
//! A1  what is acked does not come again, unless the promises allow it
//! A2  with exactly-once only the newest lease counts, in the life of the node that gave it
//! O1  in a lane nothing comes before what is unsettled in front of it, and to one consumer only
//! X1  a message that is given up becomes one dead letter, after all its attempts
//! F1  nothing arrives that the filter keeps out
//! R1  what was made is there, what was deleted is not
//! L1  once faults end, all that is owed comes

mod acks;
mod facts;
mod letters;
mod messages;
mod order;
mod owed;
mod resources;

pub use testkit::checker::{Promise, Violation};

use crate::history::Entry;
use crate::scenario::Scenario;
use facts::Facts;

/// The promises that a history breaks.
pub fn check(scenario: &Scenario, history: &[Entry]) -> Vec<Violation> {
    let facts = Facts::of(scenario, history);
    let mut found = Vec::new();
    messages::check(&facts, history, &mut found);
    acks::check(&facts, &mut found);
    order::check(&facts, &mut found);
    letters::check(&facts, &mut found);
    resources::check(history, &mut found);
    let owed = owed::owed(&facts);
    found.extend(owed.into_iter().map(|what| Violation { promise: Promise::D1, what }));
    found
}

/// What is still to come, in words.
pub(crate) fn owed(scenario: &Scenario, history: &[Entry]) -> Vec<String> {
    owed::owed(&Facts::of(scenario, history))
}

fn broken(promise: Promise, what: String) -> Violation {
    Violation { promise, what }
}

#[cfg(test)]
mod tests;

//! The rules: what a handler's outcome means for the message. A pure table.
//!
//! | Outcome | Push, policy | Push, no policy | Pull, policy | Pull, no policy |
//! |---|---|---|---|---|
//! | applied, duplicate, stale | 204 | 204 | ack | ack |
//! | poison, `forward` | 400 | 204, audited | forwarded, then ack | ack, audited |
//! | poison, `ack` | 204, audited | 204, audited | ack, audited | ack, audited |
//! | poison, `nack` | 400 | refused at start | nack | refused at start |
//! | transient, config | 500 | 500 | nack | nack |
//!
//! "Policy" is the subscription's dead letter policy. Without one a message that is given back
//! comes again for ever, so poison must never be given back there.

use std::fmt;

use crate::Outcome;

/// How messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As HTTP requests; the answer's status settles them.
    Push,
    /// Over a stream; they are acked and nacked.
    Pull,
}

/// What is done with poison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poison {
    /// It goes to the subscription's dead letter topic where there is one, and is acked otherwise.
    #[default]
    Forward,
    /// It is acked, with an error in the log and an audit record where one is configured.
    Ack,
    /// It is given back, so that the server dead-letters it once its attempts are spent. Needs a
    /// dead letter policy.
    Nack,
}

/// How loud the line in the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All is well.
    Info,
    /// Somebody must act, or will have to if it goes on.
    Error,
}

/// How a message is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// With this HTTP status; 2xx acks.
    Status(u16),
    /// It is acked.
    Ack,
    /// It is given back at once.
    Nack,
}

/// What follows from an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How the message is settled.
    pub settle: Settle,
    /// It must first be published to the dead letter topic, confirmed; else it is nacked.
    pub forward: bool,
    /// An audit record is written where one is configured: nothing else keeps the message.
    pub audit: bool,
    /// How loud the line in the log is.
    pub level: Level,
    /// Whether the same message may go well another time.
    pub retryable: bool,
}

/// What the answers depend on besides the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The subscription has a dead letter policy.
    pub has_dead_letter_policy: bool,
    /// What is done with poison.
    pub poison: Poison,
    /// Whatever fails is given back, poison too: the same as `Poison::Nack`.
    pub nack_on_any_error: bool,
}

/// The success status: there is nothing to say.
const NO_CONTENT: u16 = 204;
const BAD_REQUEST: u16 = 400;
const INTERNAL_ERROR: u16 = 500;

impl Rules {
    /// Refuses what would bring poison again for ever.
    pub fn check(self) -> Result<(), Endless> {
        let gives_back = self.nack_on_any_error || self.poison == Poison::Nack;
        if gives_back && !self.has_dead_letter_policy {
            return Err(Endless { nack_on_any_error: self.nack_on_any_error });
        }
        Ok(())
    }

    /// What follows from `outcome` for a message that came this way.
    pub fn answer(self, outcome: &Outcome, way: Way) -> Answer {
        match outcome {
            Outcome::Applied | Outcome::Duplicate | Outcome::StaleIgnored => {
                Answer { level: Level::Info, ..acked(way) }
            }
            Outcome::Poison(_) => self.poison_answer(way),
            Outcome::Transient(_) | Outcome::Config(_) => {
                Answer { retryable: true, ..given_back(way, INTERNAL_ERROR) }
            }
        }
    }

    fn poison_answer(self, way: Way) -> Answer {
        let poison = if self.nack_on_any_error { Poison::Nack } else { self.poison };
        match (poison, way) {
            (Poison::Nack, _) => given_back(way, BAD_REQUEST),
            (Poison::Forward, Way::Push) if self.has_dead_letter_policy => {
                given_back(way, BAD_REQUEST)
            }
            (Poison::Forward, Way::Pull) if self.has_dead_letter_policy => {
                Answer { forward: true, ..acked(way) }
            }
            (Poison::Forward | Poison::Ack, _) => Answer { audit: true, ..acked(way) },
        }
    }
}

fn acked(way: Way) -> Answer {
    let settle = match way {
        Way::Push => Settle::Status(NO_CONTENT),
        Way::Pull => Settle::Ack,
    };
    Answer { settle, forward: false, audit: false, level: Level::Error, retryable: false }
}

fn given_back(way: Way, status: u16) -> Answer {
    let settle = match way {
        Way::Push => Settle::Status(status),
        Way::Pull => Settle::Nack,
    };
    Answer { settle, ..acked(way) }
}

impl Settle {
    /// Whether the message is done with.
    pub fn is_ack(self) -> bool {
        match self {
            Self::Status(status) => (200..300).contains(&status),
            Self::Ack => true,
            Self::Nack => false,
        }
    }
}

/// Settings with which poison would come again for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless {
    nack_on_any_error: bool,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = if self.nack_on_any_error { "nack_on_any_error" } else { "poison = nack" };
        write!(
            f,
            "{setting}: the subscription has no dead letter policy, so a message that can never \
             be handled would come again for ever; give the subscription a dead letter policy, or \
             set poison = forward or ack"
        )
    }
}

impl std::error::Error for Endless {}

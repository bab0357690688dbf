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
//! comes again forever, so poison must never be given back there.

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
    /// Someone must act, or will have to if it goes on.
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
    /// Refuses what would bring poison again forever.
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

/// Settings with which poison would come again forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless {
    nack_on_any_error: bool,
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = if self.nack_on_any_error { "nack_on_any_error" } else { "poison = nack" };
        write!(
            f,
            "{setting}: the subscription has no dead letter policy, so a message that can never be \
             handled would come back forever; give the subscription a dead letter policy, or set \
             poison = forward or ack"
        )
    }
}

impl std::error::Error for Endless {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    /// Outcome, way, policy, poison, then what must be answered: status or ack, forward, audit,
    /// level, retryable. Written out, so that it can be compared with the source by eye.
    type Cell = (Kind, Way, bool, Poison, Settle, bool, bool, Level, bool);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        Applied,
        Duplicate,
        Stale,
        Poison,
        Transient,
        Config,
    }

    const KINDS: [Kind; 6] =
        [Kind::Applied, Kind::Duplicate, Kind::Stale, Kind::Poison, Kind::Transient, Kind::Config];

    const S204: Settle = Settle::Status(204);
    const S400: Settle = Settle::Status(400);
    const S500: Settle = Settle::Status(500);
    const ACK: Settle = Settle::Ack;
    const NACK: Settle = Settle::Nack;

    use Kind::{Applied, Config, Duplicate, Stale, Transient};
    use Level::{Error, Info};
    use Poison::{Ack as A, Forward as F, Nack as N};
    use Way::{Pull, Push};

    const P: Kind = Kind::Poison;

    #[rustfmt::skip]
    const TABLE: [Cell; 72] = [
        // A handler that succeeds acks, whatever else is set.
        (Applied,   Push, true,  F, S204, false, false, Info,  false),
        (Applied,   Push, true,  A, S204, false, false, Info,  false),
        (Applied,   Push, true,  N, S204, false, false, Info,  false),
        (Applied,   Push, false, F, S204, false, false, Info,  false),
        (Applied,   Push, false, A, S204, false, false, Info,  false),
        (Applied,   Push, false, N, S204, false, false, Info,  false),
        (Applied,   Pull, true,  F, ACK,  false, false, Info,  false),
        (Applied,   Pull, true,  A, ACK,  false, false, Info,  false),
        (Applied,   Pull, true,  N, ACK,  false, false, Info,  false),
        (Applied,   Pull, false, F, ACK,  false, false, Info,  false),
        (Applied,   Pull, false, A, ACK,  false, false, Info,  false),
        (Applied,   Pull, false, N, ACK,  false, false, Info,  false),
        // "duplicate (idempotency hit)": ack.
        (Duplicate, Push, true,  F, S204, false, false, Info,  false),
        (Duplicate, Push, true,  A, S204, false, false, Info,  false),
        (Duplicate, Push, true,  N, S204, false, false, Info,  false),
        (Duplicate, Push, false, F, S204, false, false, Info,  false),
        (Duplicate, Push, false, A, S204, false, false, Info,  false),
        (Duplicate, Push, false, N, S204, false, false, Info,  false),
        (Duplicate, Pull, true,  F, ACK,  false, false, Info,  false),
        (Duplicate, Pull, true,  A, ACK,  false, false, Info,  false),
        (Duplicate, Pull, true,  N, ACK,  false, false, Info,  false),
        (Duplicate, Pull, false, F, ACK,  false, false, Info,  false),
        (Duplicate, Pull, false, A, ACK,  false, false, Info,  false),
        (Duplicate, Pull, false, N, ACK,  false, false, Info,  false),
        // "stale (ordering guard)": ack.
        (Stale,     Push, true,  F, S204, false, false, Info,  false),
        (Stale,     Push, true,  A, S204, false, false, Info,  false),
        (Stale,     Push, true,  N, S204, false, false, Info,  false),
        (Stale,     Push, false, F, S204, false, false, Info,  false),
        (Stale,     Push, false, A, S204, false, false, Info,  false),
        (Stale,     Push, false, N, S204, false, false, Info,  false),
        (Stale,     Pull, true,  F, ACK,  false, false, Info,  false),
        (Stale,     Pull, true,  A, ACK,  false, false, Info,  false),
        (Stale,     Pull, true,  N, ACK,  false, false, Info,  false),
        (Stale,     Pull, false, F, ACK,  false, false, Info,  false),
        (Stale,     Pull, false, A, ACK,  false, false, Info,  false),
        (Stale,     Pull, false, N, ACK,  false, false, Info,  false),
        // Poison: 400 drives it to the dead letter topic; without one 2xx and a loud log. On pull
        // it is acked, once it is published where there is a dead letter topic.
        (P,         Push, true,  F, S400, false, false, Error, false),
        (P,         Push, true,  A, S204, false, true,  Error, false),
        (P,         Push, true,  N, S400, false, false, Error, false),
        (P,         Push, false, F, S204, false, true,  Error, false),
        (P,         Push, false, A, S204, false, true,  Error, false),
        (P,         Push, false, N, S400, false, false, Error, false), // refused at start
        (P,         Pull, true,  F, ACK,  true,  false, Error, false),
        (P,         Pull, true,  A, ACK,  false, true,  Error, false),
        (P,         Pull, true,  N, NACK, false, false, Error, false),
        (P,         Pull, false, F, ACK,  false, true,  Error, false),
        (P,         Pull, false, A, ACK,  false, true,  Error, false),
        (P,         Pull, false, N, NACK, false, false, Error, false), // refused at start
        // Transient: retried with backoff.
        (Transient, Push, true,  F, S500, false, false, Error, true),
        (Transient, Push, true,  A, S500, false, false, Error, true),
        (Transient, Push, true,  N, S500, false, false, Error, true),
        (Transient, Push, false, F, S500, false, false, Error, true),
        (Transient, Push, false, A, S500, false, false, Error, true),
        (Transient, Push, false, N, S500, false, false, Error, true),
        (Transient, Pull, true,  F, NACK, false, false, Error, true),
        (Transient, Pull, true,  A, NACK, false, false, Error, true),
        (Transient, Pull, true,  N, NACK, false, false, Error, true),
        (Transient, Pull, false, F, NACK, false, false, Error, true),
        (Transient, Pull, false, A, NACK, false, false, Error, true),
        (Transient, Pull, false, N, NACK, false, false, Error, true),
        // Configuration: 500, so that nothing is lost until it is fixed.
        (Config,    Push, true,  F, S500, false, false, Error, true),
        (Config,    Push, true,  A, S500, false, false, Error, true),
        (Config,    Push, true,  N, S500, false, false, Error, true),
        (Config,    Push, false, F, S500, false, false, Error, true),
        (Config,    Push, false, A, S500, false, false, Error, true),
        (Config,    Push, false, N, S500, false, false, Error, true),
        (Config,    Pull, true,  F, NACK, false, false, Error, true),
        (Config,    Pull, true,  A, NACK, false, false, Error, true),
        (Config,    Pull, true,  N, NACK, false, false, Error, true),
        (Config,    Pull, false, F, NACK, false, false, Error, true),
        (Config,    Pull, false, A, NACK, false, false, Error, true),
        (Config,    Pull, false, N, NACK, false, false, Error, true),
    ];

    fn outcome(kind: Kind) -> Outcome {
        let failure = Failure::new("Test", "test");
        match kind {
            Kind::Applied => Outcome::Applied,
            Kind::Duplicate => Outcome::Duplicate,
            Kind::Stale => Outcome::StaleIgnored,
            Kind::Poison => Outcome::Poison(failure),
            Kind::Transient => Outcome::Transient(failure),
            Kind::Config => Outcome::Config(failure),
        }
    }

    fn rules(has_dead_letter_policy: bool, poison: Poison) -> Rules {
        Rules { has_dead_letter_policy, poison, nack_on_any_error: false }
    }

    fn row(kind: Kind, way: Way, policy: bool, poison: Poison) -> &'static Cell {
        let is_it = |cell: &&Cell| (cell.0, cell.1, cell.2, cell.3) == (kind, way, policy, poison);
        TABLE.iter().find(is_it).unwrap()
    }

    #[test]
    fn every_cell_of_the_table_is_answered_so() {
        for (kind, way, policy, poison, settle, forward, audit, level, retryable) in TABLE {
            let answer = rules(policy, poison).answer(&outcome(kind), way);
            let expected = Answer { settle, forward, audit, level, retryable };
            assert_eq!(answer, expected, "{kind:?} {way:?} policy {policy} {poison:?}");
        }
    }

    #[test]
    fn the_table_has_every_cell_once() {
        for kind in KINDS {
            for way in [Push, Pull] {
                for policy in [true, false] {
                    for poison in [F, A, N] {
                        row(kind, way, policy, poison);
                    }
                }
            }
        }
        assert_eq!(TABLE.len(), KINDS.len() * 2 * 2 * 3);
    }

    #[test]
    fn whatever_is_given_back_is_an_error_in_the_log() {
        for (kind, .., settle, _, _, level, _) in TABLE {
            assert!(settle.is_ack() || level == Error, "{kind:?}");
        }
    }

    #[test]
    fn nack_on_any_error_is_as_poison_nack_whatever_poison_is() {
        for kind in KINDS {
            for way in [Push, Pull] {
                for poison in [F, A, N] {
                    let rules = Rules { nack_on_any_error: true, ..rules(true, poison) };
                    let (.., settle, forward, audit, level, retryable) = *row(kind, way, true, N);
                    let expected = Answer { settle, forward, audit, level, retryable };
                    assert_eq!(rules.answer(&outcome(kind), way), expected);
                }
            }
        }
    }

    #[test]
    fn what_would_bring_poison_for_ever_is_refused() {
        for poison in [F, A, N] {
            assert_eq!(rules(true, poison).check(), Ok(()));
            assert_eq!(rules(false, poison).check().is_ok(), poison != N);
            let any = |policy| Rules { nack_on_any_error: true, ..rules(policy, poison) };
            assert_eq!(any(true).check(), Ok(()));
            let refused = any(false).check().unwrap_err().to_string();
            assert!(refused.starts_with("nack_on_any_error: "), "{refused}");
            assert!(refused.contains("give the subscription a dead letter policy"), "{refused}");
        }
        let refused = rules(false, N).check().unwrap_err().to_string();
        assert!(refused.starts_with("poison = nack: "), "{refused}");
    }
}

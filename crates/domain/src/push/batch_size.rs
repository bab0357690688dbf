//! How many messages go in one request.

use super::{BatchPush, Outcome};

/// How many messages the next request of a lane may carry. After a failure the messages are resent
/// one by one, so that only the one the endpoint cannot take uses up attempts.
#[derive(Clone, Debug)]
pub struct BatchSize {
    messages: usize,
    messages_max: usize,
}

impl BatchSize {
    /// Starts with as many as the settings allow.
    pub fn new(settings: &BatchPush) -> Self {
        let messages = usize::try_from(settings.messages).unwrap_or(usize::MAX).max(1);
        Self { messages, messages_max: messages }
    }

    /// How many messages the next request may carry.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Notes the outcome of a request with `sent` messages: twice as many may go next if all were
    /// acked, one if it failed. An endpoint that acked only a part, or was never reached, tells us
    /// nothing.
    pub fn note(&mut self, outcome: &Outcome, sent: usize) {
        match outcome {
            Outcome::Acked { count, .. } if *count == sent => {
                self.messages = self.messages.saturating_mul(2).min(self.messages_max);
            }
            Outcome::Failed { .. } | Outcome::Unsent(_) => self.messages = 1,
            Outcome::Acked { .. } | Outcome::PutOff => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::delivery::Failure;
    use crate::push::{Class, Health};

    fn size() -> BatchSize {
        BatchSize::new(&BatchPush { messages: 100, bytes: 1 << 20, linger: Duration::ZERO })
    }

    fn failed() -> Outcome {
        let failure = Failure::of("timeout");
        Outcome::Failed { class: Class::Timeout, failure, health: Health::Down }
    }

    #[test]
    fn a_failure_shrinks_to_one_and_successes_double() {
        let mut size = size();
        assert_eq!(size.messages(), 100);
        size.note(&failed(), 100);
        let mut sizes = Vec::new();
        for _ in 0..9 {
            let sent = size.messages();
            sizes.push(sent);
            size.note(&Outcome::Acked { count: sent, status: 200 }, sent);
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn each_outcome_has_its_effect_on_the_next_request() {
        let acked = |count| Outcome::Acked { count, status: 204 };
        for (outcome, sent, expected) in [
            (acked(8), 8, 16),
            // Fewer than allowed: there were no more.
            (acked(3), 3, 16),
            (acked(7), 8, 8),
            (acked(1), 8, 8),
            (failed(), 8, 1),
            (failed(), 1, 1),
            (Outcome::Unsent(None), 8, 1),
            (Outcome::Unsent(Some(Failure::of("unreadable"))), 8, 1),
            (Outcome::PutOff, 8, 8),
        ] {
            let mut size = BatchSize { messages: 8, ..size() };
            size.note(&outcome, sent);
            assert_eq!(size.messages(), expected, "{outcome:?} of {sent}");
        }
    }
}

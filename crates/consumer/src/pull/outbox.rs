//! What is still to be told to the server: acks, nacks, moved deadlines.

use std::time::Duration;

use wire::pubsub::{AcknowledgeRequest, ModifyAckDeadlineRequest, StreamingPullRequest};

/// Ids in one request, at most. Google's limit is 512 KiB, and its ids have under 250 bytes.
const IDS_MAX: usize = 1_000;

/// Acks, nacks and extensions that wait to be sent. Bounded by the leases there are.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    acks: Vec<String>,
    nacks: Vec<String>,
    extensions: Vec<String>,
}

/// One call, where there is no stream to send over.
#[derive(Debug, PartialEq)]
pub(super) enum Call {
    Acknowledge(AcknowledgeRequest),
    ModifyAckDeadline(ModifyAckDeadlineRequest),
}

impl Outbox {
    pub(super) fn ack(&mut self, ack_id: String) {
        self.acks.push(ack_id);
    }

    pub(super) fn nack(&mut self, ack_id: String) {
        self.nacks.push(ack_id);
    }

    /// Puts what is to be extended instead of what was to be before.
    pub(super) fn extend(&mut self, ack_ids: Vec<String>) {
        self.extensions = ack_ids;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.acks.is_empty() && self.nacks.is_empty() && self.extensions.is_empty()
    }

    /// The next request for the stream: as much as fits.
    pub(super) fn next_request(&mut self, ack_deadline: Duration) -> StreamingPullRequest {
        let ack_ids = some(&mut self.acks, IDS_MAX);
        let mut room = IDS_MAX - ack_ids.len();
        let nacks = some(&mut self.nacks, room);
        room -= nacks.len();
        let extensions = some(&mut self.extensions, room);
        let deadline = whole_seconds(ack_deadline);
        let modify_deadline_seconds =
            nacks.iter().map(|_| 0).chain(extensions.iter().map(|_| deadline)).collect();
        StreamingPullRequest {
            ack_ids,
            modify_deadline_seconds,
            modify_deadline_ack_ids: nacks.into_iter().chain(extensions).collect(),
            ..StreamingPullRequest::default()
        }
    }

    /// The next call, where there is no stream; `None` = all was said.
    pub(super) fn next_call(&mut self, subscription: &str, ack_deadline: Duration) -> Option<Call> {
        let subscription = subscription.to_owned();
        let modify = |ack_ids, ack_deadline_seconds| {
            Some(Call::ModifyAckDeadline(ModifyAckDeadlineRequest {
                subscription: subscription.clone(),
                ack_ids,
                ack_deadline_seconds,
            }))
        };
        if !self.acks.is_empty() {
            let ack_ids = some(&mut self.acks, IDS_MAX);
            return Some(Call::Acknowledge(AcknowledgeRequest { subscription, ack_ids }));
        }
        if !self.nacks.is_empty() {
            return modify(some(&mut self.nacks, IDS_MAX), 0);
        }
        if self.extensions.is_empty() {
            return None;
        }
        modify(some(&mut self.extensions, IDS_MAX), whole_seconds(ack_deadline))
    }
}

/// The first of `ids`, at most this many.
fn some(ids: &mut Vec<String>, max: usize) -> Vec<String> {
    let rest = ids.split_off(ids.len().min(max));
    std::mem::replace(ids, rest)
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn a_request_says_all_that_fits() {
        let mut outbox = Outbox::default();
        outbox.ack("a".to_owned());
        outbox.nack("n".to_owned());
        outbox.extend(vec!["old".to_owned()]);
        outbox.extend(vec!["e".to_owned()]);
        let request = outbox.next_request(DEADLINE);
        assert_eq!(request.ack_ids, ["a"]);
        assert_eq!(request.modify_deadline_ack_ids, ["n", "e"]);
        assert_eq!(request.modify_deadline_seconds, [0, 60]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_request_has_a_bound_and_nothing_is_lost() {
        let mut outbox = Outbox::default();
        (0..1_500).for_each(|id| outbox.ack(id.to_string()));
        (0..10).for_each(|id| outbox.nack(id.to_string()));
        assert_eq!(outbox.next_request(DEADLINE).ack_ids.len(), 1_000);
        let rest = outbox.next_request(DEADLINE);
        assert_eq!((rest.ack_ids.len(), rest.modify_deadline_ack_ids.len()), (500, 10));
        assert_eq!(rest.ack_ids[0], "1000");
        assert!(outbox.is_empty());
    }

    #[test]
    fn without_a_stream_there_are_calls() {
        let mut outbox = Outbox::default();
        outbox.nack("n".to_owned());
        outbox.ack("a".to_owned());
        outbox.extend(vec!["e".to_owned()]);
        let mut said = Vec::new();
        while let Some(call) = outbox.next_call("s", DEADLINE) {
            said.push(match call {
                Call::Acknowledge(call) => (call.ack_ids.concat(), -1),
                Call::ModifyAckDeadline(call) => (call.ack_ids.concat(), call.ack_deadline_seconds),
            });
        }
        let expected = [("a".to_owned(), -1), ("n".to_owned(), 0), ("e".to_owned(), 60)];
        assert_eq!(said, expected);
    }
}

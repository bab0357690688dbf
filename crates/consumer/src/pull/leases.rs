//! The messages on lease: how many there are, and whose deadline must be moved.

use std::time::Duration;

use slab::Slab;
use tokio::time::Instant;

/// Names a lease within this process as long as it is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseNumber(usize);

/// One message on lease.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) ack_id: String,
    /// Its lane; `None` = it is in none.
    pub(super) lane: Option<String>,
    bytes: usize,
    began: Instant,
    deadline: Instant,
}

/// All leases that are not settled.
pub(super) struct Leases {
    by_number: Slab<Lease>,
    bytes: usize,
    ack_deadline: Duration,
    lease_max: Duration,
}

impl Leases {
    /// Leases that last `ack_deadline` and are extended until they are `lease_max` old.
    pub(super) fn new(ack_deadline: Duration, lease_max: Duration) -> Self {
        Self { by_number: Slab::new(), bytes: 0, ack_deadline, lease_max }
    }

    /// Takes up a lease that came now.
    pub(super) fn begin(
        &mut self,
        ack_id: String,
        lane: Option<String>,
        bytes: usize,
        now: Instant,
    ) -> LeaseNumber {
        self.bytes += bytes;
        let deadline = now + self.ack_deadline;
        LeaseNumber(self.by_number.insert(Lease { ack_id, lane, bytes, began: now, deadline }))
    }

    /// Takes out a lease that is settled.
    pub(super) fn end(&mut self, number: LeaseNumber) -> Option<Lease> {
        let lease = self.by_number.try_remove(number.0)?;
        self.bytes -= lease.bytes;
        Some(lease)
    }

    /// Takes out all.
    pub(super) fn end_all(&mut self) -> Vec<Lease> {
        self.bytes = 0;
        self.by_number.drain().collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there is room for more within these bounds.
    pub(super) fn has_room(&self, messages_max: usize, bytes_max: usize) -> bool {
        self.by_number.len() < messages_max && self.bytes < bytes_max
    }

    /// How often `extend` must be called.
    pub(super) fn interval(&self) -> Duration {
        self.ack_deadline / 6
    }

    /// The ack ids of leases that would run out soon after the next call, whose deadlines are to
    /// be moved now. Those that are too old are left to run out.
    pub(super) fn extend(&mut self, now: Instant) -> Vec<String> {
        let soon = now + self.ack_deadline / 2;
        let (ack_deadline, lease_max) = (self.ack_deadline, self.lease_max);
        let is_due = |lease: &&mut Lease| {
            lease.deadline <= soon && now.duration_since(lease.began) < lease_max
        };
        let due = self.by_number.iter_mut().map(|(_, lease)| lease).filter(is_due);
        due.map(|lease| {
            lease.deadline = now + ack_deadline;
            lease.ack_id.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(60);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_lease_is_extended_before_it_runs_out_and_not_without_need() {
        let start = Instant::now();
        let mut leases = Leases::new(DEADLINE, seconds(600));
        leases.begin("a".to_owned(), None, 1, start);
        assert!(leases.extend(start + seconds(29)).is_empty());
        leases.begin("b".to_owned(), None, 1, start + seconds(29));
        assert_eq!(leases.extend(start + seconds(30)), ["a"]);
        assert!(leases.extend(start + seconds(40)).is_empty());
        assert_eq!(leases.extend(start + seconds(59)), ["b"]);
        assert!(leases.interval() <= DEADLINE / 4, "two chances before a lease runs out");
    }

    #[test]
    fn a_lease_is_extended_up_to_its_bound_and_then_left() {
        let start = Instant::now();
        let mut leases = Leases::new(DEADLINE, seconds(100));
        leases.begin("a".to_owned(), None, 1, start);
        let moved: Vec<u64> = (0..300)
            .step_by(10)
            .filter(|second| !leases.extend(start + seconds(*second)).is_empty())
            .collect();
        assert_eq!(moved, [30, 60, 90]);
        assert_eq!(leases.len(), 1, "it can still be settled");
    }

    #[test]
    fn room_is_bounded_in_messages_and_bytes() {
        let mut leases = Leases::new(DEADLINE, DEADLINE);
        let now = Instant::now();
        let first = leases.begin("a".to_owned(), None, 10, now);
        assert!(leases.has_room(2, 11));
        assert!(!leases.has_room(1, 11), "messages");
        assert!(!leases.has_room(2, 10), "bytes");
        assert_eq!(leases.end(first).unwrap().ack_id, "a");
        assert!(leases.end(first).is_none());
        assert!(leases.has_room(1, 1));
        leases.begin("b".to_owned(), None, 10, now);
        assert_eq!(leases.end_all().len(), 1);
        assert!(leases.has_room(1, 1));
    }
}

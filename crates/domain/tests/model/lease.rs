//! Leasing: a consumer asks, and waits as the broker lets it.

use std::time::Duration;

use domain::OffsetRange;
use domain::delivery::{Effects, Lease, LeaseRequest, LeaseStatus};

use crate::run::tell;
use crate::world::{TICK, Urgency, World};

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) lasts: Duration,
}

impl Ask {
    /// As much as there is.
    pub(crate) const ALL: Self = Self { records: 10_000, bytes: usize::MAX, lasts: TICK };
}

/// Leases.
impl World {
    /// Lets a consumer ask, and wait as the broker lets it.
    pub(crate) fn ask(&mut self, consumer: usize, ask: Ask) -> LeaseStatus {
        self.line.remove(consumer);
        let (leases, status, effects) = self.lease(consumer, ask);
        self.finish_checked(effects, Urgency::Ride);
        let is_more = !leases.is_empty() && status != LeaseStatus::Drained;
        match status {
            _ if !leases.is_empty() => self.line.stay_awake(consumer),
            LeaseStatus::Full => self.line.wait_for_room(consumer),
            LeaseStatus::Drained => self.line.wait_for_records(consumer),
            LeaseStatus::More | LeaseStatus::Wanted(_) => self.line.stay_awake(consumer),
        }
        if is_more || status == LeaseStatus::Full {
            self.line.wake_one();
        }
        status
    }

    fn lease(&mut self, consumer: usize, ask: Ask) -> (Vec<Lease>, LeaseStatus, Effects) {
        self.naive.tick(self.now);
        let request = LeaseRequest {
            consumer: self.ids[consumer],
            records_max: ask.records,
            bytes_max: ask.bytes,
            ack_deadline: ask.lasts,
            retained_since: self.naive.retained_since,
            indexed_max: self.naive.indexed_max,
            remembered_max: self.naive.remembered_max,
            prefers_fresh: false,
        };
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        self.log.fetched = None;
        let mut fetches = 0;
        let status = loop {
            let now = self.now;
            let status = self.delivery.lease(now, &request, &mut self.log, &mut out, &mut effects);
            let LeaseStatus::Wanted(offset) = status else { break status };
            if !out.is_empty() {
                break status;
            }
            assert!(offset < self.log.end() && !self.log.is_at_hand(offset), "{offset} is here");
            self.log.fetched = Some(OffsetRange { from: offset, to: offset.plus(3) });
            fetches += 1;
            assert!(fetches < 1_000, "it wants {offset} again and again");
        };
        tell(|| {
            let leased: Vec<_> = out.iter().map(|l| (l.record.offset.0, l.attempt)).collect();
            format!("    {consumer} is leased {leased:?}, {status:?}")
        });
        // What expired first waits from then on.
        self.check_attempts(&effects);
        self.check_leases(consumer, ask, &out);
        self.check_status(consumer, ask, &out, status);
        (out, status, effects)
    }

    fn check_leases(&mut self, consumer: usize, ask: Ask, out: &[Lease]) {
        assert!(out.len() <= ask.records, "more than was asked for");
        let mut bytes = 0;
        for lease in out {
            let offset = usize::try_from(lease.record.offset.0).unwrap();
            let offers = self.naive.offers(consumer, self.now.wall);
            let spot = &self.naive.spots[offset];
            assert!(
                offers.iter().any(|offer| offer.offset == offset),
                "{consumer} must not be given {offset}: {spot:?}; but {offers:?}"
            );
            assert!(self.naive.fits(consumer, spot.bytes), "{offset} does not fit {consumer}");
            let noted = spot.noted.map_or(0, |attempt| attempt.count);
            let is_forgotten = self.naive.forgets() && spot.lane.is_some();
            assert!(
                lease.attempt == spot.failed + 1 || (is_forgotten && lease.attempt == noted + 1),
                "attempt {} of {offset}: {spot:?}",
                lease.attempt
            );
            bytes += lease.record.body.len();
            assert!(bytes <= ask.bytes || out.len() == 1, "more bytes than were asked for");
            self.naive.spots[offset].failed = lease.attempt - 1;
            self.naive.lease(offset, lease.ack_id, consumer, self.now.moment.plus(ask.lasts));
        }
    }

    /// The reason why there is no more is true.
    fn check_status(&self, consumer: usize, ask: Ask, out: &[Lease], status: LeaseStatus) {
        let offers = self.naive.offers(consumer, self.now.wall);
        let bytes: usize = out.iter().map(|lease| lease.record.body.len()).sum();
        let left = ask.bytes.saturating_sub(bytes) as u64;
        match status {
            LeaseStatus::Drained => {
                let missed = offers.iter().find(|offer| offer.is_sure);
                assert_eq!(missed, None, "{consumer} was told that there is nothing");
            }
            LeaseStatus::Full => assert!(
                !self.naive.fits(consumer, 1)
                    || offers.iter().any(|offer| !self.naive.fits(consumer, offer.bytes)),
                "{consumer} was told that it has no room"
            ),
            LeaseStatus::More => assert!(
                out.len() == ask.records
                    || (!out.is_empty() && offers.iter().any(|offer| offer.bytes > left)),
                "{consumer} was told that there is more than {}: {offers:?}",
                out.len()
            ),
            LeaseStatus::Wanted(_) => assert!(!out.is_empty(), "it was fetched"),
        }
    }
}

use bytes::Bytes;

use super::leases::Held;
use super::*;
use crate::offset::Record;
use crate::time::Timestamp;

/// A log in memory that has a record at every offset below its length.
struct Dense(u64);

impl Source for Dense {
    fn read(&mut self, from: Offset, records_max: usize, _bytes_max: usize) -> Read {
        if from.0 >= self.0 {
            return Read::AtEnd;
        }
        let to = Offset(self.0).min(from.plus(records_max as u64));
        let records = (from.0..to.0).map(|offset| Record {
            offset: Offset(offset),
            publish_time: Timestamp(0),
            addressee: None,
            body: Bytes::from_static(b"body"),
        });
        Read::Records {
            covered: OffsetRange { from, to },
            records: records.collect(),
            damaged: Vec::new(),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
const START: Now = Now { moment: Moment(0), wall: Timestamp(0) };

fn delivery(exactly_once: bool) -> Delivery {
    let identity = Identity { subscription: SubscriptionId(7), epoch: Epoch(3) };
    let settings = Settings { exactly_once, ..Settings::plain(10 * SECOND) };
    Delivery::new(identity, settings, Progress::default())
}

fn nack(delivery: &mut Delivery, id: &AckId, effects: &mut Effects) -> ExtendStatus {
    delivery.nack(START, id, &Failure::NACK, effects)
}

fn lease(delivery: &mut Delivery, consumer: ConsumerId, records_max: usize) -> Vec<Lease> {
    let request = LeaseRequest {
        consumer,
        records_max,
        bytes_max: 1 << 20,
        ack_deadline: 10 * SECOND,
        retained_since: Timestamp(0),
        indexed_max: INDEXED_MAX,
        remembered_max: usize::MAX,
        prefers_fresh: false,
    };
    let mut out = Vec::new();
    delivery.lease(START, &request, &mut Dense(5_000_000), &mut out, &mut Effects::default());
    out
}

fn id_of(leases: &[Lease]) -> AckId {
    leases.first().unwrap().ack_id
}

#[test]
fn a_lease_is_small() {
    assert!(size_of::<Held>() <= 56);
}

#[test]
fn ids_never_given_out_are_foreign() {
    let mut delivery = delivery(false);
    let consumer = delivery.open_consumer(Flow::default());
    let given = id_of(&lease(&mut delivery, consumer, 1));
    let id = |subscription, epoch, lease| {
        AckId::new(SubscriptionId(subscription), given.offset(), Epoch(epoch), lease)
    };
    let mut effects = Effects::default();
    for foreign in [id(8, 3, 0), id(7, 4, 0), id(7, 3, 1)] {
        let acked = delivery.ack(Moment(0), &foreign, Offset(9), &mut effects);
        assert_eq!(acked, AckStatus::Foreign);
        let nacked = nack(&mut delivery, &foreign, &mut effects);
        assert_eq!(nacked, ExtendStatus::Foreign);
        let extended = delivery.extend(START, &foreign, SECOND, &mut effects);
        assert_eq!(extended, ExtendStatus::Foreign);
    }
    assert_eq!(effects, Effects::default());
    let acked = delivery.ack(Moment(0), &given, Offset(0), &mut effects);
    assert_eq!(acked, AckStatus::Beyond);
}

#[test]
fn exactly_once_accepts_the_current_lease_only() {
    let mut delivery = delivery(true);
    let consumer = delivery.open_consumer(Flow::default());
    let first = id_of(&lease(&mut delivery, consumer, 1));
    let mut effects = Effects::default();
    let end = Offset(10);
    let late = Moment(0).plus(10 * SECOND);
    assert_eq!(delivery.ack(late, &first, end, &mut effects), AckStatus::Stale);
    assert_eq!(nack(&mut delivery, &first, &mut effects), ExtendStatus::Returned);
    assert_eq!(delivery.ack(Moment(0), &first, end, &mut effects), AckStatus::Stale);
    let second = id_of(&lease(&mut delivery, consumer, 1));
    assert_eq!(second.offset(), first.offset());
    assert_eq!(delivery.ack(Moment(0), &first, end, &mut effects), AckStatus::Stale);
    assert_eq!(delivery.ack(Moment(0), &second, end, &mut effects), AckStatus::Settled);
    // Its consumer did not get the answer and retries.
    assert_eq!(delivery.ack(Moment(0), &second, end, &mut effects), AckStatus::AlreadySettled);
    assert_eq!(delivery.ack(Moment(0), &first, end, &mut effects), AckStatus::Stale);
    assert_eq!(effects.settled, [OffsetRange::one(first.offset())]);
}

#[test]
fn a_repeated_ack_is_known_for_the_latest_acks_only() {
    let mut delivery = delivery(true);
    let consumer = delivery.open_consumer(Flow::default());
    let leases = lease(&mut delivery, consumer, CONFIRMED_MAX + 1);
    let (mut effects, end) = (Effects::default(), Offset(5_000_000));
    for lease in &leases {
        let acked = delivery.ack(Moment(0), &lease.ack_id, end, &mut effects);
        assert_eq!(acked, AckStatus::Settled);
    }
    let (first, last) = (id_of(&leases), leases.last().unwrap().ack_id);
    assert_eq!(delivery.ack(Moment(0), &first, end, &mut effects), AckStatus::Stale);
    assert_eq!(delivery.ack(Moment(0), &last, end, &mut effects), AckStatus::AlreadySettled);
}

#[test]
fn acks_from_before_a_restart_are_kept_up_to_a_bound() {
    let settings = Settings { ordering: Ordering::Fifo, ..Settings::plain(10 * SECOND) };
    let identity = Identity { subscription: SubscriptionId(7), epoch: Epoch(3) };
    let mut delivery = Delivery::new(identity, settings, Progress::default());
    let (mut effects, end) = (Effects::default(), Offset(5_000_000));
    let mut ack = |delivery: &mut Delivery, offset| {
        let id = AckId::new(SubscriptionId(7), Offset(offset), Epoch(2), offset);
        delivery.ack(Moment(0), &id, end, &mut effects)
    };
    let bound = EARLY_ACKS_MAX as u64;
    for offset in 0..bound {
        assert_eq!(ack(&mut delivery, offset), AckStatus::Provisional);
    }
    assert_eq!(ack(&mut delivery, bound), AckStatus::Stale);
    let consumer = delivery.open_consumer(Flow::default());
    // A single call does not skip this many records.
    let leases = [lease(&mut delivery, consumer, 1), lease(&mut delivery, consumer, 1)].concat();
    assert_eq!(id_of(&leases).offset(), Offset(bound));
    assert_eq!(delivery.progress().cursor(), Offset(bound));
}

#[test]
fn leases_are_bounded_and_the_stalled_are_freed_by_any_end() {
    let mut delivery = delivery(false);
    let (greedy, other) =
        (delivery.open_consumer(Flow::default()), delivery.open_consumer(Flow::default()));
    let leases = lease(&mut delivery, greedy, 300_000);
    assert_eq!(leases.len(), (1 << 20) / 4, "the request's bytes count");
    while delivery.outstanding() < OUTSTANDING_MAX {
        assert!(!lease(&mut delivery, greedy, 200_000).is_empty());
    }
    assert!(lease(&mut delivery, greedy, 1).is_empty());
    assert!(lease(&mut delivery, greedy, 1).is_empty());
    assert!(lease(&mut delivery, other, 1).is_empty());
    let mut effects = Effects::default();
    delivery.ack(Moment(0), &id_of(&leases), Offset(5_000_000), &mut effects);
    assert_eq!(effects.freed, [greedy, other]);
    assert_eq!(lease(&mut delivery, other, 9).len(), 1);
}

#[test]
fn a_lane_waits_for_its_first_record_once_many_behind_it_are_acked() {
    const DONE_MAX: usize = 10_000;
    let settings = Settings { ordering: Ordering::Fifo, ..Settings::plain(10 * SECOND) };
    let identity = Identity { subscription: SubscriptionId(7), epoch: Epoch(3) };
    let mut delivery = Delivery::new(identity, settings, Progress::default());
    let consumer = delivery.open_consumer(Flow::default());
    let leases = lease(&mut delivery, consumer, DONE_MAX + 1);
    let (mut effects, end) = (Effects::default(), Offset(5_000_000));
    for lease in leases.iter().skip(1) {
        let acked = delivery.ack(Moment(0), &lease.ack_id, end, &mut effects);
        assert_eq!(acked, AckStatus::Provisional);
    }
    assert_eq!(delivery.remembered(), DONE_MAX + 1);
    assert!(lease(&mut delivery, consumer, 1).is_empty());
    effects = Effects::default();
    delivery.ack(Moment(0), &id_of(&leases), end, &mut effects);
    assert!(effects.returned > 0 || effects.freed == [consumer], "it goes on: {effects:?}");
    assert_eq!(lease(&mut delivery, consumer, 1).len(), 1);
}

#[test]
fn no_more_is_read_than_may_be_remembered() {
    let mut delivery = delivery(false);
    let consumer = delivery.open_consumer(Flow::default());
    let mut effects = Effects::default();
    let ask = |delivery: &mut Delivery, effects: &mut Effects| {
        let request = LeaseRequest {
            consumer,
            records_max: 5,
            bytes_max: 1 << 20,
            ack_deadline: 10 * SECOND,
            retained_since: Timestamp(0),
            indexed_max: INDEXED_MAX,
            remembered_max: 3,
            prefers_fresh: false,
        };
        let mut out = Vec::new();
        let status = delivery.lease(START, &request, &mut Dense(100), &mut out, effects);
        (out, status)
    };
    let (leases, status) = ask(&mut delivery, &mut effects);
    assert_eq!((leases.len(), status), (3, LeaseStatus::Drained));
    // What came back may go again, but nothing new with it.
    nack(&mut delivery, &id_of(&leases), &mut effects);
    let (again, _) = ask(&mut delivery, &mut effects);
    assert_eq!((again.len(), id_of(&again).offset()), (1, Offset(0)));
    effects = Effects::default();
    delivery.ack(Moment(0), &id_of(&again), Offset(100), &mut effects);
    assert_eq!(effects.returned, 1, "whoever waits is told");
    let (more, _) = ask(&mut delivery, &mut effects);
    assert_eq!((more.len(), id_of(&more).offset()), (1, Offset(3)));
}

#[test]
fn a_seek_ends_all_leases_and_voids_their_ids() {
    let mut delivery = delivery(false);
    let consumer = delivery.open_consumer(Flow { messages_max: 3, bytes_max: 0 });
    let before = id_of(&lease(&mut delivery, consumer, 5));
    assert_eq!(delivery.outstanding(), 3);
    delivery.seek(Progress::starting_at(Offset(0)));
    assert_eq!((delivery.outstanding(), delivery.next_wake()), (0, None));
    let mut effects = Effects::default();
    let acked = delivery.ack(Moment(0), &before, Offset(9), &mut effects);
    assert_eq!(acked, AckStatus::Stale);
    assert_eq!(nack(&mut delivery, &before, &mut effects), ExtendStatus::Stale);
    assert_eq!(effects, Effects::default());
    let after = lease(&mut delivery, consumer, 5);
    assert_eq!((after.len(), id_of(&after).offset()), (3, Offset(0)));
    let acked = delivery.ack(Moment(0), &id_of(&after), Offset(9), &mut effects);
    assert_eq!(acked, AckStatus::Settled);
}

#[test]
fn a_wider_flow_frees_a_consumer_that_waits() {
    let mut delivery = delivery(false);
    let consumer = delivery.open_consumer(Flow { messages_max: 1, bytes_max: 0 });
    assert_eq!(lease(&mut delivery, consumer, 5).len(), 1);
    let mut effects = Effects::default();
    delivery.set_flow(consumer, Flow { messages_max: 2, bytes_max: 0 }, &mut effects);
    assert_eq!(effects.freed, [consumer]);
    assert_eq!(lease(&mut delivery, consumer, 5).len(), 1);
}

#[test]
fn backlog_and_what_is_available_are_counted_without_reading() {
    let mut delivery = delivery(false);
    let consumer = delivery.open_consumer(Flow::default());
    let leases = lease(&mut delivery, consumer, 3);
    let end = Offset(10);
    assert_eq!((delivery.backlog(end), delivery.available(end)), (10, 7));
    let mut effects = Effects::default();
    let [first, second, _] = leases.as_slice() else { panic!("three were leased") };
    delivery.ack(Moment(0), &second.ack_id, end, &mut effects);
    nack(&mut delivery, &first.ack_id, &mut effects);
    assert_eq!((delivery.backlog(end), delivery.available(end)), (9, 8));
    assert_eq!(effects.returned, 1);
}

#[test]
fn a_consumer_is_left_alone_no_longer_than_the_longest_backoff() {
    let plain = Settings::plain(10 * SECOND);
    assert_eq!(plain.retry_after_allowed(599 * SECOND), 599 * SECOND);
    assert_eq!(plain.retry_after_allowed(601 * SECOND), 600 * SECOND);
    let steps = Backoff::Ladder([5 * SECOND, 3_600 * SECOND, 60 * SECOND].into());
    let ladder = Settings { retry: Some(steps), ..plain };
    assert_eq!(ladder.retry_after_allowed(3_600 * SECOND), 3_600 * SECOND);
    assert_eq!(ladder.retry_after_allowed(86_400 * SECOND), 3_600 * SECOND);
    assert_eq!(ladder.retry_after_allowed(Duration::ZERO), Duration::ZERO);
}

#[test]
fn looking_at_records_shows_how_they_stand_and_changes_nothing() {
    let mut delivery = delivery(false);
    delivery.settings.retry = Some(Backoff::Exponential(crate::RetryPolicy::default()));
    let consumer = delivery.open_consumer(Flow::default());
    let leases: [Lease; 3] = lease(&mut delivery, consumer, 3).try_into().unwrap();
    let [acked, failed, _] = leases.map(|lease| lease.ack_id);
    let mut effects = Effects::default();
    delivery.ack(START.moment, &acked, Offset(9), &mut effects);
    nack(&mut delivery, &failed, &mut effects);
    let before = format!("{delivery:?}");
    let record = |offset: u64, addressee: Option<u64>| Record {
        offset: Offset(offset),
        publish_time: Timestamp(0),
        addressee: addressee.map(SubscriptionId),
        body: Bytes::new(),
    };
    let view = |offset| delivery.view_record(START, &record(offset, None));
    let stands = |state, attempts| {
        let next_attempt_at = None;
        Some(RecordView { state, attempts, next_attempt_at })
    };
    assert_eq!(view(0), None, "settled");
    let waiting = view(1).unwrap();
    assert_eq!((waiting.state, waiting.attempts), (RecordState::BackingOff, 1));
    let due = delivery.progress().attempt(Offset(1)).unwrap().due;
    assert_eq!(waiting.next_attempt_at, Some(due), "as it is journaled");
    let waits = delivery.waits(START);
    assert_eq!((waits.backing_off, waits.backing_off_until), (1, Some(due)));
    assert_eq!(view(2), stands(RecordState::Leased, 1));
    assert_eq!(view(3), stands(RecordState::Waiting, 0));
    assert_eq!(delivery.view_record(START, &record(3, Some(8))), None, "for another");
    assert!(delivery.view_record(START, &record(3, Some(7))).is_some());
    assert_eq!(format!("{delivery:?}"), before);
}

#[test]
fn what_stands_behind_a_halted_record_is_blocked() {
    let mut delivery = delivery(false);
    delivery.settings.ordering = Ordering::Fifo;
    delivery.settings.attempts_max = Some(1);
    delivery.settings.poison = Poison::Halt;
    let consumer = delivery.open_consumer(Flow::default());
    let leases = lease(&mut delivery, consumer, 2);
    nack(&mut delivery, &id_of(&leases), &mut Effects::default());
    let state = |offset: u64| {
        let record = Record {
            offset: Offset(offset),
            publish_time: Timestamp(0),
            addressee: None,
            body: Bytes::new(),
        };
        delivery.view_record(START, &record).unwrap().state
    };
    assert_eq!((state(0), state(1)), (RecordState::Halted, RecordState::Blocked));
}

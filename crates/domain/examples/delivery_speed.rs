//! Prints what a message costs in `Delivery`, in nanoseconds on one core.
//!
//! `cargo run --release -p postrider-domain --example delivery_speed`
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::delivery::{
    AckId, ConsumerId, Delivery, Effects, Flow, Identity, Lease, LeaseRequest, Ordering, Read,
    Settings, Source,
};
use domain::{Epoch, Moment, Offset, OffsetRange, Progress, Record, SubscriptionId, Timestamp};

const DEADLINE: Duration = Duration::from_secs(10);
const MESSAGES: usize = 4_000_000;

fn main() {
    println!("{:<52} {:>8}", "", "ns each");
    for batch in [1, 10, 100, 1_000] {
        row(&format!("lease + ack, {batch} at a time, in order"), || cycle(batch, 0, in_order));
    }
    row("lease + ack, 100 at a time, 100,000 outstanding", || cycle(100, 100_000, in_order));
    row("lease + ack, 100 at a time, 900,000 outstanding", || cycle(100, 900_000, in_order));
    row("lease + ack, 1,000 at a time, acked in any order", || cycle(1_000, 0, shuffled));
    row("lease + nack, 100 at a time", nacks);
    row("lease + extend twice + ack, 100 at a time", extensions);
    row("lease + expire, 100,000 at a time", expiries);
    row("ack id to text and back", ids);
}

fn row(name: &str, run: impl Fn() -> usize) {
    let best = (0..3).map(|_| timed(&run)).fold(f64::INFINITY, f64::min);
    println!("{name:<52} {best:>8.0}");
}

#[expect(clippy::disallowed_methods, reason = "measuring is reading the clock")]
fn timed(run: &impl Fn() -> usize) -> f64 {
    let start = Instant::now();
    let count = run();
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Leases and acks batch by batch, behind `depth` leases that stay a while.
fn cycle(batch: usize, depth: usize, order: fn(&mut [Lease])) -> usize {
    let mut stage = Stage::new();
    let mut held = Vec::new();
    for round in 0..MESSAGES / batch {
        let mut leases = stage.lease(round, batch);
        order(&mut leases);
        held.push(leases);
        if held.len() * batch > depth {
            let leases = held.swap_remove(round % held.len());
            stage.ack(round, &leases);
        }
    }
    MESSAGES
}

fn nacks() -> usize {
    let mut stage = Stage::new();
    for round in 0..MESSAGES / 200 {
        for lease in stage.lease(round, 100) {
            stage.delivery.nack(moment(round), &lease.ack_id, &mut stage.effects);
        }
        stage.effects = Effects::default();
    }
    MESSAGES / 2
}

fn extensions() -> usize {
    let mut stage = Stage::new();
    for round in 0..MESSAGES / 200 {
        let leases = stage.lease(round, 100);
        for _ in 0..2 {
            for lease in &leases {
                let (id, effects) = (&lease.ack_id, &mut stage.effects);
                stage.delivery.extend(moment(round), id, 2 * DEADLINE, effects);
            }
        }
        stage.ack(round, &leases);
    }
    MESSAGES / 2
}

fn expiries() -> usize {
    let mut stage = Stage::new();
    for round in 0..10 {
        let now = Moment(0).plus(2 * DEADLINE * round);
        let request = stage.request(100_000);
        stage.leases.clear();
        let (source, out) = (&mut stage.source, &mut stage.leases);
        stage.delivery.lease(now, &request, source, out, &mut stage.effects);
        stage.delivery.tick(now.plus(DEADLINE + Duration::from_millis(20)), &mut stage.effects);
        assert_eq!(stage.delivery.outstanding(), 0);
    }
    1_000_000
}

fn ids() -> usize {
    let mut stage = Stage::new();
    let leases = stage.lease(0, 1_000);
    for round in 0..MESSAGES {
        if let Some(lease) = leases.get(round % leases.len()) {
            let mut text = String::new();
            lease.ack_id.write_to(&mut text);
            assert_eq!(AckId::parse(black_box(&text)), Ok(lease.ack_id));
        }
    }
    MESSAGES
}

struct Stage {
    delivery: Delivery,
    consumer: ConsumerId,
    source: Dense,
    effects: Effects,
    leases: Vec<Lease>,
}

impl Stage {
    fn new() -> Self {
        let identity = Identity { subscription: SubscriptionId(1), epoch: Epoch(1) };
        let settings =
            Settings { ordering: Ordering::None, ack_deadline: DEADLINE, exactly_once: false };
        let start = Offset(1_790_000_000_000_000);
        let mut delivery = Delivery::new(identity, settings, Progress::starting_at(start));
        let consumer = delivery.open_consumer(Flow::default());
        let source = Dense { body: Bytes::from(vec![7; 1_024]) };
        Self { delivery, consumer, source, effects: Effects::default(), leases: Vec::new() }
    }

    fn request(&self, records_max: usize) -> LeaseRequest {
        let consumer = self.consumer;
        LeaseRequest {
            consumer,
            records_max,
            bytes_max: usize::MAX,
            ack_deadline: DEADLINE,
            retained_since: Timestamp(0),
        }
    }

    fn lease(&mut self, round: usize, records_max: usize) -> Vec<Lease> {
        let (request, mut out) = (self.request(records_max), Vec::with_capacity(records_max));
        let (source, effects) = (&mut self.source, &mut self.effects);
        self.delivery.lease(moment(round), &request, source, &mut out, effects);
        assert_eq!(out.len(), records_max);
        out
    }

    fn ack(&mut self, round: usize, leases: &[Lease]) {
        for lease in leases {
            let end = Offset(u64::MAX);
            self.delivery.ack(moment(round), &lease.ack_id, end, &mut self.effects);
        }
        // A commit takes what was settled and leaves nothing.
        black_box(std::mem::take(&mut self.effects));
    }
}

/// A log without an end, all in memory.
struct Dense {
    body: Bytes,
}

impl Source for Dense {
    fn read(&mut self, from: Offset, records_max: usize, _bytes_max: usize) -> Read {
        let to = from.plus(records_max as u64);
        let records = (from.0..to.0).map(|offset| Record {
            offset: Offset(offset),
            publish_time: Timestamp(offset),
            addressee: None,
            body: self.body.clone(),
        });
        let covered = OffsetRange { from, to };
        Read::Records { covered, records: records.collect(), damaged: Vec::new() }
    }
}

fn moment(round: usize) -> Moment {
    Moment(round as u64)
}

fn in_order(_leases: &mut [Lease]) {}

/// The same disorder every time.
fn shuffled(leases: &mut [Lease]) {
    let mut state = 1_u64;
    for place in (1..leases.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or_default() % (place + 1);
        leases.swap(place, other);
    }
}

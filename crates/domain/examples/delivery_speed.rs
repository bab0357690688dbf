//! Prints what a message costs in `Delivery`, in nanoseconds on one core.
//!
//! `cargo run --release -p postrider-domain --example delivery_speed`
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::delivery::{
    AckId, ConsumerId, Delivery, Effects, Failure, Flow, INDEXED_MAX, Identity, Lease,
    LeaseRequest, Ordering, Read, Settings, Source,
};
use domain::{
    Backoff, Epoch, Filter, Message, Moment, Now, Offset, OffsetRange, Progress, Record,
    RetryPolicy, SubscriptionId, Timestamp, message,
};

const DEADLINE: Duration = Duration::from_secs(10);
const MESSAGES: usize = 4_000_000;
const START: Offset = Offset(1_790_000_000_000_000);

fn main() {
    println!("{:<56} {:>8}", "", "ns each");
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
    row("by key, 1,000 keys, 100 at a time, in order", || keyed(in_order));
    row("by key, 1,000 keys, 100 at a time, acked in any order", || keyed(shuffled));
    row("by key, 1,000 keys, 10,000 others in backoff", beside_blocked);
    row("FIFO, 100 at a time, in order", || fifo(in_order));
    row("FIFO, 100 at a time, acked in any order", || fifo(shuffled));
    row("a filter that drops 99 %, per record", filtered);
}

fn row(name: &str, run: impl Fn() -> usize) {
    let best = (0..3).map(|_| timed(&run)).fold(f64::INFINITY, f64::min);
    println!("{name:<56} {best:>8.0}");
}

#[expect(clippy::disallowed_methods, reason = "measuring is reading the clock")]
fn timed(run: &impl Fn() -> usize) -> f64 {
    let start = Instant::now();
    let count = run();
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Leases and acks batch by batch, behind `depth` leases that stay a while.
fn cycle(batch: usize, depth: usize, order: fn(&mut [Lease])) -> usize {
    cycle_on(Stage::plain(), batch, depth, order)
}

fn cycle_on(mut stage: Stage, batch: usize, depth: usize, order: fn(&mut [Lease])) -> usize {
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
    let mut stage = Stage::plain();
    for round in 0..MESSAGES / 200 {
        for lease in stage.lease(round, 100) {
            let (id, effects) = (&lease.ack_id, &mut stage.effects);
            stage.delivery.nack(at(round), id, &Failure::NACK, effects);
        }
        stage.effects = Effects::default();
    }
    MESSAGES / 2
}

fn extensions() -> usize {
    let mut stage = Stage::plain();
    for round in 0..MESSAGES / 200 {
        let leases = stage.lease(round, 100);
        for _ in 0..2 {
            for lease in &leases {
                let (id, effects) = (&lease.ack_id, &mut stage.effects);
                stage.delivery.extend(at(round), id, 2 * DEADLINE, effects);
            }
        }
        stage.ack(round, &leases);
    }
    MESSAGES / 2
}

fn expiries() -> usize {
    let mut stage = Stage::plain();
    for round in 0..10 {
        let now = later(at(0), 2 * DEADLINE * round);
        let request = stage.request(100_000);
        stage.leases.clear();
        let (source, out) = (&mut stage.source, &mut stage.leases);
        stage.delivery.lease(now, &request, source, out, &mut stage.effects);
        let now = later(now, DEADLINE + Duration::from_millis(20));
        stage.delivery.tick(now, &mut stage.effects);
        assert_eq!(stage.delivery.outstanding(), 0);
    }
    1_000_000
}

fn ids() -> usize {
    let mut stage = Stage::plain();
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

fn keyed(order: fn(&mut [Lease])) -> usize {
    cycle_on(Stage::keyed(None), 100, 0, order)
}

/// A thousand keys go on while the heads of ten thousand others wait for their backoffs.
fn beside_blocked() -> usize {
    const OTHERS: usize = 10_000;
    let policy = RetryPolicy { min: 60 * DEADLINE, max: 60 * DEADLINE };
    let mut stage = Stage::keyed(Some(policy));
    stage.source.first = (0..OTHERS).map(|key| body("", &format!("blocked {key}"))).collect();
    for lease in stage.lease(0, OTHERS) {
        let (id, effects) = (&lease.ack_id, &mut stage.effects);
        stage.delivery.nack(at(0), id, &Failure::NACK, effects);
    }
    cycle_on(stage, 100, 0, in_order)
}

fn fifo(order: fn(&mut [Lease])) -> usize {
    let settings = Settings { ordering: Ordering::Fifo, ..Settings::plain(DEADLINE) };
    cycle_on(Stage::new(settings, vec![body("", "")]), 100, 0, order)
}

fn filtered() -> usize {
    let filter = Filter::parse("filter", r#"attributes.colour = "red""#).ok();
    assert!(filter.is_some());
    let settings = Settings { filter: filter.map(Arc::new), ..Settings::plain(DEADLINE) };
    let colours = (0..100).map(|number| if number == 50 { "red" } else { "blue" });
    let bodies = colours.map(|colour| body(colour, "")).collect();
    let mut stage = Stage::new(settings, bodies);
    for round in 0..MESSAGES / 1_000 {
        let leases = stage.lease(round, 10);
        stage.ack(round, &leases);
    }
    MESSAGES
}

/// A record body of about 1 KiB.
fn body(colour: &str, key: &str) -> Bytes {
    let message = Message {
        data: Bytes::from(vec![7; 1_000]),
        attributes: BTreeMap::from([("colour".to_owned(), colour.to_owned())]),
        ordering_key: key.to_owned(),
    };
    let mut out = Vec::new();
    message::encode(&message, START, Timestamp(START.0), &mut out);
    out.into()
}

struct Stage {
    delivery: Delivery,
    consumer: ConsumerId,
    source: Dense,
    effects: Effects,
    leases: Vec<Lease>,
}

impl Stage {
    fn new(settings: Settings, bodies: Vec<Bytes>) -> Self {
        let identity = Identity { subscription: SubscriptionId(1), epoch: Epoch(1) };
        let mut delivery = Delivery::new(identity, settings, Progress::starting_at(START));
        let consumer = delivery.open_consumer(Flow::default());
        let source = Dense { first: Vec::new(), bodies };
        Self { delivery, consumer, source, effects: Effects::default(), leases: Vec::new() }
    }

    fn plain() -> Self {
        Self::new(Settings::plain(DEADLINE), vec![body("", "")])
    }

    /// A thousand ordering keys, one after the other.
    fn keyed(retry: Option<RetryPolicy>) -> Self {
        let (ordering, retry) = (Ordering::ByKey, retry.map(Backoff::Exponential));
        let settings = Settings { ordering, retry, ..Settings::plain(DEADLINE) };
        Self::new(settings, (0..1_000).map(|key| body("", &format!("key {key}"))).collect())
    }

    fn request(&self, records_max: usize) -> LeaseRequest {
        let consumer = self.consumer;
        LeaseRequest {
            consumer,
            records_max,
            bytes_max: usize::MAX,
            ack_deadline: DEADLINE,
            retained_since: Timestamp(0),
            indexed_max: INDEXED_MAX,
            remembered_max: usize::MAX,
            prefers_fresh: false,
        }
    }

    fn lease(&mut self, round: usize, records_max: usize) -> Vec<Lease> {
        let (request, mut out) = (self.request(records_max), Vec::with_capacity(records_max));
        let (source, effects) = (&mut self.source, &mut self.effects);
        // A call that passes many over gives up its turn for a moment.
        for _ in 0..10 {
            let left = LeaseRequest { records_max: records_max - out.len(), ..request.clone() };
            self.delivery.lease(at(round), &left, source, &mut out, effects);
            if out.len() == records_max {
                break;
            }
        }
        assert_eq!(out.len(), records_max);
        out
    }

    fn ack(&mut self, round: usize, leases: &[Lease]) {
        for lease in leases {
            let end = Offset(u64::MAX);
            self.delivery.ack(at(round).moment, &lease.ack_id, end, &mut self.effects);
        }
        // A commit takes what was settled and leaves nothing.
        black_box(std::mem::take(&mut self.effects));
    }
}

/// A log without an end, all in memory.
struct Dense {
    /// What it begins with.
    first: Vec<Bytes>,
    /// Then these again and again.
    bodies: Vec<Bytes>,
}

impl Dense {
    fn body(&self, offset: u64) -> Bytes {
        let place = usize::try_from(offset - START.0).unwrap_or_default();
        match self.first.get(place) {
            Some(body) => body.clone(),
            None => self.bodies.get(place % self.bodies.len()).cloned().unwrap_or_default(),
        }
    }
}

impl Source for Dense {
    fn read(&mut self, from: Offset, records_max: usize, _bytes_max: usize) -> Read {
        let to = from.plus(records_max as u64);
        let records = (from.0..to.0).map(|offset| Record {
            offset: Offset(offset),
            publish_time: Timestamp(offset),
            addressee: None,
            body: self.body(offset),
        });
        let covered = OffsetRange { from, to };
        Read::Records { covered, records: records.collect(), damaged: Vec::new() }
    }
}

fn at(round: usize) -> Now {
    Now { moment: Moment(round as u64), wall: Timestamp(START.0 + round as u64) }
}

fn later(now: Now, by: Duration) -> Now {
    Now { moment: now.moment.plus(by), wall: now.wall.plus(by) }
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

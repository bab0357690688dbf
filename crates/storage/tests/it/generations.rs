//! One store through many crashes, judged by what its consumers see.

use std::time::Duration;

use domain::{
    Offset, OffsetRange, Progress, ProgressChange, Record, SubscriptionId, TopicId, message,
};
use storage::{Append, Checkpoint, Commit, ReadLimit, Urgency};
use testkit::checker::{Content, Event};
use testkit::disk::{Cut, Effect, Fault};
use testkit::{Checker, Random, seed};

use crate::bed::{Bed, Running};
use crate::history::record;

const TOPIC: TopicId = TopicId(1);
const FIRST: Offset = Offset(5_000);
/// Their acks are durable before they are answered; the other's ride along.
const EXACT: (SubscriptionId, &str) = (SubscriptionId(2), "exactly once");
const ORDINARY: (SubscriptionId, &str) = (SubscriptionId(3), "ordinary");

/// Steps after which an ordinary ack is durable: the next publish makes it so.
const ACK_LOSS: Duration = Duration::from_micros(20);

/// A store, its consumers and what they have seen. Time is counted in events.
struct World {
    checker: Checker,
    random: Random,
    events: u64,
    requests: u64,
    messages: u64,
}

/// What a broker holds between two crashes.
struct Broker {
    engine: Running,
    next: Offset,
    exact: Progress,
    ordinary: Progress,
}

impl Broker {
    async fn start(engine: Running) -> Result<Self, storage::Error> {
        let claim = engine.log.begin(TOPIC, FIRST).await?;
        let exact = engine.progress.load_one(EXACT.0, Progress::starting_at(FIRST)).await?;
        let ordinary = engine.progress.load_one(ORDINARY.0, Progress::starting_at(FIRST)).await?;
        Ok(Self { engine, next: claim.next, exact, ordinary })
    }

    fn progress(&mut self, subscription: SubscriptionId) -> &mut Progress {
        if subscription == EXACT.0 { &mut self.exact } else { &mut self.ordinary }
    }

    /// Up to `limit` records that the subscription has not acked.
    async fn unacked(&mut self, subscription: SubscriptionId, limit: usize) -> Vec<Record> {
        let progress = self.progress(subscription).clone();
        let (mut found, mut at) = (Vec::new(), progress.cursor());
        while found.len() < limit {
            let bound = ReadLimit { records: 20, bytes: 1 << 20 };
            let Ok(batch) = self.engine.log.read(TOPIC, at, bound).await else { break };
            if batch.covered.is_empty() {
                break;
            }
            at = batch.covered.to;
            let unacked = batch.records.into_iter().filter(|one| !progress.is_acked(one.offset));
            found.extend(unacked);
        }
        found.truncate(limit);
        found
    }
}

impl World {
    fn note(&mut self, event: Event) {
        self.events += 1;
        self.checker.note(event);
    }

    async fn publish(&mut self, broker: &mut Broker) -> Result<(), storage::Error> {
        let mut records = Vec::new();
        for _ in 0..1 + self.random.index(4) {
            self.messages += 1;
            records.push(record(self.messages, self.random.index(2_500)));
        }
        self.requests += 1;
        let (request, first) = (self.requests, broker.next);
        let messages = records.iter().map(|new| content(&new.message)).collect();
        self.note(Event::PublishSent { request, topic: "topic".to_owned(), messages });
        let count = records.len() as u64;
        let append = Append { topic: TOPIC, first, records };
        let (appends, progress) = (vec![append], Vec::new());
        let commit = Commit { appends, progress, urgency: Urgency::Durable };
        broker.engine.log.commit(commit).await?;
        broker.next = first.plus(count);
        let ids = (first.0..broker.next.0).collect();
        self.note(Event::PublishAnswered { request, ids });
        Ok(())
    }

    /// Delivers up to `limit` records and acks each.
    async fn consume(
        &mut self,
        broker: &mut Broker,
        (subscription, name): (SubscriptionId, &str),
        limit: usize,
    ) -> Result<usize, storage::Error> {
        let urgency = if subscription == EXACT.0 { Urgency::Durable } else { Urgency::Ride };
        let records = broker.unacked(subscription, limit).await;
        for record in &records {
            let ack_id = self.events;
            let delivered = message::decode(&record.body).expect("a message");
            let (name, content) = (name.to_owned(), content(&delivered));
            let (subscription_name, id) = (name.clone(), record.offset.0);
            self.note(Event::Delivered { subscription: subscription_name, id, content, ack_id });
            self.note(Event::AckSent { subscription: name.clone(), ack_id });
            let settled = ProgressChange::Settled(vec![OffsetRange::one(record.offset)]);
            broker.progress(subscription).apply(&settled);
            let progress = vec![(subscription, settled)];
            broker.engine.log.commit(Commit { appends: Vec::new(), progress, urgency }).await?;
            let at = self.events;
            self.note(Event::AckAnswered { subscription: name, ack_id, accepted: true, at });
        }
        Ok(records.len())
    }

    async fn chores(&mut self, broker: &mut Broker) -> Result<(), storage::Error> {
        let position = broker.engine.log.position();
        let progress = vec![(EXACT.0, broker.exact.clone()), (ORDINARY.0, broker.ordinary.clone())];
        broker.engine.log.commit(Commit::barrier()).await?;
        let checkpoint = Checkpoint { position, progress, forgotten: Vec::new(), clock: None };
        broker.engine.progress.checkpoint(checkpoint).await?;
        let readers = vec![broker.exact.clone(), broker.ordinary.clone()];
        let keep = crate::owner::Unacked::by(TOPIC, readers);
        broker.engine.log.trim(std::sync::Arc::new(keep)).await.map(drop)
    }

    /// Runs until the disk fails.
    async fn live(&mut self, engine: Running) -> Result<(), storage::Error> {
        let mut broker = Broker::start(engine).await?;
        for _ in 0..500 {
            self.publish(&mut broker).await?;
            let (exact, ordinary) = (self.random.index(3), self.random.index(5));
            self.consume(&mut broker, EXACT, exact).await?;
            self.consume(&mut broker, ORDINARY, ordinary).await?;
            if self.random.one_in(6) {
                self.chores(&mut broker).await?;
            }
        }
        Ok(())
    }

    /// Consumes everything there is.
    async fn drain(&mut self, engine: Running) {
        let mut broker = Broker::start(engine).await.expect("it starts");
        for subscription in [EXACT, ORDINARY] {
            while self.consume(&mut broker, subscription, 50).await.expect("it drains") > 0 {}
            self.note(Event::Drained { subscription: subscription.1.to_owned() });
        }
    }
}

/// A digest of all that a message holds.
fn content(message: &domain::Message) -> Content {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (&message.data, &message.attributes, &message.ordering_key).hash(&mut hasher);
    Content { key: message.ordering_key.clone(), digest: hasher.finish() }
}

#[tokio::test]
async fn consumers_see_no_promise_broken_through_many_crashes() {
    for seed in seed::seeds(0..12) {
        seed::tell(seed);
        let checker = Checker::new(ACK_LOSS);
        let random = Random::seeded(seed);
        let mut world = World { checker, random, events: 0, requests: 0, messages: 0 };
        for (exactly_once, name) in [(true, EXACT.1), (false, ORDINARY.1)] {
            let (subscription, topic) = (name.to_owned(), "topic".to_owned());
            world.note(Event::Subscribed { subscription, topic, exactly_once });
        }
        let mut bed = Bed::new();
        for _ in 0..8 {
            let nth = 30 + world.random.below(300);
            bed.disk.fail(Fault { on: None, nth, effect: Effect::PowerOff });
            let lived = match bed.open() {
                Ok(engine) => world.live(engine).await,
                Err(error) => Err(error),
            };
            assert!(lived.is_err(), "the power never went");
            bed.close();
            world.note(Event::Crashed { at: world.events });
            bed = bed.after(Cut::Random(world.random.draw()));
        }
        world.drain(bed.open().expect("it recovers")).await;
        assert_eq!(world.checker.violations(), [], "TEST_SEED={seed}");
        assert!(world.requests > 40, "only {} requests", world.requests);
    }
}

//! Two nodes over one store in memory: who answers for what, letters and replays between shards,
//! and shards that go from one node to the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker::{Broker, Clock, Error, LetterPlace, Options, Parcel, Peers, ReplayRequest};
use domain::delivery::Lease;
use domain::replay::{Destination, Selection};
use domain::{NodeId, ShardId, Subscription, TopicName};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use storage::shared::memory::{NoFaults, Store};
use testkit::FakeClock;

use crate::fixture::{
    ack_ids, dead_letters_to, decoded, message, settings, subscription_name, texts, topic_name,
    until,
};
use crate::shards::alive_tasks;

const SHARDS: u32 = 4;
/// More than a lease lasts.
const LEASE_OVER: Duration = Duration::from_secs(5);

/// Takes parcels to whoever runs the shard, and can lose the answer.
#[derive(Default)]
struct Neighbours {
    nodes: Mutex<Vec<Weak<Broker>>>,
    answers_to_lose: AtomicUsize,
    delivered: AtomicUsize,
}

impl Neighbours {
    fn owner(&self, shard: ShardId) -> Option<Arc<Broker>> {
        let nodes = self.nodes.lock();
        let mut nodes = nodes.iter().filter_map(Weak::upgrade);
        nodes.find(|node| node.open_shards().contains(&shard))
    }

    fn loses_this_answer(&self) -> bool {
        let lose = |left: usize| left.checked_sub(1);
        self.answers_to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok()
    }
}

struct ToNeighbours(Arc<Neighbours>);

impl Peers for ToNeighbours {
    fn deliver(&self, shard: ShardId, parcel: Parcel) -> BoxFuture<'static, broker::Result<()>> {
        let neighbours = Arc::clone(&self.0);
        async move {
            let owner = neighbours.owner(shard).ok_or(Error::NotOwner(shard))?;
            owner.accept(parcel).await?;
            neighbours.delivered.fetch_add(1, Ordering::SeqCst);
            if neighbours.loses_this_answer() { Err(Error::NotOwner(shard)) } else { Ok(()) }
        }
        .boxed()
    }
}

/// Two nodes, each with two of four shards.
struct Cluster {
    clock: Arc<FakeClock>,
    store: Store,
    neighbours: Arc<Neighbours>,
    one: Arc<Broker>,
    other: Arc<Broker>,
}

impl Cluster {
    async fn new() -> Self {
        let clock = Arc::new(FakeClock::new());
        let store = Store::new(SHARDS, Arc::clone(&clock) as _);
        let neighbours = Arc::<Neighbours>::default();
        let one = node(&store, &clock, &neighbours, 1).await;
        let other = node(&store, &clock, &neighbours, 2).await;
        for shard in 0..SHARDS {
            let owner = if shard < 2 { &one } else { &other };
            owner.open_shard(ShardId(shard)).await.unwrap();
        }
        Self { clock, store, neighbours, one, other }
    }
}

async fn node(
    store: &Store,
    clock: &Arc<FakeClock>,
    neighbours: &Arc<Neighbours>,
    number: u64,
) -> Arc<Broker> {
    let engine = store.engine(Default::default(), Arc::new(NoFaults));
    let peers: Arc<dyn Peers> = Arc::new(ToNeighbours(Arc::clone(neighbours)));
    let options = Options { node: NodeId(number), peers: Some(peers), ..Options::default() };
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let broker = Broker::open(engine, clock, options).await.unwrap();
    broker.join(format!("node-{number}")).await.unwrap();
    neighbours.nodes.lock().push(Arc::downgrade(&broker));
    broker
}

/// The first of these names that is in that shard.
fn topic_in(shard: u32, prefix: &str) -> TopicName {
    let mut names = (0..).map(|number| topic_name(&format!("{prefix}-{number}")));
    names.find(|name| ShardId::of(name, SHARDS) == ShardId(shard)).unwrap()
}

async fn create(broker: &Broker, topic: &TopicName) {
    broker.create_topic(domain::Topic::new(topic.clone())).await.unwrap();
}

async fn pull(broker: &Broker, id: &str) -> Vec<Lease> {
    broker.pull(&subscription_name(id), 100, Duration::ZERO).await.unwrap()
}

/// Nacks whatever `id` gives until it gives nothing more.
async fn exhaust(broker: &Broker, id: &str) {
    let subscription = broker.subscription(&subscription_name(id)).unwrap();
    for _ in 0..5 {
        let mut leases = Vec::new();
        while leases.is_empty() {
            leases = pull(broker, id).await;
            tokio::task::yield_now().await;
        }
        subscription.modify_ack_deadline(&ack_ids(&leases), Duration::ZERO).await.unwrap();
    }
}

/// A subscription `sub` on the first node, whose dead letters go to a topic of the second, which
/// `undertaker` reads there.
async fn with_far_letters(cluster: &Cluster) -> (TopicName, TopicName) {
    let (orders, dead) = (topic_in(0, "orders"), topic_in(2, "dead"));
    create(&cluster.one, &orders).await;
    create(&cluster.other, &dead).await;
    let dead_letter_policy = dead_letters_to(dead.id());
    let sub = Subscription { dead_letter_policy, ..settings(&orders, "sub") };
    cluster.one.create_subscription(sub).await.unwrap();
    cluster.other.create_subscription(settings(&dead, "undertaker")).await.unwrap();
    (orders, dead)
}

#[tokio::test]
async fn each_node_answers_for_its_own_shards_and_says_whose_the_others_are_not() {
    let cluster = Cluster::new().await;
    let (here, there) = (topic_in(1, "here"), topic_in(3, "there"));
    create(&cluster.one, &here).await;
    create(&cluster.other, &there).await;
    cluster.one.create_subscription(settings(&here, "sub")).await.unwrap();
    let refused = cluster.one.publish(&there, vec![message("x")]).await;
    assert!(matches!(refused, Err(Error::NotOwner(ShardId(3)))), "{refused:?}");
    let refused = cluster.one.create_topic(domain::Topic::new(there.clone())).await;
    assert!(matches!(refused.map(drop), Err(Error::NotOwner(ShardId(3)))));
    // Known from the catalogue's changes, though it runs elsewhere.
    let name = subscription_name("sub");
    until(|| matches!(cluster.other.subscription(&name), Err(Error::NotOwner(ShardId(1))))).await;
    let missing = cluster.other.subscription(&subscription_name("nobody"));
    assert!(matches!(missing.map(drop), Err(Error::NotFound(..))));
}

#[tokio::test]
async fn a_letter_for_another_nodes_topic_comes_once_although_answers_are_lost() {
    let cluster = Cluster::new().await;
    let (orders, _) = with_far_letters(&cluster).await;
    cluster.neighbours.answers_to_lose.store(2, Ordering::SeqCst);
    cluster.one.publish(&orders, vec![message("a"), message("b")]).await.unwrap();
    exhaust(&cluster.one, "sub").await;
    let sub = cluster.one.subscription(&subscription_name("sub")).unwrap();
    until(|| {
        cluster.clock.advance(Duration::from_millis(100));
        sub.backlog() == 0
    })
    .await;
    assert!(cluster.neighbours.delivered.load(Ordering::SeqCst) >= 3);
    let letters = pull(&cluster.other, "undertaker").await;
    assert_eq!(texts(&letters), ["a", "b"]);
    assert_eq!(sub.dead_lettered(), 2);
    let attributes = decoded(&letters[0]).attributes;
    assert_eq!(attributes["original_subscription"], "projects/p/subscriptions/sub");
}

#[tokio::test]
async fn after_a_seek_back_the_same_message_makes_another_letter() {
    let cluster = Cluster::new().await;
    let (orders, _) = with_far_letters(&cluster).await;
    let change = crate::fixture::keep(crate::fixture::DAY);
    cluster.one.update_topic(&orders, change).await.unwrap();
    cluster.one.publish(&orders, vec![message("a")]).await.unwrap();
    let sub = cluster.one.subscription(&subscription_name("sub")).unwrap();
    for round in 1..=2 {
        exhaust(&cluster.one, "sub").await;
        until(|| sub.dead_lettered() == round).await;
        let start = broker::SeekTarget::Time(domain::Timestamp(0));
        cluster.one.seek(&subscription_name("sub"), start).await.unwrap();
    }
    assert_eq!(texts(&pull(&cluster.other, "undertaker").await), ["a", "a"]);
}

#[tokio::test]
async fn a_replay_takes_letters_back_to_the_other_node_once() {
    let cluster = Cluster::new().await;
    let (orders, dead) = with_far_letters(&cluster).await;
    cluster.one.publish(&orders, vec![message("a")]).await.unwrap();
    exhaust(&cluster.one, "sub").await;
    let sub = cluster.one.subscription(&subscription_name("sub")).unwrap();
    until(|| sub.dead_lettered() == 1).await;
    cluster.neighbours.answers_to_lose.store(1, Ordering::SeqCst);
    let request = ReplayRequest {
        place: LetterPlace::Topic(dead),
        selection: Selection::Matching(Default::default()),
        to: Destination::Subscription,
        per_second: 0,
        again: false,
    };
    let replay = cluster.other.replay_letters(request).await.unwrap();
    until(|| {
        cluster.clock.advance(Duration::from_millis(100));
        cluster.other.replay(&replay.name).unwrap().replayed == 1
    })
    .await;
    let again = pull(&cluster.one, "sub").await;
    assert_eq!(texts(&again), ["a"]);
    sub.acknowledge(&ack_ids(&again)).await.unwrap();
    assert!(pull(&cluster.one, "sub").await.is_empty());
}

#[tokio::test]
async fn a_shard_goes_to_another_node_with_all_that_was_acked() {
    let cluster = Cluster::new().await;
    let topic = topic_in(0, "orders");
    create(&cluster.one, &topic).await;
    cluster.one.create_subscription(settings(&topic, "sub")).await.unwrap();
    cluster.one.publish(&topic, vec![message("a"), message("b")]).await.unwrap();
    let leases = pull(&cluster.one, "sub").await;
    let sub = cluster.one.subscription(&subscription_name("sub")).unwrap();
    sub.acknowledge(&ack_ids(&leases[..1])).await.unwrap();
    let taken = cluster.other.open_shard(ShardId(0)).await;
    assert!(matches!(taken, Err(Error::Storage(storage::Error::Conflict))), "{taken:?}");
    cluster.one.close_shard(ShardId(0), Duration::ZERO).await.unwrap();
    cluster.other.open_shard(ShardId(0)).await.unwrap();
    assert_eq!(texts(&pull(&cluster.other, "sub").await), ["b"]);
    let refused = cluster.one.publish(&topic, vec![message("c")]).await;
    assert!(matches!(refused, Err(Error::NotOwner(ShardId(0)))));
    // An id from before the move still counts: nothing was exactly-once here.
    let moved = cluster.other.subscription(&subscription_name("sub")).unwrap();
    moved.acknowledge(&ack_ids(&leases[1..])).await.unwrap();
    assert_eq!(moved.backlog(), 0);
}

#[tokio::test]
async fn a_node_whose_lease_is_over_answers_nothing_and_lets_go_of_what_was_taken_over() {
    let cluster = Cluster::new().await;
    let topic = topic_in(0, "orders");
    create(&cluster.one, &topic).await;
    cluster.one.create_subscription(settings(&topic, "sub")).await.unwrap();
    cluster.one.publish(&topic, vec![message("a")]).await.unwrap();
    let leases = pull(&cluster.one, "sub").await;
    let sub = cluster.one.subscription(&subscription_name("sub")).unwrap();
    // Nobody runs in between: the node wakes up as from a long sleep.
    cluster.clock.advance(LEASE_OVER);
    let refused = sub.acknowledge(&ack_ids(&leases)).now_or_never().unwrap();
    assert!(matches!(refused, Err(Error::LeaseOver)), "{refused:?}");
    // A third node takes over what has no owner.
    let third = node(&cluster.store, &cluster.clock, &cluster.neighbours, 3).await;
    third.open_shard(ShardId(0)).await.unwrap();
    assert_eq!(texts(&pull(&third, "sub").await), ["a"]);
    until(|| {
        cluster.clock.advance(Duration::from_millis(200));
        !cluster.one.open_shards().contains(&ShardId(0))
    })
    .await;
    third.publish(&topic, vec![message("b")]).await.unwrap();
    assert_eq!(texts(&pull(&third, "sub").await), ["b"]);
}

#[tokio::test]
async fn a_shard_that_moves_five_hundred_times_leaves_nothing_behind() {
    let cluster = Cluster::new().await;
    let topic = topic_in(0, "orders");
    create(&cluster.one, &topic).await;
    cluster.one.create_subscription(settings(&topic, "sub")).await.unwrap();
    let (mut tasks, mut topics, mut subscriptions) = (0, Vec::new(), Vec::new());
    let name = subscription_name("sub");
    for round in 0..500 {
        let (owner, next) = match round % 2 {
            0 => (&cluster.one, &cluster.other),
            _ => (&cluster.other, &cluster.one),
        };
        owner.publish(&topic, vec![message("a")]).await.unwrap();
        let leases = owner.pull(&name, 1, Duration::ZERO).await.unwrap();
        let subscription = owner.subscription(&name).unwrap();
        subscription.acknowledge(&ack_ids(&leases)).await.unwrap();
        topics.push(Arc::downgrade(&owner.topic(&topic).unwrap()));
        subscriptions.push(Arc::downgrade(&subscription));
        drop(subscription);
        owner.close_shard(ShardId(0), Duration::ZERO).await.unwrap();
        next.open_shard(ShardId(0)).await.unwrap();
        if round == 100 {
            tasks = alive_tasks();
        }
    }
    assert_eq!(cluster.one.subscription(&name).unwrap().backlog(), 0);
    until(|| alive_tasks() <= tasks).await;
    until(|| topics.iter().all(|topic| topic.strong_count() == 0)).await;
    until(|| subscriptions.iter().all(|one| one.strong_count() == 0)).await;
}

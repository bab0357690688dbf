//! A store that was restored goes on with ids that nobody was ever given.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Clock, Options};
use domain::{OffsetRange, Timestamp, TopicName};
use storage::disk::{self, Handle};
use testkit::FakeClock;

use crate::fixture::{HOUR, ack_ids, message, settings, subscription_name, texts, topic_name};

struct Life {
    broker: Arc<Broker>,
    handle: Handle,
}

impl Life {
    async fn open(folder: &Path, clock: &Arc<FakeClock>) -> Self {
        let options = disk::Options {
            wal_segment_bytes: 1 << 20,
            wal_max_bytes: 4 << 20,
            reserve_bytes: 1 << 20,
            ..disk::Options::default()
        };
        let opened = disk::open(folder, options).unwrap();
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let broker = Broker::open(opened.engine, clock, Options::default()).await.unwrap();
        Self { broker, handle: opened.handle }
    }

    async fn close(self) {
        self.broker.close(Duration::ZERO).await.unwrap();
        drop(self.broker);
        self.handle.close();
    }

    async fn publish(&self, topic: &TopicName, texts: &[&str]) -> OffsetRange {
        let messages = texts.iter().map(|text| message(text)).collect();
        self.broker.publish(topic, messages).await.unwrap().offsets
    }

    async fn pull(&self) -> Vec<domain::delivery::Lease> {
        self.broker.pull(&subscription_name("sub"), 100, Duration::ZERO).await.unwrap()
    }

    fn backlog(&self) -> u64 {
        self.broker.subscription(&subscription_name("sub")).unwrap().backlog()
    }
}

/// `orders` with three messages, of which `sub` has acked the first; the empty topic `idle`.
async fn set_up(life: &Life) -> TopicName {
    for id in ["orders", "idle"] {
        life.broker.create_topic(domain::Topic::new(topic_name(id))).await.unwrap();
    }
    let topic = topic_name("orders");
    life.broker.create_subscription(settings(&topic, "sub")).await.unwrap();
    life.publish(&topic, &["a"]).await;
    let leases = life.pull().await;
    let sub = life.broker.subscription(&subscription_name("sub")).unwrap();
    sub.acknowledge(&ack_ids(&leases)).await.unwrap();
    // The ack rides with it at the latest.
    life.publish(&topic, &["b", "c"]).await;
    topic
}

/// What must hold of a copy in which no id may come again up to `given`.
async fn check(folder: &Path, clock: &Arc<FakeClock>, topic: &TopicName, given: u64) {
    let life = Life::open(folder, clock).await;
    assert_eq!(life.backlog(), 2, "the gap is not taken for messages");
    let first = life.publish(topic, &["d"]).await.from.0;
    assert!(first > given, "{first} was given out before {given}");
    assert!(first > clock.wall().0, "above the current time");
    assert!(life.publish(&topic_name("idle"), &["e"]).await.from.0 > clock.wall().0);
    assert_eq!(texts(&life.pull().await), ["b", "c", "d"]);
    life.close().await;
    // From then on it is a store like any other.
    let report = disk::verify(folder, &broker::check_definition).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    clock.advance(HOUR);
    let life = Life::open(folder, clock).await;
    assert_eq!(life.publish(topic, &["f"]).await.from.0, first + 1);
    assert_eq!(texts(&life.pull().await), ["b", "c", "d", "f"]);
    let earliest = broker::SeekTarget::Time(Timestamp(0));
    life.broker.seek(&subscription_name("sub"), earliest).await.unwrap();
    assert_eq!(texts(&life.pull().await), ["b", "c", "d", "f"]);
    life.close().await;
}

#[tokio::test]
async fn a_restored_backup_gives_no_id_a_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let clock = Arc::new(FakeClock::new());
    let life = Life::open(&original, &clock).await;
    let topic = set_up(&life).await;
    life.handle.backup(&copy, &[]).unwrap();
    clock.advance(HOUR);
    let given = life.publish(&topic, &["x", "y"]).await.to.0 - 1;
    life.close().await;
    clock.advance(HOUR);
    check(&copy, &clock, &topic, given).await;
    // Going on with the original changes nothing there.
    let life = Life::open(&original, &clock).await;
    assert_eq!(life.publish(&topic, &["z"]).await.from.0, given + 1);
    life.close().await;
}

#[tokio::test]
async fn a_folder_that_somebody_says_was_restored_gives_no_id_a_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::new());
    let life = Life::open(folder.path(), &clock).await;
    let topic = set_up(&life).await;
    life.close().await;
    clock.advance(HOUR);
    std::fs::write(folder.path().join(disk::RESTORED), "").unwrap();
    check(folder.path(), &clock, &topic, 0).await;
    assert!(!folder.path().join(disk::RESTORED).exists());
}

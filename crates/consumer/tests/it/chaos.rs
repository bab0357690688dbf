//! Handlers that fail, panic and hang at random, before and after their effect, and a consumer
//! that is stopped in the middle: each effect once, dead letters exactly the poison.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use postrider_consumer::effects::{Effects, Sqlite, Value, Write, WriteKind};
use postrider_consumer::log::Lines;
use postrider_consumer::rules::Level;
use postrider_consumer::{
    Consumer, Failure, Handled, Handler, Message, Outcome, Settings, Timestamp, pull,
};
use tempfile::TempDir;
use tokio::sync::watch;
use wire::pubsub::DeadLetterPolicy;

use crate::rig::{DEAD_SUBSCRIPTION, DEAD_TOPIC, Rig, SUBSCRIPTION, path, settings, soon};

const MESSAGES: u64 = 1_000;
const STOPS: usize = 5;

/// What goes wrong with one try.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    FailsBefore,
    FailsAfter,
    PanicsBefore,
    PanicsAfter,
    Hangs,
}

struct Chaos {
    store: Sqlite,
    tries: Mutex<HashMap<String, u64>>,
    seed: u64,
}

impl Chaos {
    /// The same for the same seed, message and try.
    fn trouble(&self, id: &str) -> Trouble {
        let mut tries = self.tries.lock();
        let times = tries.entry(id.to_owned()).or_default();
        *times += 1;
        let number: u64 = id.parse().unwrap();
        let mixed = (number ^ self.seed.rotate_left(17)).wrapping_add(*times << 40);
        match mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 {
            0..6 => Trouble::FailsBefore,
            6..14 => Trouble::FailsAfter,
            14..17 => Trouble::PanicsBefore,
            17..20 => Trouble::PanicsAfter,
            20 => Trouble::Hangs,
            _ => Trouble::None,
        }
    }

    async fn apply(&self, message: &Message) -> Outcome {
        let write = Write {
            document: path("effects", "count"),
            dedupe: path("dedupe", message.dedupe_id()),
            dedupe_until: Timestamp(u64::MAX),
            kind: WriteKind::Increment,
            fields: BTreeMap::from([("n".to_owned(), Value::Integer(1))]),
            event_time: None,
        };
        self.store.apply(&write).await.into()
    }
}

impl Handler for Chaos {
    type Event = ();

    fn decode(&self, message: &Message) -> Result<(), Failure> {
        if message.data.starts_with(b"poison") {
            return Err(Failure::new("InvalidJson", "poison"));
        }
        Ok(())
    }

    async fn handle(&self, (): (), message: &Message) -> Handled {
        let trouble = self.trouble(&message.id);
        match trouble {
            Trouble::FailsBefore => {
                return Outcome::Transient(Failure::new("Chaos", "on purpose")).into();
            }
            Trouble::PanicsBefore => panic!("before its effect, on purpose"),
            Trouble::Hangs => std::future::pending().await,
            _ => {}
        }
        let outcome = self.apply(message).await;
        match trouble {
            Trouble::FailsAfter => Outcome::Transient(Failure::new("Chaos", "on purpose")).into(),
            Trouble::PanicsAfter => panic!("after its effect, on purpose"),
            _ => outcome.into(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_effect_happens_once_whatever_goes_wrong() {
    let seed = testkit::seed::seed();
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create_with_policy(|subscription| {
        subscription.dead_letter_policy = Some(DeadLetterPolicy {
            dead_letter_topic: DEAD_TOPIC.to_owned(),
            max_delivery_attempts: 100,
        });
    })
    .await;
    let data = |number: u64| if number.is_multiple_of(33) { "poison" } else { "good" };
    let messages: Vec<_> = (0..MESSAGES).map(|number| ("", data(number))).collect();
    let ids = peer.publish_all(&messages).await;
    let poison: BTreeSet<String> = ids
        .iter()
        .zip(0..)
        .filter(|(_, n)| data(*n) == "poison")
        .map(|(id, _)| id.clone())
        .collect();

    let folder = TempDir::new().unwrap();
    let store = Sqlite::open(&folder.path().join("effects.sqlite")).unwrap();
    consume(&rig, &store, seed).await;

    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "nothing is left");
    let count = store.document(&path("effects", "count")).await.unwrap().unwrap()["n"].clone();
    let good = i64::try_from(MESSAGES).unwrap() - i64::try_from(poison.len()).unwrap();
    assert_eq!(count, Value::Integer(good), "each effect once");
    let mut dead = BTreeSet::new();
    while dead.len() < poison.len() {
        for letter in soon("dead letters", peer.pull(DEAD_SUBSCRIPTION, true)).await {
            let letter = letter.decode_message().unwrap();
            dead.insert(letter.attributes["original_message_id"].clone());
        }
    }
    for letter in peer.pull(DEAD_SUBSCRIPTION, false).await {
        let letter = letter.decode_message().unwrap();
        dead.insert(letter.attributes["original_message_id"].clone());
    }
    assert_eq!(dead, poison, "dead letters are exactly the poison");
}

/// Knows what was acked, and how many lines there were.
#[derive(Default)]
struct Acked {
    told: watch::Sender<(usize, BTreeSet<String>)>,
}

impl Lines for Acked {
    fn write(&self, _level: Level, line: &str) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        crate::schema::check_line(&line);
        self.told.send_modify(|(lines, acked)| {
            *lines += 1;
            if line["ack_action"] == "ack" {
                acked.insert(line["messageId"].as_str().unwrap().to_owned());
            }
        });
    }
}

/// Runs consumers one after the other, each stopped in the middle without grace, and the last one
/// until all is settled.
async fn consume(rig: &Rig, store: &Sqlite, seed: u64) {
    let settings = Settings { handle_timeout: Duration::from_secs(3), ..settings() };
    let options = pull::Options {
        shutdown_grace: Duration::ZERO,
        handlers_max: 16,
        ..pull::Options::default()
    };
    // A sink for all, so that what was acked before counts.
    let acked = Arc::new(Acked::default());
    for stop in 0..=STOPS {
        let tries = Mutex::default();
        let handler = Chaos { store: store.clone(), tries, seed: seed.wrapping_add(stop as u64) };
        let lines: Arc<dyn Lines> = Arc::<Acked>::clone(&acked);
        let known = rig.connection().ask(SUBSCRIPTION).await.unwrap();
        let consumer = Consumer::with_lines(handler, settings.clone(), known, lines).unwrap();
        let begin = acked.told.borrow().0;
        let is_enough = |told: &(usize, BTreeSet<String>)| {
            if stop < STOPS { told.0 >= begin + 50 } else { told.1.len() as u64 == MESSAGES }
        };
        let enough = soon("enough messages", async {
            acked.told.subscribe().wait_for(is_enough).await.unwrap();
        });
        pull::run(rig.connection(), consumer, options.clone(), enough).await.unwrap();
    }
}

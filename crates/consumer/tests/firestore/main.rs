//! Effects in Firestore: the suite of all stores against the fake, and against Google's own
//! emulator where it is installed.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected shall fail and say where"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use postrider_consumer::Timestamp;
use postrider_consumer::effects::{
    Applied, Effects, EventTime, Path, StoreError, Value, Write, WriteKind, conformance,
};
use postrider_consumer::firestore::api;
use postrider_consumer::firestore::api::write::Operation;
use postrider_consumer::firestore::fake::Fake;
use postrider_consumer::firestore::{Client, FirestoreEffects, Options, Retry, from_api};
use testkit::FirestoreEmulator;

/// Messages that come twice, about at the same time, to few documents.
const MESSAGES: u64 = 100;
const DOCUMENTS: u64 = 4;

fn client(address: &str) -> Client {
    let options = Options {
        project: Some("p".to_owned()),
        emulator: Some(address.to_owned()),
        call_timeout: Some(Duration::from_secs(30)),
        ..Options::default()
    };
    Client::new(&options).unwrap()
}

fn path(collection: &str, id: impl ToString) -> Path {
    Path { collection: collection.to_owned(), id: id.to_string() }
}

fn write(id: u64, kind: WriteKind, event: Option<u64>, fields: &[(&str, Value)]) -> Write {
    let at = |seconds| Timestamp((1_800_000_000 + seconds) * 1_000_000);
    Write {
        document: path("services", id % DOCUMENTS),
        dedupe: path("dedupe", format!("{id}{kind:?}")),
        dedupe_until: at(1_000_000),
        kind,
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        event_time: event.map(|seconds| EventTime { field: "at".to_owned(), at: at(seconds) }),
    }
}

async fn document(client: &Client, path: &Path) -> Option<BTreeMap<String, Value>> {
    let found = client.get(&[client.name(path)], None).await.unwrap().remove(0)?;
    let value = |(name, value)| (name, from_api(&value).unwrap());
    Some(found.fields.into_iter().map(value).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_effect_happens_once_and_the_newest_state_wins() {
    let Some(emulator) = FirestoreEmulator::start() else { return };
    let client = client(emulator.address());
    let retry = Retry { attempts_max: 100, ..Retry::default() };
    let effects = &FirestoreEffects::new(client.clone(), retry);
    let one = [("count.1", Value::Integer(1))];
    let one = &one;
    let messages = (0..2 * MESSAGES).map(|number| async move {
        let id = number % MESSAGES;
        let added = effects.apply(&write(id, WriteKind::Increment, None, one)).await;
        let state = [("state", Value::Integer(i64::try_from(id).unwrap()))];
        let merged = effects.apply(&write(id, WriteKind::Merge, Some(id), &state)).await;
        [added.unwrap(), merged.unwrap()]
    });
    let outcomes = join_all(messages).await;
    let applied = outcomes.iter().filter(|[added, _]| *added == Applied::Applied).count();
    assert_eq!(applied, usize::try_from(MESSAGES).unwrap());
    for id in 0..DOCUMENTS {
        let found = document(&client, &path("services", id)).await.unwrap();
        let newest = MESSAGES - DOCUMENTS + id;
        assert_eq!(found["count.1"], Value::Integer(i64::try_from(MESSAGES / DOCUMENTS).unwrap()));
        assert_eq!(found["state"], Value::Integer(i64::try_from(newest).unwrap()));
    }
    let note = document(&client, &path("dedupe", "7Merge")).await.unwrap();
    assert!(matches!(note["expiresAt"], Value::Time(_)));
    assert!(matches!(note["handledAt"], Value::Time(_)));
    println!("against the emulator: {} tries", effects.figures().tries());
    for (code, count) in effects.figures().errors() {
        println!("  answered {code}: {count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn set_replaces_and_what_can_never_be_written_is_refused() {
    let Some(emulator) = FirestoreEmulator::start() else { return };
    let client = client(emulator.address());
    let effects = FirestoreEffects::new(client.clone(), Retry::default());
    let first = [("a", Value::Integer(1)), ("`b\\", Value::Null)];
    assert_eq!(
        effects.apply(&write(1, WriteKind::Merge, None, &first)).await,
        Ok(Applied::Applied)
    );
    let second = [("c", Value::List(vec![Value::Bool(true), Value::Double(0.5)]))];
    assert_eq!(effects.apply(&write(1, WriteKind::Set, None, &second)).await, Ok(Applied::Applied));
    let found = document(&client, &path("services", 1)).await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [("c".to_owned(), second[0].1.clone())]);
    let long = "x".repeat(2 << 20);
    let large = [("text", Value::Text(long))];
    let nested = [("list", Value::List(vec![Value::List(vec![])]))];
    for wrong in [&large, &nested] {
        let refused = effects.apply(&write(2, WriteKind::Set, None, wrong)).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
}

/// A store as the suite wants it: what a TTL policy would do, `forget` does.
struct Suite {
    effects: FirestoreEffects,
    client: Client,
    notes: Mutex<Vec<(Path, Timestamp)>>,
}

impl Suite {
    fn new(address: &str) -> Arc<Self> {
        let client = client(address);
        let effects = FirestoreEffects::new(client.clone(), Retry::default());
        Arc::new(Self { effects, client, notes: Mutex::default() })
    }
}

impl Effects for Suite {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        self.notes.lock().unwrap().push((write.dedupe.clone(), write.dedupe_until));
        self.effects.apply(write).await
    }
}

impl conformance::Store for Suite {
    async fn read(&self, path: &Path) -> Option<BTreeMap<String, Value>> {
        document(&self.client, path).await
    }

    async fn forget(&self, now: Timestamp) {
        let notes = self.notes.lock().unwrap().clone();
        let expired = notes.into_iter().filter(|(_, until)| *until <= now);
        let writes = expired.map(|(note, _)| api::Write {
            operation: Some(Operation::Delete(self.client.name(&note))),
            ..api::Write::default()
        });
        for write in writes {
            self.client.commit(vec![write], None).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn firestore_keeps_the_promises_of_all_stores() {
    let fake = Fake::start().await.unwrap();
    conformance::run(Suite::new(&fake.address())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn googles_emulator_keeps_the_promises_of_all_stores() {
    let Some(emulator) = FirestoreEmulator::start() else { return };
    conformance::run(Suite::new(emulator.address())).await;
}

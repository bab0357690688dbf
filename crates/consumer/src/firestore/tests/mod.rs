//! Effects and client against the fake.

mod faults;
mod writes;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::Timestamp;

use super::fake::Fake;
use super::{Client, FirestoreEffects, Options, Retry};
use crate::effects::{EventTime, Path, Value, Write, WriteKind};

/// Quick, so that tests are.
const RETRY: Retry = Retry {
    attempts_max: 4,
    backoff_min: Duration::from_millis(2),
    backoff_max: Duration::from_millis(8),
};

fn options(fake: &Fake) -> Options {
    Options { project: Some("p".to_owned()), emulator: Some(fake.address()), ..Options::default() }
}

async fn fake_and_effects() -> (Fake, FirestoreEffects) {
    let fake = Fake::start().await.unwrap();
    let effects = FirestoreEffects::new(Client::new(&options(&fake)).unwrap(), RETRY);
    (fake, effects)
}

fn path(collection: &str, id: &str) -> Path {
    Path { collection: collection.to_owned(), id: id.to_owned() }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp(1_800_000_000_000_000 + seconds * 1_000_000)
}

/// What message `id` writes into `ops_services/api`.
fn write(id: &str, kind: WriteKind, event_s: Option<u64>, fields: &[(&str, Value)]) -> Write {
    Write {
        document: path("ops_services", "api"),
        dedupe: path("ops_dedupe", id),
        dedupe_until: at(1_000_000),
        kind,
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        event_time: event_s
            .map(|seconds| EventTime { field: "eventTime".to_owned(), at: at(seconds) }),
    }
}

fn add(id: &str, event_s: Option<u64>) -> Write {
    write(id, WriteKind::Increment, event_s, &[("count", Value::Integer(1))])
}

fn service(fake: &Fake) -> BTreeMap<String, Value> {
    fake.document("ops_services/api").unwrap()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

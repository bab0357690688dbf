//! The suite that every store passes: a case for each promise in the comment of `Effects`.
//!
//! A case is a function whose name states the promise, and has its own collection. Cases
//! panic, and say why: they are for tests only.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use domain::Timestamp;
use futures::future::join_all;

use super::{Applied, Effects, EventTime, Memory, Path, Postgres, Sqlite, StoreError, Value};
use super::{Write, WriteKind};
use crate::clock;

/// A store under test.
pub trait Store: Effects {
    /// The fields of a document.
    fn read(&self, path: &Path) -> impl Future<Output = Option<BTreeMap<String, Value>>> + Send;

    /// Forgets dedupe records that have expired by `now`.
    fn forget(&self, now: Timestamp) -> impl Future<Output = ()> + Send;
}

/// Runs every case.
pub async fn run<S: Store>(store: Arc<S>) {
    a_message_takes_effect_once(&*store).await;
    a_stale_message_changes_nothing_and_is_noted(&*store).await;
    an_equal_event_time_applies(&*store).await;
    an_increment_is_never_stale(&*store).await;
    kinds_of_writes_do_what_they_say(&*store).await;
    values_come_back(&*store).await;
    a_failure_in_the_middle_writes_nothing(&*store).await;
    collections_are_apart(&*store).await;
    the_newest_state_wins_whatever_the_order(&*store).await;
    a_note_is_kept_at_least_until_its_end(&*store).await;
    one_message_at_the_same_time_takes_effect_once(Arc::clone(&store)).await;
    messages_at_the_same_time_all_take_effect(store).await;
}

/// Notes are kept until then, unless a case says otherwise.
const UNTIL: Timestamp = Timestamp(4_000_000_000_000_000);

fn at(seconds: u64) -> Timestamp {
    Timestamp(1_800_000_000_000_000 + seconds * 1_000_000)
}

fn path(case: &str, id: &str) -> Path {
    Path { collection: case.to_owned(), id: id.to_owned() }
}

fn document(case: &str) -> Path {
    path(case, "document")
}

/// What message `id` writes in the case's own document.
fn write(case: &str, id: &str, kind: WriteKind, fields: &[(&str, Value)]) -> Write {
    Write {
        document: document(case),
        dedupe: path(&format!("{case}_dedupe"), id),
        dedupe_until: UNTIL,
        kind,
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        event_time: None,
    }
}

fn told_at(write: Write, seconds: u64) -> Write {
    let event_time = EventTime { field: "at".to_owned(), at: at(seconds) };
    Write { event_time: Some(event_time), ..write }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn state(case: &str, id: &str, state: &str, seconds: u64) -> Write {
    told_at(write(case, id, WriteKind::Set, &[("state", text(state))]), seconds)
}

fn one(case: &str, id: &str) -> Write {
    write(case, id, WriteKind::Increment, &[("count", Value::Integer(1))])
}

/// Applies it, again while it is transient: stores with optimistic transactions may ask for that.
async fn applied<S: Store>(store: &S, write: &Write) -> Applied {
    const TRIES_MAX: usize = 1_000;
    for _ in 0..TRIES_MAX {
        match store.apply(write).await {
            Ok(applied) => return applied,
            Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{write:?}: {error}"),
        }
    }
    panic!("{write:?}: still transient after {TRIES_MAX} tries");
}

async fn field<S: Store>(store: &S, case: &str, name: &str) -> Option<Value> {
    store.read(&document(case)).await.and_then(|fields| fields.get(name).cloned())
}

async fn a_message_takes_effect_once<S: Store>(store: &S) {
    let case = "once";
    assert_eq!(applied(store, &one(case, "m1")).await, Applied::Applied);
    assert_eq!(applied(store, &one(case, "m1")).await, Applied::Duplicate);
    let other = write(case, "m1", WriteKind::Set, &[("state", text("other"))]);
    assert_eq!(applied(store, &other).await, Applied::Duplicate, "whatever it says");
    assert_eq!(field(store, case, "count").await, Some(Value::Integer(1)));
    assert_eq!(field(store, case, "state").await, None);
    assert_eq!(applied(store, &one(case, "m2")).await, Applied::Applied);
    assert_eq!(field(store, case, "count").await, Some(Value::Integer(2)));
}

async fn a_stale_message_changes_nothing_and_is_noted<S: Store>(store: &S) {
    let case = "stale";
    assert_eq!(applied(store, &state(case, "m1", "new", 10)).await, Applied::Applied);
    let old = state(case, "m2", "old", 9);
    assert_eq!(applied(store, &old).await, Applied::Stale);
    let merge = Write { kind: WriteKind::Merge, ..state(case, "m3", "old", 9) };
    assert_eq!(applied(store, &merge).await, Applied::Stale);
    assert_eq!(field(store, case, "state").await, Some(text("new")));
    assert_eq!(applied(store, &old).await, Applied::Duplicate, "a stale message is noted too");
}

async fn an_equal_event_time_applies<S: Store>(store: &S) {
    let case = "equal";
    applied(store, &state(case, "m1", "first", 10)).await;
    assert_eq!(applied(store, &state(case, "m2", "second", 10)).await, Applied::Applied);
    assert_eq!(field(store, case, "state").await, Some(text("second")));
}

async fn an_increment_is_never_stale<S: Store>(store: &S) {
    let case = "increment";
    for (id, seconds) in [("m1", 10), ("m2", 5), ("m3", 20), ("m4", 1)] {
        assert_eq!(applied(store, &told_at(one(case, id), seconds)).await, Applied::Applied);
    }
    assert_eq!(field(store, case, "count").await, Some(Value::Integer(4)));
    assert_eq!(field(store, case, "at").await.map(time), Some(at(20)), "the latest is kept");
    let set = state(case, "m5", "old", 19);
    assert_eq!(applied(store, &set).await, Applied::Stale, "and guards");
}

/// A time, which stores that keep JSON give back as text.
fn time(value: Value) -> Timestamp {
    match value {
        Value::Time(time) => time,
        Value::Text(text) => clock::parse(&text).unwrap_or_else(|| panic!("{text} is no time")),
        other => panic!("{other:?} is no time"),
    }
}

async fn kinds_of_writes_do_what_they_say<S: Store>(store: &S) {
    let case = "kinds";
    let of = |id, kind, fields: &[(&str, Value)]| write(case, id, kind, fields);
    applied(store, &of("m1", WriteKind::Merge, &[("a", text("1")), ("b", text("1"))])).await;
    applied(store, &of("m2", WriteKind::Merge, &[("b", text("2"))])).await;
    applied(store, &of("m3", WriteKind::Increment, &[("n", Value::Integer(2))])).await;
    applied(store, &of("m4", WriteKind::Increment, &[("n", Value::Double(0.5))])).await;
    let fields = store.read(&document(case)).await.unwrap_or_default();
    let expected = [("a", text("1")), ("b", text("2")), ("n", Value::Double(2.5))];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value)).into());
    applied(store, &of("m5", WriteKind::Set, &[("c", text("3"))])).await;
    let fields = store.read(&document(case)).await.unwrap_or_default();
    assert_eq!(fields, [("c".to_owned(), text("3"))].into());
}

async fn values_come_back<S: Store>(store: &S) {
    let case = "values";
    let map = BTreeMap::from([("inner".to_owned(), Value::Integer(i64::MIN))]);
    let fields = [
        ("bool", Value::Bool(true)),
        ("double", Value::Double(0.1)),
        ("integer", Value::Integer(i64::MAX)),
        ("list", Value::List(vec![Value::Null, text("x"), Value::Map(map)])),
        ("null", Value::Null),
        ("text", text("grüße \" ' \\ ; -- \u{1F600}")),
    ];
    applied(store, &write(case, "m1", WriteKind::Set, &fields)).await;
    let expected = fields.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(store.read(&document(case)).await, Some(expected.into()));
}

async fn a_failure_in_the_middle_writes_nothing<S: Store>(store: &S) {
    let case = "failure";
    let broken = [("count", Value::Integer(1)), ("name", text("no number"))];
    let refused = store.apply(&write(case, "m1", WriteKind::Increment, &broken)).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(store.read(&document(case)).await, None, "nothing of it was written");
    assert_eq!(applied(store, &one(case, "m1")).await, Applied::Applied, "nor was it noted");
}

async fn collections_are_apart<S: Store>(store: &S) {
    let (one_case, other_case) = ("apart_one", "apart_other");
    applied(store, &one(one_case, "m1")).await;
    assert_eq!(applied(store, &one(other_case, "m1")).await, Applied::Applied);
    assert_eq!(field(store, one_case, "count").await, Some(Value::Integer(1)));
    assert_eq!(field(store, other_case, "count").await, Some(Value::Integer(1)));
}

async fn the_newest_state_wins_whatever_the_order<S: Store>(store: &S) {
    let case = "shuffled";
    // 37 and 101 have no common divisor, so that each number comes up once, out of order.
    for step in 0..101_u64 {
        let number = step * 37 % 101;
        let write = state(case, &format!("m{number}"), &number.to_string(), number);
        let first = applied(store, &write).await;
        assert_ne!(first, Applied::Duplicate, "{number}");
        assert_eq!(applied(store, &write).await, Applied::Duplicate, "{number}");
    }
    assert_eq!(field(store, case, "state").await, Some(text("100")));
}

async fn a_note_is_kept_at_least_until_its_end<S: Store>(store: &S) {
    let case = "expiry";
    let end = at(1_000);
    let write = Write { dedupe_until: end, ..one(case, "m1") };
    assert_eq!(applied(store, &write).await, Applied::Applied);
    store.forget(Timestamp(end.0 - 1)).await;
    assert_eq!(applied(store, &write).await, Applied::Duplicate, "before its end");
    store.forget(end).await;
    assert_eq!(applied(store, &write).await, Applied::Applied, "after it");
    assert_eq!(applied(store, &one("once", "m1")).await, Applied::Duplicate, "others are kept");
}

async fn one_message_at_the_same_time_takes_effect_once<S: Store>(store: Arc<S>) {
    let case = "same_time";
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { applied(&*store, &one(case, "m1")).await });
    }
    let seen = tasks.join_all().await;
    let effects = seen.iter().filter(|applied| **applied == Applied::Applied).count();
    assert_eq!(effects, 1, "{seen:?}");
    assert_eq!(field(&*store, case, "count").await, Some(Value::Integer(1)));
}

async fn messages_at_the_same_time_all_take_effect<S: Store>(store: Arc<S>) {
    let case = "many";
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let write = one(case, &format!("m{number}"));
            join_all([applied(&*store, &write), applied(&*store, &write)]).await
        });
    }
    tasks.join_all().await;
    assert_eq!(field(&*store, case, "count").await, Some(Value::Integer(50)));
}

impl Store for Memory {
    async fn read(&self, path: &Path) -> Option<BTreeMap<String, Value>> {
        self.document(path)
    }

    async fn forget(&self, now: Timestamp) {
        self.purge(now);
    }
}

impl Store for Sqlite {
    async fn read(&self, path: &Path) -> Option<BTreeMap<String, Value>> {
        self.document(path).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn forget(&self, now: Timestamp) {
        self.purge(now).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Store for Postgres {
    async fn read(&self, path: &Path) -> Option<BTreeMap<String, Value>> {
        self.document(path).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn forget(&self, now: Timestamp) {
        self.purge(now).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

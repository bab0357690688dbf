//! `Catalogue`.

use bytes::Bytes;

use super::support::{hold, refused, same};
use super::{Case, Check, cases};
use crate::{Engine, Entry, Error, Kind, Result};

pub(super) const CASES: &[Case<Engine>] = cases![
    a_definition_comes_back_as_stored,
    what_does_not_exist_is_not_found,
    creating_what_exists_is_a_conflict,
    replacing_another_version_is_a_conflict,
    deleting_another_version_is_a_conflict,
    an_id_is_never_given_again,
    a_version_never_comes_again_for_a_name,
    kinds_have_names_of_their_own,
    a_list_is_in_name_order_page_by_page,
];

const NAME: &str = "projects/p/topics/t";

fn conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict)
}

fn not_found(error: &Error) -> bool {
    matches!(error, Error::NotFound)
}

async fn put(engine: &Engine, name: &str, value: &str, version: Option<u64>) -> Result<Entry> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    engine.catalogue.put(Kind::Topic, name, value, version).await
}

async fn a_definition_comes_back_as_stored(engine: Engine) -> Check {
    let created = put(&engine, NAME, "one", None).await?;
    same("name", &created.name.as_str(), &NAME)?;
    same("kind", &created.kind, &Kind::Topic)?;
    same("value", &created.value, &Bytes::from("one"))?;
    same("entry", &engine.catalogue.get(Kind::Topic, NAME).await?, &created)?;
    let replaced = put(&engine, NAME, "two", Some(created.version)).await?;
    same("id", &replaced.id, &created.id)?;
    same("value", &replaced.value, &Bytes::from("two"))?;
    hold(replaced.version > created.version, || format!("{replaced:?} after {created:?}"))?;
    same("entry", &engine.catalogue.get(Kind::Topic, NAME).await?, &replaced)
}

async fn what_does_not_exist_is_not_found(engine: Engine) -> Check {
    refused(&engine.catalogue.get(Kind::Topic, NAME).await, "NotFound", not_found)?;
    refused(&put(&engine, NAME, "one", Some(1)).await, "NotFound", not_found)?;
    refused(&engine.catalogue.delete(Kind::Topic, NAME, 1).await, "NotFound", not_found)?;
    let entry = put(&engine, NAME, "one", None).await?;
    engine.catalogue.delete(Kind::Topic, NAME, entry.version).await?;
    refused(&engine.catalogue.get(Kind::Topic, NAME).await, "NotFound", not_found)?;
    refused(&put(&engine, NAME, "two", Some(entry.version)).await, "NotFound", not_found)?;
    let again = engine.catalogue.delete(Kind::Topic, NAME, entry.version).await;
    refused(&again, "NotFound", not_found)
}

async fn creating_what_exists_is_a_conflict(engine: Engine) -> Check {
    let entry = put(&engine, NAME, "one", None).await?;
    refused(&put(&engine, NAME, "two", None).await, "Conflict", conflict)?;
    same("entry", &engine.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn replacing_another_version_is_a_conflict(engine: Engine) -> Check {
    let old = put(&engine, NAME, "one", None).await?;
    let entry = put(&engine, NAME, "two", Some(old.version)).await?;
    for wrong in [old.version, entry.version + 1, 0] {
        refused(&put(&engine, NAME, "three", Some(wrong)).await, "Conflict", conflict)?;
    }
    same("entry", &engine.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn deleting_another_version_is_a_conflict(engine: Engine) -> Check {
    let old = put(&engine, NAME, "one", None).await?;
    let entry = put(&engine, NAME, "two", Some(old.version)).await?;
    let answer = engine.catalogue.delete(Kind::Topic, NAME, old.version).await;
    refused(&answer, "Conflict", conflict)?;
    same("entry", &engine.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn an_id_is_never_given_again(engine: Engine) -> Check {
    let mut ids = Vec::new();
    for kind in [Kind::Topic, Kind::Subscription, Kind::Snapshot, Kind::Schema, Kind::Topic] {
        let entry = engine.catalogue.put(kind, NAME, Bytes::new(), None).await?;
        ids.push(entry.id);
        engine.catalogue.delete(kind, NAME, entry.version).await?;
    }
    let given = ids.len();
    ids.sort_unstable();
    ids.dedup();
    hold(ids.len() == given, || format!("only {ids:?} of {given}"))
}

async fn a_version_never_comes_again_for_a_name(engine: Engine) -> Check {
    let mut last = 0;
    for _ in 0..3 {
        let created = put(&engine, NAME, "one", None).await?;
        let replaced = put(&engine, NAME, "two", Some(created.version)).await?;
        for entry in [&created, &replaced] {
            hold(entry.version > last, || format!("version {} after {last}", entry.version))?;
            last = entry.version;
        }
        engine.catalogue.delete(Kind::Topic, NAME, last).await?;
    }
    Ok(())
}

async fn kinds_have_names_of_their_own(engine: Engine) -> Check {
    let topic = put(&engine, NAME, "topic", None).await?;
    let mark = engine.catalogue.put(Kind::Bookkeeping, NAME, Bytes::from("mark"), None).await?;
    same("topic", &engine.catalogue.get(Kind::Topic, NAME).await?, &topic)?;
    same("mark", &engine.catalogue.get(Kind::Bookkeeping, NAME).await?, &mark)?;
    engine.catalogue.delete(Kind::Topic, NAME, topic.version).await?;
    same("mark", &engine.catalogue.get(Kind::Bookkeeping, NAME).await?, &mark)
}

async fn a_list_is_in_name_order_page_by_page(engine: Engine) -> Check {
    let mut expected = Vec::new();
    for n in [3, 1, 22, 4, 10] {
        expected.push(put(&engine, &format!("t{n}"), "v", None).await?);
    }
    engine.catalogue.put(Kind::Subscription, "t0", Bytes::new(), None).await?;
    expected.sort_by(|one, two| one.name.cmp(&two.name));
    for limit in [1, 2, 5, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = engine.catalogue.list(Kind::Topic, after.as_deref(), limit).await?;
            hold(page.entries.len() <= limit, || format!("{} entries", page.entries.len()))?;
            found.extend(page.entries);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        same("entries", &found, &expected)?;
    }
    let page = engine.catalogue.list(Kind::Topic, Some("t2"), 100).await?;
    let names: Vec<_> = page.entries.iter().map(|entry| entry.name.as_str()).collect();
    same("names after t2", &names, &vec!["t22", "t3", "t4"])
}

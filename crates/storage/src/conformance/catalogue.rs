//! `Catalogue`.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};

use super::support::{Held, hold, refused, same};
use super::{Case, Check, Durable, cases};
use crate::{Change, Changes, Entry, Error, Kind, Result};

pub(super) const CASES: &[Case<Held>] = cases![
    a_definition_comes_back_as_stored,
    what_does_not_exist_is_not_found,
    creating_what_exists_is_a_conflict,
    replacing_another_version_is_a_conflict,
    deleting_another_version_is_a_conflict,
    an_id_is_never_given_again,
    a_version_never_comes_again_for_a_name,
    kinds_have_names_of_their_own,
    a_list_is_in_name_order_page_by_page,
    the_serial_number_is_not_below_any_answered_change,
    every_change_comes_once_and_in_order,
    changes_that_are_made_later_are_waited_for,
    who_follows_the_changes_knows_all_definitions_whenever_it_reconnects,
];

const NAME: &str = "projects/p/topics/t";

fn conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict)
}

fn not_found(error: &Error) -> bool {
    matches!(error, Error::NotFound)
}

async fn put(held: &Held, name: &str, value: &str, version: Option<u64>) -> Result<Entry> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    held.catalogue.put(Kind::Topic, name, value, version).await
}

async fn a_definition_comes_back_as_stored(held: Held) -> Check {
    let created = put(&held, NAME, "one", None).await?;
    same("name", &created.name.as_str(), &NAME)?;
    same("kind", &created.kind, &Kind::Topic)?;
    same("value", &created.value, &Bytes::from("one"))?;
    same("entry", &held.catalogue.get(Kind::Topic, NAME).await?, &created)?;
    let replaced = put(&held, NAME, "two", Some(created.version)).await?;
    same("id", &replaced.id, &created.id)?;
    same("value", &replaced.value, &Bytes::from("two"))?;
    hold(replaced.version > created.version, || format!("{replaced:?} after {created:?}"))?;
    same("entry", &held.catalogue.get(Kind::Topic, NAME).await?, &replaced)
}

async fn what_does_not_exist_is_not_found(held: Held) -> Check {
    refused(&held.catalogue.get(Kind::Topic, NAME).await, "NotFound", not_found)?;
    refused(&put(&held, NAME, "one", Some(1)).await, "NotFound", not_found)?;
    refused(&held.catalogue.delete(Kind::Topic, NAME, 1).await, "NotFound", not_found)?;
    let entry = put(&held, NAME, "one", None).await?;
    held.catalogue.delete(Kind::Topic, NAME, entry.version).await?;
    refused(&held.catalogue.get(Kind::Topic, NAME).await, "NotFound", not_found)?;
    refused(&put(&held, NAME, "two", Some(entry.version)).await, "NotFound", not_found)?;
    let again = held.catalogue.delete(Kind::Topic, NAME, entry.version).await;
    refused(&again, "NotFound", not_found)
}

async fn creating_what_exists_is_a_conflict(held: Held) -> Check {
    let entry = put(&held, NAME, "one", None).await?;
    refused(&put(&held, NAME, "two", None).await, "Conflict", conflict)?;
    same("entry", &held.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn replacing_another_version_is_a_conflict(held: Held) -> Check {
    let old = put(&held, NAME, "one", None).await?;
    let entry = put(&held, NAME, "two", Some(old.version)).await?;
    for wrong in [old.version, entry.version + 1, 0] {
        refused(&put(&held, NAME, "three", Some(wrong)).await, "Conflict", conflict)?;
    }
    same("entry", &held.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn deleting_another_version_is_a_conflict(held: Held) -> Check {
    let old = put(&held, NAME, "one", None).await?;
    let entry = put(&held, NAME, "two", Some(old.version)).await?;
    let answer = held.catalogue.delete(Kind::Topic, NAME, old.version).await;
    refused(&answer, "Conflict", conflict)?;
    same("entry", &held.catalogue.get(Kind::Topic, NAME).await?, &entry)
}

async fn an_id_is_never_given_again(held: Held) -> Check {
    let mut ids = Vec::new();
    for kind in [Kind::Topic, Kind::Subscription, Kind::Snapshot, Kind::Schema, Kind::Topic] {
        let entry = held.catalogue.put(kind, NAME, Bytes::new(), None).await?;
        ids.push(entry.id);
        held.catalogue.delete(kind, NAME, entry.version).await?;
    }
    let given = ids.len();
    ids.sort_unstable();
    ids.dedup();
    hold(ids.len() == given, || format!("only {ids:?} of {given}"))
}

async fn a_version_never_comes_again_for_a_name(held: Held) -> Check {
    let mut last = 0;
    for _ in 0..3 {
        let created = put(&held, NAME, "one", None).await?;
        let replaced = put(&held, NAME, "two", Some(created.version)).await?;
        for entry in [&created, &replaced] {
            hold(entry.version > last, || format!("version {} after {last}", entry.version))?;
            last = entry.version;
        }
        held.catalogue.delete(Kind::Topic, NAME, last).await?;
    }
    Ok(())
}

async fn kinds_have_names_of_their_own(held: Held) -> Check {
    let topic = put(&held, NAME, "topic", None).await?;
    let mark = held.catalogue.put(Kind::Bookkeeping, NAME, Bytes::from("mark"), None).await?;
    same("topic", &held.catalogue.get(Kind::Topic, NAME).await?, &topic)?;
    same("mark", &held.catalogue.get(Kind::Bookkeeping, NAME).await?, &mark)?;
    held.catalogue.delete(Kind::Topic, NAME, topic.version).await?;
    same("mark", &held.catalogue.get(Kind::Bookkeeping, NAME).await?, &mark)
}

async fn a_list_is_in_name_order_page_by_page(held: Held) -> Check {
    let mut expected = Vec::new();
    for n in [3, 1, 22, 4, 10] {
        expected.push(put(&held, &format!("t{n}"), "v", None).await?);
    }
    held.catalogue.put(Kind::Subscription, "t0", Bytes::new(), None).await?;
    expected.sort_by(|one, two| one.name.cmp(&two.name));
    for limit in [1, 2, 5, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = held.catalogue.list(Kind::Topic, after.as_deref(), limit).await?;
            hold(page.entries.len() <= limit, || format!("{} entries", page.entries.len()))?;
            found.extend(page.entries);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        same("entries", &found, &expected)?;
    }
    let page = held.catalogue.list(Kind::Topic, Some("t2"), 100).await?;
    let names: Vec<_> = page.entries.iter().map(|entry| entry.name.as_str()).collect();
    same("names after t2", &names, &vec!["t22", "t3", "t4"])
}

async fn the_serial_number_is_not_below_any_answered_change(held: Held) -> Check {
    let mut last = held.catalogue.serial().await?;
    for n in 0..5 {
        let entry = put(&held, &format!("t{n}"), "one", None).await?;
        let created = held.catalogue.serial().await?;
        hold(created > last, || format!("{created} after a change, was {last}"))?;
        held.catalogue.delete(Kind::Topic, &entry.name, entry.version).await?;
        last = held.catalogue.serial().await?;
        hold(last > created, || format!("{last} after a deletion, was {created}"))?;
    }
    Ok(())
}

/// The changes up to serial number `to`.
async fn changes_up_to(changes: &mut Changes, to: u64) -> Result<Vec<(u64, Change)>> {
    let mut found: Vec<(u64, Change)> = Vec::new();
    while found.last().is_none_or(|(serial, _)| *serial < to) {
        found.push(changes.next().await.unwrap_or(Err(Error::NotFound))?);
    }
    Ok(found)
}

async fn every_change_comes_once_and_in_order(held: Held) -> Check {
    let before = held.catalogue.serial().await?;
    let mut expected = Vec::new();
    for n in 0..10 {
        let name = format!("t{}", n % 3);
        let version = held.catalogue.get(Kind::Topic, &name).await.ok().map(|entry| entry.version);
        let entry = put(&held, &name, &format!("value {n}"), version).await?;
        expected.push(Change::Put(entry.clone()));
        if n % 4 == 3 {
            held.catalogue.delete(Kind::Topic, &name, entry.version).await?;
            let id = entry.id;
            expected.push(Change::Deleted { kind: Kind::Topic, name, id });
        }
    }
    let last = held.catalogue.serial().await?;
    let found = changes_up_to(&mut held.catalogue.changes(before), last).await?;
    hold(found.is_sorted_by(|one, other| one.0 < other.0), || format!("out of order: {found:?}"))?;
    same("last serial number", &found.last().map(|(serial, _)| *serial), &Some(last))?;
    let changes: Vec<_> = found.iter().map(|(_, change)| change.clone()).collect();
    same("changes", &changes, &expected)?;
    for (at, (serial, _)) in found.iter().enumerate().take(found.len() - 1) {
        let rest = changes_up_to(&mut held.catalogue.changes(*serial), last).await?;
        same("changes after the middle", &rest.as_slice(), &&found[at + 1..])?;
    }
    Ok(())
}

async fn changes_that_are_made_later_are_waited_for(held: Held) -> Check {
    let mut changes = held.catalogue.changes(held.catalogue.serial().await?);
    for n in 0..3 {
        let early = changes.next().now_or_never();
        hold(early.is_none(), || format!("{early:?} before anything changed"))?;
        let entry = put(&held, &format!("t{n}"), "one", None).await?;
        let found = changes.next().await.unwrap_or(Err(Error::NotFound))?;
        same("change", &found.1, &Change::Put(entry))?;
    }
    Ok(())
}

/// Someone who knows the topics, from the changes alone.
#[derive(Default)]
struct Follower {
    serial: u64,
    known: BTreeMap<String, Entry>,
}

impl Follower {
    async fn reaches(&mut self, held: &Held, serial: u64) -> Result<()> {
        let mut changes = held.catalogue.changes(self.serial);
        while self.serial < serial {
            let (serial, change) = changes.next().await.unwrap_or(Err(Error::NotFound))?;
            match change {
                Change::Put(entry) => drop(self.known.insert(entry.name.clone(), entry)),
                Change::Deleted { name, .. } => drop(self.known.remove(&name)),
                Change::Resync => {
                    let listed = held.catalogue.list(Kind::Topic, None, usize::MAX).await?;
                    let named = |entry: Entry| (entry.name.clone(), entry);
                    self.known = listed.entries.into_iter().map(named).collect();
                }
            }
            self.serial = serial;
        }
        Ok(())
    }
}

async fn who_follows_the_changes_knows_all_definitions_whenever_it_reconnects(held: Held) -> Check {
    follow(&held, &mut [Follower::default()], 30).await
}

/// Makes changes, and has each follower, more or less often, catch up with them.
async fn follow(held: &Held, followers: &mut [Follower], rounds: usize) -> Check {
    for n in 0..rounds {
        let name = format!("t{}", n % 7);
        match held.catalogue.get(Kind::Topic, &name).await {
            Ok(entry) if n % 3 == 0 => {
                held.catalogue.delete(Kind::Topic, &name, entry.version).await?;
            }
            found => {
                let version = found.ok().map(|entry| entry.version);
                put(held, &name, &format!("value {n}"), version).await?;
            }
        }
        let serial = held.catalogue.serial().await?;
        for (every, follower) in followers.iter_mut().enumerate() {
            if n % (every + 1) == 0 {
                follower.reaches(held, serial).await?;
            }
        }
    }
    let serial = held.catalogue.serial().await?;
    let listed = held.catalogue.list(Kind::Topic, None, usize::MAX).await?.entries;
    for follower in followers {
        follower.reaches(held, serial).await?;
        let known: Vec<_> = follower.known.values().cloned().collect();
        same("what a follower knows", &known, &listed)?;
    }
    Ok(())
}

/// What survives closing a store and opening it again.
pub(super) fn reopening<S: Durable>() -> &'static [Case<S>] {
    cases![changes_go_on_after_a_reopen]
}

async fn changes_go_on_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut followers = [Follower::default(), Follower::default(), Follower::default()];
    for _ in 0..3 {
        follow(&Held::of(&store).await?, &mut followers, 10).await?;
        followers[1].serial = 0;
        store = store.reopen().await;
    }
    follow(&Held::of(&store).await?, &mut followers, 10).await
}

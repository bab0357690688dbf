//! `durability = "os"`: a power cut may take what was not synced, any part of it, and never the
//! store.

use domain::Offset;
use storage::disk::{self, Durability, Options};
use storage::{Error, Urgency};
use testkit::Random;
use testkit::disk::{Call, Cut};

use crate::bed::{Bed, scaled, tiny};
use crate::film::{self, recovers};
use crate::history::Mark;
use crate::owner::Owner;
use crate::script;

fn unsynced() -> Options {
    Options { durability: Durability::Os, ..tiny() }
}

#[tokio::test]
async fn any_subset_of_what_was_not_synced_may_survive_and_the_store_opens() {
    let film = film::of_script_with(unsynced(), 4).await;
    let mut random = Random::seeded(6);
    let mut cut_off = 0;
    for _ in 0..scaled(2_000) {
        let number = random.index(film.moments.len());
        let moment = &film.moments[number];
        let cut = Cut::Random(random.draw());
        let bed = film.bed(moment, cut, moment.database);
        let at = format!("moment {number}, {cut:?}, before {:?}", moment.next);
        let looked_at = std::sync::Arc::new(bed.disk.clone());
        let report = disk::verify_on(looked_at, &bed.database(), &|_| Ok(())).expect("a report");
        assert!(report.faults.is_empty(), "{:?} at {at}", report.faults);
        let options = if random.one_in(2) { unsynced() } else { tiny() };
        let opened = bed.recover_with(options);
        let (engine, found) = opened.unwrap_or_else(|error| panic!("{error} at {at}"));
        cut_off += u64::from(found.unsynced_groups_cut > 0);
        // An answer promises nothing here, but what is shown is the fold of the first commits.
        let mark = Mark { answered: 0, ..moment.mark };
        let held = film.history.find_fault(&engine, mark).await;
        let answered = held.unwrap_or_else(|what| panic!("{what}\nat {at}"));
        bed.close();
        // And what is shown stays.
        let again = bed.after(Cut::LosesUnsynced);
        let shown = recovers(&again, &film.history, Mark { answered, ..moment.mark }).await;
        shown.unwrap_or_else(|what| panic!("{what}\nafter a second cut at {at}"));
    }
    assert!(cut_off > 20, "only {cut_off} cuts left something behind the end");
}

/// Where the groups of the log were written.
fn groups(bed: &Bed) -> Vec<(String, usize)> {
    let is_group = |call: &testkit::disk::Traced| {
        call.call == Call::Write && call.name.starts_with("wal/") && call.at > 0
    };
    let written = bed.disk.trace().into_iter().filter(is_group);
    written.map(|call| (call.name, usize::try_from(call.at).expect("a small file"))).collect()
}

/// A store with five commits after the last thing that made the log durable.
async fn written(options: Options) -> (Bed, Owner) {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(options).expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for _ in 0..3 {
        owner.publish(0, &[100]).await.expect("published");
    }
    owner.define("schema").await.expect("defined");
    for _ in 0..5 {
        owner.publish(0, &[100]).await.expect("published");
    }
    bed.close();
    (bed, owner)
}

#[tokio::test]
async fn past_what_was_synced_the_first_bad_group_is_the_end_and_is_told() {
    let (bed, owner) = written(unsynced()).await;
    let groups = groups(&bed);
    let (file, at) = &groups[groups.len() - 4];
    bed.disk.flip(file, at + 50, 1);
    let (engine, found) = bed.recover_with(tiny()).expect("it opens");
    assert_eq!((found.unsynced_groups_cut, found.unsynced_bytes_cut), (4, 4 * 4_096));
    let topic = &owner.topics[0];
    assert_eq!(engine.log.end(topic.id), Offset(topic.next.0 - 4));
    // What was cut must not come back, wherever what comes now ends.
    let mark = Mark { answered: 0, ..owner.history.mark() };
    owner.history.takes_messages(&engine, mark).await.expect("it takes messages");
    bed.close();
    let (engine, found) = bed.recover_with(tiny()).expect("it opens again");
    assert_eq!((found.unsynced_groups_cut, found.torn_bytes_cut), (0, 0));
    assert_eq!(engine.log.end(topic.id), Offset(topic.next.0 - 3));
}

#[tokio::test]
async fn a_bad_group_that_was_synced_is_corruption_in_either_mode() {
    for (options, from_end) in [(unsynced(), 7), (tiny(), 7), (tiny(), 4)] {
        let (bed, _) = written(options).await;
        let groups = groups(&bed);
        let (file, at) = &groups[groups.len() - from_end];
        bed.disk.flip(file, at + 50, 1);
        let before = bed.disk.files();
        let opened = bed.open().map(drop);
        assert!(
            matches!(opened, Err(Error::Corrupt { .. })),
            "{opened:?}, {from_end} from the end"
        );
        assert_eq!(bed.disk.files(), before, "something was changed");
    }
}

#[tokio::test]
async fn a_store_that_syncs_again_is_strict_again() {
    let (bed, mut owner) = written(unsynced()).await;
    owner.go_on_with(bed.open().expect("it opens")).await.expect("all is there");
    for _ in 0..3 {
        owner.publish(0, &[100]).await.expect("published");
    }
    let ack = owner.ack(0, &[0], Urgency::Durable).await;
    ack.expect("acked");
    bed.close();
    let groups = groups(&bed);
    let (file, at) = &groups[groups.len() - 2];
    bed.disk.flip(file, at + 50, 1);
    let opened = bed.open().map(drop);
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
}

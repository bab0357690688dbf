//! Every state of the log with every state of the database that can belong to it (LOG-10).

use storage::Error;
use testkit::disk::{Call, Cut};

use crate::bed::Bed;
use crate::film::{self, Film};
use crate::owner::Owner;
use crate::script;

/// The oldest copy of the database that a moment may be found with: none of what was reused or
/// removed since then was done on the strength of a later copy.
fn oldest_allowed(film: &Film, number: usize) -> usize {
    let mut oldest = 0;
    for pair in film.moments[..=number].windows(2) {
        let done = &pair[0].next;
        let gives_up = done.call == Call::Remove
            || (done.call == Call::Rename && !done.name.starts_with("wal/"));
        if gives_up {
            oldest = pair[0].database;
        }
    }
    oldest
}

#[tokio::test]
async fn a_lost_checkpoint_costs_replay_time_never_state() {
    let film = film::of_script(3).await;
    assert!(film.copies.len() > 6, "only {} copies", film.copies.len());
    let mut older = 0;
    for (number, moment) in film.moments.iter().enumerate() {
        let oldest = oldest_allowed(&film, number).min(moment.database);
        for database in (oldest..moment.database).rev().take(3) {
            film.recover(number, Cut::LosesUnsynced, database).await;
            older += 1;
        }
    }
    assert!(older > 50, "only {older} older copies were allowed");
}

#[tokio::test]
async fn a_database_ahead_of_the_log_is_corrupt() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    owner.publish(0, &[100]).await.expect("published");
    let early = bed.disk.power_cut();
    owner.publish(0, &[100]).await.expect("published");
    owner.checkpoint().await.expect("a checkpoint");
    bed.close();
    let behind = Bed::of(early, &bed.database());
    let before = behind.disk.files();
    let opened = behind.open().map(|_| ());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    assert_eq!(behind.disk.files(), before, "something was changed");
}

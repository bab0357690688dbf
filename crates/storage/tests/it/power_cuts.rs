//! The power is cut at every moment, and again while the store recovers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use storage::Urgency;
use testkit::disk::{Call, Cut, Effect, Fault, Traced};
use testkit::{Random, SimDisk, seed};

use crate::bed::{Bed, scaled};
use crate::film::{self, Camera, Film, recovers};
use crate::history::{History, Mark};
use crate::owner::Owner;

/// What a disk holds, in short, so that equal states are recovered once.
pub(crate) fn fingerprint(disk: &SimDisk) -> u64 {
    let mut hasher = DefaultHasher::new();
    disk.files().hash(&mut hasher);
    hasher.finish()
}

#[tokio::test]
async fn nothing_answered_is_lost_when_all_that_is_unsynced_is_lost_at_any_call() {
    let film = film::of_script(4).await;
    assert!(film.moments.len() > 100, "only {} moments", film.moments.len());
    for (number, moment) in film.moments.iter().enumerate() {
        film.recover(number, Cut::LosesUnsynced, moment.database).await;
    }
}

#[tokio::test]
async fn nothing_answered_is_lost_when_more_than_what_is_synced_survives() {
    let film = film::of_script(3).await;
    let mut seen = HashSet::new();
    for (number, moment) in film.moments.iter().enumerate() {
        let unsynced = moment.disk.unsynced().len();
        for cut in
            (0..unsynced).map(|whole| Cut::Prefix { whole, torn: 0 }).chain([Cut::LosesNothing])
        {
            if seen.insert((fingerprint(&moment.disk.power_cut_with(cut)), moment.database)) {
                film.recover(number, cut, moment.database).await;
            }
        }
    }
}

#[tokio::test]
async fn any_subset_of_unsynced_sectors_may_survive() {
    let cuts = scaled(5_000);
    let film = film::of_script(3).await;
    let torn: Vec<_> = (0..film.moments.len())
        .filter(|number| !film.moments[*number].disk.unsynced().is_empty())
        .collect();
    let mut random = Random::seeded(seed::seed_or(20_261_115));
    let mut seen = HashSet::new();
    for _ in 0..cuts {
        let number = torn[random.index(torn.len())];
        let moment = &film.moments[number];
        let cut = Cut::Random(random.draw());
        if seen.insert((fingerprint(&moment.disk.power_cut_with(cut)), moment.database)) {
            film.recover(number, cut, moment.database).await;
        }
    }
}

/// The moment before the last sync of the log in a film.
fn last_log_sync(film: &Film) -> usize {
    let is_sync = |next: &Traced| next.call == Call::Sync && next.name.starts_with("wal/");
    film.moments.iter().rposition(|moment| is_sync(&moment.next)).expect("a sync of the log")
}

/// Waits until the file after the first is ready, which the first commit asks for: what is unsynced
/// from then on is the log's.
async fn next_file_is_ready(bed: &Bed) {
    let is_ready = |traced: &Traced| traced.call == Call::Sync && traced.name == "free/2";
    while !bed.disk.trace().iter().any(is_ready) {
        tokio::task::yield_now().await;
    }
}

/// Tears the last write of the log's last commit at every byte, `step` apart.
async fn tear_last_commit(film: &Film, step: usize) {
    let number = last_log_sync(film);
    let moment = &film.moments[number];
    let unsynced = moment.disk.unsynced();
    // A file that is made ready meanwhile may be the last change of all, and has no bytes yet.
    let whole = unsynced.iter().rposition(|bytes| *bytes > 0).expect("a write");
    let mut seen = HashSet::new();
    for torn in (0..=unsynced[whole]).step_by(step) {
        let cut = Cut::Prefix { whole, torn };
        if seen.insert(fingerprint(&moment.disk.power_cut_with(cut))) {
            film.recover(number, cut, moment.database).await;
        }
    }
    assert!(seen.len() > 100, "only {} different tears", seen.len());
}

#[tokio::test]
async fn the_last_commit_may_be_torn_at_any_byte() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    crate::script::set_up(&mut owner).await.expect("a working store");
    owner.publish(0, &[100; 3]).await.expect("published");
    next_file_is_ready(&bed).await;
    let camera = Camera::on(&bed, &owner.history);
    let pending = owner.queue(&[(0, &[60, 90]), (1, &[70])], Vec::new(), Urgency::Durable);
    owner.settle(pending).await.expect("published");
    let film = camera.develop();
    bed.close();
    tear_last_commit(&film, 1).await;
}

#[tokio::test]
async fn a_last_commit_of_fifty_records_may_be_torn_at_any_byte() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    crate::script::set_up(&mut owner).await.expect("a working store");
    owner.publish(0, &[100; 3]).await.expect("published");
    next_file_is_ready(&bed).await;
    let camera = Camera::on(&bed, &owner.history);
    owner.publish(0, &[3; 50]).await.expect("published");
    let film = camera.develop();
    bed.close();
    tear_last_commit(&film, 1).await;
}

#[tokio::test]
async fn a_last_commit_of_many_blocks_in_a_recycled_file_may_be_torn_anywhere() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    crate::script::set_up(&mut owner).await.expect("a working store");
    for number in 0..8 {
        crate::script::round(&mut owner, number).await;
        crate::script::ack_all(&mut owner, 3).await.expect("acked");
    }
    let trace = bed.disk.trace();
    let recycled = |traced: &testkit::disk::Traced| {
        traced.call == Call::Rename && traced.name.starts_with("free/")
    };
    assert!(trace.iter().any(recycled), "no file was recycled");
    let camera = Camera::on(&bed, &owner.history);
    owner.publish(0, &[9_000, 5_000]).await.expect("published");
    let film = camera.develop();
    bed.close();
    tear_last_commit(&film, 61).await;
}

/// Cuts the power at every call of a recovery, recovers from what is left, and cuts some of those
/// recoveries as well, `depth` times over.
async fn cut_recovery(
    bed: &Bed,
    history: &History,
    mark: Mark,
    random: &mut Random,
    depth: usize,
) -> Result<(), String> {
    for nth in 1.. {
        let again = Bed::of(bed.disk.fork(), &bed.database());
        again.disk.fail(Fault { on: None, nth, effect: Effect::PowerOff });
        drop(again.open());
        again.close();
        let struck = again.disk.trace().iter().any(|traced| traced.failed);
        let cut = if nth % 2 == 0 { Cut::LosesUnsynced } else { Cut::Random(random.draw()) };
        let left = again.after(cut);
        let at = |what| format!("{what}\nafter {cut:?} at call {nth} of a recovery, depth {depth}");
        if depth > 0 && random.one_in(8) {
            Box::pin(cut_recovery(&left, history, mark, random, depth - 1)).await.map_err(at)?;
        }
        recovers(&left, history, mark).await.map_err(at)?;
        if !struck {
            break;
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_power_may_fail_again_at_every_call_of_a_recovery() {
    let film = film::of_script(3).await;
    let mut random = Random::seeded(4);
    let step = film.moments.len() / 8;
    for (number, moment) in film.moments.iter().enumerate().skip(3).step_by(step) {
        let bed = film.bed(moment, Cut::Random(random.draw()), moment.database);
        let recovered = cut_recovery(&bed, &film.history, moment.mark, &mut random, 2).await;
        recovered.unwrap_or_else(|what| panic!("{what}\nmoment {number}, {:?}", moment.next));
    }
}

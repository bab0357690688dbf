//! The n-th call of the disk fails, for n = 1, 2, 3 … until a run passes clean (promise S1).

use std::sync::Arc;

use storage::{Commit, Error};
use testkit::disk::{Call, Cut, Effect, Errno, Fault};

use crate::bed::Bed;
use crate::film::recovers;
use crate::history::{History, Mark};
use crate::owner::Owner;
use crate::script::{self, Ears};

/// A life of a store: a start, three rounds, a restart, two more rounds. It goes on as far as the
/// store lets it; what happened is in the history.
async fn live(bed: &Bed) -> Arc<History> {
    let Ok(engine) = bed.open() else { return Arc::default() };
    let mut owner = Owner::new(engine);
    let history = Arc::clone(&owner.history);
    let ears = Ears::on(&owner);
    if script::set_up(&mut owner).await.is_ok() {
        for number in 0..3 {
            script::round(&mut owner, number).await;
            check_stopped(bed, &owner, &ears).await;
        }
        if owner.errors.is_empty() && restart(bed, &mut owner).await {
            let ears = Ears::on(&owner);
            for number in 3..5 {
                script::round(&mut owner, number).await;
                check_stopped(bed, &owner, &ears).await;
            }
        }
    }
    bed.close();
    history
}

/// Closes the store and opens it again; false if that fails.
async fn restart(bed: &Bed, owner: &mut Owner) -> bool {
    let pending = owner.queue(&[], Vec::new(), storage::Urgency::Durable);
    if owner.settle(pending).await.is_err() {
        return false;
    }
    bed.close();
    let went_on = match bed.open() {
        Ok(engine) => owner.go_on_with(engine).await,
        Err(error) => Err(error.to_string()),
    };
    let struck = bed.disk.trace().iter().any(|traced| traced.failed);
    assert!(went_on.is_ok() || struck, "{went_on:?} without a fault");
    went_on.is_ok()
}

/// Once the log has failed its owner was told, nothing more is taken, and what was visible can
/// still be read.
async fn check_stopped(bed: &Bed, owner: &Owner, ears: &Ears) {
    let barrier = owner.engine.log.commit(Commit::barrier()).await;
    if barrier.is_ok() {
        assert_eq!(ears.times_failed(), 0, "failed, and yet it took a commit");
        return;
    }
    ears.wait_for_failure().await;
    let later = owner.engine.log.commit(Commit::barrier()).await;
    assert!(matches!(later, Err(Error::Unavailable(_))), "after a failure: {later:?}");
    assert_eq!(ears.times_failed(), 1);
    assert!(!owner.engine.log.has_room(), "a failed log has no room");
    if !bed.disk.is_off() {
        owner.history.check_readable(&owner.engine, owner).await;
    }
}

/// Lives with a fault, then cuts the power in several ways and recovers. Whether the fault struck.
async fn survives(fault: Fault) -> bool {
    let bed = Bed::new();
    bed.disk.fail(fault);
    let history = live(&bed).await;
    let struck = bed.disk.trace().into_iter().find(|traced| traced.failed);
    bed.disk.heal();
    check_warm_start(&bed, &history).await;
    for cut in [Cut::LosesUnsynced, Cut::LosesNothing, Cut::Random(fault.nth)] {
        if let Err(what) = recovers(&bed.after(cut), &history, history.mark()).await {
            panic!("{what}\nafter {fault:?} struck {struck:?} and {cut:?}");
        }
    }
    struck.is_some()
}

/// Starts again on the same disk, whose cache may show what a failed sync has lost: what is shown
/// then must be durable.
async fn check_warm_start(bed: &Bed, history: &History) {
    let warm = Bed::of(bed.disk.fork(), &bed.database());
    let engine = warm.open().expect("it starts again");
    let held = history.find_fault(&engine, history.mark()).await.expect("nothing is lost");
    let left = Bed::of(warm.disk.power_cut(), &warm.database());
    let mark = Mark { answered: held, ..history.mark() };
    recovers(&left, history, mark).await.expect("what was shown is durable");
}

/// Lets the fault strike the first call, the second, and so on until it strikes none.
async fn survives_everywhere(on: Option<Call>, effect: impl Fn(u64) -> Effect) {
    let mut nth = 1;
    while survives(Fault { on, nth, effect: effect(nth) }).await {
        nth += 1;
    }
    assert!(nth > 3, "the fault struck only {} times", nth - 1);
}

#[tokio::test]
async fn an_input_output_error_at_any_call_is_survived() {
    survives_everywhere(None, |_| Effect::Fail(Errno::Io)).await;
}

#[tokio::test]
async fn no_space_at_any_write_is_survived() {
    survives_everywhere(Some(Call::Write), |_| Effect::Fail(Errno::NoSpace)).await;
}

#[tokio::test]
async fn no_space_at_any_allocation_or_creation_is_survived() {
    for call in [Call::Allocate, Call::Create] {
        survives_everywhere(Some(call), |_| Effect::Fail(Errno::NoSpace)).await;
    }
}

#[tokio::test]
async fn a_write_torn_anywhere_is_survived() {
    let torn = |nth| Effect::Tear(usize::try_from(nth * 997 % 5_000).unwrap_or(0));
    survives_everywhere(Some(Call::Write), torn).await;
}

#[tokio::test]
async fn power_that_goes_at_any_sync_is_survived() {
    survives_everywhere(Some(Call::Sync), |_| Effect::PowerOff).await;
}

/// Too many open files is nothing but a reason to wait: the log goes on, whichever call it struck.
#[tokio::test]
async fn too_many_open_files_at_any_call_fails_no_log() {
    for call in [Call::Open, Call::Create, Call::SyncFolder, Call::List] {
        let mut nth = 1;
        loop {
            let bed = Bed::new();
            let mut owner = Owner::new(bed.open().expect("a fresh store"));
            let ears = Ears::on(&owner);
            script::set_up(&mut owner).await.expect("a working store");
            bed.disk.fail(Fault { on: Some(call), nth, effect: Effect::Fail(Errno::TooManyFiles) });
            for number in 0..3 {
                script::round(&mut owner, number).await;
            }
            assert_eq!(ears.times_failed(), 0, "the log failed at {call:?} {nth}");
            owner.publish(0, &[100]).await.expect("messages are taken");
            bed.close();
            let history = owner.history;
            recovers(&bed.after(Cut::LosesUnsynced), &history, history.mark())
                .await
                .unwrap_or_else(|what| panic!("{what} after {call:?} {nth}"));
            if !bed.disk.trace().iter().any(|traced| traced.failed) {
                break;
            }
            nth += 1;
        }
        assert!(nth > 1 || call == Call::List, "{call:?} was never struck");
    }
}

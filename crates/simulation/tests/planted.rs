//! Faults that are planted on purpose: the simulation finds each of them.

use simulation::{Kind, find};
use storage::planted::{Fault, Planted};
use testkit::seed::seeds;

/// Within so many seeds.
const SEEDS: u64 = 500;

fn is_found(kind: Kind, fault: Fault) {
    let found = find(kind, seeds(0..SEEDS), Planted::only(fault));
    assert!(found.is_some(), "{fault:?} was not found in {SEEDS} seeds");
}

#[test]
fn acks_that_are_not_fenced_are_found() {
    is_found(Kind::Cluster, Fault::NoFenceOnAcks);
}

#[test]
fn a_lease_that_nobody_checks_is_found() {
    is_found(Kind::Cluster, Fault::NoLeaseCheck);
}

#[test]
fn a_trim_of_unknown_topics_is_found() {
    is_found(Kind::Cluster, Fault::TrimOfUnknown);
}

#[test]
fn a_courier_without_mark_is_found() {
    is_found(Kind::Cluster, Fault::CourierWithoutMark);
}

#[test]
fn an_answer_before_the_sync_is_found() {
    is_found(Kind::Disk, Fault::AnswerBeforeSync);
}

#[test]
fn a_checkpoint_ahead_of_the_log_is_found() {
    is_found(Kind::Disk, Fault::CheckpointAhead);
}

#[test]
fn an_answer_before_the_store_has_it_is_found() {
    is_found(Kind::Cluster, Fault::AnswerBeforeSync);
}

#[test]
fn a_checkpoint_ahead_of_its_chunks_is_found() {
    is_found(Kind::Cluster, Fault::CheckpointAhead);
}

#[test]
fn a_missed_wake_up_is_found() {
    is_found(Kind::Memory, Fault::MissedWake);
}

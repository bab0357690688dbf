//! The broker on the memory engine, with a clock that only the test moves; and on the disk engine
//! over a disk whose power is cut.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod alerts;
mod clocks;
mod cluster;
mod copies;
mod dead_letter_admin;
mod dead_letters;
mod delivery;
mod exactly_once;
mod expiry;
mod exporting;
mod figures;
mod fixture;
mod handled_letters;
mod lanes;
mod live;
mod obstacles;
mod pausing;
mod peeking;
mod pull_checker;
mod pull_power_cuts;
mod pull_workers;
mod push_checker;
mod push_power_cuts;
mod push_receiver;
mod pushing;
mod replay_power_cuts;
mod reporting;
mod resources;
mod retention;
mod retries;
mod schemas;
mod seeking;
mod shards;
mod snapshots;
mod spy;
mod stalled;
mod stalled_model;
mod streams;

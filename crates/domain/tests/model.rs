//! `Delivery` against a naive model that keeps every promise in the most obvious way, over random
//! sequences of everything that can happen.
//!
//! A run is made from a seed. `cargo xtask sim --seeds N` tries so many, `--seed S` runs that one
//! alone. A run that fails prints its seed, and the shortest list of steps found that fails too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is a failed test"
)]

#[path = "model/allowed.rs"]
mod allowed;
#[path = "model/checks.rs"]
mod checks;
#[path = "model/consume.rs"]
mod consume;
#[path = "model/lease.rs"]
mod lease;
#[path = "model/line.rs"]
mod line;
#[path = "delivery/log.rs"]
mod log;
#[path = "model/naive.rs"]
mod naive;
#[path = "model/operate.rs"]
mod operate;
#[path = "model/random.rs"]
mod random;
#[path = "model/run.rs"]
mod run;
#[path = "model/spot.rs"]
mod spot;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/world.rs"]
mod world;

use run::{STEPS, run_seed};

/// Where the seeds of every run start, so that a failure is everybody's.
const FIRST_SEED: u64 = 1_000;

/// Steps in the test command.
const STEPS_TRIED: usize = 400_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Seeds that have found something.
const KEPT: [u64; 1] = [2_152];

#[test]
fn delivery_keeps_what_the_naive_model_promises() {
    if let Some(seed) = number("MODEL_SEED") {
        return run_seed(seed);
    }
    let seeds = number("MODEL_SEEDS").unwrap_or((STEPS_TRIED / STEPS) as u64);
    KEPT.into_iter().chain(FIRST_SEED..FIRST_SEED + seeds).for_each(run_seed);
}

//! Histories of the whole program, from seeds. `SIM_SEEDS` tries more seeds or fewer.

use simulation::{Kind, explore};
use storage::planted::Planted;
use testkit::seed::{number, seeds};

/// Seeds in the test command.
const SEEDS: u64 = 300;

fn keeps_its_promises(kind: Kind) {
    let seeds = seeds(0..number("SIM_SEEDS").unwrap_or(SEEDS));
    if let Some(finding) = explore(kind, seeds, Planted::default()) {
        panic!("{finding}");
    }
}

#[test]
fn one_node_in_memory_keeps_its_promises() {
    keeps_its_promises(Kind::Memory);
}

#[test]
fn one_node_whose_power_goes_keeps_its_promises() {
    keeps_its_promises(Kind::Disk);
}

#[test]
fn three_nodes_on_one_store_keep_their_promises() {
    keeps_its_promises(Kind::Cluster);
}

//! A bit in SQLite's file is not what was written.

use std::sync::Arc;

use storage::disk::{self, Report};
use testkit::Random;

use crate::bed::{Bed, scaled};
use crate::owner::Owner;
use crate::script;

/// A closed store with definitions, progress and segments.
async fn lived() -> (Bed, Owner) {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..4 {
        script::round(&mut owner, number).await;
    }
    owner.checkpoint().await.expect("a checkpoint");
    assert!(owner.errors.is_empty(), "{:?}", owner.errors);
    bed.close();
    (bed, owner)
}

fn verified(bed: &Bed) -> Report {
    let disk = Arc::new(bed.disk.clone());
    disk::verify_on(disk, &bed.database(), &|_| Ok(())).expect("it can be looked at")
}

#[derive(Default, Debug)]
struct Outcomes {
    harmless: u32,
    refused: u32,
    unreadable: u32,
}

/// A flipped bit stops the start, or what it hit is refused when it is read, or all is as it was:
/// nothing is ever taken for something else. `verify` finds whatever is not harmless.
#[tokio::test]
async fn a_flipped_bit_in_the_database_is_found_or_harmless() {
    let (bed, owner) = lived().await;
    let content = std::fs::read(bed.database()).expect("SQLite's file");
    // Most of it is empty pages.
    let places: Vec<_> = (0..content.len()).filter(|place| content[*place] != 0).collect();
    let mark = owner.history.mark();
    let mut random = Random::seeded(9);
    let mut outcomes = Outcomes::default();
    // Each bit of SQLite's header has a meaning of its own; of the pages some are looked at.
    let header = (0..100).flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
    let anywhere =
        (0..scaled(2_000)).map(|_| (places[random.index(places.len())], random.below(8)));
    for (byte, bit) in header.chain(anywhere) {
        let at = format!("bit {bit} of byte {byte}");
        let flipped = Bed::of(bed.disk.fork(), &bed.database());
        let mut damaged = content.clone();
        damaged[byte] ^= 1 << bit;
        std::fs::write(flipped.database(), damaged).expect("written");
        let faults = verified(&flipped).faults;
        let found = match flipped.open() {
            Err(error) => {
                outcomes.refused += 1;
                Err(format!("refused: {error}"))
            }
            Ok(engine) => {
                let read = owner.history.find_fault(&engine, mark).await;
                outcomes.unreadable += u32::from(read.is_err());
                outcomes.harmless += u32::from(read.is_ok());
                read.map(drop)
            }
        };
        if let Err(what) = found {
            let is_told = ["refused", "corrupt", "database"].iter().any(|word| what.contains(word));
            assert!(is_told, "{at} was taken for what was written: {what}");
            assert!(!faults.is_empty(), "{at}: verify finds nothing, and yet {what}");
        }
    }
    let Outcomes { harmless, refused, .. } = outcomes;
    assert!(harmless > 10 && refused > 300, "{outcomes:?}");
}

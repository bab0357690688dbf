//! One bit on the disk is not what was written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use domain::{Offset, Record};
use storage::disk::{self, Disk};
use storage::{Error, ReadLimit};
use testkit::SimDisk;
use testkit::disk::Call;

use crate::bed::{Bed, Running};
use crate::film::recovers;
use crate::history::{History, Mark};
use crate::owner::Owner;
use crate::script;

/// A write of the log: where a group is.
#[derive(Clone, Debug)]
struct Group {
    file: String,
    at: u64,
    end: u64,
}

/// Every group written to a file of the log, in order.
fn groups(disk: &SimDisk) -> Vec<Group> {
    let written =
        |call: &testkit::disk::Traced| call.call == Call::Write && call.name.starts_with("wal/");
    let calls = disk.trace().into_iter().filter(written);
    calls.map(|call| Group { file: call.name, at: call.at, end: call.at + call.length }).collect()
}

/// A store with a few small commits, closed, and the number of its last commit's steps.
async fn small_log() -> (Bed, Arc<History>, Vec<Group>) {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for size in [40, 200, 5_000, 90] {
        owner.publish(0, &[size, 20]).await.expect("published");
    }
    let history = Arc::clone(&owner.history);
    bed.close();
    let groups = groups(&bed.disk);
    (bed, history, groups)
}

/// What a flipped bit may do to the log: nothing, if nobody looks at it; stop the start and change
/// nothing; or cut the last group, which cannot be told from a torn one.
async fn judge_flip(bed: &Bed, history: &History, last: &Group, file: &str, byte: usize) -> Flip {
    let flipped = Bed::of(bed.disk.power_cut(), &bed.database());
    flipped.disk.flip(file, byte, u8::try_from(byte % 8).unwrap_or(0));
    let before = flipped.disk.files();
    let mark = history.mark();
    match flipped.open() {
        Ok(engine) => {
            let in_last = file == last.file && (last.at..last.end).contains(&(byte as u64));
            let answered = if in_last { mark.answered - 1 } else { mark.answered };
            history.check(&engine, Mark { answered, ..mark }).await;
            if in_last { Flip::Cut } else { Flip::Harmless }
        }
        Err(Error::Corrupt { place, .. }) => {
            let (named, offset) = place.split_once(" at byte ").expect("a file and a byte");
            let offset = offset.parse().expect("a number");
            assert!(Path::new(named).ends_with(file), "{file} was flipped, {named} is named");
            assert_eq!(flipped.disk.files(), before, "something was changed");
            check_verify(&flipped, file);
            Flip::Refused(offset)
        }
        Err(error) => panic!("byte {byte} of {file} flipped: {error:?}"),
    }
}

enum Flip {
    Harmless,
    Cut,
    Refused(u64),
}

/// Checks that a look at the closed store finds a fault in that file and changes nothing.
fn check_verify(bed: &Bed, file: &str) {
    let before = bed.disk.files();
    let disk: Arc<dyn Disk> = Arc::new(bed.disk.clone());
    let report = disk::verify_on(disk, &bed.database(), &|_| Ok(()));
    let report = report.expect("it can be looked at");
    let named = report.faults.iter().any(|fault| Path::new(&fault.file).ends_with(file));
    assert!(named, "{file} is damaged, found: {:?}", report.faults);
    assert_eq!(bed.disk.files(), before, "something was changed");
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_a_small_log_is_found_or_harmless() {
    let (bed, history, groups) = small_log().await;
    let last = groups.last().expect("groups");
    assert!(groups.len() >= 4 && groups.iter().all(|group| group.file == last.file));
    let (mut refused, mut cut) = (0, 0);
    for byte in 0..last.end {
        // All of what is written near the start of a block, and of the rest every 41st byte.
        if byte % 4_096 > 160 && byte % 41 != 0 {
            continue;
        }
        let place = usize::try_from(byte).expect("a small file");
        match judge_flip(&bed, &history, last, &last.file, place).await {
            Flip::Harmless => {}
            Flip::Cut => cut += 1,
            Flip::Refused(offset) => {
                refused += 1;
                let group = groups.iter().find(|group| (group.at..group.end).contains(&byte));
                let start = group.map_or(0, |group| group.at);
                assert!((start..=byte).contains(&offset), "byte {byte} flipped, {offset} named");
            }
        }
    }
    assert!(refused > 300 && cut > 100, "{refused} refused, {cut} cut");
}

#[tokio::test]
async fn a_flipped_bit_in_an_older_file_of_the_log_stops_the_start() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..40 {
        owner.publish(number % 3, &[3_900]).await.expect("published");
    }
    let history = Arc::clone(&owner.history);
    bed.close();
    let groups = groups(&bed.disk);
    let last = groups.last().expect("groups");
    let older: Vec<_> = groups.iter().filter(|group| group.file != last.file).collect();
    assert!(older.len() > 10);
    for group in older {
        let byte = usize::try_from(group.at + 100).expect("a small file");
        let flip = judge_flip(&bed, &history, last, &group.file, byte).await;
        assert!(matches!(flip, Flip::Refused(offset) if offset == group.at), "{group:?}");
    }
}

#[tokio::test]
async fn a_missing_file_of_the_log_stops_the_start() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..60 {
        owner.publish(number % 3, &[3_900]).await.expect("published");
    }
    bed.close();
    let files = bed.disk.list("wal").expect("a list");
    assert!(files.len() >= 3, "{files:?}");
    for name in &files[..files.len() - 1] {
        let left = Bed::of(bed.disk.power_cut(), &bed.database());
        left.disk.remove(&format!("wal/{name}")).expect("removed");
        let before = left.disk.files();
        let opened = left.open().map(|_| ());
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{name} gone: {opened:?}");
        assert_eq!(left.disk.files(), before, "something was changed");
    }
}

#[tokio::test]
async fn a_bit_flipped_under_a_running_store_never_reads_as_something_else() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for _ in 0..30 {
        owner.publish(0, &[700, 20, 3_000]).await.expect("published");
    }
    let (all, _) = read_around(&owner.engine, &owner, 0).await;
    let groups = groups(&bed.disk);
    let mut damages = 0;
    for group in groups.iter().take(10) {
        for byte in (group.at..group.end).step_by(53) {
            let byte = usize::try_from(byte).expect("a small file");
            bed.disk.flip(&group.file, byte, 5);
            let (records, damaged) = read_around(&owner.engine, &owner, 0).await;
            bed.disk.flip(&group.file, byte, 5);
            let right = all.iter().filter(|record| !damaged.contains(&record.offset));
            assert!(records.iter().eq(right), "byte {byte} of {}", group.file);
            damages += usize::from(!damaged.is_empty());
        }
    }
    assert!(damages > 100, "only {damages} flips were noticed");
}

/// All records of a topic and those that are damaged.
async fn read_around(engine: &Running, owner: &Owner, topic: usize) -> (Vec<Record>, Vec<Offset>) {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    let topic = &owner.topics[topic];
    let mut at = topic.first;
    loop {
        let limit = ReadLimit { records: 50, bytes: 20_000 };
        let batch = engine.log.read(topic.id, at, limit).await.expect("others go on");
        if batch.covered.is_empty() {
            return (records, damaged);
        }
        at = batch.covered.to;
        records.extend(batch.records);
        damaged.extend(batch.damaged);
    }
}

#[tokio::test]
async fn a_flipped_bit_in_a_topic_segment_costs_that_record_only() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for _ in 0..40 {
        owner.publish(1, &[700, 20, 3_000]).await.expect("published");
    }
    owner.checkpoint().await.expect("a checkpoint");
    let trimmed = owner.trim().await.expect("a trim");
    assert!(trimmed.records_moved > 20, "{trimmed:?}");
    let (all, _) = read_around(&owner.engine, &owner, 1).await;
    bed.close();
    recovers(&Bed::of(bed.disk.power_cut(), &bed.database()), &owner.history, owner.history.mark())
        .await
        .expect("undamaged it opens");
    let segments = bed.disk.files();
    let outside = |name: &str| ["wal/", "free/"].iter().all(|folder| !name.starts_with(folder));
    let segments: BTreeMap<_, _> =
        segments.into_iter().filter(|(name, bytes)| outside(name) && bytes.len() > 9_000).collect();
    assert!(!segments.is_empty());
    let mut damages = 0;
    for (name, bytes) in segments {
        for byte in (0..bytes.len()).step_by(97).chain(0..64) {
            damages += usize::from(flip_segment(&bed, &owner, &all, &name, byte).await);
        }
    }
    assert!(damages > 100, "only {damages} flips were noticed");
}

/// Whether the flip was noticed. One record may be lost by it, all others must be there.
async fn flip_segment(bed: &Bed, owner: &Owner, all: &[Record], name: &str, byte: usize) -> bool {
    let flipped = Bed::of(bed.disk.power_cut(), &bed.database());
    flipped.disk.flip(name, byte, 3);
    let engine = flipped.open().expect("a damaged record stops no start");
    let (records, damaged) = read_around(&engine, owner, 1).await;
    flipped.close();
    assert!(damaged.len() <= 1, "byte {byte} of {name}: {damaged:?} damaged");
    let expected: Vec<_> =
        all.iter().filter(|record| !damaged.contains(&record.offset)).cloned().collect();
    assert_eq!(records.len(), expected.len(), "byte {byte} of {name}, {damaged:?} damaged");
    assert!(records == expected, "byte {byte} of {name}: wrong bytes were read");
    if !damaged.is_empty() {
        check_verify(&flipped, name);
    }
    !damaged.is_empty()
}

//! A copy made while the store is in use holds all that was answered before, and nothing broken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use domain::{Record, TopicId};
use parking_lot::Mutex;
use storage::disk::{self, Disk, Handle};
use storage::{Kind, ReadLimit, Urgency};

use crate::bed::{Bed, Running, folder, tiny};
use crate::history::as_kept;
use crate::owner::Owner;
use crate::script;

/// How many copies are made, each while messages come in and log files are used again.
const COPIES: usize = 12;

/// What the copier must find in its copies.
struct Expected {
    topic: TopicId,
    /// Every record, before it can be seen.
    all: Mutex<Vec<Record>>,
    /// Records up to this offset were answered.
    answered: AtomicU64,
}

/// Makes one copy for each word that comes in, and opens it.
fn make_copies(handle: &Handle, expected: &Expected, turns: &Receiver<()>, done: &Sender<()>) {
    let folder = folder();
    for (number, ()) in turns.iter().enumerate() {
        let copy = folder.path().join(number.to_string());
        let answered = expected.answered.load(Ordering::SeqCst);
        let made = handle.backup(&copy, &[]).expect("a copy");
        assert!(made.files >= 3 && made.bytes > 0, "{made:?}");
        check(&copy, expected, answered);
        std::fs::remove_dir_all(&copy).expect("removed");
        done.send(()).expect("somebody waits");
    }
}

fn check(copy: &Path, expected: &Expected, answered: u64) {
    let report = disk::verify(copy, &|_| Ok(())).expect("it can be checked");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let opened = disk::open(copy, tiny()).expect("the copy opens");
    assert_eq!(opened.recovery.torn_bytes_cut, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let running = Running::of(&opened.engine).expect("its shard opens");
        let (log, topic) = (&running.log, expected.topic);
        assert!(log.end(topic).0 > answered, "{} of {answered}", log.end(topic));
        let all = expected.all.lock().clone();
        let mut expected = all.iter();
        let mut from = all[0].offset;
        while from < log.end(topic) {
            let limit = ReadLimit { records: 100, bytes: 1 << 20 };
            let batch = log.read(topic, from, limit).await.expect("a read");
            assert!(batch.damaged.is_empty());
            for record in &batch.records {
                assert_eq!(Some(record), expected.next());
            }
            from = batch.covered.to;
        }
    });
    opened.handle.close();
}

#[tokio::test]
async fn a_copy_made_under_load_holds_all_that_was_answered_before() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let expected = Arc::new(Expected {
        topic: owner.topics[1].id,
        all: Mutex::default(),
        answered: AtomicU64::new(0),
    });
    let (begin, turns) = channel();
    let (done, is_done) = channel();
    let copier = {
        let (handle, expected) = (bed.handle(), Arc::clone(&expected));
        std::thread::spawn(move || make_copies(&handle, &expected, &turns, &done))
    };
    let mut copies = 0;
    let mut number = 0_usize;
    while copies < COPIES {
        let sizes = vec![number * 13 % 2_900; 1 + number % 4];
        let pending = {
            let mut all = expected.all.lock();
            let pending = owner.queue(&[(1, &sizes)], Vec::new(), Urgency::Durable);
            all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
            pending
        };
        owner.settle(pending).await.expect("published");
        expected.answered.store(owner.topics[1].next.0 - 1, Ordering::SeqCst);
        if number == 20 {
            begin.send(()).expect("the copier waits");
        }
        if is_done.try_recv().is_ok() {
            copies += 1;
            begin.send(()).expect("the copier waits");
        }
        if number % 8 == 7 {
            owner.checkpoint().await.expect("a checkpoint");
            owner.trim().await.expect("a trim");
        }
        assert!(!copier.is_finished(), "the copier saw something wrong");
        number += 1;
    }
    drop(begin);
    while is_done.recv().is_ok() {}
    copier.join().expect("the copier saw nothing wrong");
}

#[tokio::test]
async fn a_copy_has_the_definitions_and_other_files_and_is_opened_under_other_epochs() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let folder = folder();
    let copy = folder.path().join("copy");
    let others = ["key.pem", "missing"].map(|name| folder.path().join(name));
    std::fs::write(&others[0], "a key").expect("written");
    bed.handle().backup(&copy, &others).expect("a copy");
    assert!(bed.handle().backup(&copy, &[]).is_err(), "it is there already");
    assert_eq!(std::fs::read_to_string(copy.join("key.pem")).expect("a copy"), "a key");
    let opened = disk::open(&copy, tiny()).expect("the copy opens");
    let topics = opened.engine.catalogue.list(Kind::Topic, None, 100).await.expect("a list");
    assert_eq!(topics.entries.len(), owner.topics.len());
    let theirs = Running::of(&opened.engine).expect("its shard opens").shard.epoch;
    let ours = owner.engine.shard.epoch;
    assert!(theirs.0 > ours.0 + (1 << 30), "{theirs:?} {ours:?}");
    opened.handle.close();
}

#[tokio::test]
async fn a_copy_without_one_of_the_segments_is_none() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    for _ in 0..60 {
        owner.publish(1, &[2_900; 4]).await.expect("published");
    }
    owner.checkpoint().await.expect("a checkpoint");
    assert!(owner.trim().await.expect("a trim").records_moved > 0);
    let lost = bed.disk.list("topics").expect("a list").remove(0);
    bed.disk.remove(&format!("topics/{lost}")).expect("removed");
    let folder = folder();
    assert!(bed.handle().backup(&folder.path().join("copy"), &[]).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing_behind() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let folder = folder();
    let handle = bed.handle();
    bed.close();
    assert!(handle.backup(&folder.path().join("copy"), &[]).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

//! The log has a bound, and reading goes on while its files are used again (LOG-9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use domain::{Offset, Record};
use futures::FutureExt;
use parking_lot::Mutex;
use storage::{Error, ReadLimit, TailRead, Urgency};
use testkit::Random;

use crate::bed::{Bed, Running};
use crate::history::as_kept;
use crate::owner::Owner;
use crate::script::{self, Ears};

#[tokio::test]
async fn at_the_bound_of_the_log_only_appends_wait_until_a_trim_makes_room() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    let ears = Ears::on(&owner);
    script::set_up(&mut owner).await.expect("a working store");
    let mut published = 0;
    while owner.engine.log.has_room() {
        owner.publish(1, &[3_000; 4]).await.expect("published");
        published += 1;
        assert!(published < 200, "there is no bound");
    }
    assert!(ears.times_pressed() > 0, "nobody was told that the log fills up");
    let mut room = owner.engine.log.room();
    assert!((&mut room).now_or_never().is_none(), "there should be no room");
    owner.ack(1, &[0, 1, 2], Urgency::Durable).await.expect("acks go on");
    owner.define("schema").await.expect("definitions go on");
    assert!((&mut room).now_or_never().is_none(), "nothing made room");
    owner.checkpoint().await.expect("a checkpoint");
    let trimmed = owner.trim().await.expect("a trim");
    assert!(trimmed.bytes_freed > 0 && trimmed.records_moved > 0, "{trimmed:?}");
    room.await.expect("room");
    assert!(owner.engine.log.has_room());
    owner.publish(1, &[3_000; 4]).await.expect("published");
    owner.history.check(&owner.engine, owner.history.mark()).await;
}

#[tokio::test]
async fn who_waits_for_room_is_told_when_its_handle_is_over() {
    let bed = Bed::new();
    let engine = bed.engine().expect("a fresh store");
    for closes in [true, false] {
        let running = Running::open(&engine).await.expect("its shard opens");
        let mut owner = Owner::new(running);
        let topic =
            owner.create_topic(if closes { "one" } else { "other" }).await.expect("a topic");
        while owner.engine.log.has_room() {
            owner.publish(topic, &[3_000; 4]).await.expect("published");
        }
        let mut room = owner.engine.log.room();
        assert!((&mut room).now_or_never().is_none(), "there should be no room");
        if closes {
            owner.engine.log.close().await.expect("closed");
            assert!(matches!(room.await, Err(Error::Unavailable(_))));
        } else {
            let _next = Running::open(&engine).await.expect("its shard opens");
            assert!(matches!(room.await, Err(Error::Fenced { .. })));
        }
    }
}

/// What was published to one topic, by offset from its first.
type Published = Arc<Mutex<Vec<Record>>>;

/// Reads from random places until told to stop, and compares. Returns how much it has read.
async fn keep_reading(
    engine: Running,
    owner: (domain::TopicId, Offset),
    all: Published,
    stop: Arc<AtomicBool>,
) -> u64 {
    let (topic, first) = owner;
    let mut random = Random::seeded(5);
    let mut read = 0;
    while !stop.load(Ordering::SeqCst) {
        let from = first.plus(random.below(all.lock().len() as u64));
        let limit = ReadLimit { records: 1 + random.index(50), bytes: 30_000 };
        let batch = match engine.log.read_tail(topic, from, limit) {
            TailRead::Records(batch) => batch,
            TailRead::AtEnd | TailRead::NotInMemory => {
                engine.log.read(topic, from, limit).await.expect("a read")
            }
        };
        assert_eq!((batch.covered.from, batch.damaged.len()), (from, 0));
        let all = all.lock();
        for record in &batch.records {
            let place = usize::try_from(record.offset.0 - first.0).expect("a small number");
            assert!(all[place] == *record, "record {} is another one", record.offset);
            read += 1;
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_races_with_trims_never_sees_other_bytes() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let all: Published = Arc::default();
    let publish = |owner: &mut Owner, all: &Published| {
        // Locked, so that the reader knows of every record before it can see one.
        let mut all = all.lock();
        let pending = owner.queue(&[(1, &[900, 40, 2_500])], Vec::new(), Urgency::Durable);
        all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
        pending
    };
    let pending = publish(&mut owner, &all);
    owner.settle(pending).await.expect("published");
    let stop = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicU64::new(0));
    let place = (owner.topics[1].id, owner.topics[1].first);
    let reading = keep_reading(owner.engine.clone(), place, Arc::clone(&all), Arc::clone(&stop));
    let told = Arc::clone(&read);
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        told.store(runtime.block_on(reading), Ordering::SeqCst);
    });
    for number in 0..400_usize {
        let pending = publish(&mut owner, &all);
        owner.settle(pending).await.expect("published");
        for subscription in [1, 3] {
            let places = if number.is_multiple_of(7) { &[0][..] } else { &[0, 1, 3] };
            owner.ack(subscription, places, Urgency::Ride).await.expect("taken");
        }
        if number % 10 == 9 {
            owner.checkpoint().await.expect("a checkpoint");
            owner.trim().await.expect("a trim");
        }
    }
    stop.store(true, Ordering::SeqCst);
    reader.join().expect("the reader saw nothing wrong");
    assert!(read.load(Ordering::SeqCst) > 1_000);
}

//! Measures how fast a store is opened after a crash: fills a log, leaves no checkpoint, and times
//! the replay of all of it. `cargo run --release -p postrider-storage --example recovery -- 512`
//! does it with 512 MiB, in a folder beside the program.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to say")]
#![allow(clippy::print_stdout, reason = "its answer")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::path::Path;
use std::time::Instant;

use domain::{Message, NodeId, Offset, ShardId, Timestamp, TopicId};
use storage::disk::{self, Options};
use storage::{Append, Commit, Error, Listener, MessageLog, NewRecord, Urgency};

const TOPIC: TopicId = TopicId(1);
const BATCH: u64 = 100;

fn main() {
    let mebibytes = std::env::args().nth(1).map_or(512, |text| text.parse().unwrap());
    let beside = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(beside.parent().unwrap()).unwrap();
    let options = Options { wal_max_bytes: (mebibytes + 512) << 20, ..Options::default() };
    fill(folder.path(), options, mebibytes << 20);

    let start = Instant::now();
    let opened = disk::open(folder.path(), options).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let recovery = opened.recovery;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let megabytes = recovery.bytes as f64 / 1e6;
    println!(
        "{megabytes:.0} MB of log, {} groups, {} records: {seconds:.2} s, {:.0} MB/s",
        recovery.groups,
        recovery.records,
        megabytes / seconds
    );
}

/// Commits messages of 1 KiB until the log holds `bytes` of them. Closing makes no checkpoint.
fn fill(folder: &Path, options: Options, bytes: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let opened = disk::open(folder, options).unwrap();
    let opening = opened.engine.shards.open(ShardId(0), NodeId(1), std::sync::Arc::new(Deaf));
    let log = runtime.block_on(opening).unwrap().log;
    runtime.block_on(log.begin(TOPIC, Offset(0))).unwrap();
    let mut last = None;
    for at in 0..bytes / (BATCH * 1024) {
        let append = Append { topic: TOPIC, first: Offset(at * BATCH), records: batch(at) };
        runtime.block_on(log.room()).unwrap();
        last = Some(commit(log.as_ref(), append));
    }
    last.unwrap().wait().unwrap();
    opened.handle.close();
}

/// Wants to be told nothing.
struct Deaf;

impl Listener for Deaf {
    fn visible(&self, _: &[(TopicId, Offset)]) {}
    fn pressed(&self) {}
    fn stalled(&self, _: bool) {}
    fn failed(&self, _: &Error) {}
}

fn batch(at: u64) -> Vec<NewRecord> {
    let message = Message { data: vec![7; 1024].into(), ..Message::default() };
    vec![NewRecord { message, publish_time: Timestamp(at), addressee: None }; 100]
}

fn commit(log: &dyn MessageLog, append: Append) -> storage::Receipt {
    let (appends, progress) = (vec![append], Vec::new());
    log.commit(Commit { appends, progress, urgency: Urgency::Durable })
}

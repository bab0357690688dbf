//! Runs the scripts in `tests/delivery/*.txt` against a `Delivery`.
//!
//! A script is a list of commands; a line with `>` is the reply expected to the one before. A
//! lease is written `offset@attempt`, and that also names its ack id: the latest if it was leased
//! so several times, `#1` behind it the first. `e1:` before it names the epoch, which is 1 at the
//! start and one more after every `crash`.
//!
//! ```text
//! settings [ordering=none|key|fifo] [lane-by=NAME|none] [exactly-once=yes|no]
//!     [retry=MIN..MAX|none] [attempts=N|none] [poison=skip|halt] [paused=yes|no]
//! filter TEXT                             only such records are wanted
//! publish 3 [bytes=B] [key=K] [attribute=NAME:VALUE] [addressee=S]
//!                                         > the offsets; the subscription is number 1
//! gap 2 / damage A..B / trim A..B         offsets without a record
//! evict O / fetch A..B                    below O must be fetched first; A..B is fetched
//! consumer NAME [messages=M] [bytes=B]    opens a consumer, or changes its flow
//! close NAME
//! lease NAME [records=N] [bytes=B] [deadline=S] [since=O] [indexed=N]
//!                                         > leases, why no more
//! drain NAME [as lease]                   > how many were leased and acked until there were none
//! ack ID / nack ID / extend ID S          > what became of it
//! settle O / spare O                      > the exhausted record is forwarded, or could not be
//! lanes                                   > key, state, next record × failures, pending, wait
//! waits                                   > lanes blocked and halted, backoffs and the first end
//! release KEY / skip KEY                  > whether something blocks that lane; `-` is FIFO's
//! snapshot NAME / seek NAME / seek O      keeps the progress / goes to it / goes to an offset
//! tick S                                  > so many seconds later: leases expired
//! progress                                > cursor, acked above it, backlog
//! indexed                                 > how many records are known and wait
//! crash [S]                               leases and consumers are gone, what was journaled stays;
//!                                         it takes so many seconds, or the clock is set back
//! ```
//!
//! To every reply is added what else a command led to: `exhausted 3 after 5`, attempts to be
//! journaled as `counted 3=1`, how many records were `returned` and which consumers `freed`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failed test")]

#[path = "delivery/log.rs"]
mod log;
#[path = "scripted/stage.rs"]
mod stage;
#[path = "scripted/words.rs"]
mod words;

use std::path::Path;

use stage::Stage;

#[test]
fn scripts_are_answered_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/delivery");
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 30, "scripts are missing");
    let wrong: Vec<_> = scripts.iter().filter_map(|path| run(path).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs one script up to the first reply that is not as expected.
fn run(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut stage = Stage::new();
    let (mut reply, mut replies) = (String::new(), 0);
    let name = path.file_name().unwrap().display();
    for (line, text) in (1..).zip(text.lines().chain(["> "])) {
        let text = text.trim();
        let expected = text.strip_prefix('>').map(str::trim);
        if expected.is_none() && (text.is_empty() || text.starts_with('#')) {
            continue;
        }
        // A command without a reply needs no line that says so.
        if reply != expected.unwrap_or_default() {
            return Err(format!("{name}:{line}: {reply:?}, not {text:?}"));
        }
        replies += usize::from(!reply.is_empty());
        reply = if expected.is_some() { String::new() } else { stage.command(text) };
    }
    if replies == 0 { Err(format!("{name} expects nothing")) } else { Ok(()) }
}

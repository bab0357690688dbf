//! Opens a store: last checkpoint plus replay of the log (LOG-1, LOG-3, LOG-4).
//!
//! Everything is checked before anything is changed, so that a store that is refused stays as it
//! was found. The changes made then are repeatable: if the process is killed at any point, the next
//! start does the same.

use std::sync::Arc;

use domain::{Timestamp, TopicId};

use super::Recovery;
use super::database::{Database, Stored};
use super::format::{AppendFrame, BLOCK, BLOCK_BYTES, Frame, RecordHead, frames, to_u32, to_usize};
use super::index::Span;
use super::preallocator::{Preallocator, fill_with_zeros};
use super::scan::{Scanner, corrupt, open_file, sequences, unavailable};
use super::seam::Disk;
use super::segments;
use super::topic::Topics;
use super::wal::{FOLDER, WalFile, begin, file_name, is_full, salt};
use crate::front::Pending;
use crate::{Error, Result};

/// A store as it was found.
pub(super) struct Recovered {
    /// The live files; writing continues in the last one.
    pub files: Vec<Arc<WalFile>>,
    /// Where the next group goes.
    pub at: u64,
    /// The number of the last group.
    pub number: u64,
    pub topics: Topics,
    pub pending: Pending,
    pub checkpoint: u64,
    pub report: Recovery,
}

/// Opens the log that `database` refers to, or creates one with salts drawn from `seed`.
pub(super) fn recover(
    disk: &dyn Disk,
    database: &Database,
    preallocator: &Preallocator,
    seed: Option<u64>,
) -> Result<Recovered> {
    if database.format()?.is_none() {
        return begin_store(disk, database, preallocator, seed);
    }
    let stored = database.stored()?;
    let Found { replay, files, stale, orphans } = inspect(disk, &stored)?;
    settle_tail(disk, &replay, &files)?;
    for sequence in stale {
        disk.remove(&file_name(sequence)).map_err(unavailable)?;
    }
    for orphan in orphans {
        disk.remove(&format!("{}/{orphan}", segments::FOLDER)).map_err(unavailable)?;
    }
    preallocator.start().map_err(unavailable)?;
    Ok(replay.into_recovered(files, stored.checkpoint.0))
}

/// Whether a start would accept the log as it is; changes nothing.
pub(super) fn check(disk: &dyn Disk, database: &Database) -> Result<()> {
    match database.format()? {
        None => check_unbegun(disk),
        Some(_) => inspect(disk, &database.stored()?).map(drop),
    }
}

/// A log that was read, and files next to it that nothing names.
struct Found {
    replay: Replay,
    files: Vec<Arc<WalFile>>,
    /// Log files below the lowest live one.
    stale: Vec<u64>,
    /// Segments that no row names.
    orphans: Vec<String>,
}

/// Reads the log and checks it against the database.
fn inspect(disk: &dyn Disk, stored: &Stored) -> Result<Found> {
    let (stale, files) = live_files(disk, stored.lowest_file)?;
    let mut replay = Replay::new(stored, &files);
    for (at, file) in files.iter().enumerate() {
        replay.file(file, files.get(at + 1).map(AsRef::as_ref))?;
    }
    replay.check(stored, &files)?;
    let orphans = adopt_segments(disk, stored, &replay.topics)?;
    Ok(Found { replay, files, stale, orphans })
}

/// The number of the first log file.
const FIRST: u64 = 1;

/// A store whose database is not complete has nothing in its log.
fn check_unbegun(disk: &dyn Disk) -> Result<()> {
    for sequence in sequences(disk)? {
        let file = open_file(disk, sequence)?;
        let written = Scanner::new(&file).group(BLOCK_BYTES, |_| true)?.is_some();
        if sequence != FIRST || written {
            let what = "the definitions that belong to this log are missing";
            return Err(corrupt(file.name(), 0, what));
        }
    }
    Ok(())
}

/// The first start. The database is completed last, so an interrupted start is repeated.
fn begin_store(
    disk: &dyn Disk,
    database: &Database,
    preallocator: &Preallocator,
    seed: Option<u64>,
) -> Result<Recovered> {
    check_unbegun(disk)?;
    preallocator.start().map_err(unavailable)?;
    let free = preallocator.first_file();
    let file = free
        .and_then(|free| begin(disk, &free, (FIRST, salt(seed, FIRST)), 1, |act| act()))
        .map_err(|error| if is_full(&error) { Error::Full } else { unavailable(error) })?;
    let stored = Stored { secret: salt(seed, 0), ..Stored::default() };
    preallocator.for_database(|| database.complete(FIRST, stored.secret))?;
    let files = vec![Arc::new(file)];
    Ok(Replay::new(&stored, &files).into_recovered(files, 0))
}

/// Continues in a new log file, so that a trim can empty all others. An empty file is just as good.
pub(super) fn begin_file(
    disk: &dyn Disk,
    preallocator: &Preallocator,
    seed: Option<u64>,
    recovered: &mut Recovered,
) -> Result<()> {
    let Some(last) = recovered.files.last().filter(|_| recovered.at > BLOCK_BYTES) else {
        return Ok(());
    };
    let (sequence, first_group) = (last.header.sequence + 1, recovered.number + 1);
    let file = preallocator
        .first_file()
        .and_then(|free| {
            begin(disk, &free, (sequence, salt(seed, sequence)), first_group, |act| act())
        })
        .map_err(|error| if is_full(&error) { Error::Full } else { unavailable(error) })?;
    recovered.files.push(Arc::new(file));
    recovered.at = BLOCK_BYTES;
    Ok(())
}

/// The files below the lowest live one, which a trim did not get to remove, and the live ones.
fn live_files(disk: &dyn Disk, lowest: u64) -> Result<(Vec<u64>, Vec<Arc<WalFile>>)> {
    let (stale, live): (Vec<_>, Vec<_>) =
        sequences(disk)?.into_iter().partition(|sequence| *sequence < lowest);
    let highest = live.last().copied().unwrap_or(lowest);
    let mut files = Vec::with_capacity(live.len());
    for sequence in lowest..=highest {
        if live.binary_search(&sequence).is_err() {
            return Err(corrupt(file_name(sequence), 0, "a log file is missing"));
        }
        files.push(Arc::new(open_file(disk, sequence)?));
    }
    Ok((stale, files))
}

/// The log, read from the start of the lowest live file.
struct Replay {
    topics: Topics,
    pending: Pending,
    checkpoint: u64,
    number: u64,
    /// Where the last file's groups end.
    at: u64,
    /// Where the last group starts, if it is in the last file.
    last_group_at: Option<u64>,
    torn: bool,
    /// All groups up to this one are known to have been synced; a bad one among them is corruption
    /// wherever it is.
    synced: u64,
    /// Whether there are good groups after the end, which must never be mistaken for its
    /// continuation.
    has_leftovers: bool,
    report: Recovery,
}

impl Replay {
    fn new(stored: &Stored, files: &[Arc<WalFile>]) -> Self {
        let first_group = files.first().map_or(1, |file| file.header.first_group);
        Self {
            topics: Topics::new(stored.secret),
            pending: Pending::default(),
            checkpoint: stored.checkpoint.0,
            number: first_group.saturating_sub(1),
            at: BLOCK_BYTES,
            last_group_at: None,
            torn: false,
            synced: synced(stored, files.last().map(AsRef::as_ref)),
            has_leftovers: false,
            report: Recovery::default(),
        }
    }

    /// Replays one file up to its last group. `next` is the file after it.
    fn file(&mut self, file: &WalFile, next: Option<&WalFile>) -> Result<()> {
        if file.header.first_group != self.number + 1 {
            let what = "the groups do not continue those of the file before";
            return Err(corrupt(file.name(), 0, what));
        }
        let mut scanner = Scanner::new(file);
        (self.at, self.last_group_at) = (BLOCK_BYTES, None);
        loop {
            let expected = self.number + 1;
            let Some(group) = scanner.group(self.at, |number| number == expected)? else { break };
            let (at, bytes) = (group.at, group.bytes.len() as u64);
            self.group(file, expected, at, group.body)?;
            self.number = expected;
            self.last_group_at = Some(at);
            self.at += bytes;
            self.report.groups += 1;
            self.report.bytes += bytes;
        }
        match next {
            // The next file was started when the last group of this one was durable.
            Some(next) if next.header.first_group == self.number + 1 => Ok(()),
            Some(_) => Err(corrupt(file.name(), self.at, "a group of the log is damaged")),
            None => self.end(file, &mut scanner),
        }
    }

    /// A bad group is the torn tail only if no later group is good (LOG-3). If groups were not
    /// synced one by one, a power cut may lose any of them and leave later ones: the first missing
    /// one is the end.
    fn end(&mut self, file: &WalFile, scanner: &mut Scanner<'_>) -> Result<()> {
        let mut later = scanner.later_group(self.at, self.number)?;
        if later.is_some() && self.number < self.synced {
            return Err(corrupt(file.name(), self.at, "a group of the log is damaged"));
        }
        while let Some((at, number)) = later {
            self.has_leftovers = true;
            self.report.unsynced_groups_cut = number - self.number;
            let bytes = scanner.group(at, |found| found == number)?.map(|group| group.bytes.len());
            self.report.unsynced_bytes_cut = at + bytes.unwrap_or(0) as u64 - self.at;
            later = scanner.later_group(at, number)?;
        }
        if let Some(bytes) = scanner.torn_bytes(self.at, self.number + 1)? {
            self.torn = true;
            self.report.torn_bytes_cut = bytes;
        }
        Ok(())
    }

    fn group(&mut self, file: &WalFile, number: u64, at: u64, body: &[u8]) -> Result<()> {
        for (place, frame) in frames(body) {
            let start = at + (super::format::GROUP_HEADER + place) as u64;
            match frame {
                Some((Frame::Append(frame), bytes)) => self.append(file, start, bytes, &frame)?,
                Some((Frame::Change { subscription, change }, _)) => {
                    if number > self.checkpoint {
                        self.pending.note(subscription, number, change);
                    }
                }
                None => return Err(corrupt(file.name(), start, "not a frame")),
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        file: &WalFile,
        start: u64,
        bytes: usize,
        frame: &AppendFrame<'_>,
    ) -> Result<()> {
        let Some(head) = RecordHead::decode(frame.records) else {
            return Err(corrupt(file.name(), start, "a frame without records"));
        };
        let topic = self.topics.get_or_make(frame.topic, frame.first);
        let mut state = topic.state();
        if state.end != frame.first {
            let what = "the offsets of a topic do not follow each other";
            return Err(corrupt(file.name(), start, what));
        }
        state.end = frame.end();
        state.last_time = last_time(frame).unwrap_or(head.publish_time);
        let start = to_u32(to_usize(start));
        state.own.log.push(Span {
            sequence: file.header.sequence,
            start,
            end: start + to_u32(bytes),
            first: frame.first,
            time: head.publish_time,
        });
        self.report.records += u64::from(frame.count);
        Ok(())
    }

    /// The log must contain what the database names, and every group after the checkpoint (LOG-1).
    fn check(&mut self, stored: &Stored, files: &[Arc<WalFile>]) -> Result<()> {
        let (name, first_group) = match (files.last(), files.first()) {
            (Some(last), Some(first)) => (last.name(), first.header.first_group),
            _ => (file_name(stored.lowest_file), 1),
        };
        if stored.position.0.max(stored.checkpoint.0) > self.number {
            return Err(corrupt(name, self.at, "the log ends before what was made of it"));
        }
        if stored.checkpoint.0 + 1 < first_group {
            return Err(corrupt(name, 0, "groups after the last checkpoint are missing"));
        }
        for row in &stored.topics {
            let topic = self.topics.get_or_make(row.id, row.next);
            let mut state = topic.state();
            if state.end < row.next {
                return Err(corrupt(name, self.at, "the log ends before what was made of it"));
            }
            state.last_time = state.last_time.max(row.last_time);
        }
        Ok(())
    }

    fn into_recovered(self, files: Vec<Arc<WalFile>>, checkpoint: u64) -> Recovered {
        Recovered {
            files,
            at: self.at,
            number: self.number,
            topics: self.topics,
            pending: self.pending,
            checkpoint,
            report: self.report,
        }
    }
}

/// Up to which group all were synced. Without a note that some were not, that is every one with a
/// later one after it (LOG-3). Otherwise it is what the database names, which is synced first, plus
/// whatever is in a file that is not the last.
pub(super) fn synced(stored: &Stored, last: Option<&WalFile>) -> u64 {
    if stored.unsynced == 0 {
        return u64::MAX;
    }
    let last = last.map_or(0, |file| file.header.first_group);
    let noted = stored.position.0.max(stored.checkpoint.0);
    noted.max(last.saturating_sub(1)).max(stored.unsynced - 1)
}

/// When the last record of a frame was published.
fn last_time(frame: &AppendFrame<'_>) -> Option<Timestamp> {
    let (mut rest, mut last) = (frame.records, None);
    while let Some(head) = RecordHead::decode(rest) {
        last = Some(head.publish_time);
        rest = rest.get(head.length..)?;
    }
    last
}

/// Assigns the segments to their topics; returns the files that no row names.
fn adopt_segments(disk: &dyn Disk, stored: &Stored, topics: &Topics) -> Result<Vec<String>> {
    let mut unnamed = disk.list(segments::FOLDER).map_err(unavailable)?;
    for segment in &stored.segments {
        let name = segment.file.rsplit('/').next().unwrap_or_default();
        match unnamed.binary_search_by(|other| other.as_str().cmp(name)) {
            Ok(at) => drop(unnamed.remove(at)),
            Err(_) => return Err(corrupt(&segment.file, 0, "a segment is missing")),
        }
        let length = disk.open(&segment.file).and_then(|file| file.len()).map_err(unavailable)?;
        if length < segment.length {
            return Err(corrupt(&segment.file, length, "the segment is cut off"));
        }
        adopt(topics, segment)?;
    }
    Ok(unnamed)
}

fn adopt(topics: &Topics, segment: &segments::Segment) -> Result<()> {
    let topic: TopicId = segment.topic;
    let Some(topic) = topics.get(topic) else {
        return Err(corrupt(&segment.file, 0, "a segment of an unknown topic"));
    };
    let mut state = topic.state();
    let behind = state.own.log.first().unwrap_or(state.end);
    if segment.last >= behind {
        return Err(corrupt(&segment.file, 0, "the segment names records the log still holds"));
    }
    state.own.segments.push(Arc::new(segment.clone()));
    Ok(())
}

/// Makes sure that what was read is on stable storage before anyone relies on it, and that a torn
/// group is never mistaken for a good one.
///
/// The last group may be only in the system's memory, and marked as written although its sync
/// failed in an earlier process: writing the same bytes again makes the sync below effective.
fn settle_tail(disk: &dyn Disk, replay: &Replay, files: &[Arc<WalFile>]) -> Result<()> {
    let Some(last) = files.last() else { return Ok(()) };
    if replay.has_leftovers {
        let to = last.header.length;
        fill_with_zeros(last.file.as_ref(), replay.at, to).map_err(unavailable)?;
    } else if replay.torn {
        last.file.write_at(&[0; BLOCK], replay.at).map_err(unavailable)?;
    }
    if let Some(at) = replay.last_group_at {
        let mut scanner = Scanner::new(last);
        if let Some(group) = scanner.group(at, |number| number == replay.number)? {
            last.file.write_at(group.bytes, at).map_err(unavailable)?;
        }
    }
    last.file.sync().map_err(unavailable)?;
    disk.sync_folder(FOLDER).map_err(unavailable)
}

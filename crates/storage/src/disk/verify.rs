//! Checks every checksum and every reference of a store, loads everything that a start loads, and
//! reports where a fault is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::TopicId;

use super::database::{Database, Stored};
use super::format::{
    AppendFrame, BLOCK_BYTES, Frame, GROUP_HEADER, RecordHead, frames, record_holds, record_seed,
};
use super::real::{FolderLock, RealDisk};
use super::recovery;
use super::scan::{Scanner, corrupt, open_file, place_of, sequences, unavailable};
use super::seam::Disk;
use super::segments::{self, Segment};
use super::wal::{WalFile, file_name};
use crate::{Entry, Error, Result};

/// Something in a store that differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Log files read.
    pub files: u64,
    /// Whole groups in them.
    pub groups: u64,
    /// Whole records in the log and in segments.
    pub records: u64,
    /// Segments read.
    pub segments: u64,
    /// Valid bytes read.
    pub bytes: u64,
    /// Bytes of a group that was being written when the process died or the power failed: not a
    /// fault.
    pub torn_bytes: u64,
    /// Everything that is wrong; empty = no faults.
    pub faults: Vec<Fault>,
}

/// Says what is wrong with an entry, as its owner would find out at a start.
pub type EntryCheck<'a> = &'a dyn Fn(&Entry) -> std::result::Result<(), String>;

/// Checks the store in `folder` without changing it, and each of its entries with `check`. `InUse`
/// while it is open.
pub fn verify(folder: &Path, check: EntryCheck<'_>) -> Result<Report> {
    if !folder.join(super::DATABASE).exists() {
        return Err(Error::NotFound);
    }
    let _lock = FolderLock::take(folder)?;
    let disk = Arc::new(RealDisk::new(folder));
    let mut report = verify_on(disk, &folder.join(super::DATABASE), check)?;
    for fault in &mut report.faults {
        fault.file = super::path_within(folder, &fault.file);
    }
    Ok(report)
}

/// Checks a store whose log and segments are on `disk`, without changing it.
pub fn verify_on(
    disk: Arc<dyn Disk>,
    database: &Path,
    entry_check: EntryCheck<'_>,
) -> Result<Report> {
    let mut check = Check::on(disk);
    let stored = check.database(database);
    check.secret = stored.as_ref().map(|(_, stored)| stored.secret);
    check.log(stored.as_ref().map(|(_, stored)| stored))?;
    if let Some((database, stored)) = stored {
        check.references(&stored);
        for segment in &stored.segments {
            check.segment(&database, segment);
        }
        check.definitions(&database, entry_check);
        // A start checks some more; anything it would refuse is a fault, whatever was found before.
        if check.report.faults.is_empty()
            && let Err(error) = recovery::check(check.disk.as_ref(), &database)
        {
            check.note(super::wal::FOLDER, error);
        }
    }
    Ok(check.report)
}

struct Check {
    disk: Arc<dyn Disk>,
    report: Report,
    /// The number of the last whole group.
    last: u64,
    /// The end of each topic in the log.
    ends: BTreeMap<TopicId, domain::Offset>,
    /// Seeds the checksums of records; unknown without the database.
    secret: Option<u64>,
    /// All groups up to this one are known to have been synced.
    synced: u64,
}

impl Check {
    fn on(disk: Arc<dyn Disk>) -> Self {
        let (report, ends) = (Report::default(), BTreeMap::new());
        Self { disk, report, last: 0, ends, secret: None, synced: u64::MAX }
    }

    fn fault(&mut self, file: impl Into<PathBuf>, offset: u64, what: impl Into<String>) {
        self.report.faults.push(Fault { file: file.into(), offset, what: what.into() });
    }

    /// Notes an error that has a position; any other is about the file as a whole.
    fn note(&mut self, file: impl Into<PathBuf>, error: Error) {
        match error {
            Error::Corrupt { place, what } => {
                let (file, offset) = place_of(&place);
                self.fault(file, offset, what);
            }
            other => self.fault(file, 0, other.to_string()),
        }
    }

    fn database(&mut self, path: &Path) -> Option<(Database, Stored)> {
        let read = Database::open_to_read(path).and_then(|database| {
            let lines = database.integrity_check()?;
            database.check_format()?;
            let stored = database.stored()?;
            Ok((database, stored, lines))
        });
        match read {
            Ok((database, stored, lines)) => {
                for line in lines {
                    self.fault(path, 0, line);
                }
                Some((database, stored))
            }
            Err(error) => {
                self.note(path, error);
                None
            }
        }
    }

    /// Decodes what a start decodes.
    fn definitions(&mut self, database: &Database, entry_check: EntryCheck<'_>) {
        let path = database.path().to_owned();
        match database.unreadable_progress() {
            Ok(unreadable) => {
                for id in unreadable {
                    let what = format!("the progress of subscription {id} is unreadable");
                    self.fault(&path, 0, what);
                }
            }
            Err(error) => self.note(&path, error),
        }
        match database.all_entries() {
            Ok(entries) => {
                for entry in entries {
                    if let Err(what) = entry_check(&entry) {
                        self.fault(&path, 0, format!("{:?} {}: {what}", entry.kind, entry.name));
                    }
                }
            }
            Err(error) => self.note(&path, error),
        }
    }

    fn log(&mut self, stored: Option<&Stored>) -> Result<()> {
        let lowest = stored.map_or(0, |stored| stored.lowest_file);
        let disk = Arc::clone(&self.disk);
        let sequences = match sequences(disk.as_ref()) {
            Err(error @ Error::Corrupt { .. }) => {
                self.note(super::wal::FOLDER, error);
                return Ok(());
            }
            other => other?,
        };
        let live: Vec<_> = sequences.into_iter().filter(|found| *found >= lowest).collect();
        let highest = live.last().copied().unwrap_or(lowest);
        let first = live.first().copied().unwrap_or(lowest);
        let mut files = Vec::new();
        for sequence in if lowest == 0 { first } else { lowest }..=highest {
            match open_file(disk.as_ref(), sequence) {
                Ok(file) => files.push(file),
                Err(error) => self.note(file_name(sequence), error),
            }
        }
        self.synced = stored.map_or(u64::MAX, |stored| recovery::synced(stored, files.last()));
        for (at, file) in files.iter().enumerate() {
            self.report.files += 1;
            if let Err(error) = self.file(file, files.get(at + 1)) {
                self.note(file.name(), error);
            }
        }
        Ok(())
    }

    fn file(&mut self, file: &WalFile, next: Option<&WalFile>) -> Result<()> {
        let expected = file.header.first_group;
        if self.last != 0 && expected != self.last + 1 {
            self.fault(file.name(), 0, "the groups do not continue those of the file before");
        }
        self.last = expected.saturating_sub(1);
        let mut scanner = Scanner::new(file);
        let mut at = BLOCK_BYTES;
        loop {
            let last = self.last;
            if let Some(group) = scanner.group(at, |number| number == last + 1)? {
                let bytes = group.bytes.len() as u64;
                self.body(file, group.number, at, group.body);
                at += bytes;
                self.report.bytes += bytes;
                continue;
            }
            let end = next.is_some_and(|next| next.header.first_group == last + 1);
            // Groups that were not synced one by one end with the first that is missing.
            let is_unsynced = next.is_none() && last >= self.synced;
            let later = if end { None } else { scanner.later_group(at, last)? };
            if is_unsynced && let Some((later, _)) = later {
                self.report.torn_bytes = later - at;
                return Ok(());
            }
            if later.is_some() || (next.is_some() && !end) {
                self.fault(file.name(), at, "a group of the log is damaged");
            }
            let Some((later, number)) = later else {
                if next.is_none() {
                    self.report.torn_bytes = scanner.torn_bytes(at, last + 1)?.unwrap_or(0);
                }
                return Ok(());
            };
            self.last = number - 1;
            at = later;
        }
    }

    fn body(&mut self, file: &WalFile, number: u64, at: u64, body: &[u8]) {
        self.last = number;
        self.report.groups += 1;
        for (place, frame) in frames(body) {
            let start = at + (GROUP_HEADER + place) as u64;
            match frame {
                Some((Frame::Append(frame), _)) => self.records(file, start, &frame),
                Some((Frame::Change { change, .. }, _)) => {
                    if domain::ProgressChange::decode(change).is_err() {
                        self.fault(file.name(), start, "a change of progress is unreadable");
                    }
                }
                None => self.fault(file.name(), start, "not a frame"),
            }
        }
    }

    fn records(&mut self, file: &WalFile, start: u64, frame: &AppendFrame<'_>) {
        let seed = self.secret.map(|secret| record_seed(frame.topic, secret));
        let (mut rest, mut offset) = (frame.records, frame.first);
        while let Some(head) = RecordHead::decode(rest) {
            let Some((record, behind)) = rest.split_at_checked(head.length) else { break };
            let holds = seed.is_none_or(|seed| record_holds(record, seed));
            if head.offset != offset || !holds {
                break;
            }
            (rest, offset) = (behind, offset.next());
            self.report.records += 1;
        }
        if !rest.is_empty() || offset != frame.end() {
            let at = start + (frame.records.len() - rest.len()) as u64;
            self.fault(file.name(), at, "a record of the log is damaged");
        }
        let before = self.ends.insert(frame.topic, frame.end());
        if before.is_some_and(|end| end != frame.first) {
            self.fault(file.name(), start, "the offsets of a topic do not follow each other");
        }
    }

    /// SQLite must not name what the log does not contain (LOG-1).
    fn references(&mut self, stored: &Stored) {
        let newest = sequences(self.disk.as_ref()).ok().and_then(|found| found.last().copied());
        let file = file_name(newest.unwrap_or(stored.lowest_file));
        let what = "the log ends before what was made of it";
        if stored.position.0.max(stored.checkpoint.0) > self.last {
            self.fault(&file, 0, what);
        }
        for row in &stored.topics {
            if self.ends.get(&row.id).is_some_and(|end| *end < row.next) {
                self.fault(&file, 0, what);
            }
        }
    }

    fn segment(&mut self, database: &Database, segment: &Segment) {
        self.report.segments += 1;
        if let Err(error) = self.read_segment(database, segment) {
            self.note(&segment.file, error);
        }
    }

    fn read_segment(&mut self, database: &Database, segment: &Segment) -> Result<()> {
        let file = self.disk.open(&segment.file).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => corrupt(&segment.file, 0, "a segment is missing"),
            _ => unavailable(error),
        })?;
        let marks = database.marks(segment.topic, segment.first)?;
        let mut damaged = Vec::new();
        let seed = record_seed(segment.topic, self.secret.unwrap_or_default());
        let records = segments::verify(segment, file, seed, marks, |at| damaged.push(at))?;
        for at in &damaged {
            self.fault(&segment.file, *at, "a record of the segment is damaged");
        }
        if damaged.is_empty() && records != segment.records {
            self.fault(&segment.file, segment.length, "the segment does not hold all its records");
        }
        self.report.records += records;
        self.report.bytes += segment.length;
        Ok(())
    }
}

//! The stored forms of progress and its changes.
//!
//! ```text
//! progress  2 | cursor | void epoch, lease | n, n × run | n, n × attempt
//!           1 is the same without the void ids: none are
//! run       words << 2 | kind; kind 0 = empty, 1 = full, 2 = mixed, followed by 8 bytes a word.
//!           Runs follow each other from the word (of 64 offsets) in which the cursor stands.
//! attempt   step from the offset before | count | due in microseconds since 1970
//! change    1 | 0 | n, n × (step from the end of the range before, length)      settled
//!           1 | 1 | n, n × attempt                                              attempts
//!           1 | 2 | progress                                                    replaced
//! ```
//!
//! Numbers are varints; a step is signed (zigzag) and wraps.

use super::acked::WORD;
use super::{Attempt, NEVER_ACKED, Progress, ProgressChange};
use crate::message::{Malformed, put_varint, take_varint};
use crate::offset::{Epoch, Offset, OffsetRange};
use crate::time::Timestamp;

/// Version of a change.
const VERSION: u64 = 1;
/// Version of progress; version 1 lacked the void ids.
const PROGRESS_VERSION: u64 = 2;
const PROGRESS_VERSION_BEFORE: u64 = 1;

const EMPTY: u64 = 0;
const FULL: u64 = 1;
const MIXED: u64 = 2;

const SETTLED: u64 = 0;
const ATTEMPTS: u64 = 1;
const REPLACED: u64 = 2;

/// The number of words that can exist, except the last one: it can be mixed, but never full.
const WORDS_MAX: u64 = u64::MAX / WORD;

impl Progress {
    /// Appends the stored form. Its size grows with the gaps, not with how much is acked.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, PROGRESS_VERSION);
        put_varint(out, self.cursor.0);
        let (epoch, lease) = self.void_before;
        put_varint(out, epoch.0);
        put_varint(out, lease);
        let runs = self.runs();
        put_varint(out, runs.len() as u64);
        for run in &runs {
            put_varint(out, run.words << 2 | run.kind);
            for word in &run.mixed {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        put_attempts(out, self.attempts.len(), self.attempts());
    }

    /// Decodes what `encode` wrote; anything else is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input { bytes };
        let progress = take_progress(&mut input)?;
        input.end()?;
        Ok(progress)
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut next = self.cursor.0 / WORD;
        for (first, words, value) in self.above.words() {
            if first > next {
                runs.push(Run { kind: EMPTY, words: first - next, mixed: Vec::new() });
            }
            let kind = if value == u64::MAX { FULL } else { MIXED };
            match runs.last_mut() {
                Some(run) if run.kind == kind => run.words += words,
                _ => runs.push(Run { kind, words, mixed: Vec::new() }),
            }
            if let (MIXED, Some(run)) = (kind, runs.last_mut()) {
                run.mixed.push(value);
            }
            next = first + words;
        }
        runs
    }
}

struct Run {
    kind: u64,
    words: u64,
    /// The words of a mixed run.
    mixed: Vec<u64>,
}

impl ProgressChange {
    /// Appends the stored form. Empty ranges are omitted.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, VERSION);
        match self {
            Self::Settled(ranges) => {
                put_varint(out, SETTLED);
                put_ranges(out, ranges);
            }
            Self::Attempts(attempts) => {
                put_varint(out, ATTEMPTS);
                put_attempts(out, attempts.len(), attempts.iter().copied());
            }
            Self::Replaced(progress) => {
                put_varint(out, REPLACED);
                progress.encode(out);
            }
        }
    }

    /// Decodes what `encode` wrote; anything else is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input { bytes };
        input.expect_version()?;
        let change = match input.number()? {
            SETTLED => Self::Settled(take_ranges(&mut input)?),
            ATTEMPTS => Self::Attempts(take_attempts(&mut input)?),
            REPLACED => Self::Replaced(Box::new(take_progress(&mut input)?)),
            _ => return Err(Malformed),
        };
        input.end()?;
        Ok(change)
    }
}

fn take_progress(input: &mut Input<'_>) -> Result<Progress, Malformed> {
    let has_void = match input.number()? {
        PROGRESS_VERSION => true,
        PROGRESS_VERSION_BEFORE => false,
        _ => return Err(Malformed),
    };
    let mut progress = Progress::starting_at(Offset(input.number()?));
    if has_void {
        progress.void_ids_before(Epoch(input.number()?), input.number()?);
    }
    let mut word = progress.cursor.0 / WORD;
    for _ in 0..input.number()? {
        word = take_run(input, &mut progress, word)?;
    }
    progress.first_above = progress.above.next_set(progress.cursor.0).map_or(NEVER_ACKED, Offset);
    for (offset, attempt) in take_attempts(input)? {
        if progress.is_acked(offset) || progress.attempts.insert(offset, attempt).is_some() {
            return Err(Malformed);
        }
    }
    Ok(progress)
}

/// Decodes one run that starts at the word numbered `first`; returns the word after it.
fn take_run(input: &mut Input<'_>, progress: &mut Progress, first: u64) -> Result<u64, Malformed> {
    let header = input.number()?;
    let (words, kind) = (header >> 2, header & 3);
    let end = first + words;
    match kind {
        EMPTY if end <= WORDS_MAX => {}
        FULL if end <= WORDS_MAX => add_acked(progress, first * WORD, end * WORD)?,
        MIXED if end <= WORDS_MAX + 1 => {
            for number in first..end {
                add_word(progress, number * WORD, input.word()?)?;
            }
        }
        _ => return Err(Malformed),
    }
    if words == 0 { Err(Malformed) } else { Ok(end) }
}

/// Adds the acked offsets of one mixed word, which starts at offset `start`.
fn add_word(progress: &mut Progress, start: u64, mut word: u64) -> Result<(), Malformed> {
    if word == 0 || word == u64::MAX {
        return Err(Malformed);
    }
    while word != 0 {
        let from = u64::from(word.trailing_zeros());
        let length = u64::from((word >> from).trailing_ones());
        // Overflows only for the greatest offset, which cannot be acked.
        let to = (start + from).checked_add(length).ok_or(Malformed)?;
        add_acked(progress, start + from, to)?;
        word &= !((u64::MAX >> (WORD - length)) << from);
    }
    Ok(())
}

fn add_acked(progress: &mut Progress, from: u64, to: u64) -> Result<(), Malformed> {
    // The cursor must be the lowest unacked offset, or the data is inconsistent.
    if from <= progress.cursor.0 {
        return Err(Malformed);
    }
    progress.above.insert(from, to);
    Ok(())
}

fn put_ranges(out: &mut Vec<u8>, ranges: &[OffsetRange]) {
    let filled = || ranges.iter().filter(|range| !range.is_empty());
    put_varint(out, filled().count() as u64);
    let mut end = 0;
    for range in filled() {
        put_step(out, end, range.from.0);
        put_varint(out, range.len());
        end = range.to.0;
    }
}

fn take_ranges(input: &mut Input<'_>) -> Result<Vec<OffsetRange>, Malformed> {
    let count = input.count(RANGE_BYTES_MIN)?;
    let mut ranges = Vec::with_capacity(count);
    let mut end = 0;
    for _ in 0..count {
        let from = input.step(end)?;
        end = from.checked_add(input.number()?).ok_or(Malformed)?;
        let range = OffsetRange { from: Offset(from), to: Offset(end) };
        if range.is_empty() {
            return Err(Malformed);
        }
        ranges.push(range);
    }
    Ok(ranges)
}

fn put_attempts(
    out: &mut Vec<u8>,
    count: usize,
    attempts: impl Iterator<Item = (Offset, Attempt)>,
) {
    put_varint(out, count as u64);
    let mut before = 0;
    for (offset, attempt) in attempts {
        put_step(out, before, offset.0);
        put_varint(out, u64::from(attempt.count));
        put_varint(out, attempt.due.0);
        before = offset.0;
    }
}

fn take_attempts(input: &mut Input<'_>) -> Result<Vec<(Offset, Attempt)>, Malformed> {
    let count = input.count(ATTEMPT_BYTES_MIN)?;
    let mut attempts = Vec::with_capacity(count);
    let mut before = 0;
    for _ in 0..count {
        before = input.step(before)?;
        let count = u32::try_from(input.number()?).map_err(|_| Malformed)?;
        attempts.push((Offset(before), Attempt { count, due: Timestamp(input.number()?) }));
    }
    Ok(attempts)
}

const RANGE_BYTES_MIN: usize = 2;
const ATTEMPT_BYTES_MIN: usize = 3;

/// Appends the distance from `before` to `offset`.
fn put_step(out: &mut Vec<u8>, before: u64, offset: u64) {
    let step = offset.wrapping_sub(before).cast_signed();
    put_varint(out, ((step << 1) ^ (step >> 63)).cast_unsigned());
}

struct Input<'bytes> {
    bytes: &'bytes [u8],
}

impl Input<'_> {
    fn number(&mut self) -> Result<u64, Malformed> {
        let (value, rest) = take_varint(self.bytes)?;
        self.bytes = rest;
        Ok(value)
    }

    fn step(&mut self, before: u64) -> Result<u64, Malformed> {
        let folded = self.number()?;
        Ok(before.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg()))
    }

    /// A count of items that take at least `bytes_min` each, so that garbage cannot request more
    /// memory than its own length allows.
    fn count(&mut self, bytes_min: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.bytes.len() / bytes_min { Err(Malformed) } else { Ok(count) }
    }

    fn word(&mut self) -> Result<u64, Malformed> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn expect_version(&mut self) -> Result<(), Malformed> {
        if self.number()? == VERSION { Ok(()) } else { Err(Malformed) }
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

//! What a receiver has counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::parse::Request;
use crate::clock;

/// The data of a message begins so in an envelope, and the mark at its beginning is so long.
const DATA: &[u8] = b"\"data\":\"";
const MARK_CHARS: usize = 12;

/// The data begins so early, or there is none.
const DATA_WITHIN: usize = 512;

/// How an endpoint treats its requests; the first part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Answers at once that all is well.
    Answers,
    /// Answers that all is well, after half a minute.
    Hangs,
    /// Answers at once that it failed.
    Fails,
}

impl Manner {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Answers => "ok",
            Self::Hangs => "hang",
            Self::Fails => "fail",
        }
    }
}

/// A marked message that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) mark: u64,
    pub(crate) at: Instant,
}

/// The counts of a receiver, which its one thread writes and the bench reads.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) tally: Mutex<Tally>,
    /// Told when the goal is reached, and when a request was refused.
    pub(super) told: Notify,
    connections: AtomicU64,
    connections_max: AtomicU64,
    hanging: AtomicU64,
}

/// What came since the last goal was set.
#[derive(Default)]
pub(super) struct Tally {
    /// Messages that are to come.
    pub(super) goal: u64,
    /// Messages that were answered well, in all and by the number in the path.
    pub(super) messages: u64,
    pub(super) by_path: Vec<u64>,
    pub(super) failed: u64,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
    /// Only kept if asked for.
    pub(super) arrivals: Option<Vec<Arrival>>,
    /// Why the first bad request was refused.
    pub(super) refused: Option<String>,
}

impl Shared {
    /// Counts a request.
    pub(super) fn take(&self, request: &Request<'_>) -> Result<Manner> {
        let (manner, number) = endpoint(request.path)?;
        let mut tally = self.tally.lock();
        match manner {
            Manner::Answers => {
                if tally.count(request, number)? {
                    self.told.notify_one();
                }
            }
            Manner::Fails => tally.failed += 1,
            Manner::Hangs => {}
        }
        Ok(manner)
    }

    /// Takes note of a request that was none.
    pub(super) fn refuse(&self, why: &anyhow::Error) {
        self.tally.lock().refused.get_or_insert_with(|| format!("{why:#}"));
        self.told.notify_one();
    }

    /// Counts a connection until the guard is dropped.
    pub(super) fn connected(&self) -> Counted<'_> {
        let counted = Counted::new(&self.connections);
        let open = self.connections.load(Ordering::Relaxed);
        self.connections_max.fetch_max(open, Ordering::Relaxed);
        counted
    }

    /// Counts a request that hangs until the guard is dropped.
    pub(super) fn hangs(&self) -> Counted<'_> {
        Counted::new(&self.hanging)
    }

    pub(super) fn hanging(&self) -> u64 {
        self.hanging.load(Ordering::Relaxed)
    }

    /// Most connections open at once since the last call.
    pub(super) fn take_connections_max(&self) -> u64 {
        let open = self.connections.load(Ordering::Relaxed);
        self.connections_max.swap(open, Ordering::Relaxed)
    }
}

impl Tally {
    /// Counts the messages of a request; whether the goal has been reached by them.
    fn count(&mut self, request: &Request<'_>, number: usize) -> Result<bool> {
        if self.messages == 0 {
            self.first = Some(clock::now());
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(Arrival { mark: mark_of(request.body)?, at: clock::now() });
        }
        if number >= self.by_path.len() {
            self.by_path.resize(number + 1, 0);
        }
        self.by_path[number] += request.messages;
        self.messages += request.messages;
        let reached = self.messages >= self.goal && self.last.is_none();
        if reached {
            self.last = Some(clock::now());
        }
        Ok(reached)
    }
}

/// One of a count, until dropped.
pub(super) struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `/ok/17` is the seventeenth that answers.
fn endpoint(path: &str) -> Result<(Manner, usize)> {
    let unknown = || format!("no endpoint has the path {path}");
    let (word, number) = path[1..].split_once('/').with_context(unknown)?;
    let manners = [Manner::Answers, Manner::Hangs, Manner::Fails];
    let manner = manners.into_iter().find(|manner| manner.word() == word);
    // A number this large is a mistake, and would need as many counters.
    let number = number.parse().ok().filter(|number| *number < 1 << 20);
    Ok((manner.with_context(unknown)?, number.with_context(unknown)?))
}

/// The number that the data of an envelope begins with.
fn mark_of(body: &[u8]) -> Result<u64> {
    let start = &body[..body.len().min(DATA_WITHIN)];
    let at = start.windows(DATA.len()).position(|part| part == DATA).context("no data")?;
    let data = &body[at + DATA.len()..];
    let chars = data.get(..MARK_CHARS).context("too little data for a mark")?;
    let mut bytes = [0; 9];
    STANDARD.decode_slice(chars, &mut bytes).context("data that is not base64")?;
    let (mark, _) = bytes.split_first_chunk().context("too little data for a mark")?;
    Ok(u64::from_be_bytes(*mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn an_endpoint_is_its_manner_and_its_number() {
        assert_eq!(endpoint("/ok/17").unwrap(), (Manner::Answers, 17));
        assert_eq!(endpoint("/hang/0").unwrap(), (Manner::Hangs, 0));
        assert_eq!(endpoint("/fail/3").unwrap(), (Manner::Fails, 3));
        for bad in ["/", "/ok", "/ok/", "/ok/x", "/other/1", "/ok/99999999"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mark_is_read_from_the_data_of_an_envelope() {
        for mark in [0, 1, 4999, u64::MAX] {
            assert_eq!(mark_of(&load::marked_envelope(1024, mark)).unwrap(), mark);
        }
        assert!(mark_of(b"{}").is_err());
        assert!(mark_of(b"{\"data\":\"AAAA\"}").is_err());
        assert!(mark_of(b"{\"data\":\"AAAA****AAAA\"}").is_err());
    }
}

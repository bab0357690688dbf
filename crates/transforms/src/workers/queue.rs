//! Whose turn it is.
//!
//! ```text
//!            quick slice            slow slice
//!   New ───────────────▶ Quick ───────────────▶ Slow (until a time)
//!    └──────────────── slow slice ───────────────▲ │
//!                            ▲──── quick slice after that time
//! ```
//!
//! `New` and `Slow` owners are doubtful: one thread each, and all of them together all threads but
//! one. A `Quick` owner has all threads but one. Pure: no lock, no thread, no clock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Options, Refused};

/// How long an owner is held to be slow after a slow slice.
const SLOW_FOR: Duration = Duration::from_secs(10);
/// Owners without work that are remembered, at most.
const REMEMBERED_MAX: usize = 4_096;

/// What a job takes.
pub(super) trait Weigh {
    /// About its bytes.
    fn weight(&self) -> usize;
    /// Whether one such job runs at a time.
    fn is_large(&self) -> bool;
}

/// Jobs by owner.
pub(super) struct Queue<J> {
    owners: HashMap<Arc<str>, Line<J>>,
    /// Owners with jobs, whose turn is next first.
    turns: VecDeque<Arc<str>>,
    threads: usize,
    bytes: usize,
    bytes_max: usize,
    bytes_per_owner_max: usize,
    doubtful_running: usize,
    large_running: usize,
    running: usize,
}

struct Line<J> {
    jobs: VecDeque<J>,
    bytes: usize,
    running: usize,
    trust: Trust,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    New,
    Quick,
    Slow(Instant),
}

/// A slice of an owner's work that a thread has.
#[derive(Debug)]
pub(super) struct Turn {
    owner: Arc<str>,
    is_doubtful: bool,
    is_large: bool,
}

impl<J: Weigh> Queue<J> {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            owners: HashMap::new(),
            turns: VecDeque::new(),
            threads: options.threads,
            bytes: 0,
            bytes_max: options.waiting_bytes_max,
            bytes_per_owner_max: options.waiting_bytes_per_owner_max,
            doubtful_running: 0,
            large_running: 0,
            running: 0,
        }
    }

    /// Puts a job at the end of its owner's line. A job that is larger than all that may wait is
    /// taken where nothing waits.
    pub(super) fn push(&mut self, owner: &Arc<str>, job: J, now: Instant) -> Result<(), Refused> {
        let weight = job.weight();
        let of_owner = self.owners.get(owner).map_or(0, |line| line.bytes);
        let is_full = |bytes: usize, max: usize| bytes > 0 && bytes + weight > max;
        if is_full(self.bytes, self.bytes_max) || is_full(of_owner, self.bytes_per_owner_max) {
            return Err(Refused::Full);
        }
        if self.owners.len() >= REMEMBERED_MAX {
            self.forget(now);
        }
        let line = self.owners.entry(Arc::clone(owner)).or_insert_with(Line::new);
        if line.jobs.is_empty() {
            self.turns.push_back(Arc::clone(owner));
        }
        line.jobs.push_back(job);
        line.bytes += weight;
        self.bytes += weight;
        Ok(())
    }

    /// The next job that may run now.
    pub(super) fn next(&mut self) -> Option<(Turn, J)> {
        let at = self.turns.iter().position(|owner| self.may_run(owner))?;
        let owner = self.turns.remove(at)?;
        let line = self.owners.get_mut(&owner)?;
        let job = line.jobs.pop_front()?;
        let turn = Turn {
            owner: Arc::clone(&owner),
            is_doubtful: line.trust != Trust::Quick,
            is_large: job.is_large(),
        };
        line.bytes -= job.weight();
        self.bytes -= job.weight();
        line.running += 1;
        if !line.jobs.is_empty() {
            self.turns.push_back(owner);
        }
        self.running += 1;
        self.doubtful_running += usize::from(turn.is_doubtful);
        self.large_running += usize::from(turn.is_large);
        Some((turn, job))
    }

    /// A slice is over, slow or not. What is left of the job waits at the head of its line, and
    /// the owner behind all others.
    pub(super) fn done(&mut self, turn: Turn, rest: Option<J>, is_slow: bool, now: Instant) {
        self.running -= 1;
        self.doubtful_running -= usize::from(turn.is_doubtful);
        self.large_running -= usize::from(turn.is_large);
        let Some(line) = self.owners.get_mut(&turn.owner) else { return };
        line.running -= 1;
        line.trust = match line.trust {
            _ if is_slow => Trust::Slow(now + SLOW_FOR),
            Trust::Slow(until) if now < until => Trust::Slow(until),
            _ => Trust::Quick,
        };
        if let Some(rest) = rest {
            line.bytes += rest.weight();
            self.bytes += rest.weight();
            if line.jobs.is_empty() {
                self.turns.push_back(turn.owner);
            }
            line.jobs.push_front(rest);
        }
    }

    /// All that waits.
    pub(super) fn drain(&mut self) -> Vec<J> {
        let turns = std::mem::take(&mut self.turns);
        self.bytes = 0;
        let mut all = Vec::new();
        for owner in turns {
            if let Some(line) = self.owners.get_mut(&owner) {
                line.bytes = 0;
                all.extend(line.jobs.drain(..));
            }
        }
        all
    }

    /// Whether somebody waits for a turn.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether nothing runs and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.turns.is_empty()
    }

    fn may_run(&self, owner: &Arc<str>) -> bool {
        let Some(line) = self.owners.get(owner) else { return false };
        let all_but_one = self.threads - 1;
        if line.jobs.front().is_some_and(Weigh::is_large) && self.large_running > 0 {
            return false;
        }
        match line.trust {
            Trust::Quick => line.running < all_but_one,
            _ => line.running == 0 && self.doubtful_running < all_but_one,
        }
    }

    /// Forgets owners of whom nothing need be known.
    fn forget(&mut self, now: Instant) {
        self.owners.retain(|_, line| {
            let is_slow = matches!(line.trust, Trust::Slow(until) if now < until);
            line.running > 0 || !line.jobs.is_empty() || is_slow
        });
    }
}

impl<J> Line<J> {
    fn new() -> Self {
        Self { jobs: VecDeque::new(), bytes: 0, running: 0, trust: Trust::New }
    }
}

#[cfg(test)]
mod tests;

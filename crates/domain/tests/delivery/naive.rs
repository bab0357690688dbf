//! The most obvious delivery: one state per offset, everything found by looking at all of them.

use std::time::Duration;

use domain::delivery::{AckOutcome, ExtendOutcome, Flow, LeaseStatus};
use domain::{Moment, Offset, SubscriptionId};

use crate::log::{Log, Place};

pub(crate) const THIS: SubscriptionId = SubscriptionId(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    Fresh,
    Leased {
        lease: usize,
        consumer: usize,
        deadline: Moment,
        bytes: u64,
    },
    Waiting,
    Settled {
        is_durable: bool,
    },
    /// Found damaged.
    Passed,
}

/// Leases and consumers are numbered in the order in which they came.
#[derive(Clone, Default)]
pub(crate) struct Naive {
    pub(crate) exactly_once: bool,
    pub(crate) states: Vec<State>,
    pub(crate) failed: Vec<u32>,
    pub(crate) flows: Vec<Flow>,
    /// The offset of every lease ever made.
    pub(crate) leases: Vec<usize>,
}

/// What is left of a request.
pub(crate) struct Budget {
    pub(crate) consumer: usize,
    pub(crate) records_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) deadline: Moment,
}

impl Naive {
    /// Leases the next record within `budget`: its offset and attempt, or why there is none.
    pub(crate) fn next(
        &mut self,
        log: &Log,
        budget: &mut Budget,
    ) -> Result<(usize, u32), LeaseStatus> {
        loop {
            if budget.records == budget.records_max {
                return Err(LeaseStatus::More);
            }
            if !self.fits(budget.consumer, 1) {
                return Err(LeaseStatus::Full);
            }
            let waiting = self.states.iter().position(|state| *state == State::Waiting);
            let fresh = self.states.iter().position(|state| *state == State::Fresh);
            let Some(offset) = waiting.or(fresh) else { return Err(LeaseStatus::Drained) };
            match *log.place(Offset(offset as u64)) {
                Place::Gap => self.states[offset] = State::Settled { is_durable: false },
                Place::Damaged => self.states[offset] = State::Passed,
                Place::Record { addressee, .. } if addressee.is_some_and(|id| id != THIS) => {
                    self.states[offset] = State::Settled { is_durable: false };
                }
                Place::Record { bytes, .. } => return self.offer(offset, bytes, budget),
            }
        }
    }

    fn offer(
        &mut self,
        offset: usize,
        bytes: usize,
        budget: &mut Budget,
    ) -> Result<(usize, u32), LeaseStatus> {
        if budget.records > 0 && budget.bytes + bytes > budget.bytes_max {
            return Err(LeaseStatus::More);
        }
        if !self.fits(budget.consumer, bytes as u64) {
            return Err(LeaseStatus::Full);
        }
        budget.records += 1;
        budget.bytes += bytes;
        self.states[offset] = State::Leased {
            lease: self.leases.len(),
            consumer: budget.consumer,
            deadline: budget.deadline,
            bytes: bytes as u64,
        };
        self.leases.push(offset);
        Ok((offset, self.failed[offset] + 1))
    }

    fn fits(&self, consumer: usize, more: u64) -> bool {
        let (mut messages, mut total) = (0, 0);
        for state in &self.states {
            if let State::Leased { consumer: holder, bytes, .. } = *state
                && holder == consumer
            {
                messages += 1;
                total += bytes;
            }
        }
        let Flow { messages_max, bytes_max } = self.flows[consumer];
        (messages_max == 0 || messages < messages_max)
            && (messages == 0 || bytes_max == 0 || total + more <= bytes_max)
    }

    fn is_current(&self, now: Moment, lease: usize) -> bool {
        matches!(
            self.states[self.leases[lease]],
            State::Leased { lease: current, deadline, .. } if current == lease && deadline > now
        )
    }

    pub(crate) fn ack(&mut self, now: Moment, lease: usize) -> AckOutcome {
        if self.exactly_once && !self.is_current(now, lease) {
            return AckOutcome::Stale;
        }
        let state = &mut self.states[self.leases[lease]];
        if matches!(state, State::Settled { .. }) {
            return AckOutcome::AlreadySettled;
        }
        *state = State::Settled { is_durable: false };
        AckOutcome::Settled
    }

    pub(crate) fn extend(&mut self, now: Moment, lease: usize, by: Duration) -> ExtendOutcome {
        if !self.is_current(now, lease) {
            return ExtendOutcome::Stale;
        }
        let offset = self.leases[lease];
        if by.is_zero() {
            self.give_back(offset);
            return ExtendOutcome::Returned;
        }
        if let State::Leased { deadline, .. } = &mut self.states[offset] {
            *deadline = now.plus(by);
        }
        ExtendOutcome::Extended
    }

    /// Ends the leases whose deadline has come; says how many.
    pub(crate) fn tick(&mut self, now: Moment) -> usize {
        let is_due =
            |state: &State| matches!(state, State::Leased { deadline, .. } if *deadline <= now);
        let due: Vec<_> = (0..self.states.len()).filter(|&o| is_due(&self.states[o])).collect();
        due.iter().for_each(|&offset| self.give_back(offset));
        due.len()
    }

    fn give_back(&mut self, offset: usize) {
        self.states[offset] = State::Waiting;
        self.failed[offset] += 1;
    }

    /// Leases, attempts and what was not committed are gone.
    pub(crate) fn crash(&mut self) {
        for (state, failed) in self.states.iter_mut().zip(&mut self.failed) {
            *failed = 0;
            if *state != (State::Settled { is_durable: true }) {
                *state = State::Fresh;
            }
        }
    }

    pub(crate) fn commit(&mut self) {
        for state in &mut self.states {
            if let State::Settled { is_durable } = state {
                *is_durable = true;
            }
        }
    }

    pub(crate) fn first_deadline(&self) -> Option<Moment> {
        let deadline = |state: &State| match *state {
            State::Leased { deadline, .. } => Some(deadline),
            _ => None,
        };
        self.states.iter().filter_map(deadline).min()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.states.iter().filter(|state| matches!(state, State::Leased { .. })).count()
    }
}

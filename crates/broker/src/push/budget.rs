//! Fair shares of the requests in flight, measured by the time they are held.
//!
//! Every endpoint has a virtual time: the slot time it was charged. Among waiting endpoints, the
//! one with the least goes first (start-time fair queueing). A request is charged its expected time
//! when it gets its slot, and corrected when it ends, so an endpoint whose requests hang pays while
//! they hang. An endpoint that returns to the queue starts no lower than the last one admitted:
//! being idle earns no credit.
//!
//! ```text
//!                     0                                    90 %      100 %
//! slots in flight     ├─────────────────────────────────────┼──────────┤
//! proven endpoints    ◄──────────── up to here ────────────────────────►
//! not proven, or with
//! more than their cap ◄──────────── up to here ────────────►
//! ```

#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use domain::Moment;
use parking_lot::{Mutex, MutexGuard};

use waiting::State;

/// How many requests may be in flight in total.
pub(crate) struct Budget {
    state: Mutex<State>,
}

impl Budget {
    /// A budget of `max` slots, at least one.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new(max.max(1))) })
    }

    /// The share of one more endpoint. It starts out not proven.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        let key = self.state.lock().join();
        Share(Arc::new(Member { budget: Arc::clone(self), key, is_proven: AtomicBool::new(false) }))
    }

    /// How many slots are taken.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.state.lock().in_flight()
    }

    /// Grants slots to waiting callers, as far as they go. Each waker is called outside the lock:
    /// it may run anything.
    fn hand_out(&self, mut state: MutexGuard<'_, State>) {
        while let Some(waker) = state.grant_next() {
            MutexGuard::unlocked(&mut state, || waker.wake());
        }
    }
}

/// An endpoint's share of the budget. It is forgotten when its last clone, turn and slot are gone.
#[derive(Clone)]
pub(crate) struct Share(Arc<Member>);

/// An endpoint the budget knows.
struct Member {
    budget: Arc<Budget>,
    key: usize,
    /// A copy of what the state says, so that repeating it needs no lock.
    is_proven: AtomicBool,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.budget.state.lock().leave(self.key);
    }
}

impl Share {
    /// Whether the endpoint works, as last reported.
    pub(crate) fn is_proven(&self) -> bool {
        self.0.is_proven.load(Ordering::Relaxed)
    }

    /// Reports whether the endpoint works: it answered well, and has not failed since. Those that
    /// do not are kept out of the last tenth of the budget.
    pub(crate) fn set_proven(&self, is_proven: bool) {
        let member = &self.0;
        if member.is_proven.load(Ordering::Relaxed) != is_proven {
            let mut state = member.budget.state.lock();
            member.is_proven.store(is_proven, Ordering::Relaxed);
            state.set_proven(member.key, is_proven);
            member.budget.hand_out(state);
        }
    }

    /// How many slots the endpoint holds, including those granted and not yet fetched.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.budget.state.lock().held(self.0.key)
    }

    /// Returns a slot, or queues for one. `turn` is the caller's place: `None` at first, kept
    /// between calls, and dropped to give up the place. Callers of one share are served in order of
    /// arrival. `now` is when the slot, if there is one, starts to count.
    pub(crate) fn poll_slot(
        &self,
        turn: &mut Option<Turn>,
        now: Moment,
        context: &mut Context<'_>,
    ) -> Poll<Slot> {
        let mut state = self.0.budget.state.lock();
        let charge = match turn {
            None => match state.enter(self.0.key, context.waker()) {
                Ok(charge) => charge,
                Err(ticket) => {
                    *turn = Some(Turn { member: Arc::clone(&self.0), ticket });
                    return Poll::Pending;
                }
            },
            Some(Turn { member, ticket }) => {
                match state.fetch(member.key, *ticket, context.waker()) {
                    Some(charge) => charge,
                    None => return Poll::Pending,
                }
            }
        };
        drop(state);
        let member =
            turn.take().map_or_else(|| Arc::clone(&self.0), |turn| Arc::clone(&turn.member));
        Poll::Ready(Slot { member, since: now, charge, held: None })
    }
}

/// A caller's place in the queue. Dropping it gives up the place; a slot that was granted to it
/// goes to the next caller.
pub(crate) struct Turn {
    member: Arc<Member>,
    ticket: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let budget = &self.member.budget;
        let mut state = budget.state.lock();
        state.give_up(self.member.key, self.ticket);
        budget.hand_out(state);
    }
}

/// The right to one request in flight. It ends when it is dropped.
pub(crate) struct Slot {
    member: Arc<Member>,
    since: Moment,
    /// What was charged when it was granted.
    charge: u64,
    /// For how many microseconds it was held, if it is to be charged.
    held: Option<u64>,
}

impl Slot {
    /// Ends the slot and charges the endpoint for the time it was held. A slot that is dropped
    /// without this costs nothing.
    pub(crate) fn end(mut self, now: Moment) {
        let held = u64::try_from(now.since(self.since).as_micros()).unwrap_or(u64::MAX);
        self.held = Some(held);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let budget = &self.member.budget;
        let mut state = budget.state.lock();
        state.release(self.member.key, self.charge, self.held);
        budget.hand_out(state);
    }
}

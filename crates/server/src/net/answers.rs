//! A bound on the memory of answers that wait for their clients to read them.
//!
//! ```text
//!   0                   half               limits.answer_memory   a quarter more
//!   ├─────────────────────┼───────────────────────┼────────────────────┤
//!      all are made at once   one after the other     brief ones, and one part
//!                                                     each for clients that read
//! ```
//!
//! Who finds no room waits; what a client reads makes room for the next. A client that does not
//! read would make none, so that its connection is ended once others have waited for a while.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::admission::Connections;

/// How often it is looked for connections that do not read. What was there at one look, and still
/// is at the one after the next, has been there for this long at least.
const SWEEP: Duration = Duration::from_secs(2);

/// The least that each waiter must find when connections are closed.
const WAITING_BYTES: usize = 256 << 10;

/// What a part of an answer takes besides its bytes, about: places in the lists of the transport.
const PART_BYTES: usize = 256;

/// A client that has read so much is taken for one that reads.
const PROVEN_BYTES: usize = 64 << 10;

/// Sweeps that are told apart.
const AGES: usize = 4;

/// What an answer may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ids, settings, figures.
    Brief,
    /// Messages, once.
    Messages,
    /// Messages, for as long as both sides like.
    Stream,
}

impl Kind {
    fn is_long(self) -> bool {
        self != Self::Brief
    }
}

/// What all answers together may take.
pub(crate) struct Answers {
    bytes_max: usize,
    bytes: AtomicUsize,
    /// Held by whoever makes an answer when half is taken: otherwise each thread could look at
    /// what is left, and take it.
    turn: Mutex<()>,
    queue: Mutex<Queue>,
    /// How many there are in the queue, for those who only look.
    waiting: AtomicUsize,
    outlets: Mutex<HashMap<u64, Weak<Outlet>>>,
    /// Counts sweeps.
    age: AtomicUsize,
    numbers: AtomicU64,
    told: Connections,
}

/// Who waits for room, the first one to be woken first.
#[derive(Default)]
struct Queue {
    tickets: u64,
    wakers: BTreeMap<Rank, Waker>,
    /// Since the last sweep.
    has_waited: bool,
}

/// A place in the queue. Clients that have read much go before others, and those who hold little
/// before those who hold much: who opens many streams that he does not read stands last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// It has no right to the quarter beyond the bound.
    is_bound: bool,
    /// Twice as much is one more.
    read: Reverse<u32>,
    held: usize,
    ticket: u64,
}

impl Answers {
    pub(super) fn new(bytes_max: u64, told: Connections) -> Arc<Self> {
        Arc::new(Self {
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX / 2),
            bytes: AtomicUsize::new(0),
            turn: Mutex::default(),
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
            outlets: Mutex::default(),
            age: AtomicUsize::new(0),
            numbers: AtomicU64::new(0),
            told,
        })
    }

    /// What the answers of a new connection go through.
    pub(super) fn outlet(self: &Arc<Self>) -> Arc<Outlet> {
        let number = self.numbers.fetch_add(1, Relaxed);
        let outlet = Arc::new(Outlet {
            answers: Arc::clone(self),
            number,
            by_age: Default::default(),
            read: AtomicUsize::new(0),
            waiting: Mutex::default(),
            ending: Notify::new(),
        });
        self.outlets.lock().insert(number, Arc::downgrade(&outlet));
        outlet
    }

    fn has_room(&self, is_bound: bool) -> bool {
        let more = if is_bound { 0 } else { self.bytes_max / 4 };
        self.bytes.load(SeqCst) < self.bytes_max.saturating_add(more)
    }

    /// Waits for the others, if there is so little left that one must.
    fn turn(&self, is_long: bool) -> Option<MutexGuard<'_, ()>> {
        let is_half_taken = self.bytes.load(Relaxed) > self.bytes_max / 2;
        (is_long && is_half_taken).then(|| self.turn.lock())
    }

    /// Wakes the first in the queue if there is room for it. It wakes the next when it has taken
    /// what it needs.
    fn wake_next(&self) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut queue = self.queue.lock();
        let first = queue.wakers.first_entry().filter(|first| self.has_room(first.key().is_bound));
        let waker = first.map(|first| first.remove());
        self.waiting.store(queue.wakers.len(), SeqCst);
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Puts someone into the queue who has to look again afterwards.
    fn enqueue(&self, rank: Rank, waker: &Waker) {
        let mut queue = self.queue.lock();
        queue.has_waited = true;
        queue.wakers.insert(rank, waker.clone());
        self.waiting.store(queue.wakers.len(), SeqCst);
    }

    /// Takes someone out of the queue; `None` if it was woken already.
    fn take_out(&self, rank: Rank) -> Option<Waker> {
        let mut queue = self.queue.lock();
        let waker = queue.wakers.remove(&rank);
        self.waiting.store(queue.wakers.len(), SeqCst);
        waker
    }

    /// Ends connections that do not read, for as long as it is polled.
    pub(super) async fn sweep_for_ever(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            self.sweep();
        }
    }

    fn sweep(&self) {
        let age = self.age.fetch_add(1, Relaxed) + 1;
        let has_waited = {
            let mut queue = self.queue.lock();
            let is_waiting = !queue.wakers.is_empty();
            std::mem::replace(&mut queue.has_waited, is_waiting)
        };
        if !has_waited {
            return;
        }
        // Dropped with no lock held: the last holder of one takes it off the list.
        let outlets: Vec<_> = self.outlets.lock().values().filter_map(Weak::upgrade).collect();
        let held = outlets.iter().map(|outlet| outlet.held_since(age)).collect::<Vec<_>>();
        let more = self.waiting.load(Relaxed).saturating_mul(WAITING_BYTES);
        let taken = self.bytes.load(Relaxed).saturating_sub(self.bytes_max / 2);
        let chosen = choose(&held, taken.saturating_add(more));
        if !chosen.is_empty() {
            let unread: usize = chosen.iter().filter_map(|index| held.get(*index)).sum();
            tracing::warn!(
                connections = chosen.len(),
                bytes = unread,
                "connections closed: they do not read while others wait for memory \
                 (limits.answer_memory)"
            );
        }
        for outlet in chosen.into_iter().filter_map(|index| outlets.get(index)) {
            self.told.note_ended();
            outlet.ending.notify_one();
        }
        self.wake_next();
    }
}

/// Which connections to end for `wanted` bytes, of those that hold so many for too long: the ones
/// that hold most.
fn choose(held: &[usize], wanted: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..held.len()).filter(|index| held.get(*index) > Some(&0)).collect();
    all.sort_by_key(|index| Reverse(held.get(*index)));
    let mut found = 0;
    all.into_iter()
        .take_while(|index| {
            let is_wanted = found < wanted;
            found += held.get(*index).copied().unwrap_or_default();
            is_wanted
        })
        .collect()
}

/// What the answers of one connection go through.
pub(crate) struct Outlet {
    answers: Arc<Answers>,
    number: u64,
    /// Bytes that wait, by the sweep before which they were made.
    by_age: [AtomicUsize; AGES],
    /// Bytes that the client has read.
    read: AtomicUsize,
    /// Its answers in the queue.
    waiting: Mutex<BTreeSet<Rank>>,
    ending: Notify,
}

impl Outlet {
    /// Room for one answer.
    pub(crate) fn room(self: &Arc<Self>, kind: Kind) -> Room {
        Room { outlet: Arc::clone(self), kind, rank: None }
    }

    /// Resolves when the connection is to be ended.
    pub(crate) async fn ended(&self) {
        self.ending.notified().await;
    }

    /// Counts a part of an answer until it is dropped, which is when it was sent.
    pub(super) fn hold(self: &Arc<Self>, data: Bytes) -> Bytes {
        let hold = self.take(data.len());
        Bytes::from_owner(Counted { data, _hold: hold })
    }

    /// Counts so many bytes until they are given back.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Hold {
        let bytes = bytes.saturating_add(PART_BYTES);
        let age = self.answers.age.load(Relaxed) % AGES;
        if let Some(held) = self.by_age.get(age) {
            held.fetch_add(bytes, Relaxed);
        }
        self.answers.bytes.fetch_add(bytes, SeqCst);
        Hold { outlet: Arc::clone(self), bytes, age }
    }

    fn give_back(&self, bytes: usize, age: usize) {
        self.read.fetch_add(bytes, Relaxed);
        if let Some(held) = self.by_age.get(age) {
            held.fetch_sub(bytes, SeqCst);
        }
        self.answers.bytes.fetch_sub(bytes, SeqCst);
        self.wake_others();
    }

    fn wake_others(&self) {
        self.wake_own();
        self.answers.wake_next();
    }

    /// The client has read all it was sent, and others may not have: its next answer is made first.
    fn wake_own(&self) {
        if self.answers.waiting.load(SeqCst) == 0 || self.is_bound(Kind::Stream) {
            return;
        }
        // Some may have been woken before.
        let mut waiting = self.waiting.lock();
        while let Some(rank) = waiting.pop_first() {
            if let Some(waker) = self.answers.take_out(rank) {
                waker.wake();
                return;
            }
        }
    }

    pub(super) fn held(&self) -> usize {
        self.by_age.iter().map(|held| held.load(SeqCst)).sum()
    }

    /// Bytes that were there at the last sweep already, and now this one.
    fn held_since(&self, age: usize) -> usize {
        let at = |sweeps: usize| self.by_age.get(age.wrapping_sub(sweeps) % AGES);
        [at(2), at(3)].into_iter().flatten().map(|held| held.load(Relaxed)).sum()
    }

    fn rank(&self, kind: Kind) -> Rank {
        let ticket = {
            let mut queue = self.answers.queue.lock();
            queue.tickets += 1;
            queue.tickets
        };
        let read = Reverse(usize::BITS - self.read.load(Relaxed).leading_zeros());
        Rank { is_bound: self.is_bound(kind), read, held: self.held(), ticket }
    }

    /// Clients that read go on, one part after the other, though others that do not have taken all
    /// there is.
    fn is_bound(&self, kind: Kind) -> bool {
        let reads = self.read.load(Relaxed) >= PROVEN_BYTES && self.held() == 0;
        kind.is_long() && !reads
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.answers.outlets.lock().remove(&self.number);
    }
}

/// Bytes that are counted; dropping it gives them back.
pub(crate) struct Hold {
    outlet: Arc<Outlet>,
    bytes: usize,
    age: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.outlet.give_back(self.bytes, self.age);
    }
}

/// A part of an answer on its way.
struct Counted {
    data: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Where an answer is made once there is room for it.
pub(crate) struct Room {
    outlet: Arc<Outlet>,
    kind: Kind,
    /// Its place in the queue, from when it first waited until it has worked.
    rank: Option<Rank>,
}

impl Room {
    /// Polls `make` if there is room for what it makes; it counts that with the outlet.
    pub(crate) fn work<R>(
        &mut self,
        context: &mut Context<'_>,
        make: impl FnOnce(&mut Context<'_>, &Arc<Outlet>) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            ready!(self.wait(context));
            let turn = self.outlet.answers.turn(self.kind.is_long());
            // Those who had their turn before may have left nothing.
            if turn.is_some() && !self.has_room() {
                continue;
            }
            let made = make(context, &self.outlet);
            drop(turn);
            if self.rank.take().is_some() {
                self.outlet.wake_others();
            }
            return made;
        }
    }

    /// Makes something as soon as there is room.
    pub(crate) async fn make<R>(&mut self, make: impl FnOnce(&Arc<Outlet>) -> R) -> R {
        let mut make = Some(make);
        std::future::poll_fn(move |context| {
            self.work(context, |_, outlet| match make.take() {
                Some(make) => Poll::Ready(make(outlet)),
                None => Poll::Pending,
            })
        })
        .await
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn outlet(&self) -> Arc<Outlet> {
        Arc::clone(&self.outlet)
    }

    /// What follows is brief.
    pub(super) fn note_messages_made(&mut self) {
        if self.kind == Kind::Messages {
            self.kind = Kind::Brief;
        }
    }

    fn has_room(&self) -> bool {
        self.outlet.answers.has_room(self.outlet.is_bound(self.kind))
    }

    fn wait(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.has_room() {
            let rank = *self.rank.get_or_insert_with(|| self.outlet.rank(self.kind));
            self.outlet.waiting.lock().insert(rank);
            self.outlet.answers.enqueue(rank, context.waker());
            // Whoever gave something back before this has not seen it in the queue.
            if !self.has_room() {
                return Poll::Pending;
            }
        }
        if let Some(rank) = self.rank {
            self.leave(rank);
        }
        Poll::Ready(())
    }

    /// Whether it was still in the queue.
    fn leave(&self, rank: Rank) -> bool {
        self.outlet.waiting.lock().remove(&rank);
        self.outlet.answers.take_out(rank).is_some()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // If it was woken and does not come anymore, another one can.
        if let Some(rank) = self.rank
            && !self.leave(rank)
        {
            self.outlet.wake_others();
        }
    }
}

#[cfg(test)]
mod tests;

//! `shared-memory`: a store that several nodes of one process share, for tests and simulation.
//!
//! It keeps what a replicated store would keep, in memory; every engine over it has a way of its
//! own to it, where calls are refused, held up, lost and repeated as a test decides ([`Faults`]).
//! It needs no runtime and no thread, and knows no time but that of the clock it is given.
//!
//! | File | For |
//! |---|---|
//! | `state` | what it holds, and what each call does to it |
//! | `wire`, `faults` | the way to it, and what goes wrong there |
//! | `calls` | the traits, each call over the wire |

mod calls;
mod faults;
mod state;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use domain::{ShardId, SubscriptionId};
use futures::FutureExt;
use parking_lot::Mutex;

pub use faults::{Asked, Call, Fault, Faults, NoFaults, Script, Seeded};

use self::calls::Remote;
use self::state::State;
use self::wire::{Transit, Wire};
use super::chunks::{Chunks, Head};
use super::{Core, Options};
use crate::planted::Planted;
use crate::{AttemptHistory, Catalogue, Engine, Kind, Members};

/// How long a lease lasts, unless a test wants another time.
const LEASE: Duration = Duration::from_secs(4);

/// A store in memory that several engines share. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    state: Arc<Mutex<State>>,
    transit: Arc<Transit>,
    catalogue: Arc<dyn Catalogue>,
    attempts: Arc<dyn AttemptHistory>,
}

impl Store {
    /// An empty store of `count` shards, whose leases are counted by `clock`.
    pub fn new(count: u32, clock: Arc<dyn Clock>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(count, LEASE))),
            transit: Arc::new(Transit::new(clock)),
            catalogue: crate::memory::definitions(),
            attempts: crate::memory::history(),
        }
    }

    /// Has leases last for `lease` from now on.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        self.state.lock().lease = lease;
        self
    }

    /// What tests have it do wrong, to see that they find out.
    #[doc(hidden)]
    #[must_use]
    pub fn with_planted(self, planted: Planted) -> Self {
        self.state.lock().planted = planted;
        self
    }

    /// An engine over the store: one node's. All its calls go by `faults`.
    pub fn engine(&self, options: Options, faults: Arc<dyn Faults>) -> Engine {
        self.sweep();
        let remote = Arc::new(self.remote(faults));
        let (chunks, catalogue): (Arc<dyn Chunks>, Arc<dyn Catalogue>) =
            (Arc::clone(&remote) as _, Arc::clone(&remote) as _);
        let members: Arc<dyn Members> = Arc::clone(&remote) as _;
        let shards = Arc::new(Core::new(chunks, options));
        Engine { shards, catalogue, attempts: remote, members: Some(members) }
    }

    /// The seam itself, as one node has it.
    pub fn chunks(&self, faults: Arc<dyn Faults>) -> Arc<dyn Chunks> {
        Arc::new(self.remote(faults))
    }

    /// Drops the attempts of subscriptions whose definition is gone.
    fn sweep(&self) {
        let all = self.catalogue.list(Kind::Subscription, None, usize::MAX).now_or_never();
        let Some(Ok(page)) = all else { return };
        let defined: BTreeSet<u64> = page.entries.iter().map(|entry| entry.id).collect();
        let is_gone = |id: &SubscriptionId| !defined.contains(&id.0);
        let gone: Vec<_> = self.state.lock().tried.extract_if(.., is_gone).collect();
        // It answers at once, and cannot fail.
        drop(self.attempts.forget(gone).now_or_never());
    }

    fn remote(&self, faults: Arc<dyn Faults>) -> Remote {
        Remote {
            state: Arc::clone(&self.state),
            wire: Wire { transit: Arc::clone(&self.transit), faults },
            catalogue: Arc::clone(&self.catalogue),
            attempts: Arc::clone(&self.attempts),
        }
    }

    /// Has every call arrive that is still on its way.
    pub fn settle(&self) {
        self.transit.arrive_all();
    }

    /// Where `shard` stands; as it was never used, if there is no such shard.
    pub fn head(&self, shard: ShardId) -> Head {
        self.state.lock().head(shard).unwrap_or_default()
    }

    /// The chunks of `shard`, ascending.
    pub fn stored(&self, shard: ShardId) -> Vec<(u64, Bytes)> {
        self.state.lock().read(shard, (0, u64::MAX), usize::MAX).unwrap_or_default()
    }

    /// How many blocks `shard` has.
    pub fn blocks(&self, shard: ShardId) -> usize {
        self.state.lock().shard(shard).map_or(0, |shard| shard.blocks.len())
    }

    /// Puts `bytes` in the place of chunk `number`, or removes it: damage.
    pub fn damage(&self, shard: ShardId, number: u64, bytes: Option<Bytes>) {
        if let Ok(shard) = self.state.lock().shard(shard) {
            match bytes {
                Some(bytes) => drop(shard.chunks.insert(number, bytes)),
                None => drop(shard.chunks.remove(&number)),
            }
        }
    }
}

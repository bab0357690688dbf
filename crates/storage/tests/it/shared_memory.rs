//! The core of shared engines runs the conformance suite, over the store in memory.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use futures::FutureExt;
use futures::future::BoxFuture;
use storage::Engine;
use storage::conformance::{self, Durable, Store};
use storage::shared::Options;
use storage::shared::memory::{self, Faults, NoFaults, Seeded};

/// So small that the suite's few records fill chunks, stretches and blocks.
fn tiny() -> Options {
    Options {
        tail_memory_bytes: 64 << 10,
        group_bytes_max: 16 << 10,
        stretch_bytes: 16 << 10,
        kept_bytes: 16 << 10,
        block_bytes: 32 << 10,
        ..Options::default()
    }
}

/// A node's engine over a store that outlives it.
struct Shared {
    store: memory::Store,
    engine: Engine,
    faults: Arc<dyn Faults>,
}

impl Shared {
    fn new(faults: Arc<dyn Faults>) -> Self {
        let store = memory::Store::new(4, Arc::new(SystemClock::start()));
        let engine = store.engine(tiny(), Arc::clone(&faults));
        Self { store, engine, faults }
    }
}

impl Store for Shared {
    fn engine(&self) -> Engine {
        self.engine.clone()
    }
}

impl Durable for Shared {
    fn reopen(self) -> BoxFuture<'static, Self> {
        let Self { store, faults, .. } = self;
        let engine = store.engine(tiny(), Arc::clone(&faults));
        async { Self { store, engine, faults } }.boxed()
    }
}

#[tokio::test]
async fn shared_memory_keeps_every_live_promise() {
    let broken = conformance::run_live(async || Shared::new(Arc::new(NoFaults))).await;
    assert!(broken.is_empty(), "{broken:#?}");
}

#[tokio::test]
async fn shared_memory_keeps_what_it_is_given() {
    let broken = conformance::run_reopening(async || Shared::new(Arc::new(NoFaults))).await;
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Calls that are held up for a moment, or arrive twice: nobody notices.
struct Slow(Seeded);

impl Faults for Slow {
    fn decide(&self, call: memory::Call) -> memory::Fault {
        match self.0.decide(call) {
            fault @ (memory::Fault::Delay(_) | memory::Fault::DelayAnswer(_)) => fault,
            fault @ memory::Fault::Twice(_) if call.shard.is_some() => fault,
            _ => memory::Fault::None,
        }
    }
}

#[tokio::test]
async fn shared_memory_keeps_its_promises_over_a_slow_network() {
    let seed = testkit::seed::seed();
    let slow = || Slow(Seeded::new(seed, 200, Duration::from_millis(5)));
    let broken = conformance::run_live(async || Shared::new(Arc::new(slow()))).await;
    assert!(broken.is_empty(), "{broken:#?}");
    let broken = conformance::run_reopening(async || Shared::new(Arc::new(slow()))).await;
    assert!(broken.is_empty(), "{broken:#?}");
}

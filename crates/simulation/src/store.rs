//! What the nodes of a world keep their data in, and what goes wrong there.

mod ahead;
mod links;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::Clock;
use domain::ShardId;
use parking_lot::Mutex;
use storage::disk::Durability;
use storage::planted::Fault as Planted;
use storage::shared::memory::{self, Asked, Call, Fault, Faults, Seeded};
use storage::{Engine, Error, Members, Shards, disk, shared};
use tempfile::TempDir;
use testkit::disk::Cut;
use testkit::{Random, SimDisk};

use self::ahead::Ahead;
use self::links::{Linked, Links};
use crate::executor::Node;
use crate::history::Id;
use crate::load::topic_name;
use crate::net::Net;
use crate::scenario::{Kind, SHARDS, Scenario};

/// The longest time for which one call of a faulty store is held up.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(2);

/// Where data is kept, and what leads from there back to brokers.
pub(crate) struct Store {
    kept: Kept,
    /// By node.
    links: Vec<Arc<Links>>,
    planted: storage::planted::Planted,
}

enum Kept {
    /// In memory, which outlives the broker.
    Memory(Engine),
    /// On a disk whose power may go.
    Disk(Box<OnDisk>),
    /// In one place for several nodes.
    Shared(Box<Shared>),
}

pub(crate) struct OnDisk {
    disk: Mutex<SimDisk>,
    /// Has the definitions, which need real files.
    folder: TempDir,
    scenario: Scenario,
}

pub(crate) struct Shared {
    store: memory::Store,
    options: shared::Options,
    /// What goes wrong on the way, by node.
    ways: Vec<Arc<Way>>,
    /// The members as each node sees them in its current life.
    members: Mutex<Vec<Option<Arc<dyn Members>>>>,
}

impl Store {
    pub(crate) fn new(scenario: &Scenario, clock: Arc<dyn Clock>) -> Self {
        let kept = match scenario.kind {
            Kind::Memory => Kept::Memory(storage::memory::open()),
            Kind::Disk => Kept::Disk(Box::new(OnDisk {
                disk: Mutex::new(SimDisk::new()),
                folder: folder(),
                scenario: scenario.clone(),
            })),
            Kind::Cluster => Kept::Shared(Box::new(Shared::new(scenario, clock))),
        };
        let links = (0..=scenario.nodes()).map(|_| Arc::default()).collect();
        Self { kept, links, planted: scenario.planted }
    }

    /// Opens it for a node's new life.
    pub(crate) fn open(&self, node: Node) -> Result<Engine, Error> {
        let engine = match &self.kept {
            Kept::Memory(engine) => engine.clone(),
            Kept::Disk(store) => store.open()?,
            Kept::Shared(store) => store.open(node),
        };
        let shards: Arc<dyn Shards> = match self.planted.has(Planted::CheckpointAhead) {
            true => Arc::new(Ahead(engine.shards)),
            false => engine.shards,
        };
        let links = Arc::clone(&self.links[node.0]);
        Ok(Engine { shards: Arc::new(Linked { shards, links }), ..engine })
    }

    /// The life of a node is over.
    pub(crate) fn let_go(&self, node: Node) {
        self.links[node.0].cut();
    }

    pub(crate) fn disk(&self) -> Option<&OnDisk> {
        match &self.kept {
            Kept::Disk(store) => Some(store),
            Kept::Memory(_) | Kept::Shared(_) => None,
        }
    }

    pub(crate) fn shared(&self) -> Option<&Shared> {
        match &self.kept {
            Kept::Shared(store) => Some(store),
            Kept::Memory(_) | Kept::Disk(_) => None,
        }
    }

    /// The node that clients take to own a topic; any, where that is not known.
    pub(crate) fn owner(&self, net: &Net, topic: &Id, number: u64) -> Node {
        let owner = match &self.kept {
            Kept::Memory(_) | Kept::Disk(_) => Some(Node(1)),
            Kept::Shared(store) => store.owner(net, ShardId::of(&topic_name(topic), SHARDS)),
        };
        owner.unwrap_or_else(|| net.any(number))
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&self) {
        match &self.kept {
            Kept::Memory(_) => {}
            Kept::Disk(store) => store.heal(),
            Kept::Shared(store) => store.ways.iter().for_each(|way| way.heal()),
        }
    }
}

/// Real files, and so in memory where the machine has room for files there.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

impl OnDisk {
    fn open(&self) -> Result<Engine, Error> {
        let database = self.folder.path().join("definitions");
        let options = disk::Options {
            wal_segment_bytes: 64 << 10,
            wal_max_bytes: 512 << 10,
            tail_memory_bytes: 32 << 10,
            topic_segment_bytes: 48 << 10,
            reserve_bytes: 64 << 10,
            seed: Some(self.scenario.seed),
            durability: self.durability(),
            ..disk::Options::default()
        };
        let disk = Arc::new(self.disk.lock().clone());
        Ok(disk::open_on(disk, &database, options)?.engine)
    }

    fn durability(&self) -> Durability {
        match self.scenario.planted.has(Planted::AnswerBeforeSync) {
            true => Durability::Os,
            false => Durability::Fsync,
        }
    }

    /// A fault is in the way of a later call.
    pub(crate) fn fail(&self, fault: testkit::disk::Fault) {
        self.disk.lock().fail(fault);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.disk.lock().is_off()
    }

    /// The power went: what is synced stays; of what is not, any part.
    pub(crate) fn cut(&self, random: &mut Random) {
        let mut disk = self.disk.lock();
        let unsynced = disk.unsynced();
        let whole = random.index(unsynced.len() + 1);
        let torn = random.index(unsynced.get(whole).copied().unwrap_or_default() + 1);
        let cut = match random.below(4) {
            0 => Cut::LosesUnsynced,
            1 => Cut::LosesNothing,
            2 => Cut::Prefix { whole, torn },
            _ => Cut::Random(random.draw()),
        };
        *disk = disk.power_cut_with(cut);
    }

    fn heal(&self) {
        let disk = self.disk.lock();
        // A cut that has begun comes to its end.
        if !disk.is_off() {
            disk.heal();
        }
    }
}

impl Shared {
    fn new(scenario: &Scenario, clock: Arc<dyn Clock>) -> Self {
        let store = memory::Store::new(SHARDS, clock).with_planted(scenario.planted);
        let ways = (0..=scenario.nodes() as u64).map(|node| {
            let seed = scenario.seed.wrapping_mul(31).wrapping_add(node);
            Arc::new(Way {
                is_cut: AtomicBool::new(false),
                is_healed: AtomicBool::new(false),
                faults: Seeded::new(seed, scenario.faulty * 10, DELAY_MAX),
            })
        });
        let options = shared::Options {
            tail_memory_bytes: 32 << 10,
            log_bytes_max: 256 << 10,
            checkpoint_bytes: 64 << 10,
            stretch_bytes: 16 << 10,
            kept_bytes: 16 << 10,
            block_bytes: 8 << 10,
            planted: scenario.planted,
            ..shared::Options::default()
        };
        let members = Mutex::new(vec![None; scenario.nodes() + 1]);
        Self { store, options, ways: ways.collect(), members }
    }

    fn open(&self, node: Node) -> Engine {
        let engine = self.store.engine(self.options, Arc::clone(&self.ways[node.0]) as _);
        self.members.lock()[node.0].clone_from(&engine.members);
        engine
    }

    pub(crate) fn members(&self, node: Node) -> Option<Arc<dyn Members>> {
        self.members.lock()[node.0].clone()
    }

    /// The node that the store has as the owner of a shard.
    pub(crate) fn owner(&self, net: &Net, shard: ShardId) -> Option<Node> {
        net.node_of(self.store.head(shard).owner?)
    }

    /// The store does not answer a node, or answers again.
    pub(crate) fn cut_off(&self, node: Node, is_cut: bool) {
        self.ways[node.0].is_cut.store(is_cut, Ordering::SeqCst);
    }
}

/// What goes wrong between one node and the store.
struct Way {
    is_cut: AtomicBool,
    is_healed: AtomicBool,
    faults: Seeded,
}

impl Way {
    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
        self.is_healed.store(true, Ordering::SeqCst);
    }
}

impl Faults for Way {
    fn decide(&self, call: Call) -> Fault {
        if self.is_cut.load(Ordering::SeqCst) {
            // A step of a stream of changes can only be refused.
            return match call.asked {
                Asked::Changes => Fault::Refuse,
                _ => Fault::LoseCall,
            };
        }
        if self.is_healed.load(Ordering::SeqCst) {
            return Fault::None;
        }
        match self.faults.decide(call) {
            // Only chunks are made to arrive twice: who creates again what was deleted meanwhile
            // has asked for it twice.
            Fault::Twice(_) if call.asked > Asked::Saved => Fault::None,
            other => other,
        }
    }
}

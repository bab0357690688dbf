//! A store on a simulated disk: the ground the fault tests stand on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use domain::{NodeId, Offset, ShardId, TopicId};
use parking_lot::Mutex;
use storage::disk::{self, Handle, Opened, Options, Recovery};
use storage::{
    AttemptHistory, Catalogue, Engine, Error, Listener, MessageLog, ProgressStore, Shard,
};
use tempfile::TempDir;
use testkit::SimDisk;
use testkit::disk::Cut;

/// A simulated disk, and a folder for the definitions database, which is real.
pub(crate) struct Bed {
    pub(crate) disk: SimDisk,
    folder: TempDir,
    open: Mutex<Vec<Handle>>,
}

impl Bed {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::on(SimDisk::new())
    }

    fn on(disk: SimDisk) -> Self {
        Self { disk, folder: folder(), open: Mutex::default() }
    }

    /// A store of this disk and a copy of that database. A missing database stays missing.
    pub(crate) fn of(disk: SimDisk, database: &Path) -> Self {
        let bed = Self::on(disk);
        let attempts = |database: &Path| database.with_file_name("attempts.sqlite");
        copy(database, &bed.database());
        copy(&attempts(database), &attempts(&bed.database()));
        bed
    }

    /// This store as it is found after a power cut. Nobody may have it open.
    pub(crate) fn after(&self, cut: Cut) -> Self {
        Self::of(self.disk.power_cut_with(cut), &self.database())
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("definitions")
    }

    pub(crate) fn open(&self) -> Result<Running, Error> {
        self.open_with(tiny())
    }

    pub(crate) fn open_with(&self, options: Options) -> Result<Running, Error> {
        self.recover_with(options).map(|(engine, _)| engine)
    }

    /// Opens the store, and says what that found.
    pub(crate) fn recover_with(&self, options: Options) -> Result<(Running, Recovery), Error> {
        let opened = disk::open_on(Arc::new(self.disk.clone()), &self.database(), options)?;
        let recovery = opened.recovery;
        self.open.lock().push(opened.handle.clone());
        Ok((Running::of(&opened.engine)?, recovery))
    }

    /// Opens the store and none of its shards.
    pub(crate) fn engine(&self) -> Result<Engine, Error> {
        let opened = disk::open_on(Arc::new(self.disk.clone()), &self.database(), tiny())?;
        self.open.lock().push(opened.handle);
        Ok(opened.engine)
    }

    /// Of the store that was opened last.
    pub(crate) fn handle(&self) -> Handle {
        self.open.lock().last().expect("an open store").clone()
    }

    /// Closes what was opened: when this returns no thread of it touches the disk any more.
    pub(crate) fn close(&self) {
        for handle in self.open.lock().drain(..) {
            handle.close();
        }
    }
}

/// A store whose shard is open.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) shard: Shard,
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) catalogue: Arc<dyn Catalogue>,
    pub(crate) attempts: Arc<dyn AttemptHistory>,
    relay: Arc<Relay>,
}

impl Running {
    /// Opens the shard of a disk engine: its own threads answer, so this may wait for them.
    pub(crate) fn of(engine: &Engine) -> Result<Self, Error> {
        wait_for(Self::open(engine))
    }

    /// Opens the shard.
    pub(crate) async fn open(engine: &Engine) -> Result<Self, Error> {
        let relay = Arc::new(Relay::default());
        let shard = engine.shards.open(ShardId(0), NodeId(1), Arc::clone(&relay) as _).await?;
        let (log, progress) = (Arc::clone(&shard.log), Arc::clone(&shard.progress));
        let (catalogue, attempts) = (Arc::clone(&engine.catalogue), Arc::clone(&engine.attempts));
        Ok(Self { shard, log, progress, catalogue, attempts, relay })
    }

    /// The store in a folder.
    pub(crate) fn in_folder(folder: &Path, options: Options) -> (Self, Handle) {
        let Opened { engine, handle, .. } = disk::open(folder, options).expect("it opens");
        (Self::of(&engine).expect("its shard opens"), handle)
    }

    /// Has `listener` hear what the log tells.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) {
        *self.relay.0.lock() = Some(listener);
    }
}

/// Passes on what the log tells.
#[derive(Default)]
struct Relay(Mutex<Option<Arc<dyn Listener>>>);

impl Relay {
    fn tell(&self, what: impl FnOnce(&dyn Listener)) {
        let listener = self.0.lock().clone();
        if let Some(listener) = listener {
            what(listener.as_ref());
        }
    }
}

impl Listener for Relay {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        self.tell(|listener| listener.visible(ends));
    }

    fn pressed(&self) {
        self.tell(|listener| listener.pressed());
    }

    fn stalled(&self, stalled: bool) {
        self.tell(|listener| listener.stalled(stalled));
    }

    fn failed(&self, error: &Error) {
        self.tell(|listener| listener.failed(error));
    }
}

/// Waits for something that other threads bring about.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    struct Sleeper(std::thread::Thread);
    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Sleeper(std::thread::current())));
    // A runtime that wants its turn must not have this wait for ever.
    let mut work = std::pin::pin!(tokio::task::unconstrained(work));
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Copies a SQLite file with its log. A missing one stays missing.
fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let from = with_suffix(from, suffix);
        if from.exists() {
            std::fs::copy(from, with_suffix(to, suffix)).expect("copied");
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// A folder in memory where there is one: the database is not what is tested here.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// How many of something are tried: `usual` in a test run, more where more cases are asked for.
pub(crate) fn scaled(usual: u64) -> u64 {
    const CASES_USUAL: u64 = 256;
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    usual * (cases.unwrap_or(CASES_USUAL) / CASES_USUAL).max(1)
}

/// Everything so small that a short script fills, rolls and recycles it.
pub(crate) fn tiny() -> Options {
    Options {
        wal_segment_bytes: 64 << 10,
        wal_max_bytes: 512 << 10,
        tail_memory_bytes: 32 << 10,
        queue_bytes_max: 1 << 20,
        group_bytes_max: 8 << 10,
        topic_segment_bytes: 48 << 10,
        reserve_bytes: 64 << 10,
        ride_delay: Duration::from_millis(5),
        ..Options::default()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // The folder goes away with the bed.
        self.close();
    }
}

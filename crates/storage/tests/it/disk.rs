//! The disk engine runs the conformance suite, on a simulated disk and on a real one.

use futures::FutureExt;
use futures::future::BoxFuture;
use storage::conformance::{self, Durable, Store};
use storage::disk::{self, Opened};
use storage::{Engine, Error};
use tempfile::TempDir;

use crate::bed::{Bed, Running, folder, tiny};
use crate::owner::Owner;
use crate::script;

/// A store on a simulated disk that loses its power whenever it is closed.
struct Simulated {
    bed: Bed,
    engine: Engine,
}

impl Simulated {
    fn open(bed: Bed) -> Self {
        let engine = bed.engine().expect("it opens");
        Self { bed, engine }
    }
}

impl Store for Simulated {
    fn engine(&self) -> Engine {
        self.engine.clone()
    }
}

impl Durable for Simulated {
    fn reopen(self) -> BoxFuture<'static, Self> {
        self.bed.close();
        let left = Bed::of(self.bed.disk.power_cut(), &self.bed.database());
        async { Self::open(left) }.boxed()
    }
}

/// A store in a folder.
struct Real {
    folder: TempDir,
    opened: Opened,
}

impl Real {
    fn open(folder: TempDir) -> Self {
        let opened = disk::open(folder.path(), tiny()).expect("it opens");
        Self { folder, opened }
    }
}

impl Store for Real {
    fn engine(&self) -> Engine {
        self.opened.engine.clone()
    }
}

impl Durable for Real {
    fn reopen(self) -> BoxFuture<'static, Self> {
        self.opened.handle.close();
        async { Self::open(self.folder) }.boxed()
    }
}

#[tokio::test]
async fn disk_keeps_every_live_promise() {
    let broken = conformance::run_live(async || Simulated::open(Bed::new())).await;
    assert!(broken.is_empty(), "{broken:#?}");
}

#[tokio::test]
async fn disk_keeps_every_promise_across_power_cuts() {
    let broken = conformance::run_reopening(async || Simulated::open(Bed::new())).await;
    assert!(broken.is_empty(), "{broken:#?}");
}

#[tokio::test]
async fn disk_keeps_every_promise_on_a_real_disk() {
    let mut broken = conformance::run_live(async || Real::open(folder())).await;
    broken.extend(conformance::run_reopening(async || Real::open(folder())).await);
    assert!(broken.is_empty(), "{broken:#?}");
}

#[tokio::test]
async fn a_folder_is_opened_only_once_at_a_time() {
    let folder = folder();
    let first = disk::open(folder.path(), tiny()).expect("it opens");
    let second = disk::open(folder.path(), tiny()).map(|_| ());
    assert!(matches!(second, Err(Error::InUse(_))), "{second:?}");
    let looked_at = disk::verify(folder.path(), &|_| Ok(())).map(|_| ());
    assert!(matches!(looked_at, Err(Error::InUse(_))), "{looked_at:?}");
    drop(first);
    drop(disk::open(folder.path(), tiny()).expect("it is free again"));
}

#[tokio::test]
async fn a_sound_store_verifies_without_faults() {
    let folder = folder();
    let (running, handle) = Running::in_folder(folder.path(), tiny());
    let mut owner = Owner::new(running);
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..4 {
        script::round(&mut owner, number).await;
    }
    assert!(owner.errors.is_empty(), "{:?}", owner.errors);
    let history = owner.history;
    handle.close();
    let report = disk::verify(folder.path(), &|_| Ok(())).expect("it can be looked at");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let (running, _handle) = Running::in_folder(folder.path(), tiny());
    history.check(&running, history.mark()).await;
}

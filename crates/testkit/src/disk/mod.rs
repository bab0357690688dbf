//! A disk in memory that does what real disks do at their worst, when told to.
//!
//! It keeps apart what is synced and what is only cached, for content and for names, so that a
//! test can cut the power at any moment and go on with what is left.

mod content;
mod cut;
mod fault;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::disk::{Disk, File};

use content::Content;
pub use cut::Cut;
use fault::Faults;
pub use fault::{Call, Effect, Errno, Fault, Traced};

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    content: Content,
    faults: Faults,
    observer: Option<Observer>,
    /// Syncs of files whose names start so wait.
    held: Option<String>,
    /// How many syncs wait.
    waiting: usize,
}

type Observer = Arc<dyn Fn(&SimDisk, &Traced) + Send + Sync>;

impl SimDisk {
    /// An empty disk without limits.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(content: Content) -> Self {
        let disk = Self::default();
        disk.shared.state.lock().content = content;
        disk
    }

    /// Puts a fault in the way of a later call.
    pub fn fail(&self, fault: Fault) {
        self.shared.state.lock().faults.coming.push(fault);
    }

    /// Takes away every fault that has not struck, and gives the power back.
    pub fn heal(&self) {
        let mut state = self.shared.state.lock();
        state.faults.coming.clear();
        state.faults.off = false;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.shared.state.lock().faults.off
    }

    /// Bounds the disk: what would take more answers `ENOSPC`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state.lock().content.capacity = bytes;
    }

    /// Bytes taken by files.
    pub fn used(&self) -> u64 {
        self.shared.state.lock().content.used()
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.state.lock().faults.trace.len() as u64
    }

    /// Every call so far, in order.
    pub fn trace(&self) -> Vec<Traced> {
        self.shared.state.lock().faults.trace.clone()
    }

    /// Calls `observer` before each call takes effect, outside of the disk's lock.
    pub fn observe(&self, observer: impl Fn(&Self, &Traced) + Send + Sync + 'static) {
        self.shared.state.lock().observer = Some(Arc::new(observer));
    }

    /// Ends `observe`.
    pub fn observe_no_more(&self) {
        self.shared.state.lock().observer = None;
    }

    /// From now on every sync of a file whose name starts with `prefix` waits for `release`.
    pub fn hold_syncs(&self, prefix: &str) {
        self.shared.state.lock().held = Some(prefix.to_owned());
    }

    /// Blocks until a sync is waiting.
    pub fn wait_for_held_sync(&self) {
        let mut state = self.shared.state.lock();
        while state.waiting == 0 {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Lets all syncs go on.
    pub fn release(&self) {
        self.shared.state.lock().held = None;
        self.shared.changed.notify_all();
    }

    /// The same disk as of now, cache and all, without faults, on which life goes another way.
    pub fn fork(&self) -> Self {
        Self::with(self.shared.state.lock().content.clone())
    }

    /// The disk as it would be found if the power failed now and everything unsynced was lost.
    pub fn power_cut(&self) -> Self {
        self.power_cut_with(Cut::LosesUnsynced)
    }

    /// The disk as it would be found if the power failed now.
    pub fn power_cut_with(&self, cut: Cut) -> Self {
        Self::with(cut::after(&self.shared.state.lock().content, cut))
    }

    /// The sizes of the unsynced changes in order: bytes of a write, zero for other changes.
    pub fn unsynced(&self) -> Vec<usize> {
        let state = self.shared.state.lock();
        let mut sizes = BTreeMap::new();
        for change in state.content.inodes.iter().flat_map(|inode| &inode.unsynced) {
            let size = match &change.what {
                content::What::Write { bytes, .. } => bytes.len(),
                content::What::Length(_) => 0,
            };
            sizes.insert(change.order, size);
        }
        cut::orders(&state.content)
            .iter()
            .map(|order| sizes.get(order).copied().unwrap_or(0))
            .collect()
    }

    /// Every file with its content as reads see it.
    pub fn files(&self) -> BTreeMap<String, Arc<Vec<u8>>> {
        let content = &self.shared.state.lock().content;
        let files = content.names.iter();
        files
            .map(|(name, inode)| (name.clone(), Arc::clone(&content.inodes[*inode].cached)))
            .collect()
    }

    /// Flips a bit of a file, in the cache and on the disk.
    pub fn flip(&self, name: &str, byte: usize, bit: u8) {
        let content = &mut self.shared.state.lock().content;
        let Ok(inode) = content.inode(name) else { return };
        let inode = &mut content.inodes[inode];
        for side in [&mut inode.cached, &mut inode.kept] {
            if let Some(byte) = Arc::make_mut(side).get_mut(byte) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Meets a call: notes it, tells the observer, and gives the state if no fault struck. Faults
    /// with an effect of their own come back beside the state.
    fn meet(
        &self,
        call: Call,
        name: impl FnOnce(&Content) -> String,
        at: u64,
        length: usize,
    ) -> (MutexGuard<'_, State>, Option<Effect>) {
        let mut state = self.shared.state.lock();
        let name = name(&state.content);
        let effect = state.faults.meet(call, &name, at, length);
        if let (Some(observer), Some(traced)) =
            (state.observer.clone(), state.faults.trace.last().cloned())
        {
            MutexGuard::unlocked(&mut state, || observer(self, &traced));
        }
        (state, effect)
    }

    /// A call on a name whose faults have no effect but their error.
    fn named(&self, call: Call, name: &str) -> io::Result<MutexGuard<'_, State>> {
        match self.meet(call, |_| name.to_owned(), 0, 0) {
            (state, None) => Ok(state),
            (_, Some(effect)) => Err(effect.error()),
        }
    }

    fn handle(&self, inode: usize) -> Arc<dyn File> {
        Arc::new(SimFile { disk: self.clone(), inode })
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.named(Call::Open, name)?.content.inode(name)?;
        Ok(self.handle(inode))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.named(Call::Create, name)?.content.create(name)?;
        Ok(self.handle(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.named(Call::Rename, to)?.content.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.named(Call::Remove, name)?.content.remove(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        Ok(self.named(Call::List, folder)?.content.list(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.named(Call::SyncFolder, folder)?.content.sync_folder(folder);
        Ok(())
    }
}

/// An open file; keeps its content when it is renamed or removed.
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl SimFile {
    fn meet(&self, call: Call, at: u64, length: usize) -> (MutexGuard<'_, State>, Option<Effect>) {
        self.disk.meet(call, |content| content.name(self.inode).to_owned(), at, length)
    }

    fn plain(&self, call: Call, at: u64, length: usize) -> io::Result<MutexGuard<'_, State>> {
        match self.meet(call, at, length) {
            (state, None) => Ok(state),
            (_, Some(effect)) => Err(effect.error()),
        }
    }

    /// Waits while syncs of this file are held.
    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        let holds = |state: &State| {
            let name = state.content.name(self.inode);
            state.held.as_ref().is_some_and(|prefix| name.starts_with(prefix))
        };
        state.waiting += 1;
        self.disk.shared.changed.notify_all();
        while holds(state) {
            self.disk.shared.changed.wait(state);
        }
        state.waiting -= 1;
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let state = self.plain(Call::Read, at, buffer.len())?;
        let bytes = &state.content.inodes[self.inode].cached;
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let found = bytes.get(from..from.saturating_add(buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (mut state, effect) = self.meet(Call::Write, at, bytes.len());
        match effect {
            None => state.content.write_at(self.inode, at, bytes),
            Some(Effect::Tear(whole)) => {
                let whole = whole.min(bytes.len());
                state.content.write_at(self.inode, at, &bytes[..whole])?;
                Err(Effect::Tear(whole).error())
            }
            Some(effect) => Err(effect.error()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, effect) = self.meet(Call::Sync, 0, 0);
        self.wait(&mut state);
        match effect {
            None => {
                state.content.sync(self.inode);
                Ok(())
            }
            // The power is off: what is cached stays as it was when it went.
            Some(Effect::PowerOff) => Err(Effect::PowerOff.error()),
            Some(effect) => {
                state.content.lose(self.inode);
                Err(effect.error())
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.plain(Call::Len, 0, 0)?;
        Ok(state.content.inodes[self.inode].cached.len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.plain(Call::SetLen, length, 0)?.content.set_len(self.inode, length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.plain(Call::Allocate, length, 0)?.content.allocate(self.inode, length)
    }
}

#[cfg(test)]
mod tests;

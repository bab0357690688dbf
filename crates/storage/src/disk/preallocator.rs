//! Keeps files ready for the log, and a reserve for when the disk is full.
//!
//! A separate thread zero-fills the next log file before the current one is full: overwriting
//! written blocks needs no metadata, so a sync costs half. It sleeps unless a file is wanted, or
//! the disk is full and has to be checked again.
//!
//! "Full" means that a file for the log could not be created. From then on appends are refused;
//! everything else continues, using what is left of the current files and the reserve, which
//! shrinks as it is used. Appends are accepted again once the reserve is restored and a file is
//! ready.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::tasks;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use super::database::is_disk_full;
use super::descriptors::is_scarce;
use super::format::BLOCK_BYTES;
use super::seam::{Disk, File};
use super::wal::{DAMAGED_FOLDER, FOLDER, FREE_FOLDER, WalFile, is_full};

/// How often a full disk is checked again.
const FULL_RETRY: Duration = Duration::from_millis(500);
/// Files kept for reuse.
const READY_MAX: usize = 4;
const ZEROS: usize = 1 << 20;
/// Bytes of the reserve that are freed when SQLite finds the disk full.
const DATABASE_BYTES: u64 = 4 << 20;
/// Zeros are synced in portions, so that a log sync never waits for all of them.
const SYNC_BYTES: u64 = 4 << 20;

/// A file that can become a log file.
pub(super) struct FreeFile {
    pub name: String,
    pub file: Arc<dyn File>,
    pub length: u64,
}

/// Creates files ahead and manages the reserve.
pub(super) struct Preallocator {
    disk: Arc<dyn Disk>,
    file_bytes: u64,
    reserve_bytes: u64,
    state: Mutex<State>,
    /// Wakes the preallocator's own thread.
    work: Condvar,
    /// Wakes the task that it is in a simulation.
    task: Notify,
    /// Whether nothing here may block, because everything is on one thread.
    never_waits: bool,
    /// Wakes the committer.
    ready: Condvar,
    full: AtomicBool,
    /// Notified when appends may continue.
    room: Arc<Notify>,
}

#[derive(Default)]
struct State {
    ready: Vec<FreeFile>,
    wanted: bool,
    /// The committer waits for a file of at least this length.
    starving: Option<u64>,
    /// Why the committer cannot have one.
    fault: Option<io::Error>,
    /// Bytes of the reserve that exist.
    reserve: u64,
    /// How many tasks are running that may have to use the reserve.
    spenders: usize,
    /// Counts the files created, for their names.
    made: u64,
    /// Nobody should wait for space anymore.
    closing: bool,
    closed: bool,
    /// The thread has panicked.
    gone: bool,
}

impl State {
    fn next_name(&mut self) -> String {
        self.made += 1;
        format!("{FREE_FOLDER}/{}", self.made)
    }
}

impl Preallocator {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        file_bytes: u64,
        reserve_bytes: u64,
        room: Arc<Notify>,
    ) -> Self {
        // Whatever acks use meanwhile must leave enough for a trim.
        let for_acks = if reserve_bytes > 0 { file_bytes } else { 0 };
        Self {
            disk,
            file_bytes,
            reserve_bytes: reserve_bytes + for_acks,
            state: Mutex::default(),
            work: Condvar::new(),
            task: Notify::new(),
            never_waits: tasks::is_simulated(),
            ready: Condvar::new(),
            full: AtomicBool::new(false),
            room,
        }
    }

    /// Whether a simulation runs it: then nobody waits here, and what cannot be done now is told.
    pub(super) fn never_waits(&self) -> bool {
        self.never_waits
    }

    fn wake(&self) {
        if self.never_waits {
            self.task.notify_one();
        } else {
            self.work.notify_one();
        }
    }

    /// Whether appends are refused for lack of space.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Removes what an earlier process left: its reserve, and files it created ahead. Returns
    /// whether there was anything.
    pub(super) fn clear(&self) -> io::Result<bool> {
        let names = self.disk.list(FREE_FOLDER)?;
        for name in &names {
            self.disk.remove(&format!("{FREE_FOLDER}/{name}"))?;
        }
        Ok(!names.is_empty())
    }

    /// Removes what an earlier process left, and sets up the reserve.
    pub(super) fn start(&self) -> io::Result<()> {
        self.clear()?;
        match self.make_reserve(&mut self.state.lock()) {
            Err(error) if is_full(&error) => self.note_full(),
            other => other?,
        }
        Ok(())
    }

    /// A first file for an empty store, not zero-filled so that the start is quick.
    pub(super) fn first_file(&self) -> io::Result<FreeFile> {
        let name = self.state.lock().next_name();
        self.make_file(&name, self.file_bytes, false)
    }

    /// Requests a file.
    pub(super) fn want_file(&self) {
        let mut state = self.state.lock();
        if !state.wanted && state.ready.is_empty() {
            state.wanted = true;
            self.wake();
        }
    }

    /// A file of at least `length`; waits until there is one. An error means there will be none.
    pub(super) fn take_file(&self, length: u64) -> io::Result<FreeFile> {
        let mut state = self.state.lock();
        loop {
            if let Some(at) = state.ready.iter().position(|file| file.length >= length) {
                state.starving = None;
                state.wanted = false;
                return Ok(state.ready.remove(at));
            }
            if state.gone {
                return Err(io::Error::other("nobody makes log files any more"));
            }
            if let Some(fault) = state.fault.take() {
                state.starving = None;
                return Err(fault);
            }
            state.starving = Some(length);
            if self.never_waits {
                if !self.feed(&mut state, length) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                continue;
            }
            self.wake();
            self.ready.wait(&mut state);
        }
    }

    /// Takes back a file that could not be used.
    pub(super) fn give_back(&self, file: FreeFile) {
        self.state.lock().ready.push(file);
    }

    /// Frees `bytes` of the reserve for something that must succeed; if there is none, waits until
    /// the disk may have space again. `Err` if nobody should wait anymore.
    pub(super) fn wait_for_space(&self, bytes: u64) -> Result<(), ()> {
        let mut state = self.state.lock();
        if self.release_locked(&mut state, bytes) {
            return Ok(());
        }
        if state.closing || self.never_waits {
            return Err(());
        }
        self.ready.wait_for(&mut state, FULL_RETRY);
        Ok(())
    }

    /// Waits for something that passes on its own. `Err` if nobody should wait anymore.
    pub(super) fn wait_a_moment(&self) -> Result<(), ()> {
        let mut state = self.state.lock();
        if state.closing || self.never_waits {
            return Err(());
        }
        self.ready.wait_for(&mut state, FULL_RETRY);
        Ok(())
    }

    /// Until the returned value is dropped, space freed on a full disk is not taken for the reserve
    /// or for files created ahead: someone is about to use it.
    pub(super) fn spend(&self) -> Spending<'_> {
        self.state.lock().spenders += 1;
        Spending(self)
    }

    /// Does something with SQLite that must succeed even on a full disk.
    pub(super) fn for_database<T>(
        &self,
        mut act: impl FnMut() -> crate::Result<T>,
    ) -> crate::Result<T> {
        let mut spending = None;
        loop {
            match act() {
                Err(error) if is_disk_full(&error) => {
                    spending.get_or_insert_with(|| self.spend());
                    if !self.release(DATABASE_BYTES) {
                        return Err(crate::Error::Full);
                    }
                }
                other => return other,
            }
        }
    }

    /// Frees `bytes` of the reserve for something that must succeed; `false` if there is none.
    pub(super) fn release(&self, bytes: u64) -> bool {
        self.release_locked(&mut self.state.lock(), bytes)
    }

    fn release_locked(&self, state: &mut State, bytes: u64) -> bool {
        self.note_full();
        if state.reserve == 0 {
            return self.give_up_ready(state);
        }
        let rest = state.reserve.saturating_sub(bytes);
        let name = reserve_name();
        let freed = match rest {
            0 => self.disk.remove(&name),
            _ => self.disk.open(&name).and_then(|file| file.set_len(rest)),
        };
        match freed {
            Ok(()) => state.reserve = rest,
            Err(error) => tracing::error!(%error, "cannot use the reserve"),
        }
        tracing::warn!(bytes, left = state.reserve, "disk full, using the reserve");
        state.reserve == rest
    }

    /// Removes a file that was created ahead.
    fn give_up_ready(&self, state: &mut State) -> bool {
        let Some(file) = state.ready.pop() else { return false };
        match self.disk.remove(&file.name) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "cannot remove a spare log file");
                false
            }
        }
    }

    /// Takes back a log file that is no longer needed, for reuse if worthwhile.
    pub(super) fn recycle(&self, file: &WalFile) -> io::Result<()> {
        let name = {
            let mut state = self.state.lock();
            let wanted = state.reserve >= self.reserve_bytes || state.starving.is_some();
            let reuse =
                wanted && state.ready.len() < READY_MAX && file.header.length == self.file_bytes;
            reuse.then(|| state.next_name())
        };
        if let Some(name) = name {
            self.disk.rename(&file.name(), &name)?;
            // Its old name must be gone for good before its header changes.
            self.disk.sync_folder(FOLDER)?;
            self.disk.sync_folder(FREE_FOLDER)?;
            let (file, length) = (Arc::clone(&file.file), file.header.length);
            self.state.lock().ready.push(FreeFile { name, file, length });
            self.ready.notify_one();
        } else {
            self.disk.remove(&file.name())?;
            self.disk.sync_folder(FOLDER)?;
        }
        self.wake();
        Ok(())
    }

    /// Takes a damaged log file out of the log, and keeps it for inspection.
    pub(super) fn set_aside(&self, file: &WalFile) -> io::Result<()> {
        let aside = format!("{DAMAGED_FOLDER}/{:020}", file.header.sequence);
        self.disk.rename(&file.name(), &aside)?;
        self.disk.sync_folder(DAMAGED_FOLDER)?;
        self.disk.sync_folder(FOLDER)
    }

    /// Checks whether a full disk has space again.
    pub(super) fn look_again(&self) {
        if self.is_full() {
            self.wake();
        }
    }

    /// From now on nobody waits for space.
    pub(super) fn close_soon(&self) {
        self.state.lock().closing = true;
        self.wake();
        self.ready.notify_one();
    }

    /// Ends `run`.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.wake();
    }

    /// The thread's main loop.
    pub(super) fn run(&self) {
        let _farewell = Farewell(self);
        let mut state = self.state.lock();
        while !state.closed {
            if self.has_work(&state) {
                let went_well = self.work(&mut state);
                if !went_well && !state.closed {
                    self.work.wait_for(&mut state, FULL_RETRY);
                }
            } else {
                self.work.wait(&mut state);
            }
        }
    }

    /// The same as a task, for a simulation.
    pub(super) async fn run_as_task(preallocator: Arc<Self>) {
        loop {
            let went_well = {
                let mut state = preallocator.state.lock();
                if state.closed {
                    return;
                }
                preallocator.has_work(&state).then(|| preallocator.work(&mut state))
            };
            match went_well {
                Some(true) => {}
                Some(false) => tasks::sleep(FULL_RETRY).await,
                None => preallocator.task.notified().await,
            }
        }
    }

    fn has_work(&self, state: &State) -> bool {
        if state.starving.is_some() {
            return true;
        }
        if self.is_full() {
            return state.spenders == 0;
        }
        (state.wanted && state.ready.is_empty()) || state.reserve < self.reserve_bytes
    }

    /// Does one thing; `false` if it has to be retried later.
    fn work(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if let Some(length) = state.starving {
            return self.feed(state, length);
        }
        let done = if state.reserve < self.reserve_bytes {
            self.make_reserve(state)
        } else if state.ready.is_empty() {
            self.make_ready(state, self.file_bytes)
        } else {
            Ok(())
        };
        match done {
            Ok(()) if state.reserve >= self.reserve_bytes && !state.ready.is_empty() => {
                self.note_space();
                true
            }
            Ok(()) => true,
            Err(error) if is_full(&error) => {
                self.note_full();
                false
            }
            Err(error) => {
                tracing::warn!(%error, "cannot prepare a log file, trying again");
                false
            }
        }
    }

    /// Creates a file for a waiting committer, by any means.
    fn feed(&self, state: &mut MutexGuard<'_, State>, length: u64) -> bool {
        let mut result = self.make_ready(state, self.file_bytes.max(length));
        if result.as_ref().is_err_and(is_full) {
            // A small one: the rest of the reserve is for the trim that frees files.
            let small = length.max(self.file_bytes / 4).next_multiple_of(BLOCK_BYTES);
            self.note_full();
            result = self.make_ready(state, small);
            while result.as_ref().is_err_and(is_full) && self.release_locked(state, small) {
                result = self.make_ready(state, small);
            }
        }
        match result {
            Ok(()) => {}
            Err(error) if (is_full(&error) || is_scarce(&error)) && !state.closing => return false,
            Err(error) => state.fault = Some(error),
        }
        state.starving = None;
        self.ready.notify_one();
        true
    }

    fn make_ready(&self, state: &mut MutexGuard<'_, State>, length: u64) -> io::Result<()> {
        let name = state.next_name();
        let made = MutexGuard::unlocked(state, || self.make_file(&name, length, true));
        state.ready.push(made?);
        state.wanted = false;
        self.ready.notify_one();
        Ok(())
    }

    fn make_file(&self, name: &str, length: u64, zeros: bool) -> io::Result<FreeFile> {
        let made = self.disk.create(name).and_then(|file| {
            file.allocate(length)?;
            if zeros {
                fill_with_zeros(file.as_ref(), 0, length)?;
            }
            file.sync()?;
            Ok(file)
        });
        match made {
            Ok(file) => Ok(FreeFile { name: name.to_owned(), file, length }),
            Err(error) => {
                // Whatever remains of it is removed at the next start at the latest.
                drop(self.disk.remove(name));
                Err(error)
            }
        }
    }

    fn make_reserve(&self, state: &mut State) -> io::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let name = reserve_name();
        let there = state.reserve;
        let file = if there > 0 { self.disk.open(&name)? } else { self.disk.create(&name)? };
        let missing = self.reserve_bytes - there;
        // All of it, or as much as the disk has.
        let mut made = Ok(());
        for share in [1, 2, 4, 8, 16] {
            let length = there + missing / share;
            made = file.allocate(length);
            match &made {
                Ok(()) => {
                    state.reserve = length;
                    break;
                }
                Err(error) if is_full(error) => file.set_len(there)?,
                Err(_) => break,
            }
        }
        made?;
        if state.reserve < self.reserve_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn note_full(&self) {
        if !self.full.swap(true, Ordering::AcqRel) {
            tracing::error!("disk full: messages are refused until there is space");
            self.room.notify_waiters();
        }
    }

    fn note_space(&self) {
        if self.full.swap(false, Ordering::AcqRel) {
            tracing::info!("disk has space again: messages are taken");
            self.room.notify_waiters();
        }
    }
}

/// See `Preallocator::spend`.
pub(super) struct Spending<'preallocator>(&'preallocator Preallocator);

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().spenders -= 1;
        self.0.look_again();
    }
}

/// Makes sure that nobody waits for a preallocator that is gone.
struct Farewell<'preallocator>(&'preallocator Preallocator);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            state.closing = true;
            state.gone = true;
            self.0.ready.notify_one();
        }
    }
}

fn reserve_name() -> String {
    format!("{FREE_FOLDER}/reserve")
}

/// Writes zeros from `at` to `end`.
pub(super) fn fill_with_zeros(file: &dyn File, mut at: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    while at < end {
        let bytes = (end - at).min(ZEROS as u64);
        file.write_at(zeros.get(..super::format::to_usize(bytes)).unwrap_or_default(), at)?;
        at += bytes;
        if at.is_multiple_of(SYNC_BYTES) {
            file.sync()?;
        }
    }
    Ok(())
}

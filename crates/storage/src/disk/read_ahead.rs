//! Parts of segment files that are read and checked ahead: a few for the whole store, so that
//! consumers that stop in the middle of a backlog leave little behind.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

use clock::tasks;
use parking_lot::Mutex;

use super::blocks_memory::BlocksMemory;
use super::files::Window;
use super::seam::File;

/// Maximum number of read-aheads not yet consumed. Each backlog being read has two; if more than
/// half this many are read at once, some go without.
const BEGUN_MAX: usize = 16;

/// Reads that were started.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// Oldest first.
    begun: Mutex<VecDeque<Begun>>,
    pub(super) memory: Arc<BlocksMemory>,
}

struct Begun {
    /// Not held open: a removed file's space is freed.
    file: Weak<dyn File>,
    at: u64,
    end: u64,
    part: Arc<Mutex<Part>>,
}

/// Locked while it is read: a reader that wants it then waits for the lock.
enum Part {
    Unread,
    Read(io::Result<Window>),
    /// A reader wanted it before its turn came.
    Taken,
}

impl ReadAhead {
    /// Starts reading `length` bytes of `file` from `at` on, where a record starts.
    pub(super) fn begin(&self, file: &Arc<dyn File>, at: u64, length: usize, seed: u32) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if tasks::is_simulated() {
            return;
        }
        let part = Arc::new(Mutex::new(Part::Unread));
        let mut begun = self.begun.lock();
        if begun.len() >= BEGUN_MAX {
            begun.pop_front();
        }
        let (weak, end) = (Arc::downgrade(file), at + length as u64);
        begun.push_back(Begun { file: weak, at, end, part: Arc::clone(&part) });
        drop(begun);
        let (file, memory) = (Arc::clone(file), Arc::clone(&self.memory));
        // Nobody waits for the task itself: a reader that arrives before its turn reads without it,
        // so that a pool full of waiting readers does not wait for itself.
        drop(runtime.spawn_blocking(move || {
            // Only the reader that wants it holds the other end; if that is gone, it is not wanted.
            let is_wanted = Arc::strong_count(&part) > 1;
            let mut part = part.lock();
            if is_wanted && matches!(*part, Part::Unread) {
                let bytes = memory.read(file.as_ref(), at, length);
                *part = Part::Read(bytes.map(|bytes| Window::check(bytes, seed)));
            }
        }));
    }

    /// The end of the read that was started there; `None` if there is none.
    pub(super) fn end_of(&self, file: &Arc<dyn File>, at: u64) -> Option<u64> {
        let begun = self.begun.lock();
        Some(begun.get(place(&begun, file, at)?)?.end)
    }

    /// The result of the read that was started there; `None` if there is none, or its turn has not
    /// come.
    pub(super) fn take(&self, file: &Arc<dyn File>, at: u64) -> Option<io::Result<Window>> {
        let mut begun = self.begun.lock();
        let place = place(&begun, file, at)?;
        let part = begun.remove(place)?.part;
        drop(begun);
        match std::mem::replace(&mut *part.lock(), Part::Taken) {
            Part::Read(read) => Some(read),
            Part::Unread | Part::Taken => None,
        }
    }

    /// Waits until every started read is done.
    #[cfg(test)]
    pub(super) async fn settle(&self) {
        loop {
            let unread =
                |it: &Begun| it.part.try_lock().is_none_or(|part| matches!(*part, Part::Unread));
            if !self.begun.lock().iter().any(unread) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn place(begun: &VecDeque<Begun>, file: &Arc<dyn File>, at: u64) -> Option<usize> {
    let file = Arc::downgrade(file);
    begun.iter().position(|it| it.at == at && it.file.ptr_eq(&file))
}

#[cfg(test)]
mod tests {
    use super::super::real::RealDisk;
    use super::super::seam::Disk;
    use super::*;

    const LENGTH: usize = 8_192;

    fn file() -> (tempfile::TempDir, Arc<dyn File>) {
        let folder = tempfile::tempdir().unwrap();
        let file = RealDisk::new(folder.path()).create("topics/1").unwrap();
        file.write_at(&[7; LENGTH * (BEGUN_MAX + 1)], 0).unwrap();
        (folder, file)
    }

    fn nth(index: usize) -> u64 {
        (index * LENGTH) as u64
    }

    #[tokio::test]
    async fn what_was_begun_is_had_once_and_only_by_its_file_and_place() {
        let (_folder, one) = file();
        let (_other_folder, other) = file();
        let ahead = ReadAhead::default();
        ahead.begin(&one, nth(1), LENGTH, 0);
        ahead.settle().await;
        assert!(ahead.take(&one, nth(0)).is_none());
        assert!(ahead.take(&other, nth(1)).is_none());
        assert_eq!(ahead.take(&one, nth(1)).unwrap().unwrap().bytes, [7; LENGTH][..]);
        assert!(ahead.take(&one, nth(1)).is_none());
    }

    #[tokio::test]
    async fn no_more_than_the_bound_is_kept() {
        let (_folder, file) = file();
        let ahead = ReadAhead::default();
        for index in 0..=BEGUN_MAX {
            ahead.begin(&file, nth(index), LENGTH, 0);
        }
        ahead.settle().await;
        assert_eq!(ahead.begun.lock().len(), BEGUN_MAX);
        assert!(ahead.take(&file, nth(0)).is_none(), "the oldest had to go");
        assert!(ahead.take(&file, nth(BEGUN_MAX)).is_some());
    }

    #[test]
    fn who_comes_before_its_turn_reads_without_it() {
        let (_folder, file) = file();
        let ahead = ReadAhead::default();
        let part = Arc::new(Mutex::new(Part::Unread));
        let begun = Begun { file: Arc::downgrade(&file), at: 0, end: 1, part: Arc::clone(&part) };
        ahead.begun.lock().push_back(begun);
        assert!(ahead.take(&file, 0).is_none());
        assert!(matches!(*part.lock(), Part::Taken));
    }

    #[tokio::test]
    async fn a_file_is_not_held_open_by_what_was_read_of_it() {
        let (_folder, file) = file();
        let ahead = ReadAhead::default();
        ahead.begin(&file, 0, LENGTH, 0);
        ahead.settle().await;
        let held = Arc::downgrade(&file);
        drop(file);
        // The thread that did the read drops it a moment later.
        while held.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ahead.begun.lock().len(), 1);
    }

    #[test]
    fn without_a_runtime_nothing_is_begun() {
        let (_folder, file) = file();
        let ahead = ReadAhead::default();
        ahead.begin(&file, 0, LENGTH, 0);
        assert!(ahead.begun.lock().is_empty());
    }
}

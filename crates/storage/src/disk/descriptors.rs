//! File descriptors: some are held for the log, so that others cannot take the last ones.

use std::fs;
use std::io;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// How many descriptors are held for the log. It opens one or two files at a time.
const KEPT: usize = 8;
/// How long to wait for someone to close a file, each time, and how often at most.
const WAIT: Duration = Duration::from_millis(50);
const WAITS_MAX: u32 = 100;
/// Opened to hold a descriptor: any file will do.
const ANY_FILE: &str = "/dev/null";

/// Whether an error means that too many files are open, in this process or the whole system. It is
/// temporary, and nothing has happened.
pub(super) fn is_scarce(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// How many files a chore may have open at a time: a share of the process's limit.
pub(super) fn open_files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 16).unwrap_or(usize::MAX).clamp(4, 256)
}

/// Descriptors that are released when one is needed and none is left.
#[derive(Debug)]
pub(super) struct Descriptors {
    held: Mutex<Vec<fs::File>>,
    /// Never notified: waiting on it waits for time to pass.
    time: Condvar,
}

impl Descriptors {
    /// Holds as many as it can get; fewer are fine.
    pub(super) fn new() -> Self {
        let descriptors = Self { held: Mutex::default(), time: Condvar::new() };
        descriptors.refill();
        descriptors
    }

    /// Runs something that opens a file. If too many are open it uses a held descriptor, and then
    /// waits a while for others to be closed.
    pub(super) fn patiently<T>(&self, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let mut waits = 0;
        loop {
            match act() {
                Err(error) if is_scarce(&error) => {
                    if self.give_up_one() {
                        continue;
                    }
                    if waits == WAITS_MAX {
                        return Err(error);
                    }
                    waits += 1;
                    self.time.wait_for(&mut self.held.lock(), WAIT);
                }
                done => {
                    self.refill();
                    return done;
                }
            }
        }
    }

    fn give_up_one(&self) -> bool {
        let mut held = self.held.lock();
        if held.len() == KEPT {
            tracing::warn!(
                "too many open files: the log uses descriptors that were kept for it; raise the \
                 limit (LimitNOFILE, ulimit -n)"
            );
        }
        held.pop().is_some()
    }

    fn refill(&self) {
        let mut held = self.held.lock();
        while held.len() < KEPT {
            let Ok(file) = fs::File::open(ANY_FILE) else { return };
            held.push(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn too_many() -> io::Error {
        Errno::MFILE.into()
    }

    #[test]
    fn what_finds_no_descriptor_uses_those_that_were_kept() {
        let descriptors = Descriptors::new();
        let tries = Cell::new(0);
        let opened = descriptors.patiently(|| {
            tries.set(tries.get() + 1);
            if tries.get() <= 3 { Err(too_many()) } else { Ok(descriptors.held.lock().len()) }
        });
        assert_eq!(opened.unwrap(), KEPT - 3, "three were given up");
        assert_eq!(descriptors.held.lock().len(), KEPT, "and are held again");
    }

    #[test]
    fn it_waits_for_others_and_not_for_ever() {
        let descriptors = Descriptors::new();
        let tries = Cell::new(0);
        let opened = descriptors.patiently(|| {
            tries.set(tries.get() + 1);
            Err::<(), _>(too_many())
        });
        assert!(is_scarce(&opened.unwrap_err()));
        assert_eq!(tries.get(), 1 + KEPT + WAITS_MAX as usize);
        let failed = descriptors.patiently(|| Err::<(), _>(io::ErrorKind::NotFound.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound, "others are told at once");
    }
}

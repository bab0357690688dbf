//! Writes on a separate thread, one write behind: while the disk works, more is buffered. In a
//! simulation it writes at once.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use clock::tasks;

use super::seam::File;

/// A write that was handed over.
pub(super) struct Write {
    pub file: Arc<dyn File>,
    /// Holds the bytes, from `start` on.
    pub memory: Vec<u8>,
    pub start: usize,
    pub length: usize,
    /// Where in the file they go.
    pub at: u64,
}

impl Write {
    fn run(&self) -> io::Result<()> {
        let bytes = self.memory.get(self.start..self.start + self.length).unwrap_or_default();
        self.file.write_at(bytes, self.at)
    }
}

/// At most one write that is not done yet. Dropping this waits for it.
#[derive(Default)]
pub(super) struct WriteBehind {
    thread: Option<Thread>,
    /// What became of a write that was done at once.
    done: Option<(Write, io::Result<()>)>,
    outstanding: bool,
    /// The write that failed.
    failed: Option<Write>,
    /// Memory of a finished write, for reuse.
    spare: Vec<u8>,
}

struct Thread {
    writes: Sender<Write>,
    done: Receiver<(Write, io::Result<()>)>,
    handle: JoinHandle<()>,
}

impl WriteBehind {
    /// Returns when everything handed over is written. After an error nothing is lost: the next
    /// call retries the same write.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        if let Some(write) = self.failed.take() {
            self.start(write)?;
        }
        if !self.outstanding {
            return Ok(());
        }
        self.outstanding = false;
        let at_once = self.done.take();
        let done = at_once.or_else(|| self.thread.as_ref()?.done.recv().ok());
        match done {
            Some((write, Ok(()))) => {
                self.spare = write.memory;
                Ok(())
            }
            Some((write, Err(error))) => {
                self.failed = Some(write);
                Err(error)
            }
            None => Err(gone()),
        }
    }

    /// Starts a write once the previous one is done.
    pub(super) fn hand_over(&mut self, write: Write) -> io::Result<()> {
        self.wait()?;
        self.start(write)
    }

    /// Memory of that length, with arbitrary contents.
    pub(super) fn memory(&mut self, length: usize) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        if spare.len() == length { spare } else { vec![0; length] }
    }

    fn start(&mut self, write: Write) -> io::Result<()> {
        if tasks::is_simulated() {
            let written = write.run();
            self.done = Some((write, written));
            self.outstanding = true;
            return Ok(());
        }
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => Thread::spawn()?,
        };
        let sent = thread.writes.send(write);
        self.thread = Some(thread);
        sent.map_err(|_| gone())?;
        self.outstanding = true;
        Ok(())
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        let Some(Thread { writes, handle, .. }) = self.thread.take() else { return };
        drop(writes);
        if handle.join().is_err() {
            tracing::error!("a thread that writes segments panicked");
        }
    }
}

impl Thread {
    fn spawn() -> io::Result<Self> {
        let (writes, to_write) = channel::<Write>();
        let (tell, done) = channel();
        let life = move || {
            for write in to_write {
                let written = write.run();
                if tell.send((write, written)).is_err() {
                    return;
                }
            }
        };
        let handle = std::thread::Builder::new().name("segment-writer".to_owned()).spawn(life)?;
        Ok(Self { writes, done, handle })
    }
}

fn gone() -> io::Error {
    io::Error::other("nobody writes segments any more")
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Fails as many writes as it is told to, and records the others.
    #[derive(Default)]
    struct Refusing {
        refusals: Mutex<u32>,
        written: Mutex<Vec<(u64, Vec<u8>)>>,
    }

    impl File for Refusing {
        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            let mut refusals = self.refusals.lock();
            if *refusals > 0 {
                *refusals -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.lock().push((at, bytes.to_vec()));
            Ok(())
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn write(file: &Arc<Refusing>, byte: u8, at: u64) -> Write {
        let file = Arc::clone(file) as Arc<dyn File>;
        Write { file, memory: vec![byte; 10], start: 2, length: 4, at }
    }

    #[test]
    fn a_refused_write_is_told_by_the_next_call_and_tried_again() {
        let file = Arc::new(Refusing::default());
        *file.refusals.lock() = 2;
        let mut behind = WriteBehind::default();
        behind.hand_over(write(&file, 1, 0)).unwrap();
        assert_eq!(behind.wait().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(behind.wait().is_err(), "the same write again");
        behind.wait().unwrap();
        behind.hand_over(write(&file, 2, 4)).unwrap();
        behind.wait().unwrap();
        behind.wait().unwrap();
        assert_eq!(*file.written.lock(), [(0, vec![1; 4]), (4, vec![2; 4])]);
    }

    #[test]
    fn what_was_handed_over_is_written_before_it_is_dropped() {
        let file = Arc::new(Refusing::default());
        let mut behind = WriteBehind::default();
        behind.hand_over(write(&file, 1, 0)).unwrap();
        drop(behind);
        assert_eq!(file.written.lock().len(), 1);
    }
}

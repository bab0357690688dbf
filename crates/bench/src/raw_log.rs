//! The raw log, one of the two limits: the same bytes in groups to a preallocated file, one
//! fdatasync per group, and nothing else. Callers hand their bytes to one writer, which takes all
//! that is waiting.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::clock;

/// Groups start on this boundary, as those of the server do.
pub(crate) const BLOCK: usize = 4096;

/// Bytes of a group that are not the callers': about what a log needs to find its groups again.
const GROUP_HEADER: usize = 64;

/// A log that stores bytes durably and can do nothing else.
pub(crate) struct RawLog {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

/// Where callers leave bytes for the writer.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Append>,
    syncs: Vec<Duration>,
    closed: bool,
}

struct Append {
    bytes: Bytes,
    done: oneshot::Sender<()>,
}

impl RawLog {
    /// Creates the file, zero-filled and synced, and starts the writer.
    pub(crate) fn create(path: &Path, bytes: usize) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        fill(&file, bytes)?;
        let queue = Arc::new(Queue::default());
        let writer = Writer { file, bytes, at: 0, group: Vec::new() };
        let thread = std::thread::Builder::new().name("raw-log".to_owned()).spawn({
            let queue = Arc::clone(&queue);
            move || writer.run(&queue)
        })?;
        Ok(Self { queue, writer: Some(thread) })
    }

    /// A caller that appends to this log.
    pub(crate) fn appender(&self) -> Appender {
        Appender { queue: Arc::clone(&self.queue) }
    }

    /// How long each write and sync of a group took since the last call.
    pub(crate) fn take_syncs(&self) -> Vec<Duration> {
        std::mem::take(&mut self.queue.state.lock().syncs)
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.arrived.notify_one();
        if let Some(writer) = self.writer.take() {
            // Its panic, if any, has been printed and has failed the appends.
            drop(writer.join());
        }
    }
}

/// Appends to a raw log.
#[derive(Clone)]
pub(crate) struct Appender {
    queue: Arc<Queue>,
}

impl Appender {
    /// Returns once the bytes are synced.
    pub(crate) async fn append(&self, bytes: Bytes) -> Result<()> {
        let (done, synced) = oneshot::channel();
        let first = {
            let mut state = self.queue.state.lock();
            state.waiting.push(Append { bytes, done });
            state.waiting.len() == 1
        };
        if first {
            self.queue.arrived.notify_one();
        }
        synced.await.map_err(|_| anyhow!("the raw log could not write"))
    }
}

struct Writer {
    file: File,
    bytes: usize,
    at: usize,
    group: Vec<u8>,
}

impl Writer {
    fn run(mut self, queue: &Queue) {
        while let Some(appends) = next_group(queue) {
            let started = clock::now();
            let written = self.write(&appends);
            queue.state.lock().syncs.push(started.elapsed());
            if written.is_err() {
                // Dropping the appends tells their callers.
                return;
            }
            for append in appends {
                // A caller that went away no longer wants to know.
                append.done.send(()).ok();
            }
        }
    }

    fn write(&mut self, appends: &[Append]) -> std::io::Result<()> {
        self.group.clear();
        self.group.resize(GROUP_HEADER, 0xA5);
        for append in appends {
            self.group.extend_from_slice(&append.bytes);
        }
        self.group.resize(self.group.len().next_multiple_of(BLOCK), 0);
        if self.at + self.group.len() > self.bytes {
            self.at = 0;
        }
        self.file.write_all_at(&self.group, self.at as u64)?;
        self.file.sync_data()?;
        self.at += self.group.len();
        Ok(())
    }
}

fn next_group(queue: &Queue) -> Option<Vec<Append>> {
    let mut state = queue.state.lock();
    while state.waiting.is_empty() {
        if state.closed {
            return None;
        }
        queue.arrived.wait(&mut state);
    }
    Some(std::mem::take(&mut state.waiting))
}

fn fill(file: &File, bytes: usize) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let length = zeros.len().min(bytes - at);
        file.write_all_at(&zeros[..length], at as u64).context("fill the raw log")?;
        at += length;
    }
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(bytes: usize) -> (tempfile::TempDir, std::path::PathBuf, RawLog) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.log");
        let log = RawLog::create(&path, bytes).unwrap();
        (folder, path, log)
    }

    #[tokio::test]
    async fn an_answered_append_is_in_the_file_on_a_block_boundary() {
        let (_folder, path, log) = open(1 << 20);
        let appender = log.appender();
        appender.append(Bytes::from_static(b"first")).await.unwrap();
        appender.append(Bytes::from_static(b"second")).await.unwrap();

        let file = std::fs::read(path).unwrap();
        assert_eq!(file.len(), 1 << 20);
        assert_eq!(&file[GROUP_HEADER..GROUP_HEADER + 5], b"first");
        assert_eq!(&file[BLOCK + GROUP_HEADER..BLOCK + GROUP_HEADER + 6], b"second");
        assert_eq!(log.take_syncs().len(), 2);
    }

    #[tokio::test]
    async fn the_file_is_used_again_from_its_start_and_does_not_grow() {
        let (_folder, path, log) = open(2 * BLOCK);
        for text in ["one", "two", "six"] {
            log.appender().append(Bytes::from(text)).await.unwrap();
        }
        let file = std::fs::read(path).unwrap();
        assert_eq!(file.len(), 2 * BLOCK);
        assert_eq!(&file[GROUP_HEADER..GROUP_HEADER + 3], b"six");
    }
}

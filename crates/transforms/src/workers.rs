//! A few threads, each with a helper process, that run the scripts of many owners.
//!
//! Work waits in one line for each owner, and the lines are served in turn, a slice of some
//! milliseconds at a time. Owners whose scripts are slow, or not known yet, have one thread each
//! and never all threads together, so that those known to be quick find one.
//!
//! The interpreter asks for the deadline between the steps of a script, and a single step of a
//! built-in can take long: searching, multiplying, walking an array of four billion holes. A helper
//! that does not answer in time is killed, and so it may be crashed, too. Its messages are tried
//! again one by one, and only the one that did it fails.

mod helper;
mod job;
mod queue;
mod thread;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{JoinHandle, available_parallelism};

use parking_lot::{Condvar, Mutex};

use self::helper::Leash;
use self::job::{Answer, Job, Work};
use self::queue::Queue;
use crate::chain::{Chain, Udf};
use crate::error::{Cause, Failure, Invalid};
use crate::limits::Bounds;
use crate::message::{Input, Outcome};

/// How many threads there are, and what waits for them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads, at least two: one must be left for owners known to be quick.
    pub threads: usize,
    /// Bytes of messages that wait, of all owners. One alone may be larger.
    pub waiting_bytes_max: usize,
    /// Bytes of messages that wait, of one owner.
    pub waiting_bytes_per_owner_max: usize,
    /// What a script may take.
    pub bounds: Bounds,
}

/// A thread for each core, at most four, and one more: an owner has all but one.
impl Default for Options {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            threads: cores.min(4) + 1,
            waiting_bytes_max: 16 << 20,
            waiting_bytes_per_owner_max: 4 << 20,
            bounds: Bounds::default(),
        }
    }
}

/// The program that helpers are: one that calls `serve` when it is started with these arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// This program itself, as it was started, also where its file was replaced since.
    pub fn itself(argument: &str) -> io::Result<Self> {
        let path = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe()?,
        };
        Ok(Self { path, arguments: vec![argument.into()] })
    }
}

/// Why work was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too much waits, of this owner or of all. Later there may be room.
    #[error("too many messages wait for their transforms")]
    Full,
    /// The workers are closed.
    #[error("the workers are closed")]
    Closed,
}

/// Threads that have scripts run. Dropping it closes it. Helpers are started with the first work.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What threads share.
struct Shared {
    options: Options,
    program: Program,
    state: Mutex<State>,
    /// There may be work, or the end.
    wake: Condvar,
    /// There is a helper to be watched, or the end.
    watch: Condvar,
    leashes: Vec<Leash>,
}

struct State {
    queue: Queue<Job>,
    is_closed: bool,
    /// Whether the watch sleeps until it is told.
    is_unwatched: bool,
}

impl Workers {
    /// Starts the threads.
    pub fn new(program: Program, options: Options) -> io::Result<Self> {
        let options = Options { threads: options.threads.max(2), ..options };
        let queue = Queue::new(&options);
        let leashes = (0..options.threads).map(|_| Leash::default()).collect();
        let shared = Arc::new(Shared {
            options,
            program,
            state: Mutex::new(State { queue, is_closed: false, is_unwatched: false }),
            wake: Condvar::new(),
            watch: Condvar::new(),
            leashes,
        });
        let workers = Self { shared, threads: Mutex::default() };
        // Where one does not start, dropping it ends the others.
        for number in 0..workers.shared.leashes.len() {
            workers.threads.lock().push(thread::start(&workers.shared, number)?);
        }
        workers.threads.lock().push(thread::start_watch(&workers.shared)?);
        Ok(workers)
    }

    /// Runs messages through a chain. `done` is called once, on one of the threads or the calling
    /// one, with a result for each message in their order; it must not wait for anything.
    ///
    /// The owner is who has its turn: the name of the topic or subscription, say. The messages of
    /// one call run one after the other; those of several calls may run at the same time. A message
    /// may run more than once where a helper is lost.
    pub fn submit(
        &self,
        owner: &Arc<str>,
        chain: &Chain,
        inputs: Vec<Input>,
        done: impl FnOnce(Vec<Result<Outcome, Failure>>) + Send + 'static,
    ) -> Result<(), Refused> {
        let work = Work::run(chain.clone(), inputs);
        self.push(owner, Job::new(work, Answer::Run(Box::new(done))))
    }

    /// Compiles a function, with its owner's turn. `done` is called as with `submit`.
    pub fn compile(
        &self,
        owner: &Arc<str>,
        function_name: &str,
        code: &str,
        done: impl FnOnce(Result<Udf, Invalid>) + Send + 'static,
    ) -> Result<(), Refused> {
        let answer = Answer::Compile(Box::new(done));
        match Udf::known(function_name, code) {
            Ok(udf) => self.push(owner, Job::new(Work::Compile(udf), answer)),
            Err(invalid) => {
                answer.compiled(Err(invalid));
                Ok(())
            }
        }
    }

    fn push(&self, owner: &Arc<str>, job: Job) -> Result<(), Refused> {
        let mut state = self.shared.state.lock();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        state.queue.push(owner, job, crate::clock::now())?;
        if state.is_unwatched {
            state.is_unwatched = false;
            self.shared.watch.notify_one();
        }
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Ends the threads and their helpers. What waits or runs is answered as closed. Must not be
    /// called from a completion.
    pub fn close(&self) {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        state.is_closed = true;
        let waiting = state.queue.drain();
        drop(state);
        shared.wake.notify_all();
        shared.watch.notify_all();
        shared.leashes.iter().for_each(Leash::close);
        for job in waiting {
            job.fail(Cause::Closed, "the workers are closed");
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // One that panicked has ended as well.
            drop(thread.join());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.close();
    }
}

//! A thread that runs slices of work, and the one that watches the helpers.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::Shared;
use super::helper::{Helper, Leash, Lost};
use super::job::{Job, Run, Work};
use super::queue::Turn;
use crate::chain::Udf;
use crate::clock::now;
use crate::error::{Cause, Field, Invalid};
use crate::helper::protocol::{Given, Script};
use crate::message::Input;

/// A slice that takes longer had a slow script in it.
const SLOW: Duration = Duration::from_millis(60);
/// Bytes of messages sent to a helper at once, unless one alone has more.
const AT_ONCE_BYTES: usize = 1 << 20;
/// How often helpers are looked at while there is work.
const PERIOD: Duration = Duration::from_millis(250);
/// After so many looks without work nobody looks until there is some.
const IDLE_LOOKS: u32 = 40;

/// Starts the thread of that number.
pub(super) fn start(shared: &Arc<Shared>, number: usize) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let leash = shared.leashes.get(number).cloned().unwrap_or_default();
    Builder::new().name("transforms".to_owned()).spawn(move || work(&shared, &leash))
}

/// Starts the thread that ends helpers that are late.
pub(super) fn start_watch(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    Builder::new().name("transforms-watch".to_owned()).spawn(move || watch(&shared))
}

fn watch(shared: &Shared) {
    let mut idle = 0;
    let mut state = shared.state.lock();
    while !state.is_closed {
        idle = if state.queue.is_idle() { idle + 1 } else { 0 };
        if idle > IDLE_LOOKS {
            state.is_unwatched = true;
            shared.watch.wait(&mut state);
        } else {
            shared.watch.wait_for(&mut state, PERIOD);
        }
        parking_lot::MutexGuard::unlocked(&mut state, || {
            shared.leashes.iter().for_each(Leash::kill_if_late);
        });
    }
}

fn work(shared: &Shared, leash: &Leash) {
    let mut helper = Helper::new(&shared.program, shared.options.bounds, leash);
    while let Some((turn, mut job)) = next(shared) {
        let started = now();
        let end = match &mut job.work {
            Work::Run(run) => slice(&mut helper, run),
            Work::Compile(udf) => compile(&mut helper, udf),
        };
        finish(shared, turn, job, end, started);
    }
    helper.end();
}

/// Waits for work. None at the end.
fn next(shared: &Shared) -> Option<(Turn, Job)> {
    let mut state = shared.state.lock();
    while !state.is_closed {
        if let Some(next) = state.queue.next() {
            if state.queue.has_turns() {
                shared.wake.notify_one();
            }
            return Some(next);
        }
        shared.wake.wait(&mut state);
    }
    None
}

/// What came of a slice.
enum End {
    /// Messages are left.
    Rest,
    /// A helper was lost, and messages are left.
    Lost,
    Ran,
    Compiled(Result<Udf, Invalid>),
}

impl End {
    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }
}

/// Has a helper run some of the messages.
fn slice(helper: &mut Helper<'_>, run: &mut Run) -> End {
    if run.chain.is_empty() {
        let unchanged = |input: &Input| crate::run(&crate::Chain::of(Arc::new([])), input);
        run.results.extend(run.inputs.iter().map(unchanged));
    }
    let given = messages(run);
    let count = given.len();
    if count == 0 {
        return End::Ran;
    }
    let lost = match helper.run(&run.chain, given) {
        Ok(response) => match response.into_results(run.chain.udfs()) {
            Some(results) if (1..=count).contains(&results.len()) => {
                // Twice what there was time for: slow messages go one by one.
                run.at_once = results.len().saturating_mul(2);
                run.results.extend(results);
                None
            }
            // What makes no sense comes from a helper that is not ours any more.
            _ => {
                helper.end();
                Some(Lost::Crashed)
            }
        },
        Err(lost) => Some(lost),
    };
    if let Some(lost) = &lost {
        run.at_once = 1;
        if count == 1 {
            let (cause, what) = said(lost);
            run.results.push(Err(run.chain.failure(cause, what)));
        }
    }
    match (run.results.len() < run.inputs.len(), lost) {
        (false, _) => End::Ran,
        (true, None) => End::Rest,
        (true, Some(_)) => End::Lost,
    }
}

fn said(lost: &Lost) -> (Cause, &'static str) {
    match lost {
        Lost::Late => (Cause::TooSlow, "took too long, and the process it ran in was killed"),
        Lost::Crashed => (Cause::Crashed, "crashed the process it ran in"),
    }
}

/// The next messages to send.
fn messages(run: &Run) -> Vec<Given> {
    let mut bytes = 0;
    let left = run.inputs.iter().skip(run.results.len()).take(run.at_once);
    let fits = |input: &&Input| {
        let is_first = bytes == 0;
        bytes += input.weight();
        is_first || bytes <= AT_ONCE_BYTES
    };
    left.take_while(fits).map(Given::from).collect()
}

/// Has a helper look at a function.
fn compile(helper: &mut Helper<'_>, udf: &Udf) -> End {
    let refused = |lost| Invalid::new(Field::Code, said(lost).1);
    End::Compiled(match helper.compile(Script::new(0, udf)) {
        Ok(response) => match response.into_compiled() {
            Some(compiled) => compiled.map(|()| udf.clone()),
            None => {
                helper.end();
                Err(refused(&Lost::Crashed))
            }
        },
        Err(lost) => Err(refused(&lost)),
    })
}

/// Gives the turn back, and answers what is finished.
fn finish(shared: &Shared, turn: Turn, job: Job, end: End, started: Instant) {
    let ended = now();
    let is_slow = ended - started > SLOW || end.is_lost();
    let mut state = shared.state.lock();
    let is_closed = state.is_closed;
    let is_over = is_closed || matches!(end, End::Ran | End::Compiled(_));
    let (job, rest) = if is_over { (Some(job), None) } else { (None, Some(job)) };
    state.queue.done(turn, rest, is_slow, ended);
    drop(state);
    match (job, end) {
        (None, _) => {}
        (Some(job), End::Compiled(Ok(udf))) => job.answer.compiled(Ok(udf)),
        (Some(job), _) if is_closed => job.fail(Cause::Closed, "the workers are closed"),
        (Some(job), End::Compiled(Err(invalid))) => job.answer.compiled(Err(invalid)),
        (Some(job), _) => {
            if let Work::Run(run) = job.work {
                job.answer.ran(run.results);
            }
        }
    }
}

//! A helper process, from the side of the thread that has it.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Program;
use crate::chain::Chain;
use crate::clock::now;
use crate::helper::protocol::{self, Request, Response, Script};
use crate::limits::{Bounds, SANDBOXES_MAX, SLICE};

/// How long a helper may take beyond the time of its scripts, for the interpreter to ask.
const GRACE: Duration = Duration::from_millis(500);

/// What others need to end a helper that a thread waits for.
#[derive(Clone, Default)]
pub(super) struct Leash(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    child: Option<Child>,
    /// When it must have answered.
    until: Option<Instant>,
    /// Whether it was killed because it had not.
    is_late: bool,
    is_closed: bool,
}

impl Leash {
    /// Kills a helper that is late.
    pub(super) fn kill_if_late(&self) {
        let mut held = self.0.lock();
        if held.until.is_some_and(|until| until < now()) {
            held.is_late = true;
            held.kill();
        }
    }

    /// Kills the helper, and all that would follow.
    pub(super) fn close(&self) {
        let mut held = self.0.lock();
        held.is_closed = true;
        held.kill();
    }

    /// Takes a new helper. False where there shall be none.
    fn hold(&self, child: Child) -> bool {
        let mut held = self.0.lock();
        held.child = Some(child);
        if held.is_closed {
            held.kill();
        }
        !held.is_closed
    }

    fn expect_by(&self, until: Option<Instant>) {
        self.0.lock().until = until;
    }

    /// Ends the helper, and waits for that. Says whether it was late.
    fn end(&self) -> bool {
        let mut held = self.0.lock();
        held.until = None;
        held.kill();
        if let Some(mut child) = held.child.take() {
            drop(child.wait());
        }
        std::mem::take(&mut held.is_late)
    }
}

impl Held {
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // An error says that it has ended already.
            drop(child.kill());
        }
    }
}

/// A helper process, started when it is needed.
pub(super) struct Helper<'shared> {
    program: &'shared Program,
    bounds: Bounds,
    leash: Leash,
    started: Option<Started>,
}

struct Started {
    requests: ChildStdin,
    responses: ChildStdout,
    /// The chain at each place, and when it was used.
    loaded: Vec<Option<(Chain, u64)>>,
    uses: u64,
}

/// The helper was lost.
pub(super) enum Lost {
    /// Killed: it did not answer in time.
    Late,
    /// Crashed, or not to be started.
    Crashed,
}

impl<'shared> Helper<'shared> {
    pub(super) fn new(program: &'shared Program, bounds: Bounds, leash: &Leash) -> Self {
        Self { program, bounds, leash: leash.clone(), started: None }
    }

    /// Asks for messages to be run through a chain.
    pub(super) fn run(
        &mut self,
        chain: &Chain,
        messages: Vec<protocol::Given>,
    ) -> Result<Response, Lost> {
        let bounds = self.bounds;
        self.ask(|started| {
            let (place, is_new) = started.place(chain);
            let scripts = chain.udfs().iter().filter(|_| is_new);
            let scripts = scripts.map(|(index, udf)| Script::new(*index, udf)).collect();
            Request { place, scripts, messages, ..Request::within(bounds) }
        })
    }

    /// Asks for a function to be compiled.
    pub(super) fn compile(&mut self, script: Script) -> Result<Response, Lost> {
        let bounds = self.bounds;
        self.ask(|_| Request { compile: Some(script), ..Request::within(bounds) })
    }

    fn ask(&mut self, request: impl FnOnce(&mut Started) -> Request) -> Result<Response, Lost> {
        let mut started = match self.started.take() {
            Some(started) => started,
            None => start(self.program, &self.leash).map_err(|_| Lost::Crashed)?,
        };
        let request = request(&mut started);
        self.leash.expect_by(Some(now() + SLICE + 2 * self.bounds.time + GRACE));
        let asked = protocol::write(&mut started.requests, &request);
        let response = asked.and_then(|()| protocol::read(&mut started.responses));
        self.leash.expect_by(None);
        match response {
            Ok(Some(response)) => {
                self.started = Some(started);
                Ok(response)
            }
            _ if self.leash.end() => Err(Lost::Late),
            _ => Err(Lost::Crashed),
        }
    }

    /// Ends the helper; there will be another.
    pub(super) fn end(&mut self) {
        self.started = None;
        let _ = self.leash.end();
    }
}

fn start(program: &Program, leash: &Leash) -> io::Result<Started> {
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    if !leash.hold(child) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let (requests, responses) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    let loaded = (0..SANDBOXES_MAX).map(|_| None).collect();
    Ok(Started { requests, responses, loaded, uses: 0 })
}

impl Started {
    /// The place of a chain, and whether it is new there.
    fn place(&mut self, chain: &Chain) -> (u32, bool) {
        self.uses += 1;
        let is_its = |place: &Option<(Chain, u64)>| {
            place.as_ref().is_some_and(|(other, _)| other.is_same(chain))
        };
        let found = self.loaded.iter().position(is_its);
        let oldest = |(_, place): &(usize, &Option<(Chain, u64)>)| {
            place.as_ref().map_or(0, |(_, used)| *used)
        };
        let longest_unused = || self.loaded.iter().enumerate().min_by_key(oldest).map(|it| it.0);
        let at = found.or_else(longest_unused).unwrap_or(0);
        if let Some(place) = self.loaded.get_mut(at) {
            *place = Some((chain.clone(), self.uses));
        }
        (u32::try_from(at).unwrap_or(0), found.is_none())
    }
}

//! A process that runs scripts for another one.
//!
//! Requests come on standard input and are answered on standard output, one at a time. The process
//! has no environment, no files but those two, a bound of memory of its own, and ends with the one
//! that started it. Whoever started it kills it when it does not answer in time.

pub(crate) mod protocol;

use std::io::{self, stdin, stdout};

use self::protocol::{Request, Response};
use crate::chain::{Chain, Udf};
use crate::clock::now;
use crate::limits::{Bounds, HELPER_BYTES_MAX, RESTING_BYTES_MAX, SANDBOXES_MAX, SLICE};
use crate::sandbox::Sandbox;

/// Serves requests until there are no more: the main function of a helper.
pub fn serve() -> io::Result<()> {
    confine()?;
    let (mut requests, mut responses) = (stdin().lock(), stdout().lock());
    let mut kept = Kept { sandboxes: (0..SANDBOXES_MAX).map(|_| None).collect(), used: None };
    while let Some(request) = protocol::read::<Request>(&mut requests)? {
        let response = kept.answer(request);
        protocol::write(&mut responses, &response)?;
    }
    Ok(())
}

/// Takes away what a script that breaks out of the interpreter could use.
fn confine() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let at_most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::Fsize, at_most(0))?;
    setrlimit(Resource::Nofile, at_most(3))?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        setrlimit(Resource::Data, at_most(HELPER_BYTES_MAX))?;
        rustix::thread::set_no_new_privs(true)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    Ok(())
}

/// The sandboxes of a helper, at the places where requests look for them.
struct Kept {
    sandboxes: Vec<Option<Sandbox>>,
    /// The one used last, which may keep more than others.
    used: Option<usize>,
}

impl Kept {
    fn answer(&mut self, request: Request) -> Response {
        let bounds = request.bounds();
        if let Some(script) = &request.compile {
            let compiled = Udf::compile_within(&script.function_name, &script.code, bounds);
            return Response::compiled(compiled.err());
        }
        let started = now();
        let mut response = Response::default();
        let Some(sandbox) = self.sandbox(&request, bounds) else { return response };
        for message in request.messages {
            response.push(sandbox.run(&message.into()));
            if now() - started >= SLICE {
                break;
            }
        }
        response
    }

    /// The sandbox at the place that a request names, made of the scripts that it brings.
    fn sandbox(&mut self, request: &Request, bounds: Bounds) -> Option<&mut Sandbox> {
        let place = usize::try_from(request.place).ok()?;
        if self.used != Some(place) {
            let last = self.used.replace(place).and_then(|last| self.sandboxes.get_mut(last));
            if let Some(last) = last.and_then(Option::as_mut) {
                last.rest(RESTING_BYTES_MAX);
            }
        }
        let sandbox = self.sandboxes.get_mut(place)?;
        if !request.scripts.is_empty() {
            let known = |script: &protocol::Script| {
                let udf = Udf::known(&script.function_name, &script.code).ok()?;
                Some((usize::try_from(script.index).ok()?, udf))
            };
            let udfs: Option<_> = request.scripts.iter().map(known).collect();
            *sandbox = Some(Sandbox::new(&Chain::of(udfs?), bounds));
        }
        sandbox.as_mut()
    }
}

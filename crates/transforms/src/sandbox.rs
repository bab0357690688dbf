//! A chain, loaded: its scripts in an interpreter of their own.
//!
//! One QuickJS runtime for a chain, and in it one realm for each function, so that scripts share
//! nothing, not even within a chain. What a script leaves in its globals is there for the next
//! message in the same sandbox, which is a promise to nobody: there may be several sandboxes of a
//! chain, and one is thrown away when it ran out of time or memory.

mod read;
mod realm;
mod thrown;

use std::rc::Rc;
use std::str::from_utf8;

use bytes::Bytes;
use rquickjs::Runtime;

pub(crate) use self::realm::Realm;
use self::thrown::Fault;
use crate::chain::{Chain, Udf};
use crate::clock::Deadline;
use crate::error::{Cause, Failure};
use crate::limits::Bounds;
use crate::message::{Input, Outcome};

/// A chain that is loaded. It stays on its thread.
pub struct Sandbox {
    chain: Chain,
    bounds: Bounds,
    /// None until the first message, and after a message that left it in a bad state.
    loaded: Option<Loaded>,
}

struct Loaded {
    // Dropped in this order: values, then the runtime that they are in.
    realms: Vec<Realm>,
    runtime: Runtime,
    deadline: Rc<Deadline>,
}

/// Runs one message through a chain, in a sandbox made for it, in this process.
pub fn run(chain: &Chain, input: &Input) -> Result<Outcome, Failure> {
    Sandbox::new(chain, Bounds::default()).run(input)
}

impl Sandbox {
    /// A sandbox for a chain. Its scripts are loaded with the first message.
    pub fn new(chain: &Chain, bounds: Bounds) -> Self {
        Self { chain: chain.clone(), bounds, loaded: None }
    }

    /// Runs one message through the chain. The result of a function is the next one's message.
    pub fn run(&mut self, input: &Input) -> Result<Outcome, Failure> {
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => Loaded::new(&self.chain, self.bounds)?,
        };
        let memory = input.data.len().saturating_mul(self.bounds.memory_per_data_byte);
        loaded.runtime.set_memory_limit(self.bounds.memory_bytes.saturating_add(memory));
        loaded.deadline.start(self.bounds.time);
        let outcome = loaded.run(self.chain.udfs(), input);
        if is_fine(&outcome) && loaded.is_clean() {
            self.loaded = Some(loaded);
        }
        outcome
    }

    /// Unloads it where its scripts keep more than `bytes_max`.
    pub(crate) fn rest(&mut self, bytes_max: i64) {
        let keeps = |runtime: &Runtime| runtime.memory_usage().malloc_size > bytes_max;
        let keeps_too_much = |loaded: &Loaded| {
            keeps(&loaded.runtime) && {
                loaded.runtime.run_gc();
                keeps(&loaded.runtime)
            }
        };
        if self.loaded.as_ref().is_some_and(keeps_too_much) {
            self.loaded = None;
        }
    }
}

/// Whether a sandbox is as good as before after such an outcome.
fn is_fine(outcome: &Result<Outcome, Failure>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(failure) => {
            matches!(failure.cause, Cause::NotUtf8 | Cause::Threw | Cause::BadResult)
        }
    }
}

impl Loaded {
    fn new(chain: &Chain, bounds: Bounds) -> Result<Self, Failure> {
        let deadline = Rc::new(Deadline::new());
        let no_memory = |_| chain.failure(Cause::OutOfMemory, "no memory for a sandbox");
        let runtime = realm::runtime(bounds, &deadline).map_err(no_memory)?;
        let contexts = chain.udfs().iter().map(|_| realm::context(&runtime));
        let contexts: Vec<_> = contexts.collect::<Result<_, _>>().map_err(no_memory)?;
        runtime.set_memory_limit(bounds.memory_bytes);
        deadline.start(bounds.time);
        let mut realms = Vec::with_capacity(contexts.len());
        for (context, (index, udf)) in contexts.into_iter().zip(chain.udfs()) {
            let realm = Realm::load(context, udf, &deadline);
            realms.push(realm.map_err(|fault| fault.into_failure(*index, udf))?);
        }
        Ok(Self { realms, runtime, deadline })
    }

    fn run(&self, udfs: &[(usize, Udf)], input: &Input) -> Result<Outcome, Failure> {
        let mut message: Option<read::Message> = None;
        for (realm, (index, udf)) in self.realms.iter().zip(udfs) {
            let failed = |fault: Fault| fault.into_failure(*index, udf);
            let (data, attributes) = match &message {
                Some(message) => (message.data.as_str(), &message.attributes),
                None => {
                    let data = from_utf8(&input.data).map_err(|at| failed(not_utf8(&at)))?;
                    (data, &input.attributes)
                }
            };
            let returned = realm.call(data, attributes, &input.metadata, &self.deadline);
            match returned.map_err(failed)? {
                Some(returned) => message = Some(returned),
                None => return Ok(Outcome::Filtered),
            }
        }
        Ok(match message {
            Some(read::Message { data, attributes }) => {
                Outcome::Message { data: Bytes::from(data), attributes }
            }
            None => {
                let attributes = input.attributes.clone();
                Outcome::Message { data: input.data.clone(), attributes }
            }
        })
    }

    /// Whether nothing waits to run later. Reactions of promises would pile up: nobody runs them.
    fn is_clean(&self) -> bool {
        !self.runtime.is_job_pending()
    }
}

fn not_utf8(at: &std::str::Utf8Error) -> Fault {
    let what = format!("the data is not UTF-8 from byte {} on", at.valid_up_to());
    Fault { cause: Cause::NotUtf8, what, line: None }
}

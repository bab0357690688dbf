//! One piece of work, and who waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::queue::Weigh;
use crate::chain::{Chain, Udf};
use crate::error::{Cause, Failure, Field, Invalid};
use crate::message::{Input, Outcome};

/// Data of which there is one such message at a time: each byte of it takes several of a sandbox.
const LARGE_BYTES: usize = 1 << 20;

/// Results, one for each message.
pub(super) type Results = Vec<Result<Outcome, Failure>>;

/// Work to do.
pub(super) enum Work {
    /// Messages through a chain.
    Run(Run),
    /// A function to look at.
    Compile(Udf),
}

/// Messages through a chain, with the results so far.
pub(super) struct Run {
    pub(super) chain: Chain,
    pub(super) inputs: Vec<Input>,
    pub(super) results: Results,
    /// How many to send to a helper at once.
    pub(super) at_once: usize,
}

impl Work {
    pub(super) fn run(chain: Chain, inputs: Vec<Input>) -> Self {
        let results = Vec::with_capacity(inputs.len());
        Self::Run(Run { chain, inputs, results, at_once: usize::MAX })
    }
}

/// Who is told.
pub(super) enum Answer {
    Run(Box<dyn FnOnce(Results) + Send>),
    Compile(Box<dyn FnOnce(Result<Udf, Invalid>) + Send>),
}

impl Answer {
    pub(super) fn ran(self, results: Results) {
        if let Self::Run(done) = self {
            told(|| done(results));
        }
    }

    pub(super) fn compiled(self, compiled: Result<Udf, Invalid>) {
        if let Self::Compile(done) = self {
            told(|| done(compiled));
        }
    }
}

/// Tells whoever waits. Their panic is not ours.
fn told(done: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(done)));
}

/// Work and who waits for it.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) answer: Answer,
    weight: usize,
    is_large: bool,
}

impl Job {
    pub(super) fn new(work: Work, answer: Answer) -> Self {
        let (weight, is_large) = match &work {
            Work::Run(Run { inputs, .. }) => (
                inputs.iter().map(Input::weight).sum(),
                inputs.iter().any(|input| input.data.len() > LARGE_BYTES),
            ),
            Work::Compile(udf) => (udf.code().len(), false),
        };
        Self { work, answer, weight, is_large }
    }

    /// Answers what was not tried yet as failed.
    pub(super) fn fail(self, cause: Cause, what: &str) {
        match self.work {
            Work::Run(Run { chain, inputs, mut results, .. }) => {
                results.resize_with(inputs.len(), || Err(chain.failure(cause, what)));
                self.answer.ran(results);
            }
            Work::Compile(_) => self.answer.compiled(Err(Invalid::new(Field::Code, what))),
        }
    }
}

impl Weigh for Job {
    fn weight(&self) -> usize {
        self.weight
    }

    fn is_large(&self) -> bool {
        self.is_large
    }
}

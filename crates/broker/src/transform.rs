//! Message transforms: their code is tried before it is stored, and messages are run through it.
//!
//! The scripts run in helper processes of the `transforms` crate, which are started when they are
//! first needed. Topics run theirs in `publish`, subscriptions between leasing and delivering
//! (`consumer/transforming.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use clock::Clock;
use domain::{Invalid, Message, Offset, Timestamp, Transform, validate};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use transforms::{Cause, Chain, Failure, Field, Input, Metadata, Outcome, Refused, Udf, Workers};

use crate::error::{Error, Failed, Result};
use crate::options::TransformOptions;

/// The field that holds them, in topics and subscriptions alike.
pub(crate) const FIELD: &str = "message_transforms";

/// How long a publish waits for room among the messages that wait for their transforms.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before asking for room again.
pub(crate) const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Messages that a transform dropped at publishing are in no log. Their ids, which publishers are
/// owed, are far above all offsets: those are microseconds since 1970 at most.
const DROPPED_IDS: u64 = 9_000_000_000_000_000_000;

/// The functions of one topic or subscription that messages go through.
#[derive(Debug)]
pub(crate) struct Functions {
    /// Whose they are: each owner has its turn.
    owner: Arc<str>,
    chain: Chain,
}

impl Functions {
    /// Those of `owner`; `None` if messages pass all of them by. Their code is not tried.
    pub(crate) fn new(owner: &str, transforms: &[Transform]) -> Result<Option<Arc<Self>>, Invalid> {
        let mut list = Vec::with_capacity(transforms.len());
        for (index, transform) in transforms.iter().enumerate() {
            let udf = Udf::known(&transform.function_name, &transform.code);
            let udf = udf.map_err(|invalid| located(index, invalid))?;
            list.push(transforms::Transform { udf, disabled: transform.disabled });
        }
        let chain = Chain::new(list).map_err(|invalid| located(0, invalid))?;
        Ok((!chain.is_empty()).then(|| Arc::new(Self { owner: owner.into(), chain })))
    }
}

/// Runs the transforms of all topics and subscriptions.
pub(crate) struct Transforms {
    options: Option<TransformOptions>,
    workers: Mutex<Option<Arc<Workers>>>,
    dropped_id: AtomicU64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    changed: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// How many messages went through transforms since the start, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransformFigures {
    /// They came out as messages.
    pub changed: u64,
    /// They were dropped.
    pub dropped: u64,
    /// They did not get through.
    pub failed: u64,
}

/// What became of a message.
pub(crate) type Transformed = Result<Outcome, Failure>;

impl Transforms {
    /// `None`: transforms are refused.
    pub(crate) fn new(options: Option<TransformOptions>) -> Self {
        let (dropped_id, counts) = (AtomicU64::new(DROPPED_IDS), Counts::default());
        Self { options, workers: Mutex::default(), dropped_id, counts }
    }

    pub(crate) fn figures(&self) -> TransformFigures {
        let Counts { changed, dropped, failed } = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TransformFigures { changed: read(changed), dropped: read(dropped), failed: read(failed) }
    }

    /// Ends the helpers. What is under way fails as closed.
    pub(crate) fn close(&self) {
        let workers = self.workers.lock().take();
        if let Some(workers) = workers {
            workers.close();
        }
    }

    /// Tries the code of each, as a helper finds it.
    pub(crate) async fn check(&self, owner: &str, transforms: &[Transform]) -> Result<()> {
        Functions::new(owner, transforms)?;
        let owner: Arc<str> = owner.into();
        for (index, transform) in transforms.iter().enumerate() {
            let (answer, answered) = oneshot::channel();
            let done = move |compiled| drop(answer.send(compiled));
            let Transform { function_name, code, .. } = transform;
            self.workers()?.compile(&owner, function_name, code, done).map_err(refused)?;
            let compiled = answered.await.map_err(|_| Error::Closing)?;
            compiled.map_err(|invalid| located(index, invalid))?;
        }
        Ok(())
    }

    /// What each of these makes of a message, one after the other, for whoever tries them out. It
    /// ends with the first that fails or drops it.
    pub(crate) async fn try_out(
        &self,
        clock: &dyn Clock,
        owner: &str,
        transforms: &[Transform],
        mut message: Message,
    ) -> Result<Vec<Transformed>> {
        let mut results = Vec::new();
        for index in 0..transforms.len() {
            let alone = |(at, one): (usize, &Transform)| Transform {
                disabled: one.disabled || at != index,
                ..one.clone()
            };
            let alone: Vec<Transform> = transforms.iter().enumerate().map(alone).collect();
            let Some(functions) = Functions::new(owner, &alone)? else { continue };
            let ran = self.run(clock, &functions, vec![new_input(message.clone())]).await?;
            let goes_on = match ran.first() {
                Some(Ok(Outcome::Message { data, attributes })) => {
                    (message.data, message.attributes) = (data.clone(), attributes.clone());
                    true
                }
                _ => false,
            };
            results.extend(ran);
            if !goes_on {
                break;
            }
        }
        Ok(results)
    }

    /// Messages on their way into a topic: `None` for each that was dropped. One that fails fails
    /// them all.
    pub(crate) async fn publish(
        &self,
        clock: &dyn Clock,
        functions: &Functions,
        messages: Vec<Message>,
    ) -> Result<Vec<Option<Message>>> {
        let mut keys = Vec::with_capacity(messages.len());
        let mut inputs = Vec::with_capacity(messages.len());
        for message in messages {
            keys.push(message.ordering_key.clone());
            inputs.push(new_input(message));
        }
        let results = self.run(clock, functions, inputs).await?;
        results.iter().for_each(|result| self.note(result));
        let mut passed = Vec::with_capacity(keys.len());
        for (index, (result, ordering_key)) in results.into_iter().zip(keys).enumerate() {
            passed.push(match result.map_err(|failure| Failed::at(index, failure))? {
                Outcome::Message { data, attributes } => {
                    let mut message = Message { data, attributes, ordering_key };
                    validate::publish(std::slice::from_mut(&mut message)).map_err(|invalid| {
                        let problem = format!("what its transforms made of it: {invalid}");
                        Invalid::new(format!("messages[{index}]"), problem)
                    })?;
                    Some(message)
                }
                Outcome::Filtered => None,
            });
        }
        Ok(passed)
    }

    /// Runs messages through a chain, once there is room for them.
    pub(crate) async fn run(
        &self,
        clock: &dyn Clock,
        functions: &Functions,
        inputs: Vec<Input>,
    ) -> Result<Vec<Transformed>> {
        let until = clock.now().plus(PATIENCE);
        loop {
            match self.start(functions, inputs.clone()) {
                Ok(running) => return running.await.ok_or(Error::Closing),
                Err(Error::TransformsBusy) if clock.now() < until => {
                    clock.sleep_until(clock.now().plus(ASK_AGAIN)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts to run messages through a chain; an error if there is no room for them now.
    pub(crate) fn start(&self, functions: &Functions, inputs: Vec<Input>) -> Result<Running> {
        let (answer, answered) = oneshot::channel();
        let done = move |results| drop(answer.send(results));
        let Functions { owner, chain } = functions;
        self.workers()?.submit(owner, chain, inputs, done).map_err(refused)?;
        Ok(Running(answered))
    }

    fn workers(&self) -> Result<Arc<Workers>> {
        let Some(TransformOptions { program, workers: options }) = &self.options else {
            let why = "transforms are switched off on this server: set transforms.enabled";
            return Err(Error::FailedPrecondition(why.to_owned()));
        };
        let mut workers = self.workers.lock();
        if let Some(workers) = &*workers {
            return Ok(Arc::clone(workers));
        }
        let started = Workers::new(program.clone(), options.clone());
        let started = Arc::new(started.map_err(|error| Error::NoTransforms(error.to_string()))?);
        *workers = Some(Arc::clone(&started));
        Ok(started)
    }

    /// Counts what became of a message.
    pub(crate) fn note(&self, result: &Transformed) {
        let count = match result {
            Ok(Outcome::Message { .. }) => &self.counts.changed,
            Ok(Outcome::Filtered) => &self.counts.dropped,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The id of a message that was dropped before it was stored, never given twice.
    pub(crate) fn dropped_id(&self, now: Timestamp) -> u64 {
        self.dropped_id.fetch_max(DROPPED_IDS.saturating_add(now.0), Ordering::Relaxed);
        self.dropped_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Messages on their way through a chain. `None`: the server stops.
pub(crate) struct Running(oneshot::Receiver<Vec<Transformed>>);

impl Future for Running {
    type Output = Option<Vec<Transformed>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let results = std::task::ready!(Pin::new(&mut self.0).poll(context)).ok();
        let is_closed = |result: &Transformed| {
            result.as_ref().is_err_and(|failure| failure.cause == Cause::Closed)
        };
        Poll::Ready(results.filter(|results| !results.iter().any(is_closed)))
    }
}

/// A message that is not stored yet, as scripts see it.
fn new_input(message: Message) -> Input {
    let Message { data, attributes, ordering_key } = message;
    let ordering_key = Some(ordering_key).filter(|key| !key.is_empty());
    Input { data, attributes, metadata: Metadata { ordering_key, ..Metadata::default() } }
}

/// A stored message, as scripts see it.
pub(crate) fn stored_input(message: Message, id: Offset, publish_time: Timestamp) -> Input {
    let mut input = new_input(message);
    input.metadata.message_id = Some(id.to_string());
    input.metadata.publish_time = Some(publish_time.rfc3339_micros());
    input
}

/// The fault of the transform at `index` as a fault of the request.
fn located(index: usize, invalid: transforms::Invalid) -> Invalid {
    let field = match invalid.field {
        Field::Transforms => FIELD.to_owned(),
        field => format!("{FIELD}[{index}].javascript_udf.{}", field.name()),
    };
    let place = invalid
        .line
        .map_or_else(String::new, |(line, column)| format!("line {line}, column {column}: "));
    Invalid::new(field, format!("{place}{}", invalid.what))
}

fn refused(refused: Refused) -> Error {
    match refused {
        Refused::Full => Error::TransformsBusy,
        Refused::Closed => Error::Closing,
    }
}

//! Who handles messages: the runner itself as long as that is quick, else tasks of their own.
//!
//! A handler that answers without waiting costs no task, no allocation and no change of threads.
//! One that waits goes on as a task from where it waits. One that computes for long would hold up
//! the runner and use one core only: after such a one the next begin in tasks of their own.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;

use super::leases::LeaseNumber;
use crate::forward::Forwarder;
use crate::rules::{Settle, Way};
use crate::{Consumer, Handled, Handler, Message};

/// What a handler may take of the runner's time.
const QUICK: Duration = Duration::from_micros(100);
/// Handlers that took so much more than that, in all, compute too much for it. One alone may have
/// been held up by something else.
const TOO_MUCH: Duration = Duration::from_millis(10);
/// So many messages begin in tasks of their own after that, before it is tried again.
const APART: u32 = 10_000;

/// Handles messages, and knows those that are being handled.
pub(super) struct Hands<H> {
    consumer: Consumer<H>,
    forwarder: Option<Arc<Forwarder>>,
    tasks: JoinSet<Settle>,
    by_task: HashMap<Id, Running<H>>,
    /// What handlers took of the runner's time, over what they may.
    over: Duration,
    /// How many messages are still to begin in tasks of their own.
    apart: u32,
    /// When a message that begins now begins: when the one before it had answered or waited.
    now: Instant,
    /// Memory of a handler that has ended, for the next one.
    spare: Option<Handling>,
    spare_job: Option<Arc<Job<H>>>,
}

type Handling = ReusableBoxFuture<'static, Handled>;

/// What a handler works with.
struct Job<H> {
    consumer: Consumer<H>,
    forwarder: Option<Arc<Forwarder>>,
    message: Message,
}

/// A message that is being handled; kept to be able to say what it was.
struct Running<H> {
    number: LeaseNumber,
    job: Arc<Job<H>>,
}

/// A message whose handler was a task that has ended.
pub(super) struct Ended<H> {
    pub(super) number: LeaseNumber,
    /// `None` = without an answer, and so without a line.
    pub(super) settle: Option<Settle>,
    job: Arc<Job<H>>,
}

impl<H> Ended<H> {
    pub(super) fn message(&self) -> &Message {
        &self.job.message
    }
}

impl<H: Handler> Hands<H> {
    pub(super) fn new(consumer: Consumer<H>, forwarder: Option<Forwarder>) -> Self {
        Self {
            consumer,
            forwarder: forwarder.map(Arc::new),
            tasks: JoinSet::new(),
            by_task: HashMap::new(),
            over: Duration::ZERO,
            apart: 0,
            now: Instant::now(),
            spare: None,
            spare_job: None,
        }
    }

    /// How many messages are being handled.
    pub(super) fn len(&self) -> usize {
        self.by_task.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_task.is_empty()
    }

    /// Looks at the clock, which each message that begins moves on.
    pub(super) fn look_at_clock(&mut self) -> Instant {
        self.now = Instant::now();
        self.now
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Has a message handled; how it is settled, if that is known at once.
    pub(super) fn begin(&mut self, number: LeaseNumber, message: Message) -> Option<Settle> {
        let job = self.job(message);
        if self.apart > 0 {
            self.apart -= 1;
            let task = self.tasks.spawn(run(Arc::clone(&job)));
            self.by_task.insert(task.id(), Running { number, job });
            return None;
        }
        let work = handle(Arc::clone(&job));
        let mut handling = match self.spare.take() {
            Some(mut spare) => {
                spare.set(work);
                spare
            }
            None => ReusableBoxFuture::new(work),
        };
        // Nothing can wake it from here: if it waits, its task asks it again.
        let polled = handling.poll(&mut Context::from_waker(Waker::noop()));
        let (began, now) = (self.now, self.look_at_clock());
        let took = now.duration_since(began);
        self.over = (self.over + took).saturating_sub(QUICK);
        if self.over > TOO_MUCH {
            (self.over, self.apart) = (Duration::ZERO, APART);
        }
        let task = match polled {
            Poll::Ready(handled) => {
                self.spare = Some(handling);
                let answer = self.consumer.finish_now(&job.message, Way::Pull, &handled, took);
                if let Some(answer) = answer {
                    self.spare_job = Some(job);
                    return Some(answer.settle);
                }
                self.tasks.spawn(finish(Arc::clone(&job), handled, took))
            }
            Poll::Pending => self.tasks.spawn(go_on(Arc::clone(&job), handling, began)),
        };
        self.by_task.insert(task.id(), Running { number, job });
        None
    }

    /// The next task that ends; never, while there is none.
    pub(super) async fn next(&mut self) -> Ended<H> {
        loop {
            match self.tasks.join_next_with_id().await {
                Some(ended) => {
                    if let Some(ended) = self.ended(ended) {
                        return ended;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// A task that has ended by now.
    pub(super) fn try_next(&mut self) -> Option<Ended<H>> {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            let ended = self.ended(ended);
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    /// Ends all tasks. Those that had an answer already are among what is returned.
    pub(super) async fn abandon(&mut self) -> Vec<Ended<H>> {
        self.tasks.abort_all();
        let mut all = Vec::with_capacity(self.by_task.len());
        while let Some(ended) = self.tasks.join_next_with_id().await {
            all.extend(self.ended(ended));
        }
        all
    }

    fn ended(&mut self, ended: Result<(Id, Settle), JoinError>) -> Option<Ended<H>> {
        let (id, settle) = match ended {
            Ok((id, settle)) => (id, Some(settle)),
            Err(error) => (error.id(), None),
        };
        let Running { number, job } = self.by_task.remove(&id)?;
        Some(Ended { number, settle, job })
    }

    fn job(&mut self, message: Message) -> Arc<Job<H>> {
        if let Some(mut job) = self.spare_job.take()
            && let Some(spare) = Arc::get_mut(&mut job)
        {
            spare.message = message;
            return job;
        }
        let (consumer, forwarder) = (self.consumer.clone(), self.forwarder.clone());
        Arc::new(Job { consumer, forwarder, message })
    }
}

async fn handle<H: Handler>(job: Arc<Job<H>>) -> Handled {
    job.consumer.handle(&job.message).await
}

/// A message from its beginning.
async fn run<H: Handler>(job: Arc<Job<H>>) -> Settle {
    let began = Instant::now();
    let handling = job.consumer.handle(&job.message);
    let handled = job.consumer.in_time(began, handling).await;
    finish(Arc::clone(&job), handled, began.elapsed()).await
}

/// A message whose handler waits.
async fn go_on<H: Handler>(job: Arc<Job<H>>, handling: Handling, began: Instant) -> Settle {
    let handled = job.consumer.in_time(began, handling).await;
    finish(Arc::clone(&job), handled, began.elapsed()).await
}

/// A message whose handler has answered.
async fn finish<H: Handler>(job: Arc<Job<H>>, handled: Handled, took: Duration) -> Settle {
    let Job { consumer, forwarder, message } = &*job;
    let done = consumer.finish(message, Way::Pull, handled, took, forwarder.as_deref()).await;
    done.answer.settle
}

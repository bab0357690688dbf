//! Work that goes on beside its caller: tasks, blocking calls and pauses.
//!
//! A program runs them on tokio. A simulation runs all of them itself, on one thread and in an
//! order that its seed decides: it enters an [`Executor`], and whatever is started on that thread
//! from then on is the executor's.

use std::cell::RefCell;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{AbortHandle, Aborted, BoxFuture, abortable};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Runs everything that is started on its thread.
pub trait Executor {
    /// Runs `task` later, never before this returns.
    fn run(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Resolves when so much of its time has passed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

thread_local! {
    static EXECUTOR: RefCell<Option<Rc<dyn Executor>>> = const { RefCell::new(None) };
}

/// Ends what [`enter`] began.
#[must_use]
pub struct Entered(Option<Rc<dyn Executor>>);

/// Has `executor` run whatever is started on this thread, until the result is dropped.
pub fn enter(executor: Rc<dyn Executor>) -> Entered {
    Entered(EXECUTOR.replace(Some(executor)))
}

impl Drop for Entered {
    fn drop(&mut self) {
        EXECUTOR.set(self.0.take());
    }
}

fn executor() -> Option<Rc<dyn Executor>> {
    EXECUTOR.with_borrow(Clone::clone)
}

/// Whether a simulation runs what is started on this thread. Code that would start a thread of its
/// own starts a task then.
pub fn is_simulated() -> bool {
    EXECUTOR.with_borrow(Option::is_some)
}

/// A task in the background. It goes on when this is dropped.
#[derive(Debug)]
pub struct Task(Running);

#[derive(Debug)]
enum Running {
    Tokio(JoinHandle<()>),
    Simulated { abort: AbortHandle, end: oneshot::Receiver<()> },
}

impl Task {
    /// Has it end at its next pause. It has ended when awaiting it returns.
    pub fn abort(&self) {
        match &self.0 {
            Running::Tokio(task) => task.abort(),
            Running::Simulated { abort, .. } => abort.abort(),
        }
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Running::Tokio(task) => task.is_finished(),
            Running::Simulated { end, .. } => end.is_terminated() || !end.is_empty(),
        }
    }
}

/// Resolves when the task has ended, however it did.
impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Running::Tokio(task) => task.poll_unpin(context).map(drop),
            Running::Simulated { end, .. } => end.poll_unpin(context).map(drop),
        }
    }
}

/// Runs `task` in the background. A panic in it is logged under `name`, never lost; in a simulation
/// it is a finding, and ends the simulation.
#[expect(clippy::disallowed_methods, reason = "the one home of spawn")]
pub fn spawn<F>(name: &'static str, task: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    if let Some(executor) = executor() {
        let (task, abort) = abortable(task);
        let (ended, end) = oneshot::channel();
        let task = async move {
            // Aborted or not, it has ended; nobody has to wait for that.
            let (Ok(()) | Err(Aborted)) = task.await;
            let (Ok(()) | Err(())) = ended.send(());
        };
        executor.run(name, task.boxed());
        return Task(Running::Simulated { abort, end });
    }
    Task(Running::Tokio(tokio::spawn(async move {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            tracing::error!(task = name, "background task panicked");
        }
    })))
}

/// The work panicked, or its runtime ended first.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the work did not come to an end")]
pub struct Lost;

/// Runs `work`, which may block, where it delays nobody: on a thread for such work, or right here
/// if there is no runtime. Starts at once, and runs to its end although nobody waits.
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> BoxFuture<'static, Result<T, Lost>> {
    if executor().is_some() {
        let (done, result) = oneshot::channel();
        drop(spawn("blocking work", async move { drop(done.send(work())) }));
        return async move { result.await.map_err(|_| Lost) }.boxed();
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let work = runtime.spawn_blocking(work);
            async move { work.await.map_err(|_| Lost) }.boxed()
        }
        Err(_) => std::future::ready(Ok(work())).boxed(),
    }
}

/// Resolves when so much time has passed. For pauses that mean nothing to the rules, such as those
/// between attempts to reach a store; all others take the [`Clock`](crate::Clock).
pub fn sleep(time: Duration) -> BoxFuture<'static, ()> {
    match executor() {
        Some(executor) => executor.sleep(time),
        None => tokio::time::sleep(time).boxed(),
    }
}

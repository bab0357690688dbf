//! Tasks with names, whose panics are reported.

use std::future::Future;

use tokio::task::JoinHandle;

/// Runs `task` in the background. A panic in it is logged under `name`, never lost.
#[expect(clippy::disallowed_methods, reason = "the one home of spawn")]
pub fn named<F>(name: &'static str, task: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        let work = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(task));
        if work.await.is_err() {
            tracing::error!(task = name, "background task panicked");
        }
    })
}

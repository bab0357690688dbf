//! Compiles schema definitions without taking all CPUs.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{Error, Result};

/// How many definitions are compiled at a time. One may take a quarter of a second.
const COMPILING_MAX: usize = 2;

/// Limits how many definitions are compiled at once, by all that hold a clone of it.
#[derive(Clone)]
pub(crate) struct Compiling(Arc<Semaphore>);

impl Default for Compiling {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(COMPILING_MAX)))
    }
}

impl Compiling {
    /// Runs work that may take long because of a definition, off the threads that serve requests.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| Error::Closing)?;
        // The permit moves along: the work continues even if its caller goes away.
        let work = clock::tasks::blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        work.await.map_err(|_| Error::broken_off())
    }
}

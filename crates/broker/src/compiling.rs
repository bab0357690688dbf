//! Reading definitions of schemas, so that it never takes all processors.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::error::{Error, Result};

/// Definitions that are read at a time. One may take a quarter of a second.
const COMPILING_MAX: usize = 2;

/// Who may read definitions now.
pub(crate) struct Compiling(Arc<Semaphore>);

impl Default for Compiling {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(COMPILING_MAX)))
    }
}

impl Compiling {
    /// Does what may take long because of a definition, away from the threads that serve.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| Error::Closing)?;
        // The permit goes along: the work goes on though its caller goes away.
        let work = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        work.await.map_err(|_| Error::broken_off())
    }
}

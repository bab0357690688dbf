//! The endpoints that messages are pushed to: one thread, several ports, and as little HTTP as can
//! be, so that whoever sends is measured and not the receiver. Paths say how an endpoint behaves.

mod parse;
mod serve;
mod tally;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) use tally::{Arrival, Manner};

use crate::clock;
use tally::{Shared, Tally};

/// A receiver that nothing reaches for so long will not be reached.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// All that is expected must come within this time.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A running receiver. Dropping it closes its connections.
pub(crate) struct Receiver {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What came until the goal was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Messages, and when the first and the last of them came.
    pub(crate) messages: u64,
    pub(crate) first: Instant,
    pub(crate) last: Instant,
}

impl Received {
    /// From the first to the last.
    pub(crate) fn elapsed(&self) -> Duration {
        self.last - self.first
    }
}

impl Receiver {
    /// Listens on so many free local ports.
    pub(crate) fn start(ports: usize) -> Result<Self> {
        let bind = |_| std::net::TcpListener::bind(("127.0.0.1", 0));
        let listeners: Vec<_> = (0..ports).map(bind).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().map(std::net::TcpListener::local_addr);
        let addresses = addresses.collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("receiver".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || run(listeners, &shared, stopped)
        })?;
        Ok(Self { addresses, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the endpoint of a number is reached.
    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        self.addresses[number % self.addresses.len()]
    }

    /// The URL of an endpoint.
    pub(crate) fn endpoint(&self, manner: Manner, number: usize) -> String {
        format!("http://{}{}", self.address(number), path(manner, number))
    }

    /// Counts from zero until so many messages have come; their marks and moments are kept if
    /// wanted.
    pub(crate) fn expect(&self, messages: u64, arrivals: bool) {
        let goal = messages;
        let arrivals = arrivals.then(Vec::new);
        *self.shared.tally.lock() = Tally { goal, arrivals, ..Tally::default() };
    }

    /// Waits for what is expected.
    pub(crate) async fn wait(&self) -> Result<Received> {
        let start = clock::now();
        let mut before = 0;
        loop {
            let told = timeout(SILENCE_MAX, self.shared.told.notified()).await.is_ok();
            let tally = self.shared.tally.lock();
            if let Some(why) = &tally.refused {
                bail!("the receiver: {why}");
            }
            let Tally { messages, goal, .. } = *tally;
            if let (Some(first), Some(last)) = (tally.first, tally.last) {
                return Ok(Received { messages, first, last });
            }
            let alive = told || messages > before;
            ensure!(
                alive && start.elapsed() < TIME_MAX,
                "only {messages} of {goal} messages came in {:.0} s",
                start.elapsed().as_secs_f64()
            );
            before = messages;
        }
    }

    /// Fails if more came than was expected, or nothing to one of so many endpoints.
    pub(crate) fn check(&self, endpoints: usize) -> Result<()> {
        let tally = self.shared.tally.lock();
        let Tally { messages, goal, .. } = *tally;
        ensure!(messages == goal, "{messages} messages came instead of {goal}");
        let reached = tally.by_path.iter().filter(|count| **count > 0).count();
        ensure!(reached == endpoints, "{reached} of {endpoints} endpoints were reached");
        Ok(())
    }

    /// The marked messages that came.
    pub(crate) fn take_arrivals(&self) -> Vec<Arrival> {
        self.shared.tally.lock().arrivals.take().unwrap_or_default()
    }

    /// Requests that were answered with a failure since the last goal was set.
    pub(crate) fn failed(&self) -> u64 {
        self.shared.tally.lock().failed
    }

    /// Requests that hang now.
    pub(crate) fn hanging(&self) -> u64 {
        self.shared.hanging()
    }

    /// Most connections open at once since the last call.
    pub(crate) fn take_connections_max(&self) -> u64 {
        self.shared.take_connections_max()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It fails only by what the senders have seen as broken connections.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The path of an endpoint.
pub(crate) fn path(manner: Manner, number: usize) -> String {
    format!("/{}/{number}", manner.word())
}

fn run(
    listeners: Vec<std::net::TcpListener>,
    shared: &Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ports = JoinSet::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            ports.spawn(serve::serve(listener, Arc::clone(shared)));
        }
        tokio::select! {
            _ = stopped => {}
            Some(ended) = ports.join_next() => {
                if let Err(error) = ended? {
                    shared.refuse(&error.context("the receiver ended"));
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;

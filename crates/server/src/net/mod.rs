//! The port: accepting connections, telling HTTP/1 from HTTP/2, and cutting off who is too slow.
//!
//! Our own loop, because the usual ones set no timers: a client that sends nothing, half a header
//! or half an HTTP/2 preface would keep its connection forever.

mod admission;
mod answered;
mod answers;
mod body;
mod budget;
mod connection;
mod framing;
mod stream;
mod windows;

use broker::tasks::Task;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::config::Limits;

use admission::Admission;
pub(crate) use admission::Connections;
pub(crate) use answered::Answered;
use answers::Answers;
pub(crate) use answers::{Hold, Kind, Outlet, Room};
pub(crate) use body::{Broken, Pace, Paced};
pub(crate) use budget::{Budget, Charge, Exhausted, Share};
use connection::Asked;
pub(crate) use connection::{Front, Held};

/// How far the server is on its way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes connections and calls.
    Serving,
    /// Takes no connections; calls under way may end.
    Draining,
    /// Drops what is left.
    Closed,
}

/// Held by every connection, so that it is known when the last of them has ended.
type Open = mpsc::Sender<()>;

/// A pause after a failed accept, such as when no file descriptor is left: the loop must neither
/// spin nor end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `phase` is no longer `Serving`, then waits for those open to end.
/// Once `phase` is `Closed` they are dropped.
pub(crate) async fn serve<F: Front>(
    listener: TcpListener,
    front: F,
    limits: Limits,
    connections: Connections,
    mut phase: watch::Receiver<Phase>,
) {
    let answers = Answers::new(limits.answer_memory, connections.clone());
    let admission = Arc::new(Admission::new(&limits, connections));
    let settings = Arc::new(connection::Settings::new(&limits));
    let budget = Budget::new(&limits);
    // Every connection holds a sender, so the channel closes with the last of them.
    let (open, mut all_closed): (Open, _) = mpsc::channel(1);
    let sweeping = Abort(broker::tasks::spawn("sweep", Arc::clone(&answers).sweep_for_ever()));
    let mut is_failing = false;
    while *phase.borrow_and_update() == Phase::Serving {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.changed() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // That client is gone, and the next one may be there.
            Err(error) if is_about_one_client(&error) => continue,
            Err(error) => {
                // Said once, not with every try.
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot accept connections; they have to wait");
                }
                tokio::select! {
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    _ = phase.changed() => {}
                }
                continue;
            }
        };
        if std::mem::take(&mut is_failing) {
            tracing::info!("connections are accepted again");
        }
        let Some(place) = admission.admit(peer.ip()) else {
            tracing::debug!(%peer, "connection refused: too many are open");
            continue;
        };
        let (front, settings) = (front.clone(), Arc::clone(&settings));
        let (phase, open, share) = (phase.clone(), open.clone(), budget.share());
        let outlet = answers.outlet();
        broker::tasks::spawn("connection", async move {
            let held = Held::new(place, open, outlet);
            let front = Asked { front, peer };
            connection::run(stream, front, &settings, held.clone(), share, phase).await;
            drop(held);
        });
    }
    drop((listener, open));
    let none = all_closed.recv().await;
    debug_assert!(none.is_none());
    drop(sweeping);
}

/// A task that ends when this is dropped.
struct Abort(Task);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether accepting failed because of the client that was to be accepted, and not of ourselves.
fn is_about_one_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

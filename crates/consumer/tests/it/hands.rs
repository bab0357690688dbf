//! Who runs handlers: quick ones the runner itself, those that compute other threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use postrider_consumer::log::Lines;
use postrider_consumer::rules::Level;
use postrider_consumer::{Consumer, Failure, Handled, Handler, Message, Outcome, pull};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rig::{Rig, SUBSCRIPTION, settings, soon};

/// So many messages keep their thread busy for a while.
const BUSY: usize = 20;
const BUSY_FOR: Duration = Duration::from_millis(2);

/// After those, two at a time must run for either to go on.
#[derive(Default)]
struct Computing {
    begun: AtomicUsize,
    waiting: Mutex<usize>,
    met: Condvar,
}

impl Computing {
    /// Blocks this thread until another one is here too, or for so long that it never will be.
    fn meet(&self) -> bool {
        let mut waiting = self.waiting.lock().unwrap();
        *waiting += 1;
        self.met.notify_all();
        let alone = |waiting: &mut usize| *waiting < 2;
        let wait = Duration::from_secs(10);
        !self.met.wait_timeout_while(waiting, wait, alone).unwrap().1.timed_out()
    }
}

impl Handler for Computing {
    type Event = ();

    fn decode(&self, _message: &Message) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): (), _message: &Message) -> Handled {
        if self.begun.fetch_add(1, Ordering::Relaxed) < BUSY {
            let start = Instant::now();
            while start.elapsed() < BUSY_FOR {
                std::hint::spin_loop();
            }
        } else if !self.meet() {
            return Outcome::Transient(Failure::new("Alone", "no other handler ran")).into();
        }
        Outcome::Applied.into()
    }
}

/// Holds lines back until they are to be let out.
#[derive(Default)]
struct Held {
    held: AtomicUsize,
    out: watch::Sender<usize>,
}

impl Lines for Held {
    fn wants(&self, level: Level) -> bool {
        assert_eq!(level, Level::Info);
        true
    }

    fn write(&self, _level: Level, _line: &str) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    fn flush(&self) {
        let held = self.held.swap(0, Ordering::Relaxed);
        self.out.send_modify(|out| *out += held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_that_compute_run_side_by_side_and_their_lines_come_out() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    peer.publish_all(&[("", "x"); BUSY + 2]).await;
    let connection = rig.connection();
    let known = connection.ask(SUBSCRIPTION).await.unwrap();
    let (lines, stop) = (Arc::new(Held::default()), Arc::new(Notify::new()));
    let kept: Arc<dyn Lines> = Arc::<Held>::clone(&lines);
    let handler = Computing::default();
    let consumer = Consumer::with_lines(handler, settings(), known, kept).unwrap();
    let metrics = Arc::clone(consumer.metrics());
    let stopped = Arc::clone(&stop);
    let mut running = JoinSet::new();
    running.spawn(pull::run(connection, consumer, pull::Options::default(), async move {
        stopped.notified().await;
    }));
    let mut out = lines.out.subscribe();
    soon("all lines", async { out.wait_for(|out| *out == BUSY + 2).await.map(drop) })
        .await
        .unwrap();
    assert_eq!(metrics.messages("pull", "applied"), BUSY as u64 + 2);
    stop.notify_one();
    soon("the end", running.join_next()).await.unwrap().unwrap().unwrap();
}

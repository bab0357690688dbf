//! The way between an engine and its store, where calls are held up, lost and repeated.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::faults::{Call, Fault, Faults};
use crate::{Error, Result};

/// Something that is still to happen in the store.
type Act = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Acting {
    waiting: BTreeMap<(Moment, u64), Act>,
    /// How many there ever were.
    count: u64,
}

/// Calls that are on their way to the store, by when they arrive.
///
/// They arrive when anybody asks the store for something at that time or later; nobody could have
/// told before.
pub(super) struct Transit {
    pub clock: Arc<dyn Clock>,
    acts: Mutex<Acting>,
}

impl Transit {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, acts: Mutex::default() }
    }

    fn add(&self, at: Moment, act: impl FnOnce() + Send + 'static) {
        let mut acts = self.acts.lock();
        acts.count += 1;
        let number = acts.count;
        acts.waiting.insert((at, number), Box::new(act));
    }

    /// Has everything happen that has arrived by now.
    pub(super) fn arrive(&self) {
        let now = self.clock.now();
        loop {
            let act = {
                let mut acts = self.acts.lock();
                match acts.waiting.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    _ => return,
                }
            };
            act();
        }
    }

    /// Has everything happen that is on its way, whenever it would have arrived.
    pub(super) fn arrive_all(&self) {
        while let Some((_, act)) = { self.acts.lock().waiting.pop_first() } {
            act();
        }
    }
}

/// One engine's way to the store.
#[derive(Clone)]
pub(super) struct Wire {
    pub transit: Arc<Transit>,
    pub faults: Arc<dyn Faults>,
}

/// What a call does in the store, and what it does there if it is fenced or torn.
pub(super) struct Acts<T> {
    pub act: Box<dyn Fn() -> Result<T> + Send + Sync>,
    /// Gives the shard a new epoch.
    pub fence: Option<Box<dyn Fn() + Send + Sync>>,
    /// Does only so much of it.
    pub tear: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl<T> Acts<T> {
    pub(super) fn new(act: impl Fn() -> Result<T> + Send + Sync + 'static) -> Self {
        Self { act: Box::new(act), fence: None, tear: None }
    }
}

impl Wire {
    /// Brings a call to the store, or not, and its answer back, or not.
    pub(super) async fn call<T: Send + 'static>(self, call: Call, acts: Acts<T>) -> Result<T> {
        step_aside().await;
        self.transit.arrive();
        let fault = self.faults.decide(call);
        let answer = self.bring(fault, acts).await;
        step_aside().await;
        answer
    }

    async fn bring<T: Send + 'static>(&self, fault: Fault, acts: Acts<T>) -> Result<T> {
        let act = acts.act;
        match fault {
            Fault::None => act(),
            Fault::Refuse => Err(Error::unavailable("the store refuses")),
            Fault::LoseCall => Err(unknown()),
            Fault::LoseAnswer => {
                drop(act());
                Err(unknown())
            }
            Fault::Delay(time) => self.delay(time, act).await,
            Fault::DelayAnswer(time) => {
                let answer = act();
                self.pass(time).await;
                answer
            }
            Fault::Late(time) => {
                self.later(time, act);
                Err(unknown())
            }
            Fault::Twice(time) => {
                let answer = act();
                self.later(time, act);
                answer
            }
            Fault::Fence => {
                if let Some(fence) = acts.fence {
                    fence();
                }
                act()
            }
            Fault::Silence => pending().await,
            Fault::SilenceAfter => {
                drop(act());
                pending().await
            }
            Fault::Torn(count) => {
                if let Some(tear) = acts.tear {
                    tear(count);
                }
                Err(unknown())
            }
        }
    }

    async fn delay<T: Send + 'static>(
        &self,
        time: Duration,
        act: Box<dyn Fn() -> Result<T> + Send + Sync>,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let at = self.transit.clock.now().plus(time);
        // The caller may have stopped waiting; it happens anyway.
        self.transit.add(at, move || drop(answer.send(act())));
        self.pass(time).await;
        self.transit.arrive();
        answered.await.unwrap_or_else(|_| Err(unknown()))
    }

    fn later<T: Send + 'static>(
        &self,
        time: Duration,
        act: Box<dyn Fn() -> Result<T> + Send + Sync>,
    ) {
        let at = self.transit.clock.now().plus(time);
        self.transit.add(at, move || drop(act()));
    }

    async fn pass(&self, time: Duration) {
        let clock = &self.transit.clock;
        clock.sleep_until(clock.now().plus(time)).await;
    }
}

fn unknown() -> Error {
    Error::Indeterminate(Arc::new(std::io::Error::other("the answer was lost")))
}

/// Lets others go first: between asking and answering anything may happen.
async fn step_aside() {
    let mut aside = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut aside, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

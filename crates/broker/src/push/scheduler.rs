//! Runs a pusher for each subscription that has an endpoint, spread over a few tasks.

use clock::tasks::Task;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use domain::push::Endpoint;
use domain::{Moment, SubscriptionId};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::attempts::Attempts;
use super::budget::Budget;
use super::drivers::Drivers;
use super::endpoint::Endpoints;
use super::envelope::Built;
use super::guard::Guard;
use super::memory::Memory;
use super::plan::is_pushed;
use super::sender::{Sender, SenderOptions};
use super::token::{Keys, PREPARE_AGAIN_AFTER};
use crate::error::{Error, Result};
use crate::figures::EndpointFigures;
use crate::options::PushOptions;
use crate::runtime::NodeAccess;
use crate::subscription::Subscription;
use clock::tasks;

/// Bytes of the bodies of all requests in flight.
const MEMORY_BYTES_MAX: usize = 20 << 20;
/// How long a connection is kept that nothing is sent on.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a pusher waits after a bug of ours aborted it.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of tasks that drive one subscription; no more than there are cores.
const DRIVERS_MAX: usize = 4;

/// What all pushers share.
pub(crate) struct Shared {
    pub(super) runtime: NodeAccess,
    pub(super) attempts: Arc<Attempts>,
    pub(super) options: PushOptions,
    pub(super) version: &'static str,
    pub(super) sender: Arc<Sender>,
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) built: Built,
    pub(super) keys: Keys,
    pub(super) memory: Arc<Memory>,
    /// Maximum number of tasks that may drive one subscription.
    pub(super) drivers_max: usize,
    phase: AtomicU8,
    given_back: AtomicUsize,
}

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const STOPPING: u8 = 2;

impl Shared {
    /// Nothing more is sent; requests in flight may finish.
    pub(super) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= DRAINING
    }

    /// Requests in flight are cut off.
    pub(super) fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= STOPPING
    }

    /// Counts messages whose requests were cut off.
    pub(super) fn note_given_back(&self, messages: usize) {
        self.given_back.fetch_add(messages, Ordering::SeqCst);
    }
}

/// Starts and stops pushers.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    running: Arc<Running>,
    workers: Vec<Worker>,
}

/// A task that drives pushers.
struct Worker {
    pushers: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    task: Task,
}

/// The running pushers, and how to make each one look again.
#[derive(Default)]
struct Running {
    pushers: Mutex<HashMap<SubscriptionId, Arc<Notify>>>,
    ended: Notify,
}

impl Scheduler {
    /// Starts without pushing anything yet.
    pub(crate) fn start(
        runtime: NodeAccess,
        options: PushOptions,
        attempts: Arc<Attempts>,
    ) -> Result<Self> {
        let sender = SenderOptions {
            connect_timeout: options.connect_timeout,
            connects_max: options.connects_max,
            connects_per_host_max: options.connects_per_host_max,
            idle_timeout: IDLE_TIMEOUT,
            idle_max: options.in_flight_max,
            sockets_max: options.in_flight_max,
            guard: Guard {
                private_networks: options.private_networks,
                allow: options.allow.clone(),
                own: options.own,
            },
            ca_file: options.ca_file.clone(),
        };
        let sender = Sender::new(sender, Arc::clone(&runtime.clock))
            .map_err(|error| Error::Push(error.to_string()))?;
        let budget = Budget::new(options.in_flight_max);
        let workers = (0..options.workers.max(1)).map(|_| Worker::start()).collect();
        let shared = Shared {
            runtime,
            attempts,
            version: env!("CARGO_PKG_VERSION"),
            sender: Arc::new(sender),
            endpoints: Arc::new(Endpoints::new(budget)),
            built: Built::default(),
            keys: Keys::open(options.data_dir.as_deref())
                .map_err(|error| Error::Push(error.to_string()))?,
            memory: Memory::new(MEMORY_BYTES_MAX),
            options,
            drivers_max: std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(DRIVERS_MAX),
            phase: AtomicU8::new(SERVING),
            given_back: AtomicUsize::new(0),
        };
        Ok(Self { shared: Arc::new(shared), running: Arc::default(), workers })
    }

    /// The public keys for checking tokens, as a JSON Web Key Set.
    pub(crate) async fn token_keys(&self) -> Result<String> {
        let shared = Arc::clone(&self.shared);
        let now = shared.runtime.clock.now();
        let keys = tasks::blocking(move || shared.keys.jwks(now)).await;
        let failed = |error: &dyn std::error::Error| Error::Push(error.to_string());
        keys.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }

    /// Why nothing would be pushed to that endpoint now; `None` = no known reason.
    pub(crate) async fn endpoint_refusal(&self, endpoint: &Endpoint) -> Option<String> {
        self.shared.sender.refusal(endpoint).await
    }

    /// The statistics of the endpoint at that address; `None` = nobody pushes to it.
    pub(crate) fn endpoint(&self, now: Moment, address: &str) -> Option<EndpointFigures> {
        self.shared.endpoints.figures(now, address)
    }

    /// The subscription is new, changed or gone: starts, continues or ends pushing accordingly.
    pub(crate) fn look_at(&self, subscription: &Arc<Subscription>) {
        let id = subscription.id();
        let mut pushers = self.running.pushers.lock();
        if let Some(pusher) = pushers.get(&id) {
            pusher.notify_one();
            return;
        }
        if self.shared.is_draining() || !wants(subscription) {
            return;
        }
        let changed = Arc::new(Notify::new());
        pushers.insert(id, Arc::clone(&changed));
        let pushing = Pushing {
            shared: Arc::clone(&self.shared),
            running: Arc::clone(&self.running),
            subscription: Arc::clone(subscription),
            changed,
        };
        // Ids grow by one, so this spreads them evenly.
        let at = usize::try_from(id.0).unwrap_or_default() % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(at) {
            // A worker ends only after all pushers have.
            drop(worker.pushers.send(pushing.run().boxed()));
        }
    }

    /// Sends nothing more, lets requests in flight finish within `grace`, and cuts off the rest.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.enter(DRAINING);
        let clock = &self.shared.runtime.clock;
        tokio::select! {
            biased;
            () = self.running.end() => {}
            () = clock.sleep_until(clock.now().plus(grace)) => {}
        }
        self.enter(STOPPING);
        self.running.end().await;
        let given_back = self.shared.given_back.load(Ordering::SeqCst);
        if given_back > 0 {
            tracing::info!(
                messages = given_back,
                "pushes canceled, will be sent again after a restart"
            );
        }
        self.shared.sender.close_idle();
        self.workers.iter().for_each(|worker| worker.task.abort());
    }

    /// Ends pushing for subscriptions whose shard is closed: requests in flight may finish within
    /// `grace`, unless all of them are cut off.
    pub(crate) async fn let_go(&self, subscriptions: &[Arc<Subscription>], grace: Duration) {
        let clock = &self.shared.runtime.clock;
        self.look_again(subscriptions);
        tokio::select! {
            biased;
            () = self.running.end_of(subscriptions) => {}
            () = clock.sleep_until(clock.now().plus(grace)) => {}
        }
        subscriptions.iter().for_each(|subscription| subscription.serving().cut_off());
        self.look_again(subscriptions);
        self.running.end_of(subscriptions).await;
    }

    fn look_again(&self, subscriptions: &[Arc<Subscription>]) {
        let pushers = self.running.pushers.lock();
        let known = subscriptions.iter().filter_map(|subscription| pushers.get(&subscription.id()));
        known.for_each(|pusher| pusher.notify_one());
    }

    /// Cuts off requests in flight without waiting any longer.
    pub(crate) fn hurry(&self) {
        self.enter(STOPPING);
    }

    fn enter(&self, phase: u8) {
        self.shared.phase.store(phase, Ordering::SeqCst);
        self.running.pushers.lock().values().for_each(|pusher| pusher.notify_one());
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.workers.iter().for_each(|worker| worker.task.abort());
    }
}

impl Worker {
    fn start() -> Self {
        let (pushers, coming) = mpsc::unbounded_channel();
        // Exempt from the runtime's budget: with thousands of connections ready at a time it would
        // let a hundred make progress and poll all others in vain. `FuturesUnordered` lets other
        // tasks run after each has had its turn.
        let task = tasks::spawn("push worker", tokio::task::unconstrained(drive(coming)));
        Self { pushers, task }
    }
}

/// Drives pushers as they come, forever.
async fn drive(mut coming: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut pushers = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            pusher = coming.recv() => match pusher {
                Some(pusher) => pushers.push(pusher),
                None => return,
            },
            Some(()) = pushers.next(), if !pushers.is_empty() => {}
        }
    }
}

impl Running {
    /// Resolves when no pusher is left.
    async fn end(&self) {
        self.until(HashMap::is_empty).await;
    }

    /// Resolves when none of these has a pusher.
    async fn end_of(&self, subscriptions: &[Arc<Subscription>]) {
        let is_running = |pushers: &HashMap<_, _>| {
            subscriptions.iter().any(|subscription| pushers.contains_key(&subscription.id()))
        };
        self.until(|pushers| !is_running(pushers)).await;
    }

    async fn until(&self, holds: impl Fn(&HashMap<SubscriptionId, Arc<Notify>>) -> bool) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if holds(&self.pushers.lock()) {
                return;
            }
            ended.await;
        }
    }
}

/// One subscription's pushing, from its first pusher to its last.
struct Pushing {
    shared: Arc<Shared>,
    running: Arc<Running>,
    subscription: Arc<Subscription>,
    changed: Arc<Notify>,
}

impl Pushing {
    async fn run(self) {
        loop {
            let push = std::panic::AssertUnwindSafe(self.push()).catch_unwind();
            if !push.await.unwrap_or(false) {
                let clock = &self.shared.runtime.clock;
                clock.sleep_until(clock.now().plus(RESTART_AFTER)).await;
            }
            // Decided under the lock: whoever changes the settings now is either seen here or finds
            // no pusher and starts one.
            let mut pushers = self.running.pushers.lock();
            if self.shared.is_draining() || !wants(&self.subscription) {
                pushers.remove(&self.subscription.id());
                self.running.ended.notify_waiters();
                return;
            }
        }
    }

    /// Pushes until there is a reason to stop; `false` = a bug of ours.
    async fn push(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        let Some(drivers) = Drivers::new(shared, Arc::clone(&self.subscription)) else {
            return true;
        };
        while drivers.look_again() {
            let clock = &self.shared.runtime.clock;
            let again: BoxFuture<'static, ()> =
                match drivers.needs_keys() && !self.prepare_keys().await {
                    true => clock.sleep_until(clock.now().plus(PREPARE_AGAIN_AFTER)),
                    false => Box::pin(std::future::pending()),
                };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = again => {}
                is_well = poll_fn(|context| drivers.poll(context)) => return is_well,
            }
        }
        true
    }
}

impl Pushing {
    /// Creates the key pair for tokens if there is none yet, which takes long; `false` = there is
    /// still none.
    async fn prepare_keys(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        if !shared.keys.is_ready() {
            let now = shared.runtime.clock.now();
            // Whoever needs a token gets the error again.
            drop(tasks::blocking(move || shared.keys.prepare(now)).await);
        }
        self.shared.keys.is_ready()
    }
}

/// Whether messages of the subscription should be pushed.
fn wants(subscription: &Subscription) -> bool {
    !subscription.is_deleted()
        && !subscription.serving().is_over()
        && is_pushed(&subscription.settings())
}

//! Runs an exporter for each subscription that has a bucket.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use domain::SubscriptionId;
use export::{Bucket, Stores};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::exporter::Exporter;
use super::room::Room;
use crate::error::{Error, Result};
use crate::options::ExportOptions;
use crate::runtime::NodeAccess;
use crate::schema::Schemas;
use crate::subscription::Subscription;
use clock::tasks;

/// How long an exporter waits after a bug of ours aborted it.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// What all exporters share.
pub(crate) struct Shared {
    pub(super) runtime: NodeAccess,
    pub(super) schemas: Arc<Schemas>,
    pub(super) room: Arc<Room>,
    /// `None` = the server has no place for buckets.
    stores: Option<Stores>,
    phase: AtomicU8,
    /// Notified when objects that are being written are given up.
    stopping: Notify,
}

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const STOPPING: u8 = 2;

impl Shared {
    /// Open objects are completed, and nothing more is written.
    pub(super) fn is_draining(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= DRAINING
    }

    fn is_stopping(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= STOPPING
    }

    /// Resolves when whatever `subscription` has not completed is given up.
    async fn stopped(&self, subscription: &Subscription) {
        loop {
            let stopping = self.stopping.notified();
            tokio::pin!(stopping);
            stopping.as_mut().enable();
            if self.is_stopping() || subscription.serving().is_cut_off() {
                return;
            }
            stopping.await;
        }
    }

    /// The bucket of that name.
    pub(super) fn bucket(&self, name: &str) -> Result<Bucket, export::Error> {
        match &self.stores {
            Some(stores) => stores.bucket(name),
            None => Err(export::Error::new(export::Kind::Missing, NO_PLACE)),
        }
    }
}

const NO_PLACE: &str = "this server has no place for buckets: set export.folder to a folder, or \
                        export.url to \"s3://\" or \"gs://\", and restart it";

/// Starts and stops exporters.
pub(crate) struct Exports {
    shared: Arc<Shared>,
    running: Arc<Running>,
}

/// The running exporters, and how to make each one look again.
#[derive(Default)]
struct Running {
    exporters: Mutex<HashMap<SubscriptionId, Arc<Notify>>>,
    ended: Notify,
}

impl Exports {
    /// Starts without exporting anything yet.
    pub(crate) fn start(
        runtime: NodeAccess,
        schemas: Arc<Schemas>,
        options: ExportOptions,
    ) -> Result<Self> {
        let stores = options.place.map(Stores::open).transpose();
        let shared = Shared {
            runtime,
            schemas,
            room: Room::new(options.memory_bytes_max),
            stores: stores.map_err(|error| Error::Export(error.to_string()))?,
            phase: AtomicU8::new(SERVING),
            stopping: Notify::new(),
        };
        Ok(Self { shared: Arc::new(shared), running: Arc::default() })
    }

    /// Removes what a killed server has left. To be called before anything is exported.
    pub(crate) async fn sweep(&self) {
        let Some(stores) = &self.shared.stores else { return };
        match stores.sweep().await {
            Ok(0) => {}
            Ok(objects) => tracing::info!(objects, "unfinished objects removed"),
            Err(error) => tracing::warn!(%error, "cannot remove unfinished objects"),
        }
    }

    /// Refuses settings that name a bucket where there is no place for any.
    pub(crate) fn check_place(&self, settings: &domain::Subscription) -> Result<()> {
        if settings.cloud_storage.is_none() || self.shared.stores.is_some() {
            return Ok(());
        }
        Err(Error::FailedPrecondition(format!("cloud_storage_config: {NO_PLACE}")))
    }

    /// The subscription is new, changed or gone: starts, continues or ends exporting accordingly.
    pub(crate) fn look_at(&self, subscription: &Arc<Subscription>) {
        let id = subscription.id();
        let mut exporters = self.running.exporters.lock();
        if let Some(exporter) = exporters.get(&id) {
            exporter.notify_one();
            return;
        }
        if self.shared.is_draining() || !wants(subscription) {
            return;
        }
        let changed = Arc::new(Notify::new());
        exporters.insert(id, Arc::clone(&changed));
        let exporting = Exporting {
            shared: Arc::clone(&self.shared),
            running: Arc::clone(&self.running),
            subscription: Arc::clone(subscription),
            changed,
        };
        drop(tasks::spawn("exporter", exporting.run()));
    }

    /// Leases nothing more, lets open objects be completed within `grace`, and gives up the rest.
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
    }

    /// Ends exporting for subscriptions whose shard is closed: open objects may be completed within
    /// `grace`.
    pub(crate) async fn let_go(&self, subscriptions: &[Arc<Subscription>], grace: Duration) {
        let clock = &self.shared.runtime.clock;
        self.look_again(subscriptions);
        tokio::select! {
            biased;
            () = self.running.end_of(subscriptions) => {}
            () = clock.sleep_until(clock.now().plus(grace)) => {}
        }
        subscriptions.iter().for_each(|subscription| subscription.serving().cut_off());
        self.shared.stopping.notify_waiters();
        self.running.end_of(subscriptions).await;
    }

    fn look_again(&self, subscriptions: &[Arc<Subscription>]) {
        let exporters = self.running.exporters.lock();
        let known = subscriptions.iter().filter_map(|one| exporters.get(&one.id()));
        known.for_each(|exporter| exporter.notify_one());
    }

    /// Gives up objects that are not complete without waiting any longer.
    pub(crate) fn hurry(&self) {
        self.enter(STOPPING);
    }

    fn enter(&self, phase: u8) {
        // Whoever is in a hurry stays so.
        self.shared.phase.fetch_max(phase, Ordering::SeqCst);
        self.running.exporters.lock().values().for_each(|exporter| exporter.notify_one());
        if phase >= STOPPING {
            self.shared.stopping.notify_waiters();
        }
    }
}

impl Running {
    /// Resolves when no exporter is left.
    async fn end(&self) {
        self.until(HashMap::is_empty).await;
    }

    /// Resolves when none of these has an exporter.
    async fn end_of(&self, subscriptions: &[Arc<Subscription>]) {
        let is_running = |exporters: &HashMap<_, _>| {
            subscriptions.iter().any(|subscription| exporters.contains_key(&subscription.id()))
        };
        self.until(|exporters| !is_running(exporters)).await;
    }

    async fn until(&self, holds: impl Fn(&HashMap<SubscriptionId, Arc<Notify>>) -> bool) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if holds(&self.exporters.lock()) {
                return;
            }
            ended.await;
        }
    }
}

/// One subscription's exporting, from its first exporter to its last.
struct Exporting {
    shared: Arc<Shared>,
    running: Arc<Running>,
    subscription: Arc<Subscription>,
    changed: Arc<Notify>,
}

impl Exporting {
    async fn run(self) {
        loop {
            let export = std::panic::AssertUnwindSafe(self.export()).catch_unwind();
            if export.await.is_err() {
                let name = self.subscription.name();
                tracing::error!(subscription = %name, "exporter panicked");
                let clock = &self.shared.runtime.clock;
                clock.sleep_until(clock.now().plus(RESTART_AFTER)).await;
            }
            // Decided under the lock: whoever changes the settings now is either seen here or finds
            // no exporter and starts one.
            let mut exporters = self.running.exporters.lock();
            if self.shared.is_draining() || !wants(&self.subscription) {
                exporters.remove(&self.subscription.id());
                self.running.ended.notify_waiters();
                return;
            }
        }
    }

    /// Exports until there is a reason to stop. Dropping an exporter gives back what it holds.
    async fn export(&self) {
        let (shared, subscription) = (Arc::clone(&self.shared), Arc::clone(&self.subscription));
        let Some(mut exporter) = Exporter::new(shared, subscription) else { return };
        tokio::select! {
            biased;
            () = self.shared.stopped(&self.subscription) => {}
            () = exporter.run(&self.changed) => {}
        }
    }
}

/// Whether messages of the subscription should be exported.
fn wants(subscription: &Subscription) -> bool {
    !subscription.is_deleted()
        && !subscription.serving().is_over()
        && subscription.settings().is_exported()
}

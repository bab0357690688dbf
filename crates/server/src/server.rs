//! The server: store, broker and port, started together and stopped in order.

use broker::tasks::Task;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Clock, SystemClock};
use domain::SubscriptionName;
use domain::drift::{self, Drift};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::api::{About, Api, Backups};
use crate::audit::{self, AuditFile};
use crate::config::{Config, DeclaredSchema};
use crate::descriptors::Descriptors;
use crate::engine::{self, Closer, Recovery};
use crate::gate::Gate;
use crate::grpc::{self, Grpc};
use crate::live_api::LiveApi;
use crate::metrics::{Facts, Metrics};
use crate::net::{self, Connections, Phase};
use crate::rest::Rest;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(storage::Error),
    /// The store's content cannot be taken over.
    #[error("cannot load the store: {0}")]
    Load(broker::Error),
    /// A topic or subscription of the settings cannot be made.
    #[error("cannot create {name} from the settings: {source}")]
    Resource {
        /// Its name.
        name: String,
        /// Why not.
        source: broker::Error,
    },
    /// A topic of the settings names a schema that is not there.
    #[error(
        "cannot create {name} from the settings: schema_settings.schema: {source}; create the \
         schema first, with postrider schema create"
    )]
    Schema {
        /// The topic's name.
        name: String,
        /// What is not there.
        source: broker::Error,
    },
    /// The description of our own services is broken.
    #[error("cannot describe the services: {0}")]
    Reflection(grpc::ReflectionError),
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    broker: Arc<Broker>,
    phase: watch::Sender<Phase>,
    ready: watch::Sender<bool>,
    health: HealthReporter,
    port: Task,
    closer: Closer,
    started: Started,
    grace: Duration,
}

/// What there is to tell about a start.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// What was replayed from the log; `None` if the engine never has to.
    pub recovery: Option<Recovery>,
    /// How long opening the store took.
    pub opening: Duration,
}

impl Server {
    /// Opens the store, makes what the settings ask for, and takes connections.
    pub async fn start(config: &Config) -> Result<Self, Error> {
        // The port comes first: a second server on it must not touch the store.
        let port = Port::bind(config.listen).await?;
        let clock = SystemClock::start();
        let opened = open_store(config).await?;
        let started = Started {
            recovery: opened.recovery,
            opening: clock.now().since(domain::Moment::default()),
        };
        Self::run(config, port, opened.engine, opened.closer, started).await
    }

    /// The same on a store that is open already and that the caller closes.
    pub async fn start_on(config: &Config, engine: storage::Engine) -> Result<Self, Error> {
        let port = Port::bind(config.listen).await?;
        let started = Started { recovery: None, opening: Duration::ZERO };
        Self::run(config, port, engine, Closer::None, started).await
    }

    async fn run(
        config: &Config,
        port: Port,
        engine: storage::Engine,
        closer: Closer,
        started: Started,
    ) -> Result<Self, Error> {
        let descriptors = Descriptors::share(config);
        descriptors.tell();
        let config = &descriptors.applied(config);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let opening = Broker::open(engine, Arc::clone(&clock), options(config, port.address));
        let broker = opening.await.map_err(Error::Load)?;
        make_resources(&broker, config).await?;
        warn_of_missing_topics(&broker);

        let (phase, phases) = watch::channel(Phase::Serving);
        let (ready, readiness) = watch::channel(true);
        let health = HealthReporter::new();
        set_health(&health, ServingStatus::Serving).await;
        let connections = Connections::default();
        let api = Api::new(Arc::clone(&broker), Arc::clone(&clock), config.limits.pull_wait)
            .with_unsupported(config.api.unsupported)
            .with_about(about(config, started, clock.wall(), (connections.clone(), descriptors)))
            .with_backups(closer.copier().map(|copier| backups(config, copier)));
        let metrics = metrics(config, &api, clock, (started, connections.clone()));
        let pace = config.limits.pace();
        let url = config.server.url(port.address);
        let gate = Gate {
            hosts: Arc::new(known_hosts(config, port.address)),
            grpc: Grpc::new(api.clone(), &health, pace).map_err(Error::Reflection)?,
            live: LiveApi::new(api.clone(), pace, phases.clone()),
            rest: Rest::new(api, metrics, pace, phases.clone(), readiness, url),
        };
        let serving = net::serve(port.listener, gate, config.limits.clone(), connections, phases);
        Ok(Self {
            address: port.address,
            broker,
            phase,
            ready,
            health,
            port: broker::tasks::spawn("port", serving),
            closer,
            started,
            grace: config.shutdown_grace,
        })
    }

    /// The address it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What there is to tell about its start.
    pub fn started(&self) -> Started {
        self.started
    }

    /// Resolves if the log ever fails. The server then says that it is not healthy and refuses
    /// everything that would have to be durable; it is to be stopped after its grace time.
    pub async fn failure(&self) -> storage::Error {
        let error = self.broker.failure().await;
        self.ready.send_replace(false);
        set_health(&self.health, ServingStatus::NotServing).await;
        error
    }

    /// Takes no more connections, tells streams to reconnect, lets calls under way end within the
    /// grace time, saves all progress and closes the store. `hurry` ends the grace time early.
    ///
    /// An error means that progress was not saved or the store not closed, as when the disk hangs;
    /// the log holds all that was answered, so nothing is lost by ending anyway.
    pub async fn stop(self, hurry: impl Future<Output = ()>) -> Result<(), StopError> {
        self.ready.send_replace(false);
        set_health(&self.health, ServingStatus::NotServing).await;
        self.phase.send_replace(Phase::Draining);
        let broker = &self.broker;
        let hurry = async {
            hurry.await;
            broker.hurry();
        };
        let draining = drain(self.port, self.phase, self.grace, hurry);
        // Both at once: the broker's first step ends the streams that draining waits for.
        let saving = self.broker.close(self.grace);
        let saved = async { tokio::join!(draining, saving).1 };
        within(self.grace * 2, saved).await?.map_err(StopError::Save)?;
        let closer = self.closer;
        let closing = tokio::task::spawn_blocking(move || closer.close());
        within(self.grace.max(CLOSING_MIN), closing).await?.map_err(StopError::Panicked)
    }
}

/// The names under which it may be asked.
fn known_hosts(config: &Config, address: SocketAddr) -> domain::web::Hosts {
    let hosts = config.server.known(address.ip());
    if hosts.takes_any() {
        tracing::info!(
            "programs may use any host name for this server; list its names in server.hosts to \
             refuse others, so no web page can reach it through its own name"
        );
    }
    hosts
}

fn backups(config: &Config, copier: engine::Copier) -> Backups {
    let others = [broker::KEY_FILE, audit::NAME, audit::OLD_NAME];
    let others = others.map(|name| config.data_dir.join(name)).to_vec();
    Backups::new(copier, config.storage.backup_dir.clone(), others)
}

fn about(
    config: &Config,
    started: Started,
    started_at: domain::Timestamp,
    (connections, descriptors): (Connections, Descriptors),
) -> About {
    let is_disk = config.engine.has_folder();
    About {
        started_at,
        started,
        engine: config.engine.as_str(),
        durability: is_disk.then(|| config.storage.durability.as_str()),
        connections,
        descriptors,
    }
}

/// The metrics of a server that has started so.
fn metrics(
    config: &Config,
    api: &Api,
    clock: Arc<dyn Clock>,
    (started, connections): (Started, Connections),
) -> Arc<Metrics> {
    let facts = Facts {
        started_at: clock.wall(),
        recovery: started.opening,
        recovered: started.recovery.map_or(0, |recovery| recovery.records),
        folder: config.engine.has_folder().then(|| config.data_dir.clone()),
        own_max: config.metrics.subscriptions_max,
    };
    let (broker, streams) = (Arc::clone(api.broker()), Arc::clone(api.open_streams()));
    let watched = Arc::clone(&broker);
    let is_pinned = Box::new(move |name: &SubscriptionName| watched.has_alert(name));
    Arc::new(Metrics::new(broker, clock, (streams, connections), facts, is_pinned))
}

/// What the settings say about the broker of a server that listens on `address`.
fn options(config: &Config, address: SocketAddr) -> broker::Options {
    let plain = broker::Options::default();
    // Without the disk engine there is no folder to keep anything in.
    let folder = config.engine.has_folder().then_some(config.data_dir.as_path());
    broker::Options {
        progress_flush: config.storage.progress_flush,
        outstanding_max: config.limits.outstanding_max,
        dead_letter_retention: config.dead_letter.retention,
        audit: match folder {
            Some(folder) => Arc::new(AuditFile::new(folder)),
            None => plain.audit,
        },
        alerts: config.alerts.options(),
        log: broker::LogOptions {
            service: config.log.service.as_str().into(),
            env: config.log.env.as_str().into(),
            version: crate::VERSION.into(),
            failures_per_second: config.log.failures_per_second,
        },
        live: config.live.options(),
        push: config.push.options(address, folder),
        transforms: config.transforms.options(),
        export: config.export.options(),
        ..broker::Options::default()
    }
}

/// The least time closing the store may take, however short the grace time is.
const CLOSING_MIN: Duration = Duration::from_secs(1);

/// What went wrong while stopping.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The last checkpoint failed.
    #[error("progress could not be saved: {0}")]
    Save(broker::Error),
    /// The disk takes too long.
    #[error("the store did not close in time")]
    Hangs,
    /// A bug of ours.
    #[error("closing the store failed: {0}")]
    Panicked(tokio::task::JoinError),
}

async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, StopError> {
    tokio::time::timeout(time, work).await.map_err(|_| StopError::Hangs)
}

/// Waits for open connections to end, and drops them after the grace time or in a hurry.
async fn drain(
    mut port: Task,
    phase: watch::Sender<Phase>,
    grace: Duration,
    hurry: impl Future<Output = ()>,
) {
    tokio::select! {
        () = &mut port => {}
        () = tokio::time::sleep(grace) => {
            tracing::info!("grace period is over, closing what is left");
            phase.send_replace(Phase::Closed);
            port.await;
        }
        () = hurry => {
            phase.send_replace(Phase::Closed);
            port.await;
        }
    }
}

/// An address that is listened on, though nobody answers yet.
struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }
}

async fn open_store(config: &Config) -> Result<engine::Opened, Error> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || engine::open(&config)).await;
    match opened {
        Ok(opened) => opened.map_err(Error::Store),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn set_health(health: &HealthReporter, status: ServingStatus) {
    health.set_service_status("", status).await;
    for service in grpc::SERVICES {
        health.set_service_status(service, status).await;
    }
}

/// Makes the topics and subscriptions of the settings that are not there yet.
async fn make_resources(broker: &Broker, config: &Config) -> Result<(), Error> {
    for schema in &config.schemas {
        make_schema(broker, schema).await?;
    }
    for topic in &config.topics {
        let name = topic.name.as_str();
        // One that is there is left alone, though its schema be gone.
        if let Ok(there) = broker.topic(&topic.name) {
            warn_of_drift(name, &drift::of_topic(topic, &there.settings()));
        } else {
            is_made(broker.create_topic(topic.clone()).await, name)?;
            for warning in domain::topic::warnings(None, topic) {
                tracing::warn!(topic = name, "{warning}");
            }
        }
    }
    for subscription in &config.subscriptions {
        let (made, name) =
            (broker.create_subscription(subscription.clone()).await, &subscription.name);
        if is_made(made, name.as_str())? {
            warn_about(broker, subscription).await;
        } else if let Ok(there) = broker.subscription(name) {
            let drift = drift::of_subscription(subscription, &there.settings());
            warn_of_drift(name.as_str(), &drift);
        }
    }
    Ok(())
}

async fn make_schema(broker: &Broker, schema: &DeclaredSchema) -> Result<(), Error> {
    let name = schema.name.as_str();
    if let Ok(there) = broker.schema(&schema.name) {
        let current = there.current();
        let is_same =
            current.kind() == schema.kind && *current.newest().definition == *schema.definition;
        let drift = (!is_same).then_some(Drift { field: "definition", values: None });
        warn_of_drift(name, drift.as_slice());
        return Ok(());
    }
    let definition = schema.definition.clone();
    let made = broker.create_schema(schema.name.clone(), schema.kind, definition).await;
    is_made(made, name).map(drop)
}

/// What exists stays as it is, since someone may have changed it for a reason.
fn warn_of_drift(name: &str, drift: &[Drift]) {
    if drift.is_empty() {
        return;
    }
    let told: Vec<String> = drift.iter().map(Drift::to_string).collect();
    tracing::warn!(
        name,
        "already exists and differs from the settings: {}; it is left unchanged: use postrider \
         topic update or postrider subscription update, postrider apply, or change the settings",
        told.join("; ")
    );
}

/// Subscriptions without their dead letter topic that are named one by one, at most.
const MISSING_TOLD_MAX: usize = 20;

/// A message that nobody can deliver would be stuck there one day.
fn warn_of_missing_topics(broker: &Broker) {
    let mut findings = broker.lint(None);
    findings.retain(|finding| finding.code == domain::lint::DEAD_LETTER_TOPIC_MISSING);
    for finding in findings.iter().take(MISSING_TOLD_MAX) {
        tracing::warn!(subscription = finding.resource, "{}: {}", finding.problem, finding.remedy);
    }
    if let Some(more) = findings.len().checked_sub(MISSING_TOLD_MAX).filter(|more| *more > 0) {
        tracing::warn!(
            more,
            "more subscriptions are missing their dead letter topic: see \
                              postrider lint"
        );
    }
}

async fn warn_about(broker: &Broker, subscription: &domain::Subscription) {
    for warning in domain::subscription::warnings(None, subscription, 0) {
        tracing::warn!(subscription = %subscription.name, "{warning}");
    }
    if let Some(refusal) = broker.endpoint_refusal(subscription).await {
        let subscription = &subscription.name;
        tracing::warn!(%subscription, "its endpoint will get no pushes: {refusal}");
    }
}

/// Whether it was made now; else it was there already.
fn is_made<T>(made: broker::Result<T>, name: &str) -> Result<bool, Error> {
    match made {
        Ok(_) => {
            tracing::info!(name, "created from the settings");
            Ok(true)
        }
        Err(broker::Error::AlreadyExists(..)) => Ok(false),
        Err(source @ broker::Error::NotFound(broker::Resource::Schema, _)) => {
            Err(Error::Schema { name: name.to_owned(), source })
        }
        Err(source) => Err(Error::Resource { name: name.to_owned(), source }),
    }
}

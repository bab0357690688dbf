//! How the broker's parts are assembled and started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use clock::{Clock, tasks};
use domain::ShardId;
use parking_lot::Mutex;
use storage::Engine;

use super::Broker;
use crate::admin::{Admin, Dependants};
use crate::alerts::Alerts;
use crate::catalogue::Catalogue;
use crate::courier::Courier;
use crate::dead_letter_admin::DeadLetterAdmin;
use crate::directory::Directory;
use crate::error::Result;
use crate::export::Exports;
use crate::guard::Guard;
use crate::lease::Lease;
use crate::live::{self, Live};
use crate::maintenance::ClockWatcher;
use crate::options::Options;
use crate::peek::Peeker;
use crate::push::attempts::Attempts;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::remembered::Remembered;
use crate::runtime::Host;
use crate::schema::Schemas;
use crate::seek::Seeker;
use crate::shards::OpenShards;
use crate::status::Observer;
use crate::subscription::Subscription;
use crate::tail::Tail;

impl Broker {
    /// Takes over everything in `engine` and starts the chores. A store that several nodes share is
    /// taken over shard by shard instead, by `join` and `open_shard`.
    pub async fn open(
        engine: Engine,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Arc<Self>> {
        let lease = || Arc::new(Lease::new(Arc::clone(&clock), options.planted));
        let lease = engine.members.is_some().then(lease);
        let is_shared = lease.is_some();
        let host = Arc::new(Host::new(clock, options, lease));
        let broker = Arc::new(Self::assemble(engine, host)?);
        // Boxed, since whoever starts a broker would carry all that loading takes.
        Box::pin(broker.admin.load_schemas()).await?;
        if broker.directory.lists() {
            Box::pin(broker.admin.list_all()).await?;
            let follow = Arc::clone(&broker.admin).follow();
            broker.chores.lock().push(tasks::spawn("directory", follow));
        }
        broker.start_node_chores();
        broker.export.sweep().await;
        if !is_shared {
            for id in 0..broker.shards.count() {
                Box::pin(broker.open_shard(ShardId(id))).await?;
            }
        }
        Box::pin(broker.start_alerts()).await;
        Ok(broker)
    }

    /// Gives each part what it needs of the others.
    fn assemble(engine: Engine, host: Arc<Host>) -> Result<Self> {
        let base = Base::new(&engine, host)?;
        let courier = base.courier();
        let (dead_letters, schemas) = (base.dead_letters(&courier), Arc::clone(&base.schemas));
        let seeker = base.seeker();
        let admin = base.admin(&dead_letters, &schemas, &seeker);
        let clock_watcher = base.clock_watcher();
        let observer = base.observer(&dead_letters, &clock_watcher);
        let alerts = base.alerts(&observer, &admin);
        let peeker = Peeker::new(Arc::clone(&base.registry));
        let Base {
            host,
            tail,
            registry,
            directory,
            shards,
            remembered,
            attempts,
            push,
            export,
            live,
            ..
        } = base;
        Ok(Self {
            engine,
            host,
            tail,
            registry,
            directory,
            shards,
            running: Mutex::new(BTreeMap::new()),
            moving: tokio::sync::Mutex::default(),
            remembered,
            admin,
            schemas,
            seeker,
            peeker,
            dead_letters,
            courier,
            push,
            export,
            attempts,
            live,
            observer,
            alerts,
            clock_watcher,
            chores: Mutex::default(),
        })
    }

    /// Those that are not of one shard.
    fn start_node_chores(self: &Arc<Self>) {
        let host = Arc::clone(&self.host);
        let lines = async move { host.delivery_log.run(&*host.clock).await };
        self.chores.lock().extend([
            tasks::spawn("delivery log", lines),
            tasks::spawn("clock watcher", Arc::clone(&self.clock_watcher).run()),
            tasks::spawn("live expirer", live::expire(Arc::clone(&self.live))),
            tasks::spawn("shard ender", Arc::clone(self).end_failed()),
        ]);
    }

    async fn start_alerts(&self) {
        let Some(options) = self.host.options.alerts.clone() else { return };
        // The server is useful without them, and this is retried when there is an alert to send.
        if let Err(error) = self.alerts.prepare(&options).await {
            tracing::warn!(%error, "could not create what alerts need");
        }
        self.chores.lock().extend([
            tasks::spawn("alerts", Arc::clone(&self.alerts).run(options.clone())),
            tasks::spawn("alerts sender", Arc::clone(&self.alerts).send(options)),
        ]);
    }
}

/// What the other parts are built from.
struct Base {
    host: Arc<Host>,
    tail: Arc<Tail>,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    directory: Arc<Directory>,
    shards: Arc<OpenShards>,
    remembered: Arc<Remembered<Subscription>>,
    attempts: Arc<Attempts>,
    push: Arc<Scheduler>,
    export: Arc<Exports>,
    schemas: Arc<Schemas>,
    live: Arc<Live>,
}

impl Base {
    fn new(engine: &Engine, host: Arc<Host>) -> Result<Self> {
        let attempts = Attempts::new(Arc::clone(&engine.attempts), host.clock.wall());
        let attempts = Arc::new(attempts);
        let Options { push, export, live, outstanding_max, .. } = host.options.clone();
        let push = Arc::new(Scheduler::start(host.access(), push, Arc::clone(&attempts))?);
        let live = Live::new(host.access(), live);
        let (tail, count) = (Arc::<Tail>::default(), engine.shards.count());
        let (store, serving) = (Arc::clone(&engine.catalogue), Arc::clone(&host.serving));
        let catalogue = Arc::new(Catalogue::new(store, serving, count));
        let directory = Arc::new(Directory::new(count));
        let shards = Arc::new(OpenShards::new(count));
        let schemas = Self::schemas(&host, &catalogue);
        let export = Exports::start(host.access(), Arc::clone(&schemas), export)?;
        let registry =
            Registry::new(Arc::clone(&tail), Arc::clone(&directory), Arc::clone(&shards));
        Ok(Self {
            registry: Arc::new(registry),
            tail,
            catalogue,
            directory,
            shards,
            remembered: Arc::new(Remembered::new(outstanding_max)),
            attempts,
            push,
            export: Arc::new(export),
            schemas,
            live,
            host,
        })
    }

    fn courier(&self) -> Arc<Courier> {
        let (registry, catalogue) = (Arc::clone(&self.registry), Arc::clone(&self.catalogue));
        Arc::new(Courier::new(registry, catalogue, &self.host.options))
    }

    fn dead_letters(&self, courier: &Arc<Courier>) -> Arc<DeadLetterAdmin> {
        Arc::new(DeadLetterAdmin::new(
            self.host.access(),
            self.host.auditor.clone(),
            Arc::clone(&self.registry),
            Arc::clone(&self.catalogue),
            Arc::clone(courier),
        ))
    }

    fn seeker(&self) -> Arc<Seeker> {
        Arc::new(Seeker::new(Arc::clone(&self.registry), Arc::clone(&self.push)))
    }

    fn schemas(host: &Host, catalogue: &Arc<Catalogue>) -> Arc<Schemas> {
        let Host { clock, compiling, auditor, .. } = host;
        let (catalogue, clock) = (Arc::clone(catalogue), Arc::clone(clock));
        Arc::new(Schemas::new(catalogue, clock, compiling.clone(), auditor.clone()))
    }

    fn admin(
        &self,
        dead_letters: &Arc<DeadLetterAdmin>,
        schemas: &Arc<Schemas>,
        seeker: &Arc<Seeker>,
    ) -> Arc<Admin> {
        let dependants = Dependants {
            dead_letters: Arc::clone(dead_letters),
            push: Arc::clone(&self.push),
            export: Arc::clone(&self.export),
            attempts: Arc::clone(&self.attempts),
            live: Arc::clone(&self.live),
        };
        Arc::new(Admin {
            host: Arc::clone(&self.host),
            shards: Arc::clone(&self.shards),
            registry: Arc::clone(&self.registry),
            catalogue: Arc::clone(&self.catalogue),
            directory: Arc::clone(&self.directory),
            schemas: Arc::clone(schemas),
            seeker: Arc::clone(seeker),
            dependants,
        })
    }

    fn observer(
        &self,
        dead_letters: &Arc<DeadLetterAdmin>,
        clock_watcher: &Arc<ClockWatcher>,
    ) -> Arc<Observer> {
        Arc::new(Observer {
            access: self.host.access(),
            shards: Arc::clone(&self.shards),
            clock_watcher: Arc::clone(clock_watcher),
            registry: Arc::clone(&self.registry),
            dead_letters: Arc::clone(dead_letters),
            push: Arc::clone(&self.push),
            remembered: Arc::clone(&self.remembered),
            damaged: Arc::clone(&self.host.damaged),
            oldest_turn: AtomicUsize::new(0),
        })
    }

    fn alerts(&self, observer: &Arc<Observer>, admin: &Arc<Admin>) -> Arc<Alerts> {
        let (registry, observer) = (Arc::clone(&self.registry), Arc::clone(observer));
        Arc::new(Alerts::new(self.host.access(), registry, observer, Arc::clone(admin)))
    }

    fn clock_watcher(&self) -> Arc<ClockWatcher> {
        Arc::new(ClockWatcher {
            clock: Arc::clone(&self.host.clock),
            own: Guard::new(Arc::clone(&self.host.clock)),
            auditor: self.host.auditor.clone(),
            registry: Arc::clone(&self.registry),
            shards: Arc::clone(&self.shards),
        })
    }
}

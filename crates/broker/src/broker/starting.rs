//! How the broker's parts are assembled and started.

use std::sync::Arc;

use clock::Clock;
use parking_lot::Mutex;
use storage::{Engine, ProgressStore};

use super::Broker;
use crate::admin::{Admin, Dependants};
use crate::alerts::Alerts;
use crate::catalogue::Catalogue;
use crate::dead_letter::Forwarder;
use crate::dead_letter_admin::{Counter, DeadLetterAdmin};
use crate::error::Result;
use crate::export::Exports;
use crate::live::{self, Live};
use crate::maintenance::{Checkpointer, ClockWatcher, Expirer};
use crate::options::Options;
use crate::peek::Peeker;
use crate::push::attempts::Attempts;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::runtime::{LogAccess, Runtime};
use crate::schema::Schemas;
use crate::seek::Seeker;
use crate::spawn;
use crate::status::Observer;
use crate::subscription::Notes;
use crate::tail::Tail;

impl Broker {
    /// Takes over everything in `engine` and starts the chores.
    pub async fn open(
        engine: Engine,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Arc<Self>> {
        let runtime = Arc::new(Runtime::new(Arc::clone(&engine.log), clock, options));
        let broker = Arc::new(Self::assemble(&engine, runtime)?);
        engine.log.listen(Arc::clone(&broker.tail) as _);
        if let Some(mark) = engine.progress.clock_mark().await? {
            broker.runtime.guard.resume(&*broker.runtime.clock, &mark);
        }
        broker.admin.load().await?;
        broker.checkpointer.take_copy_into_use().await?;
        broker.attempts.load(&broker.registry.subscriptions_by_id()).await;
        broker.start_chores();
        broker.start_alerts().await;
        broker.export.sweep().await;
        for subscription in broker.registry.all_subscriptions() {
            broker.push.look_at(&subscription);
            broker.export.look_at(&subscription);
        }
        broker.dead_letters.resume();
        Ok(broker)
    }

    /// Gives each part what it needs of the others.
    fn assemble(engine: &Engine, runtime: Arc<Runtime>) -> Result<Self> {
        let base = Base::new(engine, runtime)?;
        let (dead_letters, schemas) = (base.dead_letters(), Arc::clone(&base.schemas));
        let admin = base.admin(&dead_letters, &schemas);
        let observer = base.observer(&dead_letters);
        let alerts = base.alerts(&observer, &admin);
        let (checkpointer, clock_watcher) = (base.checkpointer(), base.clock_watcher());
        let (seeker, peeker) = (base.seeker(), base.peeker());
        let Base { runtime, notes, tail, registry, attempts, push, export, live, .. } = base;
        Ok(Self {
            runtime,
            notes,
            tail,
            registry,
            admin,
            schemas,
            seeker,
            peeker,
            dead_letters,
            push,
            export,
            attempts,
            live,
            observer,
            alerts,
            clock_watcher,
            checkpointer,
            log_figures: Arc::clone(&engine.figures),
            chores: Mutex::default(),
        })
    }

    fn start_chores(&self) {
        let (runtime, notes) = (Arc::clone(&self.runtime), Arc::clone(&self.notes));
        let timers = async move {
            notes.timers.run(&*runtime.clock, |subscription| subscription.tick()).await;
        };
        let runtime = Arc::clone(&self.runtime);
        let lines = async move { runtime.delivery_log.run(&*runtime.clock).await };
        self.chores.lock().extend([
            spawn::named("lease expirer", timers),
            spawn::named("checkpointer", Arc::clone(&self.checkpointer).run()),
            spawn::named("dead letters", self.forwarder().run()),
            spawn::named("delivery log", lines),
            spawn::named("expirer", self.expirer().run()),
            spawn::named("clock watcher", Arc::clone(&self.clock_watcher).run()),
            spawn::named("live expirer", live::expire(Arc::clone(&self.live))),
            spawn::named("dead letter counter", self.counter().run()),
        ]);
    }

    fn forwarder(&self) -> Forwarder {
        let (notes, registry) = (Arc::clone(&self.notes), Arc::clone(&self.registry));
        Forwarder::new(LogAccess::new(&self.runtime), notes, registry, Arc::clone(&self.attempts))
    }

    fn expirer(&self) -> Expirer {
        let (runtime, registry) = (Arc::clone(&self.runtime), Arc::clone(&self.registry));
        Expirer::new(runtime, registry, Arc::clone(&self.admin))
    }

    fn counter(&self) -> Counter {
        Counter::new(Arc::clone(&self.runtime), Arc::clone(&self.registry))
    }

    async fn start_alerts(&self) {
        let Some(options) = self.runtime.options.alerts.clone() else { return };
        // The server is useful without them, and this is retried when there is an alert to send.
        if let Err(error) = self.alerts.prepare(&options).await {
            tracing::warn!(%error, "could not create what alerts need");
        }
        self.chores.lock().extend([
            spawn::named("alerts", Arc::clone(&self.alerts).run(options.clone())),
            spawn::named("alerts sender", Arc::clone(&self.alerts).send(options)),
        ]);
    }
}

/// What the other parts are built from.
struct Base {
    runtime: Arc<Runtime>,
    notes: Arc<Notes>,
    tail: Arc<Tail>,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    progress: Arc<dyn ProgressStore>,
    attempts: Arc<Attempts>,
    push: Arc<Scheduler>,
    export: Arc<Exports>,
    schemas: Arc<Schemas>,
    live: Arc<Live>,
}

impl Base {
    fn new(engine: &Engine, runtime: Arc<Runtime>) -> Result<Self> {
        let history = Arc::clone(&engine.attempts);
        let attempts = Arc::new(Attempts::new(history, runtime.clock.wall()));
        let access = || LogAccess::new(&runtime);
        let Options { push, export, live, outstanding_max, .. } = runtime.options.clone();
        let push = Arc::new(Scheduler::start(access(), push, Arc::clone(&attempts))?);
        let live = Live::new(access(), live);
        let tail = Arc::new(Tail::new(Arc::clone(&runtime)));
        let catalogue = Catalogue::new(Arc::clone(&engine.catalogue), Arc::clone(&runtime));
        let catalogue = Arc::new(catalogue);
        let schemas = Arc::new(Schemas::new(Arc::clone(&catalogue), Arc::clone(&runtime)));
        let export = Exports::start(access(), Arc::clone(&schemas), export)?;
        Ok(Self {
            notes: Arc::new(Notes::new(Arc::clone(&runtime.changed), outstanding_max)),
            registry: Arc::new(Registry::new(Arc::clone(&tail))),
            tail,
            catalogue,
            progress: Arc::clone(&engine.progress),
            attempts,
            push,
            export: Arc::new(export),
            schemas,
            live,
            runtime,
        })
    }

    fn dead_letters(&self) -> Arc<DeadLetterAdmin> {
        Arc::new(DeadLetterAdmin::new(
            Arc::clone(&self.runtime),
            Arc::clone(&self.registry),
            Arc::clone(&self.catalogue),
            Arc::clone(&self.progress),
        ))
    }

    fn seeker(&self) -> Seeker {
        let (runtime, registry) = (Arc::clone(&self.runtime), Arc::clone(&self.registry));
        Seeker::new(runtime, registry, Arc::clone(&self.push))
    }

    fn peeker(&self) -> Peeker {
        Peeker::new(LogAccess::new(&self.runtime), Arc::clone(&self.registry))
    }

    fn admin(&self, dead_letters: &Arc<DeadLetterAdmin>, schemas: &Arc<Schemas>) -> Arc<Admin> {
        let dependants = Dependants {
            dead_letters: Arc::clone(dead_letters),
            push: Arc::clone(&self.push),
            export: Arc::clone(&self.export),
            attempts: Arc::clone(&self.attempts),
            live: Arc::clone(&self.live),
        };
        Arc::new(Admin::new(
            Arc::clone(&self.runtime),
            Arc::clone(&self.notes),
            Arc::clone(&self.registry),
            Arc::clone(&self.catalogue),
            Arc::clone(&self.progress),
            Arc::clone(schemas),
            dependants,
        ))
    }

    fn observer(&self, dead_letters: &Arc<DeadLetterAdmin>) -> Arc<Observer> {
        let (runtime, registry) = (Arc::clone(&self.runtime), Arc::clone(&self.registry));
        let (push, notes) = (Arc::clone(&self.push), Arc::clone(&self.notes));
        Arc::new(Observer::new(runtime, registry, Arc::clone(dead_letters), push, notes))
    }

    fn alerts(&self, observer: &Arc<Observer>, admin: &Arc<Admin>) -> Arc<Alerts> {
        let (runtime, registry) = (Arc::clone(&self.runtime), Arc::clone(&self.registry));
        Arc::new(Alerts::new(runtime, registry, Arc::clone(observer), Arc::clone(admin)))
    }

    fn checkpointer(&self) -> Arc<Checkpointer> {
        Arc::new(Checkpointer::new(
            Arc::clone(&self.runtime),
            Arc::clone(&self.notes),
            Arc::clone(&self.registry),
            Arc::clone(&self.progress),
            Arc::clone(&self.attempts),
        ))
    }

    fn clock_watcher(&self) -> Arc<ClockWatcher> {
        let (runtime, registry) = (Arc::clone(&self.runtime), Arc::clone(&self.registry));
        Arc::new(ClockWatcher::new(runtime, registry))
    }
}

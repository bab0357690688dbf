//! How the broker's parts are assembled and started.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use clock::Clock;
use parking_lot::Mutex;
use storage::{Engine, ProgressStore};

use super::Broker;
use crate::admin::{Admin, Dependants};
use crate::alerts::Alerts;
use crate::catalogue::Catalogue;
use crate::changed::ChangedList;
use crate::dead_letter::Forwarder;
use crate::dead_letter_admin::{Counter, DeadLetterAdmin};
use crate::error::Result;
use crate::export::Exports;
use crate::handled_letters::HandledLetters;
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
use clock::tasks;
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
            broker.runtime.guard.resume(&mark);
        }
        // Boxed, since whoever starts a broker would carry all that loading takes.
        Box::pin(broker.admin.load()).await?;
        broker.checkpointer.take_copy_into_use().await?;
        broker.attempts.load(&broker.registry.subscriptions_by_id()).await;
        broker.start_chores();
        Box::pin(broker.start_alerts()).await;
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
        let (dead_letters, schemas, seeker) =
            (base.dead_letters(), Arc::clone(&base.schemas), base.seeker());
        let admin = base.admin(&dead_letters, &schemas, &seeker);
        let observer = base.observer(&dead_letters);
        let alerts = base.alerts(&observer, &admin);
        let (checkpointer, clock_watcher) = (base.checkpointer(), base.clock_watcher());
        let peeker = base.peeker();
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
            tasks::spawn("lease expirer", timers),
            tasks::spawn("checkpointer", Arc::clone(&self.checkpointer).run()),
            tasks::spawn("dead letters", self.forwarder().run()),
            tasks::spawn("delivery log", lines),
            tasks::spawn("expirer", self.expirer().run()),
            tasks::spawn("clock watcher", Arc::clone(&self.clock_watcher).run()),
            tasks::spawn("live expirer", live::expire(Arc::clone(&self.live))),
            tasks::spawn("dead letter counter", self.counter().run()),
        ]);
    }

    fn forwarder(&self) -> Forwarder {
        let (notes, registry) = (Arc::clone(&self.notes), Arc::clone(&self.registry));
        Forwarder::new(LogAccess::new(&self.runtime), notes, registry, Arc::clone(&self.attempts))
    }

    fn expirer(&self) -> Expirer {
        Expirer {
            clock: Arc::clone(&self.runtime.clock),
            guard: Arc::clone(&self.runtime.guard),
            expiries: Arc::clone(&self.runtime.expiries),
            registry: Arc::clone(&self.registry),
            admin: Arc::clone(&self.admin),
        }
    }

    fn counter(&self) -> Counter {
        let new_letters = Arc::clone(&self.runtime.new_letters);
        Counter::new(LogAccess::new(&self.runtime), Arc::clone(&self.registry), new_letters)
    }

    async fn start_alerts(&self) {
        let Some(options) = self.runtime.options.alerts.clone() else { return };
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
    runtime: Arc<Runtime>,
    notes: Arc<Notes>,
    tail: Arc<Tail>,
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    progress: Arc<dyn ProgressStore>,
    changed_letters: Arc<ChangedList<HandledLetters>>,
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
        let access = LogAccess::new(&runtime);
        let (changed, serving) = (&runtime.changed, &runtime.serving);
        let Options { push, export, live, outstanding_max, .. } = runtime.options.clone();
        let push = Arc::new(Scheduler::start(access.clone(), push, Arc::clone(&attempts))?);
        let live = Live::new(access.clone(), live);
        let tail = Arc::new(Tail::new(Arc::clone(changed), Arc::clone(serving)));
        let catalogue = Catalogue::new(Arc::clone(&engine.catalogue), Arc::clone(serving));
        let catalogue = Arc::new(catalogue);
        let schemas = Self::schemas(&runtime, &catalogue);
        let export = Exports::start(access, Arc::clone(&schemas), export)?;
        Ok(Self {
            notes: Arc::new(Notes::new(Arc::clone(changed), outstanding_max)),
            registry: Arc::new(Registry::new(Arc::clone(&tail))),
            tail,
            catalogue,
            progress: Arc::clone(&engine.progress),
            changed_letters: Arc::new(ChangedList::new(Arc::clone(changed))),
            attempts,
            push,
            export: Arc::new(export),
            schemas,
            live,
            runtime,
        })
    }

    fn access(&self) -> LogAccess {
        LogAccess::new(&self.runtime)
    }

    fn dead_letters(&self) -> Arc<DeadLetterAdmin> {
        Arc::new(DeadLetterAdmin::new(
            self.access(),
            self.runtime.auditor.clone(),
            Arc::clone(&self.registry),
            Arc::clone(&self.catalogue),
            Arc::clone(&self.progress),
            Arc::clone(&self.runtime.changed),
            Arc::clone(&self.changed_letters),
        ))
    }

    fn seeker(&self) -> Arc<Seeker> {
        let (guard, registry) = (Arc::clone(&self.runtime.guard), Arc::clone(&self.registry));
        Arc::new(Seeker::new(self.access(), guard, registry, Arc::clone(&self.push)))
    }

    fn peeker(&self) -> Peeker {
        Peeker::new(self.access(), Arc::clone(&self.registry))
    }

    fn schemas(runtime: &Runtime, catalogue: &Arc<Catalogue>) -> Arc<Schemas> {
        let Runtime { clock, compiling, auditor, .. } = runtime;
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
            runtime: Arc::clone(&self.runtime),
            notes: Arc::clone(&self.notes),
            registry: Arc::clone(&self.registry),
            catalogue: Arc::clone(&self.catalogue),
            progress: Arc::clone(&self.progress),
            schemas: Arc::clone(schemas),
            seeker: Arc::clone(seeker),
            dependants,
        })
    }

    fn observer(&self, dead_letters: &Arc<DeadLetterAdmin>) -> Arc<Observer> {
        Arc::new(Observer {
            access: self.access(),
            guard: Arc::clone(&self.runtime.guard),
            registry: Arc::clone(&self.registry),
            dead_letters: Arc::clone(dead_letters),
            push: Arc::clone(&self.push),
            notes: Arc::clone(&self.notes),
            damaged: Arc::clone(&self.runtime.damaged),
            upkeep: Arc::clone(&self.runtime.upkeep),
            oldest_turn: AtomicUsize::new(0),
        })
    }

    fn alerts(&self, observer: &Arc<Observer>, admin: &Arc<Admin>) -> Arc<Alerts> {
        let (registry, observer) = (Arc::clone(&self.registry), Arc::clone(observer));
        Arc::new(Alerts::new(self.access(), registry, observer, Arc::clone(admin)))
    }

    fn checkpointer(&self) -> Arc<Checkpointer> {
        Arc::new(Checkpointer {
            access: self.access(),
            guard: Arc::clone(&self.runtime.guard),
            registry: Arc::clone(&self.registry),
            progress: Arc::clone(&self.progress),
            attempts: Arc::clone(&self.attempts),
            changed: Arc::clone(&self.runtime.changed),
            notes: Arc::clone(&self.notes),
            changed_letters: Arc::clone(&self.changed_letters),
            upkeep: Arc::clone(&self.runtime.upkeep),
            flush_every: self.runtime.options.progress_flush,
        })
    }

    fn clock_watcher(&self) -> Arc<ClockWatcher> {
        Arc::new(ClockWatcher {
            clock: Arc::clone(&self.runtime.clock),
            guard: Arc::clone(&self.runtime.guard),
            auditor: self.runtime.auditor.clone(),
            registry: Arc::clone(&self.registry),
            expiries: Arc::clone(&self.runtime.expiries),
            changed: Arc::clone(&self.runtime.changed),
        })
    }
}

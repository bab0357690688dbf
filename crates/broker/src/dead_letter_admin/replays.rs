//! All replays: requesting, listing, canceling, and resuming them after a restart.

use clock::tasks::Task;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{ProjectName, SubscriptionId, TopicId};
use parking_lot::{Mutex, RwLock};
use storage::{Entry, Kind};

use super::letters::LetterBox;
use super::replay::{ReplayRequest, Run};
use super::run::{Ended, Work};
use super::{DeadLetterAdmin, LetterPlace};
use crate::catalogue::readable;
use crate::definition::StoredReplay;
use crate::error::{Error, Resource, Result};
use crate::handled_letters::{HandledIds, nothing_done};
use crate::replay::{Account, Order, Replay, ReplayState};
use clock::tasks;
use crate::subscription::Readers;
use crate::topic::Topic;

/// Maximum number of replays running at a time.
const RUNNING_MAX: usize = 8;

/// How many ended replays are remembered; the oldest go first.
const ENDED_MAX: usize = 100;

/// How long a caller that requests a replay waits until its letters are counted.
const COUNT_WAIT: Duration = Duration::from_secs(2);

/// How the catalogue names what was done with letters.
pub(super) const REPLAYED: &str = "replayed";
pub(super) const DELETED: &str = "deleted";

/// The catalogue's name for what was done with a topic's letters.
pub(super) fn handled_name(topic: TopicId, what: &str) -> String {
    format!("{}/{what}", topic.0)
}

/// All replays by name, and the tasks of the running ones.
#[derive(Default)]
pub(super) struct Replays {
    runs: RwLock<BTreeMap<String, Arc<Run>>>,
    tasks: Mutex<Vec<Task>>,
}

impl Replays {
    fn all(&self) -> Vec<Arc<Run>> {
        self.runs.read().values().cloned().collect()
    }

    /// How many are running.
    fn running(&self) -> usize {
        self.runs.read().values().filter(|run| run.is_running()).count()
    }

    /// Ends the tasks because the server stops. They resume after the next start.
    async fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            task.abort();
            // An aborted task always ends with an error.
            drop(task.await);
        }
        self.all().iter().for_each(|run| run.changed.notify_waiters());
    }
}

/// Calls for operators.
impl DeadLetterAdmin {
    /// Starts to replay dead letters, and returns when they are counted or soon after. The replay
    /// is on stable storage and resumes after a restart; new letters are not part of it.
    pub(crate) async fn begin_replay(self: &Arc<Self>, request: ReplayRequest) -> Result<Replay> {
        let letter_box = self.letter_box(&request.place)?;
        let admin = Arc::clone(self);
        let change = async move {
            admin.make_ids(letter_box.topic()).await?;
            let run = admin.store_replay(&letter_box, request).await?;
            admin.start_replay(Arc::clone(&run), Arc::clone(&letter_box.readers), nothing_done());
            let act = format!("{} begun", run.name);
            admin.audit(&letter_box, "replay dead letters", act);
            Ok(run)
        };
        let run = self.catalogue.change(change).await?;
        let until = self.access.clock.now().plus(COUNT_WAIT);
        tokio::select! {
            () = wait_for(&run, Run::is_counted) => {}
            () = self.access.clock.sleep_until(until) => {}
        }
        Ok(run.view())
    }

    /// The replays of a project, in name order, which is creation order.
    pub(crate) fn replays_of(&self, project: &ProjectName) -> Vec<Replay> {
        let prefix = format!("{project}/replays/");
        let runs = self.replays.runs.read();
        let of_project =
            runs.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        of_project.map(|(_, run)| run.view()).collect()
    }

    /// One replay.
    pub(crate) fn replay(&self, name: &str) -> Result<Replay> {
        Ok(self.find_replay(name)?.view())
    }

    /// Ends a replay before it is done. What was replayed stays replayed. `FailedPrecondition` if
    /// it has already ended.
    pub(crate) async fn cancel_replay(&self, name: &str) -> Result<Replay> {
        self.access.check_serving()?;
        let run = self.find_replay(name)?;
        if !run.is_running() {
            let state = run.view().state.as_str();
            let why = format!("replay {name} has already ended: it is {state}");
            return Err(Error::FailedPrecondition(why));
        }
        run.cancel();
        wait_for(&run, |run| !run.is_running() || self.access.check_serving().is_err()).await;
        self.access.check_serving()?;
        Ok(run.view())
    }

    /// How many are running.
    pub(crate) fn running(&self) -> usize {
        self.replays.running()
    }

    /// Ends the tasks of replays because the server stops.
    pub(crate) async fn close(&self) {
        self.replays.close().await;
    }

    fn find_replay(&self, name: &str) -> Result<Arc<Run>> {
        let found = self.replays.runs.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Replay, name.to_owned()))
    }
}

/// Waits until a condition holds for a replay.
async fn wait_for(run: &Run, holds: impl Fn(&Run) -> bool) {
    loop {
        let changed = run.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if holds(run) {
            return;
        }
        changed.await;
    }
}

/// How they are stored.
impl DeadLetterAdmin {
    async fn store_replay(
        &self,
        letter_box: &LetterBox,
        request: ReplayRequest,
    ) -> Result<Arc<Run>> {
        let _ledger = self.catalogue.lock().await;
        self.check_running()?;
        self.forget_oldest().await?;
        let now = self.access.clock.wall();
        let project = match &request.place {
            LetterPlace::Topic(name) => name.project(),
            LetterPlace::Subscription(name) => name.project(),
        };
        let order = Order {
            topic_id: letter_box.topic().id(),
            topic: letter_box.topic().name().clone(),
            subscription: letter_box.subscription.clone(),
            selection: request.selection,
            to: request.to,
            per_second: request.per_second,
            again: request.again,
            until: self.access.log.end(letter_box.topic().id()),
            created: now,
        };
        let account = Account::new(now);
        let name = self.free_name(&project, now.0);
        let stored = StoredReplay { order: order.clone(), account: account.clone() };
        let value = readable(stored.encode(), &name)?;
        let entry = self.catalogue.store().put(Kind::Replay, &name, value, None).await?;
        let run = Run::new(name.clone(), SubscriptionId(entry.id), order, account, entry.version);
        let run = Arc::new(run);
        self.replays.runs.write().insert(name, Arc::clone(&run));
        Ok(run)
    }

    fn check_running(&self) -> Result<()> {
        let running = self.replays.running();
        if running < RUNNING_MAX {
            return Ok(());
        }
        Err(Error::FailedPrecondition(format!(
            "{running} replays are running, which is the limit; wait for one to end, or cancel one"
        )))
    }

    async fn forget_oldest(&self) -> Result<()> {
        let mut ended = self.replays.all();
        ended.retain(|run| !run.is_running());
        ended.sort_by_key(|run| run.order.created);
        let surplus = (ended.len() + 1).saturating_sub(ENDED_MAX);
        for run in ended.into_iter().take(surplus) {
            let (_, version) = run.account();
            self.catalogue.store().delete(Kind::Replay, &run.name, version).await?;
            self.replays.runs.write().remove(&run.name);
        }
        Ok(())
    }

    fn free_name(&self, project: &ProjectName, from: u64) -> String {
        let runs = self.replays.runs.read();
        let mut number = from;
        loop {
            let name = format!("{project}/replays/{number}");
            if !runs.contains_key(&name) {
                return name;
            }
            number += 1;
        }
    }

    /// Starts it, or resumes it after a restart: `done` is what it has sent so far.
    fn start_replay(
        self: &Arc<Self>,
        run: Arc<Run>,
        readers: Arc<Readers>,
        done: domain::Progress,
    ) {
        let sent = readers.topic().letters().open_run(run.id, done);
        run.note(self.access.clock.wall(), |account| account.replayed = sent);
        let admin = Arc::clone(self);
        let task = tasks::spawn("replay", async move {
            work(&admin, &run, readers).await;
        });
        let mut tasks = self.replays.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Stores how a replay ended. Its own progress is no longer needed: what was done with letters
    /// stays recorded.
    async fn end_replay(&self, run: &Run, state: ReplayState, error: Option<String>) {
        let (mut account, version) = run.account();
        account.state = state;
        account.error = error.or(account.error);
        account.updated = self.access.clock.wall();
        let stored = StoredReplay { order: run.order.clone(), account: account.clone() };
        let put = match stored.encode() {
            Ok(value) => {
                let store = self.catalogue.store();
                store.put(Kind::Replay, &run.name, value, Some(version)).await
            }
            Err(error) => {
                tracing::error!(replay = run.name, %error, "how a replay ended cannot be written");
                run.end(account, version);
                return;
            }
        };
        match put {
            Ok(entry) => {
                if let Some(readers) = self.registry.readers_of(run.order.topic_id) {
                    readers.topic().letters().close_run(run.id);
                }
                self.changed.forget(run.id);
                run.end(account, entry.version);
            }
            // After the next start it will have little or nothing left to do.
            Err(error) => {
                tracing::warn!(replay = run.name, %error, "its end was not stored");
                run.end(account, version);
            }
        }
    }

    /// Loads what the store knows about letters and replays. The topics are already loaded.
    pub(crate) async fn load(&self) -> Result<()> {
        let mut ids: BTreeMap<(TopicId, String), Entry> = BTreeMap::new();
        for entry in self.catalogue.entries(Kind::HandledLetters).await? {
            match entry.name.split_once('/').map(|(id, what)| (id.parse().map(TopicId), what)) {
                Some((Ok(id), what)) => {
                    ids.insert((id, what.to_owned()), entry);
                }
                _ => tracing::warn!(name = entry.name, "an unknown mark is left alone"),
            }
        }
        let topics: std::collections::BTreeSet<_> = ids.keys().map(|(id, _)| *id).collect();
        for id in topics {
            let replayed = ids.remove(&(id, REPLAYED.to_owned()));
            let deleted = ids.remove(&(id, DELETED.to_owned()));
            self.load_handled(id, replayed, deleted).await?;
        }
        for entry in self.catalogue.entries(Kind::Replay).await? {
            self.load_replay(&entry).await?;
        }
        for readers in self.registry.all_readers() {
            readers.topic().letters().mark_all_changed(&self.changed_letters);
        }
        Ok(())
    }

    /// If only half of it exists, the next action creates the rest.
    async fn load_handled(
        &self,
        id: TopicId,
        replayed: Option<Entry>,
        deleted: Option<Entry>,
    ) -> Result<()> {
        match (self.living_readers(id), replayed, deleted) {
            (Some(readers), Some(replayed), Some(deleted)) => {
                let ids = HandledIds {
                    replayed: SubscriptionId(replayed.id),
                    deleted: SubscriptionId(deleted.id),
                };
                let replayed = self.progress.load(ids.replayed, nothing_done()).await?;
                let deleted = self.progress.load(ids.deleted, nothing_done()).await?;
                readers.topic().letters().open(ids, replayed, deleted);
            }
            (Some(_), ..) => {}
            (None, replayed, deleted) => {
                for entry in replayed.into_iter().chain(deleted) {
                    self.drop_handled(&entry).await?;
                }
            }
        }
        Ok(())
    }

    fn living_readers(&self, topic: TopicId) -> Option<Arc<Readers>> {
        self.registry.readers_of(topic).filter(|readers| !readers.topic().is_deleted())
    }

    async fn drop_handled(&self, entry: &Entry) -> Result<()> {
        self.catalogue.store().delete(Kind::HandledLetters, &entry.name, entry.version).await?;
        self.changed.forget(SubscriptionId(entry.id));
        Ok(())
    }

    async fn load_replay(&self, entry: &Entry) -> Result<()> {
        let stored = readable(StoredReplay::decode(&entry.value), &entry.name)?;
        let (id, name) = (SubscriptionId(entry.id), entry.name.clone());
        let StoredReplay { order, account } = stored;
        let run = Arc::new(Run::new(name.clone(), id, order, account, entry.version));
        self.replays.runs.write().insert(name, Arc::clone(&run));
        if !run.is_running() {
            // The server may have stopped before this was forgotten.
            self.changed.forget(id);
            return Ok(());
        }
        match self.living_readers(run.order.topic_id) {
            Some(readers) => {
                let done = self.progress.load(id, nothing_done()).await?;
                readers.topic().letters().open_run(id, done);
            }
            None => {
                let why = format!("dead letter topic {} was deleted", run.order.topic);
                self.end_replay(&run, ReplayState::Failed, Some(why)).await;
            }
        }
        Ok(())
    }

    /// Resumes what was running when the server stopped.
    pub(crate) fn resume(self: &Arc<Self>) {
        for run in self.replays.all().into_iter().filter(|run| run.is_running()) {
            if let Some(readers) = self.registry.readers_of(run.order.topic_id) {
                let done = readers.topic().letters().run(run.id);
                self.start_replay(run, readers, done);
            }
        }
    }

    /// Forgets the letters of a deleted topic. What cannot be deleted now is deleted at the next
    /// start.
    pub(crate) async fn drop_topic(&self, topic: &Topic) {
        for id in topic.letters().clear() {
            self.changed.forget(id);
        }
        let store = self.catalogue.store();
        for what in [REPLAYED, DELETED] {
            let name = handled_name(topic.id(), what);
            let Ok(entry) = store.get(Kind::HandledLetters, &name).await else { continue };
            if let Err(error) = store.delete(Kind::HandledLetters, &name, entry.version).await {
                tracing::warn!(%error, name, "the mark of a deleted topic is left for now");
            }
        }
    }
}

/// Runs a replay to its end, unless the server stops first.
async fn work(admin: &DeadLetterAdmin, run: &Run, readers: Arc<Readers>) {
    let letter_box = LetterBox { readers, subscription: run.order.subscription.clone() };
    let ended = Work { admin, run, letter_box: letter_box.clone() }.go().await;
    if admin.access.check_serving().is_err() {
        return;
    }
    let (state, error) = match ended {
        Ok(Ended::Done) => (ReplayState::Done, None),
        Ok(Ended::Cancelled) => (ReplayState::Cancelled, None),
        Err(error) => (ReplayState::Failed, Some(error.to_string())),
    };
    admin.end_replay(run, state, error).await;
    let view = run.view();
    let details = format!(
        "{} {}: {} replayed, {} skipped, {} failed of {}",
        view.name,
        state.as_str(),
        view.replayed,
        view.skipped,
        view.failed,
        view.total
    );
    admin.audit(&letter_box, "replay dead letters", details);
}

//! All replays: requesting, listing, canceling, and resuming them after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clock::tasks::{self, Task};
use domain::{ProjectName, ShardId, SubscriptionId, TopicId};
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
use crate::runtime::Runtime;
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
    tasks: Mutex<Vec<(ShardId, Task)>>,
}

impl Replays {
    fn all(&self) -> Vec<Arc<Run>> {
        self.runs.read().values().cloned().collect()
    }

    /// How many are running.
    fn running(&self) -> usize {
        self.runs.read().values().filter(|run| run.is_running()).count()
    }

    /// Ends and forgets those of a shard that is closed. They resume when it is opened again.
    async fn close(&self, shard: ShardId) {
        let ended = self.tasks.lock().extract_if(.., |(of, _)| *of == shard).collect::<Vec<_>>();
        for (_, task) in ended {
            task.abort();
            task.await;
        }
        let is_there = |_: &String, run: &mut Arc<Run>| run.shard == shard;
        let gone = self.runs.write().extract_if(.., is_there).collect::<Vec<_>>();
        gone.iter().for_each(|(_, run)| run.changed.notify_waiters());
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
            if letter_box.topic().runtime().serving.is_over() {
                // The shard moved meanwhile, and its next owner may have looked before this was
                // stored: it may come to run it only when it opens the shard again.
                return Err(Error::broken_off());
            }
            admin.start_replay(Arc::clone(&run), Arc::clone(&letter_box.readers), nothing_done());
            let act = format!("{} begun", run.name);
            admin.audit(&letter_box, "replay dead letters", act);
            Ok(run)
        };
        let run = self.catalogue.change(change).await?;
        let until = self.access.clock.now().plus(COUNT_WAIT);
        tokio::select! {
            biased;
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
        let is_gone = || !self.replays.runs.read().contains_key(name);
        wait_for(&run, |run| !run.is_running() || is_gone()).await;
        if is_gone() {
            self.access.check_serving()?;
            return Err(Error::NotOwner(run.shard));
        }
        Ok(run.view())
    }

    /// How many are running.
    pub(crate) fn running(&self) -> usize {
        self.replays.running()
    }

    /// Ends the tasks of a shard's replays because it is closed.
    pub(crate) async fn close(&self, shard: ShardId) {
        self.replays.close(shard).await;
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
            until: letter_box.topic().log().end(letter_box.topic().id()),
            created: now,
        };
        let account = Account::new(now);
        let name = self.free_name(&project, now.0);
        let stored = StoredReplay { order: order.clone(), account: account.clone() };
        let value = readable(stored.encode(), &name)?;
        let entry = self.catalogue.store().put(Kind::Replay, &name, value, None).await?;
        let (id, shard) = (SubscriptionId(entry.id), letter_box.topic().shard());
        let run = Arc::new(Run::new((name.clone(), id, shard), order, account, entry.version));
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
        let shard = run.shard;
        let task = tasks::spawn("replay", async move {
            work(&admin, &run, readers).await;
        });
        let mut tasks = self.replays.tasks.lock();
        tasks.retain(|(_, task)| !task.is_finished());
        tasks.push((shard, task));
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
                    readers.topic().runtime().changed.forget(run.id);
                }
                run.end(account, entry.version);
            }
            // After the next start it will have little or nothing left to do.
            Err(error) => {
                tracing::warn!(replay = run.name, %error, "its end was not stored");
                run.end(account, version);
            }
        }
    }

    /// Loads what the store knows about letters and replays of a shard, whose topics are already
    /// loaded. `living` are the topics of all shards.
    pub(crate) async fn load(&self, shard: &Runtime, living: &BTreeSet<TopicId>) -> Result<()> {
        let mut ids: BTreeMap<(TopicId, String), Entry> = BTreeMap::new();
        for entry in self.catalogue.entries(Kind::HandledLetters).await? {
            match entry.name.split_once('/').map(|(id, what)| (id.parse().map(TopicId), what)) {
                Some((Ok(id), what)) => {
                    ids.insert((id, what.to_owned()), entry);
                }
                _ => tracing::warn!(name = entry.name, "an unknown mark is left alone"),
            }
        }
        let topics: BTreeSet<_> = ids.keys().map(|(id, _)| *id).collect();
        for id in topics {
            let replayed = ids.remove(&(id, REPLAYED.to_owned()));
            let deleted = ids.remove(&(id, DELETED.to_owned()));
            if living.contains(&id) {
                self.load_handled(shard, id, replayed, deleted).await?;
            } else {
                for entry in replayed.into_iter().chain(deleted) {
                    self.drop_handled(shard, &entry).await?;
                }
            }
        }
        for entry in self.catalogue.entries(Kind::Replay).await? {
            self.load_replay(shard, &entry, living).await?;
        }
        for entry in self.catalogue.entries(Kind::Mark).await? {
            self.load_mark(shard, &entry, living).await?;
        }
        for readers in self.registry.readers_in(shard.shard) {
            readers.topic().letters().mark_all_changed(&shard.changed_letters);
        }
        Ok(())
    }

    /// If only half of it exists, the next action creates the rest.
    async fn load_handled(
        &self,
        shard: &Runtime,
        id: TopicId,
        replayed: Option<Entry>,
        deleted: Option<Entry>,
    ) -> Result<()> {
        let Some(readers) = self.living_readers(shard, id) else { return Ok(()) };
        let (Some(replayed), Some(deleted)) = (replayed, deleted) else { return Ok(()) };
        let ids = HandledIds {
            replayed: SubscriptionId(replayed.id),
            deleted: SubscriptionId(deleted.id),
        };
        let starts = vec![(ids.replayed, nothing_done()), (ids.deleted, nothing_done())];
        let mut loaded = shard.progress.load(starts).await?.into_iter();
        let mut next = || loaded.next().unwrap_or_else(nothing_done);
        let (replayed, deleted) = (next(), next());
        readers.topic().letters().open(ids, replayed, deleted);
        Ok(())
    }

    /// Loads what a topic of the shard has received from a source elsewhere.
    async fn load_mark(
        &self,
        shard: &Runtime,
        entry: &Entry,
        living: &BTreeSet<TopicId>,
    ) -> Result<()> {
        let ids = entry.name.split_once('/').map(|(topic, source)| (topic.parse(), source.parse()));
        let Some((Ok(topic), Ok(source))) = ids else { return Ok(()) };
        let (topic, mark) = (TopicId(topic), SubscriptionId(entry.id));
        if !living.contains(&topic) {
            return self.drop_handled(shard, entry).await;
        }
        if let Some(readers) = self.living_readers(shard, topic) {
            let received = shard.progress.load_one(mark, nothing_done()).await?;
            readers.topic().letters().open_mark(source, mark, received);
        }
        Ok(())
    }

    /// The topic of that id, if it is in that shard and not deleted.
    fn living_readers(&self, shard: &Runtime, topic: TopicId) -> Option<Arc<Readers>> {
        let readers = self.registry.readers_of(topic)?;
        let topic = readers.topic();
        (topic.shard() == shard.shard && !topic.is_deleted()).then_some(readers)
    }

    async fn drop_handled(&self, shard: &Runtime, entry: &Entry) -> Result<()> {
        let store = self.catalogue.store();
        match store.delete(entry.kind, &entry.name, entry.version).await {
            // Another shard may find it at the same time.
            Ok(()) | Err(storage::Error::NotFound | storage::Error::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
        shard.changed.forget(SubscriptionId(entry.id));
        Ok(())
    }

    async fn load_replay(
        &self,
        shard: &Runtime,
        entry: &Entry,
        living: &BTreeSet<TopicId>,
    ) -> Result<()> {
        let stored = readable(StoredReplay::decode(&entry.value), &entry.name)?;
        let (id, name) = (SubscriptionId(entry.id), entry.name.clone());
        let StoredReplay { order, account } = stored;
        if self.catalogue.shard_of(&order.topic) != shard.shard {
            return Ok(());
        }
        let is_living = living.contains(&order.topic_id);
        let run = Run::new((name.clone(), id, shard.shard), order, account, entry.version);
        let run = Arc::new(run);
        self.replays.runs.write().insert(name, Arc::clone(&run));
        if !run.is_running() {
            // The server may have stopped before this was forgotten.
            shard.changed.forget(id);
            return Ok(());
        }
        match self.living_readers(shard, run.order.topic_id).filter(|_| is_living) {
            Some(readers) => {
                let done = shard.progress.load_one(id, nothing_done()).await?;
                readers.topic().letters().open_run(id, done);
            }
            None => {
                let why = format!("dead letter topic {} was deleted", run.order.topic);
                self.end_replay(&run, ReplayState::Failed, Some(why)).await;
            }
        }
        Ok(())
    }

    /// Resumes what was running in a shard when it was closed.
    pub(crate) fn resume(self: &Arc<Self>, shard: ShardId) {
        let of_shard = |run: &Arc<Run>| run.shard == shard && run.is_running();
        for run in self.replays.all().into_iter().filter(of_shard) {
            if let Some(readers) = self.registry.readers_of(run.order.topic_id) {
                let done = readers.topic().letters().run(run.id);
                self.start_replay(run, readers, done);
            }
        }
    }

    /// Forgets the letters of a deleted topic. What cannot be deleted now is deleted at the next
    /// start.
    pub(crate) async fn drop_topic(&self, topic: &Topic) {
        let sources = topic.letters().sources().into_iter();
        let marks =
            sources.map(|source| (Kind::Mark, handled_name(topic.id(), &source.to_string())));
        let handled = [REPLAYED, DELETED].map(|what| handled_name(topic.id(), what));
        let handled = handled.into_iter().map(|name| (Kind::HandledLetters, name));
        let names: Vec<_> = handled.chain(marks).collect();
        for id in topic.letters().clear() {
            topic.runtime().changed.forget(id);
        }
        let store = self.catalogue.store();
        for (kind, name) in names {
            let Ok(entry) = store.get(kind, &name).await else { continue };
            if let Err(error) = store.delete(kind, &name, entry.version).await {
                tracing::warn!(%error, name, "the mark of a deleted topic is left for now");
            }
        }
    }
}

/// How long to wait before a replay goes on that was stopped by what may pass.
const GO_ON_AFTER: Duration = Duration::from_millis(500);

/// Whether a store that several nodes share may answer otherwise soon. Nobody else would go on.
fn may_pass(error: &Error) -> bool {
    use storage::Error::{Indeterminate, Unavailable};
    matches!(
        error,
        Error::Storage(Unavailable(_) | Indeterminate(_)) | Error::Stalled | Error::NotOwner(_)
    )
}

/// Runs a replay to its end, unless the server stops first.
async fn work(admin: &DeadLetterAdmin, run: &Run, readers: Arc<Readers>) {
    let letter_box = LetterBox { readers, subscription: run.order.subscription.clone() };
    let (work, runtime) =
        (Work { admin, run, letter_box: letter_box.clone() }, letter_box.topic().runtime());
    let ended = loop {
        let ended = work.go().await;
        // A shard that moves takes its replays along.
        if runtime.serving.is_over() {
            return;
        }
        let may_pass = matches!(runtime.check_serving(), Err(Error::LeaseOver))
            || runtime.serving.may_stall() && ended.as_ref().is_err_and(may_pass);
        if ended.is_ok() || !may_pass {
            break ended;
        }
        if run.is_cancelled() {
            break Ok(Ended::Cancelled);
        }
        let clock = &admin.access.clock;
        clock.sleep_until(clock.now().plus(GO_ON_AFTER)).await;
    };
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

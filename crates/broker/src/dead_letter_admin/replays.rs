//! All replays: asked for, listed, cancelled, taken up again after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{ProjectName, SubscriptionId, TopicId};
use parking_lot::{Mutex, RwLock};
use storage::{Entry, Kind};
use tokio::task::JoinHandle;

use super::letters::Place;
use super::replay::{ReplayRequest, Run};
use super::run::{Ended, Work};
use super::{LetterPlace, Marks, no_marks};
use crate::broker::{Broker, readable};
use crate::definition::StoredReplay;
use crate::error::{Error, Resource, Result};
use crate::replay::{Account, Order, Replay, ReplayState};
use crate::spawn;
use crate::topic::Topic;

/// Replays that run at a time.
const RUNNING_MAX: usize = 8;

/// Replays that are remembered after they have ended; the oldest go first.
const ENDED_MAX: usize = 100;

/// How long whoever asks for a replay waits until its letters are counted.
const COUNT_WAIT: Duration = Duration::from_secs(2);

/// The marks of a desk, as the catalogue names them.
pub(super) const REPLAYED: &str = "replayed";
pub(super) const DELETED: &str = "deleted";

/// The catalogue's name of a desk's mark.
pub(super) fn desk_name(topic: TopicId, mark: &str) -> String {
    format!("{}/{mark}", topic.0)
}

/// All replays by name, and the tasks of those that run.
#[derive(Default)]
pub(crate) struct Replays {
    runs: RwLock<BTreeMap<String, Arc<Run>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Replays {
    fn all(&self) -> Vec<Arc<Run>> {
        self.runs.read().values().cloned().collect()
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.runs.read().values().filter(|run| run.is_running()).count()
    }

    /// Ends the tasks: the server stops. What they have not done is done after the next start.
    pub(crate) async fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            task.abort();
            // An aborted task ends with an error that says just that.
            drop(task.await);
        }
        self.all().iter().for_each(|run| run.changed.notify_waiters());
    }
}

/// What operators ask for.
impl Broker {
    /// Begins to replay dead letters, and answers when they are counted or soon after. The
    /// replay is on stable storage and goes on after a restart; new letters are not part of it.
    pub async fn replay_letters(&self, request: ReplayRequest) -> Result<Replay> {
        let place = self.letter_place(&request.place)?;
        let run = self
            .change(|broker| async move {
                broker.make_marks(&place.topic).await?;
                let run = broker.store_replay(&place, request).await?;
                broker.start_replay(Arc::clone(&run), Arc::clone(&place.topic), no_marks());
                let act = format!("{} begun", run.name);
                broker.audit_letters(&place, "replay dead letters", act);
                Ok(run)
            })
            .await?;
        let until = self.runtime.clock.now().plus(COUNT_WAIT);
        tokio::select! {
            () = wait_for(&run, Run::is_counted) => {}
            () = self.runtime.clock.sleep_until(until) => {}
        }
        Ok(run.view())
    }

    /// The replays of a project, in order of their names, which is that of their creation.
    pub fn replays(&self, project: &ProjectName) -> Vec<Replay> {
        let prefix = format!("{project}/replays/");
        let runs = self.replays.runs.read();
        let of_project =
            runs.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        of_project.map(|(_, run)| run.view()).collect()
    }

    /// One replay.
    pub fn replay(&self, name: &str) -> Result<Replay> {
        Ok(self.find_replay(name)?.view())
    }

    /// Ends a replay before it is done. What was replayed stays so. `FailedPrecondition` if it has
    /// ended already.
    pub async fn cancel_replay(&self, name: &str) -> Result<Replay> {
        self.runtime.check_serving()?;
        let run = self.find_replay(name)?;
        if !run.is_running() {
            let state = run.view().state.as_str();
            let why = format!("replay {name} has ended already: it is {state}");
            return Err(Error::FailedPrecondition(why));
        }
        run.cancel();
        wait_for(&run, |run| !run.is_running() || self.runtime.check_serving().is_err()).await;
        self.runtime.check_serving()?;
        Ok(run.view())
    }

    fn find_replay(&self, name: &str) -> Result<Arc<Run>> {
        let found = self.replays.runs.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Replay, name.to_owned()))
    }
}

/// Waits until something holds of a replay.
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

/// How they are kept.
impl Broker {
    async fn store_replay(&self, place: &Place, request: ReplayRequest) -> Result<Arc<Run>> {
        let _admin = self.admin.lock().await;
        self.check_running()?;
        self.forget_oldest().await?;
        let now = self.runtime.clock.wall();
        let project = match &request.place {
            LetterPlace::Topic(name) => name.project(),
            LetterPlace::Subscription(name) => name.project(),
        };
        let order = Order {
            topic_id: place.topic.id(),
            topic: place.topic.name().clone(),
            subscription: place.subscription.clone(),
            selection: request.selection,
            to: request.to,
            per_second: request.per_second,
            again: request.again,
            until: self.runtime.log.end(place.topic.id()),
            created: now,
        };
        let account = Account::new(now);
        let name = self.free_name(&project, now.0);
        let stored = StoredReplay { order: order.clone(), account: account.clone() };
        let value = readable(stored.encode(), &name)?;
        let entry = self.engine.catalogue.put(Kind::Replay, &name, value, None).await?;
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
            "{running} replays are running, which is as many as may; wait for one to end, or \
             cancel one"
        )))
    }

    async fn forget_oldest(&self) -> Result<()> {
        let mut ended = self.replays.all();
        ended.retain(|run| !run.is_running());
        ended.sort_by_key(|run| run.order.created);
        let surplus = (ended.len() + 1).saturating_sub(ENDED_MAX);
        for run in ended.into_iter().take(surplus) {
            let (_, version) = run.account();
            self.engine.catalogue.delete(Kind::Replay, &run.name, version).await?;
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

    /// Begins, or goes on after a restart: `done` is what it has sent so far.
    fn start_replay(&self, run: Arc<Run>, topic: Arc<Topic>, done: domain::Progress) {
        let sent = topic.desk().open_run(run.id, done);
        run.note(self.runtime.clock.wall(), |account| account.replayed = sent);
        let Some(broker) = self.me.upgrade() else { return };
        let task = spawn::named("replay", async move {
            work(&broker, &run, topic).await;
        });
        let mut tasks = self.replays.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Stores how a replay ended. Its own progress is needed no more: the marks stay.
    async fn end_replay(&self, run: &Run, state: ReplayState, error: Option<String>) {
        let (mut account, version) = run.account();
        account.state = state;
        account.error = error.or(account.error);
        account.updated = self.runtime.clock.wall();
        let stored = StoredReplay { order: run.order.clone(), account: account.clone() };
        let put = match stored.encode() {
            Ok(value) => {
                let catalogue = &self.engine.catalogue;
                catalogue.put(Kind::Replay, &run.name, value, Some(version)).await
            }
            Err(error) => {
                tracing::error!(replay = run.name, %error, "how a replay ended cannot be written");
                run.end(account, version);
                return;
            }
        };
        match put {
            Ok(entry) => {
                if let Some(topic) = self.tail.get(run.order.topic_id) {
                    topic.desk().close_run(run.id);
                }
                self.runtime.changed.forget(run.id);
                run.end(account, entry.version);
            }
            // After the next start it is found to have little or nothing left to do.
            Err(error) => {
                tracing::warn!(replay = run.name, %error, "its end was not stored");
                run.end(account, version);
            }
        }
    }

    /// Takes over the marks and the replays of the store. The topics are there already.
    pub(crate) async fn load_desks(&self) -> Result<()> {
        let mut ids: BTreeMap<(TopicId, String), Entry> = BTreeMap::new();
        for entry in self.entries(Kind::Desk).await? {
            match entry.name.split_once('/').map(|(id, mark)| (id.parse().map(TopicId), mark)) {
                Some((Ok(id), mark)) => {
                    ids.insert((id, mark.to_owned()), entry);
                }
                _ => tracing::warn!(name = entry.name, "an unknown mark is left alone"),
            }
        }
        let topics: std::collections::BTreeSet<_> = ids.keys().map(|(id, _)| *id).collect();
        for id in topics {
            let replayed = ids.remove(&(id, REPLAYED.to_owned()));
            let deleted = ids.remove(&(id, DELETED.to_owned()));
            self.load_desk(id, replayed, deleted).await?;
        }
        for entry in self.entries(Kind::Replay).await? {
            self.load_replay(&entry).await?;
        }
        for topic in self.all_topics() {
            topic.desk().mark_all_changed(&self.runtime.changed);
        }
        Ok(())
    }

    /// Half a desk is made whole with the next act.
    async fn load_desk(
        &self,
        id: TopicId,
        replayed: Option<Entry>,
        deleted: Option<Entry>,
    ) -> Result<()> {
        let topic = self.tail.get(id).filter(|topic| !topic.is_deleted());
        match (topic, replayed, deleted) {
            (Some(topic), Some(replayed), Some(deleted)) => {
                let marks = Marks {
                    replayed: SubscriptionId(replayed.id),
                    deleted: SubscriptionId(deleted.id),
                };
                let store = &self.engine.progress;
                let replayed = store.load(marks.replayed, no_marks()).await?;
                let deleted = store.load(marks.deleted, no_marks()).await?;
                topic.desk().open(marks, replayed, deleted);
            }
            (Some(_), ..) => {}
            (None, replayed, deleted) => {
                for entry in replayed.into_iter().chain(deleted) {
                    self.drop_mark(&entry).await?;
                }
            }
        }
        Ok(())
    }

    async fn drop_mark(&self, entry: &Entry) -> Result<()> {
        self.engine.catalogue.delete(Kind::Desk, &entry.name, entry.version).await?;
        self.runtime.changed.forget(SubscriptionId(entry.id));
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
            self.runtime.changed.forget(id);
            return Ok(());
        }
        match self.tail.get(run.order.topic_id).filter(|topic| !topic.is_deleted()) {
            Some(topic) => {
                let done = self.engine.progress.load(id, no_marks()).await?;
                topic.desk().open_run(id, done);
            }
            None => {
                let why = format!("dead letter topic {} was deleted", run.order.topic);
                self.end_replay(&run, ReplayState::Failed, Some(why)).await;
            }
        }
        Ok(())
    }

    /// Goes on with what was running when the server stopped.
    pub(crate) fn resume_replays(&self) {
        for run in self.replays.all().into_iter().filter(|run| run.is_running()) {
            if let Some(topic) = self.tail.get(run.order.topic_id) {
                let done = topic.desk().run(run.id);
                self.start_replay(run, topic, done);
            }
        }
    }

    /// Forgets the desk of a topic that is deleted. What cannot be deleted now is at the next
    /// start.
    pub(crate) async fn drop_desk(&self, topic: &Topic) {
        for id in topic.desk().clear() {
            self.runtime.changed.forget(id);
        }
        for mark in [REPLAYED, DELETED] {
            let name = desk_name(topic.id(), mark);
            let catalogue = &self.engine.catalogue;
            let Ok(entry) = catalogue.get(Kind::Desk, &name).await else { continue };
            if let Err(error) = catalogue.delete(Kind::Desk, &name, entry.version).await {
                tracing::warn!(%error, name, "the mark of a deleted topic is left for now");
            }
        }
    }
}

/// Runs a replay to its end, unless the server stops first.
async fn work(broker: &Broker, run: &Run, topic: Arc<Topic>) {
    let place = Place { topic, subscription: run.order.subscription.clone() };
    let ended = Work { broker, run, place: place.clone() }.go().await;
    if broker.runtime.check_serving().is_err() {
        return;
    }
    let (state, error) = match ended {
        Ok(Ended::Done) => (ReplayState::Done, None),
        Ok(Ended::Cancelled) => (ReplayState::Cancelled, None),
        Err(error) => (ReplayState::Failed, Some(error.to_string())),
    };
    broker.end_replay(run, state, error).await;
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
    broker.audit_letters(&place, "replay dead letters", details);
}

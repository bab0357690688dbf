//! What operators look at and act on: dead letters, pushes, messages, statistics, the clock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::lint::Finding;
use domain::replay::Selection;
use domain::{Offset, ProjectName, SubscriptionName, TopicName};
use storage::{AttemptPage, AttemptQuery, LogFigures};

use super::Broker;
use crate::alerts::AlertView;
use crate::dead_letter_admin::{
    FoundLetter, LetterPage, LetterPlace, LetterQuery, LettersWanted, ReplayRequest,
    letters_waiting,
};
use crate::error::Result;
use crate::figures::{Obstacles, SubscriptionFigures, TopicFigures};
use crate::live::Live;
use crate::maintenance::ClockStatus;
use crate::parcel::Parcel;
use crate::peek::{Peek, PeekPage};
use crate::replay::Replay;
use crate::status::{Degraded, ShardCounts, Status};

/// Dead letters.
impl Broker {
    /// Dead letters, oldest first.
    pub async fn dead_letters(
        &self,
        place: &LetterPlace,
        query: &LetterQuery,
    ) -> Result<LetterPage> {
        self.dead_letters.list(place, query).await
    }

    /// One letter by its own id; `NotFound` if it was deleted or is no longer kept.
    pub async fn dead_letter(&self, topic: &TopicName, id: Offset) -> Result<FoundLetter> {
        self.dead_letters.get(topic, id).await
    }

    /// How many dead letters of a subscription nobody has handled: they are in its dead letter
    /// topic, were neither replayed nor deleted, and someone subscribed to that topic has not acked
    /// them, or nobody is subscribed to it. Zero for one without a dead letter policy.
    ///
    /// A letter counts shortly after it arrives; after a start it may take a while until all do.
    pub fn dead_letters_waiting(&self, name: &SubscriptionName) -> u64 {
        letters_waiting(&self.registry, name)
    }

    /// Deletes dead letters: they are no longer listed, counted or replayed. Subscriptions on the
    /// dead letter topic still get them. Durable when it returns.
    ///
    /// Of the selection, only letters in a state that is `wanted` are deleted. `confirm` must be
    /// the number of letters that this deletes; `FailedPrecondition` names it.
    pub async fn delete_letters(
        &self,
        place: &LetterPlace,
        selection: Selection,
        wanted: LettersWanted,
        confirm: Option<u64>,
    ) -> Result<u64> {
        self.dead_letters.delete(place, selection, wanted, confirm).await
    }

    /// Starts to replay dead letters, and returns when they are counted or soon after. The replay
    /// is on stable storage and resumes after a restart; new letters are not part of it.
    pub async fn replay_letters(&self, request: ReplayRequest) -> Result<Replay> {
        self.dead_letters.begin_replay(request).await
    }

    /// The replays of a project, in name order, which is creation order.
    pub fn replays(&self, project: &ProjectName) -> Vec<Replay> {
        self.dead_letters.replays_of(project)
    }

    /// One replay.
    pub fn replay(&self, name: &str) -> Result<Replay> {
        self.dead_letters.replay(name)
    }

    /// Accepts messages of another shard for a topic that is run here: appends what is not there
    /// yet. `Ok` means that all of it is there for good.
    pub async fn accept(&self, parcel: Parcel) -> Result<()> {
        self.courier.accept(parcel).await
    }

    /// Ends a replay before it is done. What was replayed stays replayed. `FailedPrecondition` if
    /// it has already ended.
    pub async fn cancel_replay(&self, name: &str) -> Result<Replay> {
        self.dead_letters.cancel_replay(name).await
    }
}

/// Pushes and live subscriptions.
impl Broker {
    /// The attempts to push messages of a subscription, newest first: the last 1,000, and the
    /// latest failure of each unsettled message.
    pub async fn attempts(
        &self,
        name: &SubscriptionName,
        query: AttemptQuery,
    ) -> Result<AttemptPage> {
        self.attempts.page(&self.subscription(name)?, query).await
    }

    /// Why nothing will be pushed to the endpoint of a subscription with these settings, as far as
    /// we can tell now: `None` = no known reason. Resolves the host.
    pub async fn endpoint_refusal(&self, settings: &domain::Subscription) -> Option<String> {
        let push = settings.push.as_ref()?;
        self.push.endpoint_refusal(&push.endpoint).await
    }

    /// The public keys for checking push tokens, as a JSON Web Key Set.
    pub async fn token_keys(&self) -> Result<String> {
        self.push.token_keys().await
    }

    /// The live subscriptions.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }
}

/// Reading messages without taking them.
impl Broker {
    /// Reads the messages of a topic, including those addressed to one subscription.
    pub async fn peek_topic(&self, name: &TopicName, peek: &Peek) -> Result<PeekPage> {
        self.peeker.topic(name, peek).await
    }

    /// Reads the messages that a subscription has not settled and that pass its filter.
    pub async fn peek_subscription(
        &self,
        name: &SubscriptionName,
        peek: &Peek,
    ) -> Result<PeekPage> {
        self.peeker.subscription(name, peek).await
    }
}

/// Health and statistics.
impl Broker {
    /// The health of the broker. Examines every subscription.
    pub fn status(&self) -> Status {
        self.observer.status()
    }

    /// What is not working for the whole server. Fast, unlike `status`.
    pub fn degraded_server(&self) -> Vec<Degraded> {
        self.observer.degraded_server()
    }

    /// How long it has been impossible to empty the log; `None` = it is possible.
    pub fn log_stuck_for(&self) -> Option<Duration> {
        self.observer.log_stuck_for()
    }

    /// How much of `Options::outstanding_max` is used, in millionths.
    pub fn outstanding_used(&self) -> u32 {
        self.observer.outstanding_used()
    }

    /// What is worth putting right about the subscriptions and topics of `project`; of all with
    /// `None`.
    pub fn lint(&self, project: Option<&ProjectName>) -> Vec<Finding> {
        self.observer.lint(project)
    }

    /// The statistics of every subscription, in name order. Reads nothing from disk.
    pub fn figures(&self) -> Vec<SubscriptionFigures> {
        self.observer.figures()
    }

    /// What keeps the subscription with that name from delivering.
    pub fn obstacles(&self, name: &SubscriptionName) -> Result<Obstacles> {
        self.observer.obstacles(name)
    }

    /// The statistics of every topic, in name order.
    pub fn topic_figures(&self) -> Vec<TopicFigures> {
        self.observer.topic_figures()
    }

    /// The statistics of the logs of the open shards.
    pub fn log_figures(&self) -> Vec<Arc<LogFigures>> {
        self.running.lock().values().map(|running| Arc::clone(&running.figures)).collect()
    }

    /// How many shards there are, here and in all.
    pub fn shard_counts(&self) -> ShardCounts {
        self.observer.shard_counts()
    }

    /// Looks up the age of oldest records where it is unknown: a bounded number of disk reads, on
    /// separate threads. The rest are looked up the next time.
    pub async fn refresh_figures(&self) {
        self.observer.refresh_figures().await;
    }

    /// Current alerts: those of the server, then in name order.
    pub fn alerts(&self) -> Vec<AlertView> {
        self.alerts.views()
    }

    /// Whether the subscription with that name has an alert now, firing or not yet.
    pub fn has_alert(&self, name: &SubscriptionName) -> bool {
        self.alerts.has_alert(name)
    }

    /// The state of the wall clock, and whether retention and expiry are suspended because of it.
    pub fn clock(&self) -> ClockStatus {
        self.clock_watcher.status()
    }

    /// Trusts the wall clock: retention and expiry resume. Does nothing if they are not suspended;
    /// returns the previous state.
    pub fn confirm_clock(&self) -> ClockStatus {
        self.clock_watcher.confirm()
    }
}

/// Audit records.
impl Broker {
    /// Records an action that is done, by the caller this task works for.
    pub fn audit(&self, act: &'static str, resource: impl Into<String>, details: Option<String>) {
        self.host.auditor.record(act, resource, details);
    }

    /// The same, by `peer`: for work that is not done in the caller's task.
    pub fn audit_of(
        &self,
        peer: Option<SocketAddr>,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.host.auditor.record_of(peer, act, resource, details);
    }
}

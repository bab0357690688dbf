//! How the broker is: figures, what does not work, and what is worth putting right.

mod figures;
mod oldest;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use domain::lint::{Finding, lint};
use domain::{Epoch, ProjectName, ShardId};

use crate::damaged::Damaged;
use crate::dead_letter_admin::{DeadLetterAdmin, letters_waiting};
use crate::maintenance::ClockWatcher;
use crate::push::scheduler::Scheduler;
use crate::registry::Registry;
use crate::remembered::Remembered;
use crate::runtime::{LogAccess, NodeAccess};
use crate::shards::{OpenShard, OpenShards};
use crate::subscription::Subscription;
use crate::upkeep::Failing;

/// Figures of the whole broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Living topics, without those of the server itself.
    pub topics: usize,
    /// Subscriptions.
    pub subscriptions: usize,
    /// Those that are detached from their topic.
    pub detached: usize,
    /// Those that are pushed.
    pub push: usize,
    /// Snapshots.
    pub snapshots: usize,
    /// Messages that subscriptions have not settled, all together.
    pub backlog: u64,
    /// Leases that are not settled, all together.
    pub outstanding: u64,
    /// Lanes waiting for something other than consumers, including halted ones.
    pub lanes_blocked: u64,
    /// Lanes that wait for an operator.
    pub lanes_halted: u64,
    /// Dead letters nobody has handled.
    pub dead_letters_waiting: u64,
    /// Replays that run.
    pub replays_running: usize,
    /// Records known to wait, all together.
    pub indexed: usize,
    /// What does not work; empty = all is well.
    pub degraded: Vec<Degraded>,
    /// The shards that this server runs.
    pub shards: Vec<ShardStatus>,
}

/// A shard that this server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// Which one.
    pub id: ShardId,
    /// Names this opening of it.
    pub epoch: Epoch,
    /// Its topics, including deleted ones that are still read.
    pub topics: usize,
    /// Whether the store does not answer for it.
    pub is_stalled: bool,
}

/// How many shards there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// This server runs them.
    pub open: usize,
    /// Of these, the store does not answer for them.
    pub stalled: usize,
    /// The store has them, whoever runs them.
    pub all: usize,
}

/// Something that does not work right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// What, in a word that never changes: `log_failed`, `disk_full`, `message_damaged`,
    /// `log_not_trimmed`, `store_stalled`, `clock_jumped`, `dead_letters_stuck`, `lanes_halted`.
    pub code: &'static str,
    /// The subscription or topic it is about; `None` = the whole server.
    pub resource: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What it means, and what to do.
    pub remedy: &'static str,
}

/// Subscriptions that are told of, at most.
const DEGRADED_MAX: usize = 100;

/// Looks at everything there is, and changes nothing.
pub(crate) struct Observer {
    pub(crate) access: NodeAccess,
    pub(crate) shards: Arc<OpenShards>,
    pub(crate) clock_watcher: Arc<ClockWatcher>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dead_letters: Arc<DeadLetterAdmin>,
    pub(crate) push: Arc<Scheduler>,
    pub(crate) remembered: Arc<Remembered<Subscription>>,
    pub(crate) damaged: Arc<Damaged>,
    /// Whose oldest record is looked up next.
    pub(crate) oldest_turn: AtomicUsize,
}

impl Observer {
    /// How much of `Options::outstanding_max` is used, in millionths.
    pub(crate) fn outstanding_used(&self) -> u32 {
        self.remembered.used()
    }

    /// How the broker is. Looks at every subscription.
    pub(crate) fn status(&self) -> Status {
        let topics = self.registry.living_topics();
        let mut status = Status {
            topics: topics.iter().filter(|topic| !topic.name().is_own()).count(),
            snapshots: self.registry.all_snapshots().len(),
            replays_running: self.dead_letters.running(),
            degraded: self.degraded_server(),
            shards: self.shard_statuses(),
            ..Status::default()
        };
        for subscription in self.registry.all_subscriptions() {
            let settings = subscription.settings();
            status.subscriptions += 1;
            status.detached += usize::from(settings.detached);
            status.push += usize::from(settings.push.is_some());
            status.backlog += subscription.backlog();
            status.outstanding += subscription.outstanding() as u64;
            status.indexed += subscription.indexed();
            status.dead_letters_waiting += letters_waiting(&self.registry, subscription.name());
            let waits = subscription.waits();
            status.lanes_blocked += waits.lanes_blocked as u64;
            status.lanes_halted += waits.lanes_halted as u64;
            let name = || subscription.name().to_string();
            let stuck = subscription.dead_letter_error().map(|problem| stuck(name(), problem));
            let halted = (waits.lanes_halted > 0).then(|| halted(name(), waits.lanes_halted));
            let left = DEGRADED_MAX.saturating_sub(status.degraded.len());
            status.degraded.extend(stuck.into_iter().chain(halted).take(left));
        }
        status
    }

    /// What does not work for the whole server. Quick, unlike `status`.
    pub(crate) fn degraded_server(&self) -> Vec<Degraded> {
        let shards = self.shards.all();
        let mut failed = shards.iter().filter_map(|shard| shard.runtime.serving.failed());
        if let Some(error) = failed.next() {
            return vec![Degraded {
                code: "log_failed",
                resource: None,
                problem: error.to_string(),
                remedy: "nothing more is accepted or delivered, and the server exits; everything \
                         answered OK is safe: check the disk, then restart",
            }];
        }
        let is_full = shards.iter().any(|shard| LogAccess::new(&shard.runtime).is_full());
        let full = is_full.then(|| Degraded {
            code: "disk_full",
            resource: None,
            problem: "no space is left for new messages".to_owned(),
            remedy: "publishing is refused, acks and deliveries continue: free disk space, or ack \
                     stored messages",
        });
        let damaged = self.damaged.seen().map(|(count, topic, offset)| Degraded {
            code: "message_damaged",
            resource: self
                .registry
                .readers_of(topic)
                .map(|readers| readers.topic().name().to_string()),
            problem: format!("{count} messages cannot be read, one of them is {offset}"),
            remedy: "they are neither delivered nor acked, others continue: restore the disk, skip \
                     their lanes, or seek past them",
        });
        let upkeep = self.log_not_trimmed();
        let stalled = shards.iter().filter(|shard| shard.runtime.serving.is_stalled()).count();
        let stalled = (stalled > 0).then(|| Degraded {
            code: "store_stalled",
            resource: None,
            problem: format!("the store does not answer for {stalled} of {} shards", shards.len()),
            remedy: "calls wait, then fail with UNAVAILABLE; nothing is lost, and everything \
                     continues by itself when the store answers: check it and the network to it",
        });
        let of_log = full.into_iter().chain(damaged).chain(upkeep).chain(stalled);
        of_log.chain(self.clock_jumped()).collect()
    }

    /// The shards that this server runs.
    fn shard_statuses(&self) -> Vec<ShardStatus> {
        let status = |shard: &OpenShard| ShardStatus {
            id: shard.runtime.shard,
            epoch: shard.runtime.epoch,
            topics: self.registry.readers_in(shard.runtime.shard).len(),
            is_stalled: shard.runtime.serving.is_stalled(),
        };
        self.shards.all().iter().map(status).collect()
    }

    /// How many shards this server runs, how many of them wait for the store, and how many the
    /// store has.
    pub(crate) fn shard_counts(&self) -> ShardCounts {
        let shards = self.shards.all();
        let stalled = shards.iter().filter(|shard| shard.runtime.serving.is_stalled()).count();
        ShardCounts { open: shards.len(), stalled, all: self.shards.count() as usize }
    }

    /// How far the clock is ahead of the time that has passed; `None` = it is trusted.
    pub(crate) fn clock_ahead(&self) -> Option<Duration> {
        self.clock_watcher.view().suspended.map(|suspended| suspended.ahead)
    }

    fn clock_jumped(&self) -> Option<Degraded> {
        let ahead = self.clock_ahead()?.as_secs();
        Some(Degraded {
            code: "clock_jumped",
            resource: None,
            problem: format!(
                "retention and expiry are suspended: the clock is {ahead} s ahead of the time that \
                 has passed"
            ),
            remedy: "nothing expires until the time is confirmed: fix the clock, or run `postrider \
                     clock confirm` if it is right",
        })
    }

    /// For how long the log could not be emptied; `None` = it can be.
    pub(crate) fn log_stuck_for(&self) -> Option<Duration> {
        let failing = self.failing()?;
        Some(self.access.clock.now().since(failing.began))
    }

    /// What keeps failing in the shard where it has for longest.
    fn failing(&self) -> Option<Failing> {
        let shards = self.shards.all().into_iter();
        let failing = shards.filter_map(|shard| shard.runtime.upkeep.failing());
        failing.min_by_key(|failing| failing.began)
    }

    fn log_not_trimmed(&self) -> Option<Degraded> {
        let failing = self.failing()?;
        let since = failing.since.rfc3339_micros();
        Some(Degraded {
            code: "log_not_trimmed",
            resource: None,
            problem: format!(
                "since {since} saving progress or freeing log space failed {} times: {}",
                failing.times, failing.problem
            ),
            remedy: "acks and deliveries continue, and messages are accepted until the log reaches \
                     storage.wal_max; then publishing is refused. Fix what the problem names: the \
                     disk, permissions on the data folder, or the limit on open files. The server \
                     retries every second",
        })
    }

    /// What is worth putting right about the subscriptions and topics of `project`; of all with
    /// `None`.
    pub(crate) fn lint(&self, project: Option<&ProjectName>) -> Vec<Finding> {
        let all = self.registry.all_subscriptions();
        let settings: Vec<_> = all.iter().map(|subscription| subscription.settings()).collect();
        let living = self.registry.living_topics();
        let topics: BTreeSet<_> = living.iter().map(|topic| topic.name().clone()).collect();
        let mut findings = lint(settings.iter().map(|settings| &**settings), &topics);
        if let Some(project) = project {
            let prefix = format!("{project}/");
            findings.retain(|finding| finding.resource.starts_with(&prefix));
        }
        findings
    }
}

fn halted(resource: String, lanes: usize) -> Degraded {
    let lanes = if lanes == 1 { "1 lane waits".to_owned() } else { format!("{lanes} lanes wait") };
    Degraded {
        code: "lanes_halted",
        resource: Some(resource),
        problem: format!("{lanes} for an operator: a message is out of attempts"),
        remedy: "these lanes deliver nothing, others continue: postrider lane list shows them, \
                 lane release retries, lane skip gives up on the message",
    }
}

fn stuck(resource: String, problem: String) -> Degraded {
    Degraded {
        code: "dead_letters_stuck",
        resource: Some(resource),
        problem,
        remedy: "its exhausted messages are retried until they can leave; create the dead letter \
                 topic, or change the policy",
    }
}

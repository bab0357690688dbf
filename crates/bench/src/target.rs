//! What is measured: the server, the null server and the raw log, and how each is started.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tempfile::TempDir;

use crate::grpc::Channel;
use crate::lean;
use crate::load::{self, Goal, Publisher, Slice};
use crate::plan::Plan;
use crate::process::Process;
use crate::raw_log::RawLog;

/// Connections of the load to each server. One keeps one core busy with HTTP/2 on either side.
pub(crate) const CONNECTIONS: usize = 2;

/// Longest ack deadline there is: nothing expires while it is measured.
const ACK_DEADLINE_S: i32 = 600;

/// A backlog that is not published after so long has failed.
const FILL_TIME_MAX: Duration = Duration::from_secs(300);

/// How a backlog is published: messages a call and calls in flight.
const FILL_BATCH: u32 = 100;
const FILL_IN_FLIGHT: u32 = 16;

/// The one topic of a target, and the subscription that is pulled.
pub(crate) const TOPIC: &str = "projects/bench/topics/load";
pub(crate) const SUBSCRIPTION: &str = "projects/bench/subscriptions/load";

/// Where targets come from, and where their data lies.
pub(crate) struct Workshop {
    pub(crate) plan: Plan,
    server: Option<PathBuf>,
    folder: TempDir,
    started: Cell<u32>,
}

impl Workshop {
    /// Targets of a plan, with data below a folder; without a server there are only the limits.
    pub(crate) fn new(plan: Plan, server: Option<PathBuf>, data_dir: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("postrider-bench-").tempdir_in(data_dir);
        let folder = folder.with_context(|| data_dir.display().to_string())?;
        Ok(Self { plan, server, folder, started: Cell::new(0) })
    }

    /// The folder that all data lies in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a server on an empty store; none if only the limits are measured.
    pub(crate) async fn server(&self) -> Result<Option<Target>> {
        self.server_with("").await
    }

    /// The same with settings of its own beside those of all.
    pub(crate) async fn server_with(&self, settings: &str) -> Result<Option<Target>> {
        let Some(program) = &self.server else { return Ok(None) };
        let folder = tempfile::Builder::new().prefix("server-").tempdir_in(self.folder())?;
        let config = folder.path().join("bench.toml");
        std::fs::write(&config, self.config() + settings)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.path().join("data")).arg("--config").arg(config);
        self.start(command, Some(folder)).await.map(Some)
    }

    /// Starts a null server.
    pub(crate) async fn null(&self, queue: bool) -> Result<Target> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("null-server");
        if queue {
            command.arg("--queue");
        }
        self.start(command, None).await
    }

    /// Creates a raw log as large as the server's write-ahead log.
    pub(crate) fn raw_log(&self) -> Result<RawLog> {
        RawLog::create(&self.folder().join("raw.log"), self.plan.wal_max_bytes)
    }

    async fn start(&self, command: Command, data: Option<TempDir>) -> Result<Target> {
        let number = self.started.replace(self.started.get() + 1);
        let log = self.folder().join(format!("stderr-{number}.log"));
        let process = Process::start(command, log).await?;
        let channel = Channel::connect(process.address(), CONNECTIONS).await?;
        let settle_time_max = self.plan.settle_time_max;
        Ok(Target { channel, process, settle_time_max, _data: data })
    }

    fn config(&self) -> String {
        let (max, segment) = (self.plan.wal_max_bytes >> 20, self.plan.wal_segment_bytes >> 20);
        format!("[storage]\nwal_max = \"{max}MiB\"\nwal_segment = \"{segment}MiB\"\n")
    }
}

/// A running server that speaks Pub/Sub. Dropping it stops it and removes its data.
pub(crate) struct Target {
    pub(crate) channel: Channel,
    // Stopped before its folder is removed: fields are dropped in this order.
    pub(crate) process: Process,
    settle_time_max: Duration,
    _data: Option<TempDir>,
}

impl Target {
    /// Creates the topic.
    pub(crate) async fn create_topic(&self) -> Result<()> {
        self.create_topic_with(wire::pubsub::Topic::default()).await
    }

    /// Creates the topic with these settings.
    pub(crate) async fn create_topic_with(&self, settings: wire::pubsub::Topic) -> Result<()> {
        let topic = wire::pubsub::Topic { name: TOPIC.to_owned(), ..settings };
        self.channel.call("Publisher/CreateTopic", lean::frame(&topic)).await.map(drop)
    }

    /// Creates a subscription of the topic.
    pub(crate) async fn create_subscription(&self, name: &str) -> Result<()> {
        let subscription = wire::pubsub::Subscription { name: name.to_owned(), ..subscription() };
        self.create(&subscription).await
    }

    /// Creates a subscription with settings of its own, else those of `subscription`.
    pub(crate) async fn create(&self, subscription: &wire::pubsub::Subscription) -> Result<()> {
        let request = lean::frame(subscription);
        self.channel.call("Subscriber/CreateSubscription", request).await.map(drop)
    }

    /// Deletes a subscription with its backlog.
    pub(crate) async fn delete_subscription(&self, name: &str) -> Result<()> {
        let request = wire::pubsub::DeleteSubscriptionRequest { subscription: name.to_owned() };
        let request = lean::frame(&request);
        self.channel.call("Subscriber/DeleteSubscription", request).await.map(drop)
    }

    /// Waits until its chores are done.
    pub(crate) async fn settle(&self) -> Result<()> {
        self.process.settle(self.settle_time_max).await
    }

    /// Publishes with so many calls in flight.
    pub(crate) async fn publish(
        &self,
        request: &Request,
        in_flight: u32,
        goal: Goal,
    ) -> Result<Slice> {
        let publishers = self.publishers(request, in_flight)?;
        load::run(publishers, goal).await
    }

    /// The callers that publish a request.
    pub(crate) fn publishers(&self, request: &Request, in_flight: u32) -> Result<Vec<Publisher>> {
        let requests = Arc::from([request.framed.clone()]);
        let publisher = |index| {
            let caller = self.channel.caller(usize::try_from(index)?, "Publisher/Publish")?;
            Ok(Publisher::new(caller, Arc::clone(&requests), 0, request.messages))
        };
        (0..in_flight).map(publisher).collect()
    }

    /// Publishes at least so many messages, as fast as may be.
    pub(crate) async fn fill(&self, messages: u64, message_bytes: usize) -> Result<()> {
        let request = Request::new(FILL_BATCH, message_bytes);
        let calls = messages.div_ceil(u64::from(FILL_BATCH));
        let goal = Goal::calls(calls, FILL_TIME_MAX);
        let slice = self.publish(&request, FILL_IN_FLIGHT, goal).await?;
        ensure!(slice.calls == calls, "only {} of {calls} calls were made in time", slice.calls);
        Ok(())
    }
}

/// The subscription that is pulled, with the settings that all have.
pub(crate) fn subscription() -> wire::pubsub::Subscription {
    wire::pubsub::Subscription {
        name: SUBSCRIPTION.to_owned(),
        topic: TOPIC.to_owned(),
        ack_deadline_seconds: ACK_DEADLINE_S,
        ..Default::default()
    }
}

/// An encoded publish request.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) framed: Bytes,
    pub(crate) messages: u32,
}

impl Request {
    /// So many messages of so many bytes for the topic.
    pub(crate) fn new(messages: u32, message_bytes: usize) -> Self {
        Self { framed: load::request_of(TOPIC, messages, message_bytes), messages }
    }

    /// So many messages with this data for the topic.
    pub(crate) fn of(messages: u32, data: &Bytes) -> Self {
        let message = lean::Outgoing { data: data.clone(), ..lean::Outgoing::default() };
        let all = (0..messages).map(|_| message.clone()).collect();
        Self { framed: load::framed(TOPIC, all), messages }
    }

    /// The bytes that a log has to store for it.
    pub(crate) fn stored(&self) -> Bytes {
        self.framed.slice(lean::PREFIX..)
    }
}

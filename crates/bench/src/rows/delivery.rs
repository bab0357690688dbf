//! Delivery: end to end by streaming pull, draining a backlog, unary pull and ack.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::Semaphore;

use super::Selection;
use super::rate::{self, Done, Work};
use crate::clock;
use crate::load::{self, Appending, Goal, Publisher, Subscriber, Wanted};
use crate::plan::{Plan, short};
use crate::raw_log::RawLog;
use crate::report::Report;
use crate::target::{Request, SUBSCRIPTION, Target, Workshop};

/// Messages a call and calls in flight of the publisher, end to end.
pub(crate) const STREAM_BATCH: u32 = 100;
pub(crate) const STREAM_IN_FLIGHT: u32 = 8;

const ROUND_TIME_MAX: Duration = Duration::from_secs(300);

/// Runs the delivery rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    let plan = &workshop.plan;
    if selection.holds(&EndToEnd { plan }.name()) {
        report.rates.push(rate::run(workshop, &EndToEnd { plan }).await?);
    }
    if selection.holds(&Draining { plan }.name()) {
        report.rates.push(rate::run(workshop, &Draining { plan }).await?);
    }
    if selection.holds(&Pulling { plan }.name()) {
        report.rates.push(rate::run(workshop, &Pulling { plan }).await?);
    }
    Ok(())
}

async fn create(target: &Target) -> Result<()> {
    target.create_topic().await?;
    target.create_subscription(SUBSCRIPTION).await
}

/// A publisher and a subscriber at once, as fast as they go.
struct EndToEnd<'a> {
    plan: &'a Plan,
}

impl EndToEnd<'_> {
    fn request(&self) -> Request {
        Request::new(STREAM_BATCH, self.plan.message_bytes)
    }

    fn goal(&self) -> Goal {
        let calls = self.plan.stream_messages.div_ceil(u64::from(STREAM_BATCH));
        Goal::calls(calls, ROUND_TIME_MAX)
    }

    async fn stream(&self, target: &Target, calls: u64) -> Result<Done> {
        let publishers = target.publishers(&self.request(), STREAM_IN_FLIGHT)?;
        Ok(stream(target, self.plan, publishers, calls).await?.0)
    }
}

/// Publishes so many calls of [`STREAM_BATCH`] messages, and receives and acks them on one stream.
pub(super) async fn stream(
    target: &Target,
    plan: &Plan,
    publishers: Vec<Publisher>,
    calls: u64,
) -> Result<(Done, Subscriber)> {
    let lead = usize::try_from(plan.stream_lead)?;
    let lead = Arc::new(Semaphore::new(lead));
    let mut subscriber = Subscriber::open(&target.channel, SUBSCRIPTION).await?;
    let publishers = publishers.into_iter().map(|one| one.with_lead(Arc::clone(&lead)));
    let publishers: Vec<Publisher> = publishers.collect();

    let start = clock::now();
    let messages = calls * u64::from(STREAM_BATCH);
    let wanted = Wanted { messages, lead: Some(lead) };
    let publishing = load::run(publishers, Goal::calls(calls, ROUND_TIME_MAX));
    let (_, received) = tokio::try_join!(publishing, subscriber.receive(&wanted))?;
    ensure!(received.again == 0, "{} messages came again", received.again);
    Ok((Done { messages: received.messages, elapsed: received.end - start }, subscriber))
}

impl Work for EndToEnd<'_> {
    fn name(&self) -> String {
        "stream/rate".to_owned()
    }

    fn queues(&self) -> bool {
        true
    }

    async fn set_up(&self, target: &Target) -> Result<()> {
        create(target).await?;
        let calls = self.plan.warm_up.div_ceil(u64::from(STREAM_BATCH));
        self.stream(target, calls).await.map(drop)
    }

    async fn before_round(&self, _: &Target) -> Result<()> {
        Ok(())
    }

    async fn round(&self, target: &Target) -> Result<Done> {
        self.stream(target, self.goal().calls_max).await
    }

    async fn raw(&self, log: &RawLog) -> Result<Option<Done>> {
        let appenders = Appending::several(log, &self.request().stored(), STREAM_IN_FLIGHT);
        let slice = load::run(appenders, self.goal()).await?;
        let messages = slice.calls * u64::from(STREAM_BATCH);
        Ok(Some(Done { messages, elapsed: slice.elapsed }))
    }
}

/// A backlog larger than what a server keeps in memory, streamed and acked.
struct Draining<'a> {
    plan: &'a Plan,
}

impl Work for Draining<'_> {
    fn name(&self) -> String {
        format!("drain/{}", short(self.plan.backlog))
    }

    fn queues(&self) -> bool {
        true
    }

    async fn set_up(&self, target: &Target) -> Result<()> {
        create(target).await
    }

    async fn before_round(&self, target: &Target) -> Result<()> {
        target.fill(self.plan.backlog, self.plan.message_bytes).await
    }

    async fn round(&self, target: &Target) -> Result<Done> {
        let start = clock::now();
        let mut subscriber = Subscriber::open(&target.channel, SUBSCRIPTION).await?;
        let wanted = Wanted { messages: self.plan.backlog, lead: None };
        let received = subscriber.receive(&wanted).await?;
        ensure!(received.again == 0, "{} messages came again", received.again);
        Ok(Done { messages: received.messages, elapsed: received.end - start })
    }

    async fn raw(&self, _: &RawLog) -> Result<Option<Done>> {
        Ok(None)
    }
}

/// Callers that pull a backlog and ack it.
struct Pulling<'a> {
    plan: &'a Plan,
}

impl Work for Pulling<'_> {
    fn name(&self) -> String {
        let pullers = self.plan.pullers;
        format!("pull/{}x{}", pullers.messages_max, pullers.callers)
    }

    fn queues(&self) -> bool {
        true
    }

    async fn set_up(&self, target: &Target) -> Result<()> {
        create(target).await?;
        target.fill(self.plan.pullers.spare(), self.plan.message_bytes).await
    }

    async fn before_round(&self, target: &Target) -> Result<()> {
        // The last round left the spare messages but for those that its last calls took.
        let backlog = self.plan.pull_backlog + self.plan.pullers.spare();
        target.fill(backlog, self.plan.message_bytes).await
    }

    async fn round(&self, target: &Target) -> Result<Done> {
        let plan = self.plan;
        let pulled = load::pull_and_ack(
            &target.channel,
            SUBSCRIPTION,
            plan.pullers,
            plan.pull_backlog,
            ROUND_TIME_MAX,
        );
        let (messages, elapsed) = pulled.await.context("pull")?;
        ensure!(messages >= plan.pull_backlog, "only {messages} messages came");
        Ok(Done { messages, elapsed })
    }

    async fn raw(&self, _: &RawLog) -> Result<Option<Done>> {
        Ok(None)
    }
}

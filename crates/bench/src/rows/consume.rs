//! What the consumer runtime costs a program: processor time for each message, beside a bare
//! stream. Ways take turns on the same server; the middle round counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use consumer::effects::{Applied, Effects, Memory, Path, StoreError, Value, Write, WriteKind};
use consumer::log::{ErrorsTo, Lines, Written};
use consumer::{
    Connection, Consumer, Failure, Handled, Handler, Message, Outcome, Settings, Timestamp, pull,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use wire::pubsub::StreamingPullRequest;
use wire::pubsub::subscriber_client::SubscriberClient;

use super::Selection;
use super::rate::median;
use crate::report::{CpuRow, Report, progress};
use crate::target::{SUBSCRIPTION, Target, Workshop};

/// A bare stream asks for what the runtime asks for.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How a program consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Decodes each message, and acks it.
    Bare,
    /// As that, with the same effect in the same store, and nothing else around it.
    ByHand,
    /// The runtime, with lines of errors only.
    Quiet,
    /// The runtime as it comes: one line for each message.
    Runtime,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Bare, "consume/bare"),
    (Way::ByHand, "consume/by-hand"),
    (Way::Quiet, "consume/runtime-quiet"),
    (Way::Runtime, "consume/runtime"),
];

/// Runs the rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    // The first is what the others are measured by.
    let ways: Vec<_> =
        WAYS.into_iter().filter(|(way, name)| *way == Way::Bare || selection.holds(name)).collect();
    if !ways.iter().any(|(_, name)| selection.holds(name)) {
        return Ok(());
    }
    let Some(target) = workshop.server().await? else { return Ok(()) };
    target.create_topic().await?;
    let mut costs = vec![Vec::new(); ways.len()];
    for round in 0..workshop.plan.pairs {
        for (costs, (way, name)) in costs.iter_mut().zip(&ways) {
            let cost = measure(workshop, &target, *way, round).await.context(*name)?;
            costs.push(cost);
        }
    }
    let Some(base) = costs.first().cloned() else { return Ok(()) };
    for (own, (_, name)) in costs.iter().zip(&ways) {
        let ratios: Vec<f64> = own.iter().zip(&base).map(|(own, base)| own / base).collect();
        let (cpu_us, ratio) = (median(own), median(&ratios));
        let (cpu_us, ratio) = (cpu_us.unwrap_or_default(), ratio.unwrap_or_default());
        let row = CpuRow { name: (*name).to_owned(), cpu_us, ratio };
        progress(&row.line());
        report.cpu.push(row);
    }
    Ok(())
}

/// Processor time of this process, in microseconds for each message of a backlog.
async fn measure(workshop: &Workshop, target: &Target, way: Way, round: u32) -> Result<f64> {
    let count = workshop.plan.backlog;
    let subscription = format!("{SUBSCRIPTION}-{way:?}-{round}").to_lowercase();
    target.create_subscription(&subscription).await?;
    target.fill(count, workshop.plan.message_bytes).await?;
    target.settle().await?;
    let url = format!("http://{}", target.process.address());
    let time = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let before = time();
    match way {
        Way::Bare => pull_bare(&url, &subscription, count, None).await?,
        Way::ByHand => pull_bare(&url, &subscription, count, Some(Memory::default())).await?,
        Way::Quiet => {
            pull_runtime(&url, &subscription, count, Arc::new(ErrorsTo(nowhere()?))).await?
        }
        Way::Runtime => pull_runtime(&url, &subscription, count, Arc::new(nowhere()?)).await?,
    }
    let took = time() - before;
    target.delete_subscription(&subscription).await?;
    Ok(took.as_secs_f64() * 1e6 / count as f64)
}

async fn pull_bare(url: &str, subscription: &str, count: u64, store: Option<Memory>) -> Result<()> {
    let client = SubscriberClient::connect(url.to_owned()).await?;
    let mut client = client.max_decoding_message_size(RESPONSE_BYTES_MAX);
    let (sender, receiver) = mpsc::channel(16);
    let options = pull::Options::default();
    let first = StreamingPullRequest {
        subscription: subscription.to_owned(),
        stream_ack_deadline_seconds: i32::try_from(options.ack_deadline.as_secs())?,
        max_outstanding_messages: i64::try_from(options.outstanding_messages_max)?,
        max_outstanding_bytes: i64::try_from(options.outstanding_bytes_max)?,
        ..StreamingPullRequest::default()
    };
    sender.send(first).await?;
    let mut stream = client.streaming_pull(ReceiverStream::new(receiver)).await?.into_inner();
    let mut left = count;
    while left > 0 {
        let response = stream.message().await?.context("the stream ended")?;
        let mut ack_ids = Vec::with_capacity(response.received_messages.len());
        for received in response.received_messages {
            let message = std::hint::black_box(received.decode_message()?);
            if let Some(store) = &store {
                store.apply(&write(&message.message_id)).await?;
            }
            ack_ids.push(received.ack_id);
            left = left.saturating_sub(1);
        }
        sender.send(StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() }).await?;
    }
    Ok(())
}

async fn pull_runtime(
    url: &str,
    subscription: &str,
    count: u64,
    lines: Arc<dyn Lines>,
) -> Result<()> {
    let connection = Connection::open(url)?;
    let known = connection.ask(subscription).await?;
    let done = Arc::new(Notify::new());
    let handler =
        Count { store: Memory::default(), left: AtomicU64::new(count), done: Arc::clone(&done) };
    let settings = Settings::new("bench", "1");
    let consumer = Consumer::with_lines(handler, settings, known, lines)?;
    let stop = async move { done.notified().await };
    Ok(pull::run(connection, consumer, pull::Options::default(), stop).await?)
}

/// Lines that are made and written as for standard output, and read by nobody.
fn nowhere() -> Result<Written<File>> {
    Ok(Written::new(File::create("/dev/null")?))
}

/// Counts one more message, in one transaction with the note that it was counted.
fn write(message_id: &str) -> Write {
    let path =
        |collection: &str, id: &str| Path { collection: collection.to_owned(), id: id.to_owned() };
    Write {
        document: path("counts", "all"),
        dedupe: path("dedupe", message_id),
        dedupe_until: Timestamp(u64::MAX),
        kind: WriteKind::Increment,
        fields: BTreeMap::from([("count".to_owned(), Value::Integer(1))]),
        event_time: None,
    }
}

/// Counts in memory.
struct Count {
    store: Memory,
    left: AtomicU64,
    done: Arc<Notify>,
}

impl Handler for Count {
    type Event = ();

    fn decode(&self, _message: &Message) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): (), message: &Message) -> Handled {
        let applied: Result<Applied, StoreError> =
            self.store.apply(&write(message.dedupe_id())).await;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Outcome::from(applied).into()
    }
}

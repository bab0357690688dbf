//! Calls at a fixed rate, whether or not the server keeps up: latency counts from the moment a
//! message was due to be sent, so that a stalled server cannot hide the messages it held back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use prost::Message;
use tokio::sync::mpsc;

use super::latencies::Latencies;
use super::publish::request_of;
use super::stream::{Seen, Subscriber, message_id};
use crate::clock;
use crate::grpc::Channel;
use crate::lean::PubsubMessage;
use crate::raw_log::RawLog;

/// Moments due and not yet taken; a load this far behind blocks, and its messages count as late.
const BEHIND_MAX: usize = 100_000;

/// Calls under way at once; further messages wait, and their latency counts on.
const CALLS_MAX: usize = 1000;

/// A message due at a moment.
#[derive(Clone, Copy, Debug)]
struct Scheduled {
    index: u64,
    due: Instant,
}

/// A stream of `count` messages due at a fixed rate from now on. A thread keeps the time, because
/// the runtime's timer is too coarse.
fn at_rate(per_second: u32, count: u64) -> Result<mpsc::Receiver<Scheduled>> {
    let (sender, receiver) = mpsc::channel(BEHIND_MAX);
    let start = clock::now();
    let interval = Duration::from_secs(1) / per_second;
    let due = move |index: u64| {
        let nanos = clock::nanos(interval).saturating_mul(index);
        Scheduled { index, due: start + Duration::from_nanos(nanos) }
    };
    let send_all = move || {
        for scheduled in (0..count).map(due) {
            std::thread::sleep(scheduled.due.saturating_duration_since(clock::now()));
            if sender.blocking_send(scheduled).is_err() {
                return;
            }
        }
    };
    // The thread ends with its last message, or when the receiver is gone.
    drop(
        std::thread::Builder::new()
            .name("schedule".to_owned())
            .spawn(send_all)
            .context("thread")?,
    );
    Ok(receiver)
}

/// What was measured at a fixed rate.
pub(crate) struct AtRate {
    /// From due until the publish was answered, or the raw log's sync returned.
    pub(crate) stored: Latencies,
    /// From due until the subscriber had the message; empty for the raw log.
    pub(crate) received: Latencies,
}

/// A fixed rate and how long to keep it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) per_second: u32,
    /// Messages sent before anything counts.
    pub(crate) warm_up: u64,
    /// Messages that count.
    pub(crate) measured: u64,
}

impl Pace {
    /// What counts lasts so long, after a warm-up of a fifth of it.
    pub(crate) fn lasting(per_second: u32, time: Duration) -> Result<Self> {
        let measured = u64::from(per_second) * u64::try_from(time.as_millis())? / 1000;
        Ok(Self { per_second, warm_up: measured / 5, measured })
    }

    /// Messages sent in all.
    pub(crate) fn messages(self) -> u64 {
        self.warm_up + self.measured
    }
}

/// Publishes one message a call at a fixed rate while a stream receives and acks them.
pub(crate) async fn stream_at_rate(
    channel: &Channel,
    topic: &str,
    subscription: &str,
    message_bytes: usize,
    pace: Pace,
) -> Result<AtRate> {
    let subscriber = Subscriber::open(channel, subscription).await?;
    let stamp = Stamp::new(topic, message_bytes);
    let caller = channel.caller(0, "Publisher/Publish")?;
    let publish = |scheduled: Scheduled| {
        let (mut caller, request) = (caller.clone(), stamp.request(scheduled.due));
        async move { caller.unary(request).await.map(drop) }
    };
    let received = receive_stamped(subscriber, stamp.base, pace);
    let (stored, received) = tokio::try_join!(send_at_rate(pace, publish), received)?;
    Ok(AtRate { stored, received })
}

/// Appends the bytes of such a message to the raw log at a fixed rate.
pub(crate) async fn append_at_rate(log: &RawLog, bytes: Bytes, pace: Pace) -> Result<AtRate> {
    let appender = log.appender();
    let append = |_| {
        let (appender, bytes) = (appender.clone(), bytes.clone());
        async move { appender.append(bytes).await }
    };
    let stored = send_at_rate(pace, append).await?;
    Ok(AtRate { stored, received: Latencies::new()? })
}

/// When a message was due to be sent, and when its call was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) due: Instant,
    pub(crate) answered: Instant,
}

/// Makes calls at a fixed rate, each with the number of its message. Returns the moments of all,
/// those of the warm-up first.
pub(crate) async fn call_at_rate<F>(pace: Pace, mut call: impl FnMut(u64) -> F) -> Result<Vec<Sent>>
where
    F: Future<Output = Result<()>>,
{
    let mut sent = vec![None; usize::try_from(pace.messages())?];
    let answered = |scheduled: Scheduled| {
        let Scheduled { index, due } = scheduled;
        let place = usize::try_from(index).ok().and_then(|index| sent.get_mut(index));
        if let Some(place) = place {
            *place = Some(Sent { due, answered: clock::now() });
        }
    };
    send_scheduled(pace, |scheduled| call(scheduled.index), answered).await?;
    sent.into_iter().collect::<Option<_>>().context("a message was not sent")
}

async fn send_at_rate<F>(pace: Pace, call: impl FnMut(Scheduled) -> F) -> Result<Latencies>
where
    F: Future<Output = Result<()>>,
{
    let mut latencies = Latencies::new()?;
    let answered = |scheduled: Scheduled| {
        if scheduled.index >= pace.warm_up {
            latencies.add(scheduled.due.elapsed());
        }
    };
    send_scheduled(pace, call, answered).await?;
    Ok(latencies)
}

async fn send_scheduled<F>(
    pace: Pace,
    mut call: impl FnMut(Scheduled) -> F,
    mut answered: impl FnMut(Scheduled),
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let mut schedule = at_rate(pace.per_second, pace.messages())?;
    let mut calls = FuturesUnordered::new();
    let mut more = true;
    while more || !calls.is_empty() {
        tokio::select! {
            scheduled = schedule.recv(), if more && calls.len() < CALLS_MAX => match scheduled {
                Some(scheduled) => {
                    let answer = call(scheduled);
                    calls.push(async move { answer.await.map(|()| scheduled) });
                }
                None => more = false,
            },
            Some(answer) = calls.next() => answered(answer?),
        }
    }
    Ok(())
}

async fn receive_stamped(mut stream: Subscriber, base: Instant, pace: Pace) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let mut seen = Seen::default();
    while seen.count < pace.messages() {
        let delivered = stream.next().await?;
        let now = clock::now();
        for received in &delivered.received {
            let message = PubsubMessage::decode(received.message.clone())?;
            let due = base + Duration::from_nanos(stamp_of(&message.data)?);
            if seen.add(message_id(&message)?) && seen.count > pace.warm_up {
                latencies.add(now.saturating_duration_since(due));
            }
        }
        stream.ack(delivered)?;
    }
    Ok(latencies)
}

/// Publish requests whose data begins with a number: the moment they were due, or a mark.
pub(crate) struct Stamp {
    base: Instant,
    request: Bytes,
    at: usize,
}

impl Stamp {
    /// Requests of one message of so many bytes.
    pub(crate) fn new(topic: &str, message_bytes: usize) -> Self {
        let request = request_of(topic, 1, message_bytes);
        // The data is the last field of the last message.
        let at = request.len() - message_bytes;
        Self { base: clock::now(), request, at }
    }

    fn request(&self, due: Instant) -> Bytes {
        self.marked(clock::nanos(due.saturating_duration_since(self.base)))
    }

    /// A request whose data begins with this number.
    pub(crate) fn marked(&self, mark: u64) -> Bytes {
        let stamp = mark.to_be_bytes();
        let mut request = BytesMut::from(self.request.as_ref());
        request[self.at..self.at + stamp.len()].copy_from_slice(&stamp);
        request.freeze()
    }
}

fn stamp_of(data: &[u8]) -> Result<u64> {
    let (stamp, _) = data.split_first_chunk().context("a message without its moment")?;
    Ok(u64::from_be_bytes(*stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lean::{PREFIX, PublishRequest};

    #[test]
    fn a_stamped_request_carries_its_due_moment_and_nothing_else_changes() {
        let stamp = Stamp::new("projects/p/topics/t", 1024);
        let due = stamp.base + Duration::from_nanos(123_456_789);
        let request = PublishRequest::decode(stamp.request(due).slice(PREFIX..)).unwrap();
        let data = &request.messages[0].data;
        assert_eq!(stamp_of(data).unwrap(), 123_456_789);
        assert_eq!(data[8..], super::super::publish::filler(1024)[8..]);
    }

    #[tokio::test]
    async fn latency_counts_from_the_due_moment_when_calls_are_held_back() {
        // One call at a time would be answered at once, but the first holds back all others.
        let gate = tokio::sync::Semaphore::new(0);
        let pace = Pace { per_second: 1000, warm_up: 0, measured: 50 };
        let calls = send_at_rate(pace, |scheduled| {
            let gate = &gate;
            async move {
                if scheduled.index == 49 {
                    gate.close();
                }
                drop(gate.acquire().await);
                Ok(())
            }
        });
        let latencies = calls.await.unwrap();
        assert_eq!(latencies.count(), 50);
        // Message 49 is due 49 ms after message 0, which waited for it.
        assert!(latencies.quantile(1.0) >= Duration::from_millis(48));
        assert!(latencies.quantile(0.5) >= Duration::from_millis(20));
    }
}

//! Many endpoints, each with a topic and a subscription of its own, and a load at a fixed rate.

use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::{create_push, create_topic, topic_name};
use crate::load::{Latencies, Pace, Sent, Stamp, call_at_rate};
use crate::receiver::{Arrival, Manner, Receiver};
use crate::target::Target;

/// Calls in flight while subscriptions are created.
const CREATE_IN_FLIGHT: usize = 32;

/// Makes so many calls, each with its number.
pub(super) async fn make<F>(count: usize, call: impl Fn(usize) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    stream::iter(0..count)
        .map(|number| Ok(call(number)))
        .try_buffer_unordered(CREATE_IN_FLIGHT)
        .try_collect()
        .await
}

/// Endpoints of one server.
pub(super) struct Endpoints<'a> {
    target: &'a Target,
    receiver: &'a Receiver,
    stamps: Vec<Stamp>,
    /// These, the first, hang.
    hanging: usize,
}

impl<'a> Endpoints<'a> {
    /// Creates so many endpoints, of which the first hang.
    pub(super) async fn create(
        target: &'a Target,
        receiver: &'a Receiver,
        count: usize,
        hanging: usize,
        message_bytes: usize,
    ) -> Result<Self> {
        let name = |number: usize| format!("endpoint-{number}");
        let settings: Value = json!({});
        make(count, |number| {
            let settings = &settings;
            async move {
                let manner = if number < hanging { Manner::Hangs } else { Manner::Answers };
                let (name, endpoint) = (name(number), receiver.endpoint(manner, number));
                create_topic(target, &name).await?;
                create_push(target, &name, &name, &endpoint, settings).await
            }
        })
        .await?;
        let stamp = |number| Stamp::new(&topic_name(&name(number)), message_bytes);
        Ok(Self { target, receiver, stamps: (0..count).map(stamp).collect(), hanging })
    }

    /// Publishes at a fixed rate to the endpoints in this order, again and again. Returns how long
    /// those that `counts` took to receive a message that was visible.
    pub(super) async fn push_at_rate(
        &self,
        order: &[usize],
        pace: Pace,
        counts: impl Fn(usize) -> bool,
    ) -> Result<Latencies> {
        let number = |mark: u64| {
            let place = mark % order.len().max(1) as u64;
            usize::try_from(place).ok().and_then(|place| order.get(place)).copied().unwrap_or(0)
        };
        let answering = (0..pace.messages()).filter(|mark| number(*mark) >= self.hanging).count();
        self.receiver.expect(answering as u64, true);
        let caller = self.target.channel.caller(0, "Publisher/Publish")?;
        let publish = |mark: u64| {
            let (mut caller, request) = (caller.clone(), self.stamps[number(mark)].marked(mark));
            async move { caller.unary(request).await.map(drop) }
        };
        let (sent, _) = tokio::try_join!(call_at_rate(pace, publish), self.receiver.wait())?;
        self.target.settle().await?;
        let wanted = |mark| counts(number(mark));
        Ok(journeys(&sent, &self.receiver.take_arrivals(), pace, wanted)?.visible)
    }
}

/// How long messages took to arrive.
pub(super) struct Journeys {
    /// From the moment that the publisher knew them to be stored.
    pub(super) visible: Latencies,
    /// From the moment that they were due to be published.
    pub(super) due: Latencies,
}

/// Matches what was sent with what came, without the warm-up and what is not wanted.
pub(super) fn journeys(
    sent: &[Sent],
    arrivals: &[Arrival],
    pace: Pace,
    wanted: impl Fn(u64) -> bool,
) -> Result<Journeys> {
    let mut journeys = Journeys { visible: Latencies::new()?, due: Latencies::new()? };
    for arrival in arrivals {
        let sent = usize::try_from(arrival.mark).ok().and_then(|mark| sent.get(mark));
        let Some(sent) = sent.filter(|_| arrival.mark >= pace.warm_up && wanted(arrival.mark))
        else {
            continue;
        };
        // It may come before the publisher has its answer.
        let since = |moment| arrival.at.saturating_duration_since(moment).max(LEAST);
        journeys.visible.add(since(sent.answered));
        journeys.due.add(since(sent.due));
    }
    Ok(journeys)
}

/// What came before its publisher was answered took this long.
const LEAST: Duration = Duration::from_nanos(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn journeys_leave_out_the_warm_up_and_what_is_not_wanted() {
        let start = clock::now();
        let at = |millis| start + Duration::from_millis(millis);
        let sent: Vec<Sent> =
            (0..4).map(|mark| Sent { due: at(mark), answered: at(mark + 10) }).collect();
        let arrival = |mark: u64, millis| Arrival { mark, at: at(millis) };
        let arrivals = [arrival(0, 900), arrival(1, 31), arrival(2, 900), arrival(3, 8)];
        let pace = Pace { per_second: 1000, warm_up: 1, measured: 3 };
        let journeys = journeys(&sent, &arrivals, pace, |mark| mark != 2).unwrap();
        assert_eq!((journeys.visible.count(), journeys.due.count()), (2, 2));
        let near =
            |latency: Duration, millis: f64| (latency.as_secs_f64() * 1e3 - millis).abs() < 0.1;
        // Message 3 came before its publisher was answered.
        assert!(
            near(journeys.visible.quantile(1.0), 20.0) && near(journeys.visible.quantile(0.0), 0.0)
        );
        assert!(near(journeys.due.quantile(1.0), 30.0) && near(journeys.due.quantile(0.0), 5.0));
    }
}

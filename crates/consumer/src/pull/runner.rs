//! The loop that owns a pull consumer's state.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::RetryPolicy;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use wire::ReceivedMessage;
use wire::pubsub::streaming_pull_response::AcknowledgeConfirmation;
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use super::hands::{Ended, Hands};
use super::lanes::{Arrival, Lanes, Next};
use super::leases::{LeaseNumber, Leases};
use super::link::{Event, Link};
use super::outbox::{Call, Outbox};
use super::{Error, Options};
use crate::consumer::{Settled, given_back};
use crate::forward::Forwarder;
use crate::rules::{Settle, Way};
use crate::{Connection, Consumer, Failure, Handler, Message, Order, Outcome, clock};

/// How long the server may take to end a stream that was closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages are handled for this long before what else has happened is looked at.
const TURN: Duration = Duration::from_millis(1);

/// A pull consumer while it runs.
pub(super) struct Runner<H> {
    consumer: Consumer<H>,
    connection: Connection,
    subscription: Arc<str>,
    options: Options,
    link: Link,
    outbox: Outbox,
    leases: Leases,
    lanes: Lanes<Item>,
    /// Messages whose turn it is, as soon as a handler is free.
    ready: VecDeque<Item>,
    hands: Hands<H>,
}

/// A message that waits to be handled.
struct Item {
    number: LeaseNumber,
    message: Message,
}

impl<H: Handler> Runner<H> {
    pub(super) fn new(
        connection: Connection,
        consumer: Consumer<H>,
        subscription: String,
        forwarder: Option<Forwarder>,
        options: Options,
    ) -> Self {
        let (min, max) = options.reconnect;
        let first = first_request(&subscription, &options);
        Self {
            link: Link::new(connection.clone(), first, RetryPolicy { min, max }),
            leases: Leases::new(options.ack_deadline, options.lease_max),
            outbox: Outbox::default(),
            lanes: Lanes::default(),
            ready: VecDeque::new(),
            hands: Hands::new(consumer.clone(), forwarder),
            subscription: subscription.into(),
            consumer,
            connection,
            options,
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        self.consumer.metrics().set_healthy(false);
        let ended = self.serve(stop).await;
        self.drain().await;
        self.consumer.metrics().set_healthy(false);
        ended
    }

    /// Until `stop` resolves or the server refuses the stream.
    async fn serve(&mut self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let mut stop = std::pin::pin!(stop);
        let mut ticks = ticks(self.leases.interval());
        loop {
            let has_more = self.start_ready();
            self.consumer.flush_lines();
            self.consumer.metrics().set_outstanding(self.leases.len());
            let has_room = self.has_room();
            let sender = if self.outbox.is_empty() { None } else { self.link.sender() };
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                // What is ready is settled before it is told, so that acks go out together.
                ended = self.hands.next() => self.ended(ended),
                _ = ticks.tick() => self.extend(),
                permit = reserve(sender) => {
                    permit.send(self.outbox.next_request(self.options.ack_deadline));
                }
                event = self.link.next(), if has_room => self.happened(event)?,
                () = tokio::task::yield_now(), if has_more => {}
            }
        }
    }

    fn happened(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Opened => self.consumer.metrics().set_healthy(true),
            Event::Response(response) => self.take(response),
            Event::Lost(status) => {
                self.consumer.metrics().set_healthy(false);
                self.consumer.metrics().count_reconnect();
                let subscription = &*self.subscription;
                match status {
                    Some(status) => tracing::warn!(subscription, %status, "stream lost"),
                    None => tracing::debug!(subscription, "stream ended by the server"),
                }
            }
            Event::Refused(status) => {
                let (subscription, status) = (self.subscription.to_string(), Box::new(status));
                return Err(Error::Refused { subscription, status });
            }
            Event::Closed => {}
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let Options { outstanding_messages_max, outstanding_bytes_max, .. } = self.options;
        self.leases.has_room(outstanding_messages_max, outstanding_bytes_max)
    }

    fn take(&mut self, response: StreamingPullResponse) {
        let now = self.hands.look_at_clock();
        for received in response.received_messages {
            self.arrive(received, now);
        }
        if let Some(confirmation) = response.acknowledge_confirmation {
            self.confirmed(confirmation);
        }
    }

    /// Exactly-once: an ack that failed for now is sent again; one that is void is only counted,
    /// for the message comes again and is a duplicate then.
    fn confirmed(&mut self, confirmation: AcknowledgeConfirmation) {
        let refused = confirmation.invalid_ack_ids.len() + confirmation.unordered_ack_ids.len();
        self.consumer.metrics().count_acks_refused(refused);
        for ack_id in confirmation.temporary_failed_ack_ids {
            self.outbox.ack(ack_id);
        }
    }

    fn arrive(&mut self, received: ReceivedMessage, now: Instant) {
        let bytes = received.message.len();
        let message = match read(&received, &self.subscription) {
            Ok(message) => message,
            Err(failure) => {
                self.outbox.nack(received.ack_id);
                return self.tell_given_back(&Message::default(), failure);
            }
        };
        let lane = lane(&self.consumer.known().order, &message);
        let number = self.leases.begin(received.ack_id, lane.clone(), bytes, now);
        let Some(key) = lane else {
            return self.start(Item { number, message }, now + TURN);
        };
        let id = message.id.clone();
        match self.lanes.arrive(&key, &id, Item { number, message }) {
            Arrival::Start(item) => self.start(item, now + TURN),
            Arrival::Waits => {}
            Arrival::GiveBack(item) => self.give_back(item, &lane_broken()),
        }
    }

    /// Has a message handled whose turn it is: now, while it is fresh in the processor's cache, if
    /// no other waits for a handler and `end` has not come.
    fn start(&mut self, item: Item, end: Instant) {
        if self.ready.is_empty() && self.has_hands(end) {
            self.begin(item);
        } else {
            self.ready.push_back(item);
        }
    }

    /// Has as many messages handled as may be at a time, for one turn. Returns whether some could
    /// go on at once.
    fn start_ready(&mut self) -> bool {
        if self.ready.is_empty() {
            return false;
        }
        let end = self.hands.look_at_clock() + TURN;
        while self.has_hands(end) {
            let Some(item) = self.ready.pop_front() else { return false };
            self.begin(item);
        }
        self.hands.len() < self.options.handlers_max
    }

    fn has_hands(&self, end: Instant) -> bool {
        self.hands.len() < self.options.handlers_max && self.hands.now() < end
    }

    fn begin(&mut self, Item { number, message }: Item) {
        if let Some(settle) = self.hands.begin(number, message) {
            self.settle(number, settle.is_ack());
        }
    }

    /// Settles a message whose handler has ended, and all others that have by now.
    fn ended(&mut self, ended: Ended<H>) {
        // The handler's own panics are caught: one that comes here was around it.
        let why = Failure::new("Panic", "a task of the consumer panicked");
        self.ended_one(&ended, &why);
        while let Some(ended) = self.hands.try_next() {
            self.ended_one(&ended, &why);
        }
    }

    /// `why` is for one that ended without an answer, and so without a line.
    fn ended_one(&mut self, ended: &Ended<H>, why: &Failure) {
        if ended.settle.is_none() {
            self.tell_given_back(ended.message(), why.clone());
        }
        self.settle(ended.number, ended.settle.is_some_and(Settle::is_ack));
    }

    fn settle(&mut self, number: LeaseNumber, is_acked: bool) {
        let Some(lease) = self.leases.end(number) else { return };
        if is_acked {
            self.outbox.ack(lease.ack_id);
        } else {
            self.outbox.nack(lease.ack_id);
        }
        let Some(key) = lease.lane else { return };
        match self.lanes.settle(&key, is_acked) {
            Next::Start(item) => self.ready.push_back(item),
            Next::GiveBack(items) => {
                items.into_iter().for_each(|item| self.give_back(item, &lane_broken()));
            }
        }
    }

    /// Gives back a message that no handler has seen.
    fn give_back(&mut self, item: Item, why: &Failure) {
        if let Some(lease) = self.leases.end(item.number) {
            self.outbox.nack(lease.ack_id);
        }
        self.tell_given_back(&item.message, why.clone());
    }

    fn tell_given_back(&self, message: &Message, why: Failure) {
        let handled = Outcome::Transient(why).into();
        let (way, answer, took) = (Way::Pull, given_back(Way::Pull), Duration::ZERO);
        self.consumer.tell(&Settled { message, way, handled: &handled, answer, took });
    }

    fn extend(&mut self) {
        let due = self.leases.extend(Instant::now());
        self.consumer.metrics().count_extended(due.len());
        self.outbox.extend(due);
    }

    /// Finishes what is being handled within the grace time, and gives back the rest.
    async fn drain(&mut self) {
        let why = Failure::new(
            "Stopping",
            "the consumer is stopping, another will get the \
                                            message",
        );
        let waiting: Vec<Item> = self.ready.drain(..).chain(self.lanes.drain_waiting()).collect();
        waiting.into_iter().for_each(|item| self.give_back(item, &why));
        self.link.close();
        let mut closing = std::pin::pin!(tokio::time::sleep(CLOSE_TIMEOUT));
        let mut grace = std::pin::pin!(tokio::time::sleep(self.options.shutdown_grace));
        let mut ticks = ticks(self.leases.interval());
        let mut is_closed = false;
        loop {
            if is_closed {
                // Not before: what is given back would come again to the stream that is ending.
                self.flush().await;
                if self.hands.is_empty() {
                    break;
                }
            }
            tokio::select! {
                ended = self.hands.next() => self.ended(ended),
                event = self.link.next(), if !is_closed => match event {
                    Event::Response(response) => self.give_back_all(response, &why),
                    Event::Closed | Event::Refused(_) => is_closed = true,
                    Event::Opened | Event::Lost(_) => {}
                },
                () = &mut closing, if !is_closed => {
                    self.link.abandon();
                    is_closed = true;
                }
                _ = ticks.tick() => self.extend(),
                () = &mut grace, if !self.hands.is_empty() => self.abandon(&why).await,
            }
        }
        self.consumer.metrics().set_outstanding(0);
    }

    /// Ends the handlers that did not finish, and gives back their messages.
    async fn abandon(&mut self, why: &Failure) {
        // Some may have finished meanwhile; those are settled as they said.
        for ended in self.hands.abandon().await {
            self.ended_one(&ended, why);
        }
        for lease in self.leases.end_all() {
            self.outbox.nack(lease.ack_id);
        }
    }

    /// Gives back messages that came after the end was decided.
    fn give_back_all(&mut self, response: StreamingPullResponse, why: &Failure) {
        for received in response.received_messages {
            if let Ok(message) = read(&received, &self.subscription) {
                self.tell_given_back(&message, why.clone());
            }
            self.outbox.nack(received.ack_id);
        }
    }

    /// Tells the server all there is by calls of their own: the stream is closed.
    async fn flush(&mut self) {
        self.consumer.flush_lines();
        let (subscription, deadline) = (&*self.subscription, self.options.ack_deadline);
        while let Some(call) = self.outbox.next_call(subscription, deadline) {
            // Only the connection is borrowed: the stream inside `self` must not be shared.
            if let Err(status) = tell(&self.connection, call).await {
                // Leases run out on their own, and what was acked comes again as a duplicate.
                tracing::warn!(subscription, %status, "some acks did not reach the server");
            }
        }
    }
}

async fn tell(connection: &Connection, call: Call) -> Result<(), tonic::Status> {
    let mut client = connection.subscriber();
    match call {
        Call::Acknowledge(call) => {
            client.acknowledge(connection.call(call).await?).await?;
        }
        Call::ModifyAckDeadline(call) => {
            client.modify_ack_deadline(connection.call(call).await?).await?;
        }
    }
    Ok(())
}

/// Waits until a request can be sent; forever where there is nothing to send or no stream.
async fn reserve(
    sender: Option<mpsc::Sender<StreamingPullRequest>>,
) -> mpsc::OwnedPermit<StreamingPullRequest> {
    if let Some(sender) = sender
        && let Ok(permit) = sender.reserve_owned().await
    {
        return permit;
    }
    std::future::pending().await
}

fn ticks(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn first_request(subscription: &str, options: &Options) -> StreamingPullRequest {
    let limit = |max: usize| i64::try_from(max).unwrap_or(i64::MAX);
    StreamingPullRequest {
        subscription: subscription.to_owned(),
        stream_ack_deadline_seconds: i32::try_from(options.ack_deadline.as_secs()).unwrap_or(600),
        client_id: format!("postrider-consumer-{}-{}", std::process::id(), clock::wall().0),
        max_outstanding_messages: limit(options.outstanding_messages_max),
        max_outstanding_bytes: limit(options.outstanding_bytes_max),
        ..StreamingPullRequest::default()
    }
}

fn lane_broken() -> Failure {
    let why = "an earlier message in its lane was nacked: it will follow that one";
    Failure::new("LaneBroken", why)
}

fn read(received: &ReceivedMessage, subscription: &Arc<str>) -> Result<Message, Failure> {
    let message = received
        .decode_message()
        .map_err(|error| Failure::new("Malformed", format!("the message is broken: {error}")))?;
    Ok(Message {
        id: message.message_id,
        data: message.data,
        attributes: message.attributes,
        ordering_key: message.ordering_key,
        publish_time: message.publish_time.as_ref().and_then(clock::from_wire),
        delivery_attempt: u32::try_from(received.delivery_attempt).ok().filter(|n| *n > 0),
        subscription: Some(Arc::clone(subscription)),
    })
}

/// The lane that a message is in; `None` = it waits for nobody.
fn lane(order: &Order, message: &Message) -> Option<String> {
    match order {
        Order::None => None,
        Order::ByKey => Some(message.ordering_key.clone()).filter(|key| !key.is_empty()),
        Order::ByAttribute(name) => message.attributes.get(name).cloned(),
        Order::Fifo => Some(String::new()),
    }
}

//! Pushing for one subscription: takes leases when they may be sent, sends them, and settles them.
//!
//! ```text
//!   endpoint's pass ─► rate ─► global slot ─► memory ─► lease ─► request in flight ─► settled
//!        └── given back at once if there is nothing to lease ──┘
//! ```
//!
//! Each request in flight has a consumer of its own, so that a lane one request holds something of
//! is closed to all others: at most one request in flight per lane.

mod settling;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::Moment;
use domain::delivery::{AckId, ConsumerId, Failure, Lease, Ordering};
use domain::message::Malformed;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use super::batch::BatchSize;
use super::budget::{Slot, Turn};
use super::chain::Chains;
use super::endpoint::{Admit, Pass};
use super::envelope::{Chain, Parcel};
use super::exchange::{Answer, NoAnswer, Request};
use super::memory::Hold;
use super::plan::{Plan, is_pushed};
use super::scheduler::Shared;
use super::sender::Sending;
use crate::consumer::{Leasing, Want};
use crate::error::{Error, Result};
use crate::subscription::{Settlement, Subscription};

/// How long to wait after something that should not happen.
const ERROR_NAP: Duration = Duration::from_secs(1);

/// Steps done at a time before others get their turn.
const STEPS_MAX: usize = 64;

/// A request under way, and the number of its flight.
struct Exchange {
    key: u64,
    sending: Sending,
}

impl Future for Exchange {
    type Output = (u64, Result<Answer, NoAnswer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.sending).poll(context).map(|answer| (self.key, answer))
    }
}

/// One subscription being pushed.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    subscription: Arc<Subscription>,
    plan: Plan,
    leasing: Leasing,
    /// Consumers that hold nothing.
    idle: Vec<ConsumerId>,
    /// The one that asks, or stands in line.
    asking: Option<ConsumerId>,
    turn: Option<Turn>,
    /// With what the next request is let through, while its messages are read from disk. Given up
    /// for that time it might be gone when they are there, again and again.
    through: Option<(Pass, Slot)>,
    requests: FuturesUnordered<Exchange>,
    flights: HashMap<u64, Flight>,
    next_flight: u64,
    chains: Chains,
    /// How often the subscription had been sent elsewhere when it was looked at last.
    seeks: u64,
    /// Nothing is sent before its end.
    nap: Option<BoxFuture<'static, ()>>,
    /// The endpoint is left alone until then, unless it shows sooner that it works.
    pause: Option<(Moment, BoxFuture<'static, ()>)>,
    /// The next request waits for more messages until its end.
    lingering: Option<BoxFuture<'static, ()>>,
    /// It sends no more; what is in flight may end.
    is_draining: bool,
    /// That it cannot lease was logged.
    has_warned: bool,
}

/// A request in flight.
struct Flight {
    consumer: ConsumerId,
    leases: Vec<Sent>,
    started: Moment,
    pass: Pass,
    slot: Slot,
    /// Its body is an array.
    is_batch: bool,
    /// The memory of its body.
    _hold: Hold,
}

/// A lease in flight, without its record.
struct Sent {
    ack_id: AckId,
    attempt: u32,
    lane: Option<Arc<str>>,
}

/// Why a request cannot be made.
#[derive(Debug, thiserror::Error)]
enum Unsendable {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no token can be signed: {0}")]
    NoToken(#[from] std::io::Error),
}

/// How the work of a pusher ended.
enum Turned {
    /// Something was done; there may be more to do.
    On,
    /// Nothing can be done until it is woken.
    Wait,
}

impl Pusher {
    /// Takes up pushing. `None` if there is nothing to push, or nobody to push to.
    pub(super) fn new(shared: Arc<Shared>, subscription: Arc<Subscription>) -> Option<Self> {
        let plan = Plan::new(&shared, subscription.settings())?;
        let seeks = subscription.seeks();
        let leasing = Leasing::new(Arc::clone(&subscription), Arc::clone(&shared.runtime));
        Some(Self {
            shared,
            subscription,
            plan,
            leasing,
            idle: Vec::new(),
            asking: None,
            turn: None,
            through: None,
            requests: FuturesUnordered::new(),
            flights: HashMap::new(),
            next_flight: 0,
            chains: Chains::default(),
            seeks,
            nap: None,
            pause: None,
            lingering: None,
            is_draining: false,
            has_warned: false,
        })
    }

    /// Looks at the settings and at the server anew. False: pushing ends here.
    pub(super) fn look_again(&mut self) -> bool {
        let settings = self.subscription.settings();
        if self.shared.is_stopping() || self.subscription.is_deleted() || !is_pushed(&settings) {
            self.cut_off();
            return false;
        }
        self.is_draining = self.shared.is_draining();
        if self.is_draining {
            self.through = None;
        }
        self.notice_seek();
        if Arc::ptr_eq(&settings, &self.plan.settings) {
            return true;
        }
        let Some(plan) = Plan::new(&self.shared, settings) else { return false };
        if !Arc::ptr_eq(&plan.endpoint, &self.plan.endpoint) {
            self.cut_off();
            self.plan.endpoint.wake_waiting();
        }
        self.plan = plan.after(&mut self.plan);
        (self.nap, self.pause, self.lingering) = (None, None, None);
        (self.turn, self.through) = (None, None);
        true
    }

    /// After a seek what is in flight is no longer the next of its lane.
    fn notice_seek(&mut self) {
        let seeks = self.subscription.seeks();
        if std::mem::replace(&mut self.seeks, seeks) != seeks {
            self.cut_off();
            self.chains = Chains::default();
        }
    }

    /// Ends every request in flight at once. What they carried counts as never sent.
    fn cut_off(&mut self) {
        self.requests.clear();
        let flights = std::mem::take(&mut self.flights);
        if self.shared.is_stopping() {
            self.shared.note_given_back(flights.values().map(|flight| flight.leases.len()).sum());
        }
        for flight in flights.into_values() {
            let leases = flight.leases.iter().map(|sent| (sent.ack_id, Settlement::GiveBack));
            self.subscription.settle_pushed(leases);
            self.idle.push(flight.consumer);
        }
    }

    /// Sends and settles until there is nothing to do. Ready when it has drained.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..STEPS_MAX {
            let settled = self.requests.poll_next_unpin(context);
            if let Poll::Ready(Some((flight, answer))) = &settled {
                // It looks again in a moment, and need not be woken for that.
                self.plan.endpoint.step_out(context.waker());
                self.settle(*flight, answer);
            }
            if self.is_draining && self.requests.is_empty() {
                return Poll::Ready(());
            }
            let turned = if self.is_draining { Turned::Wait } else { self.try_send(context) };
            if matches!((settled, turned), (Poll::Pending | Poll::Ready(None), Turned::Wait)) {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn try_send(&mut self, context: &mut Context<'_>) -> Turned {
        match self.send_next(context) {
            Ok(turned) => turned,
            // The server stops, and says so in a moment.
            Err(Error::Closing) => Turned::Wait,
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(subscription = %self.subscription.name(), %error, "cannot push");
                }
                self.nap_until(self.now().plus(ERROR_NAP), context)
            }
        }
    }

    /// Sends the next request, or says that there is nothing to do.
    fn send_next(&mut self, context: &mut Context<'_>) -> Result<Turned> {
        if let Some(nap) = &mut self.nap {
            if nap.as_mut().poll(context).is_pending() {
                return Ok(Turned::Wait);
            }
            self.nap = None;
        }
        if self.plan.rules.ordering == Ordering::Fifo && !self.requests.is_empty() {
            return Ok(Turned::Wait);
        }
        let now = self.now();
        if let Some((pass, slot)) = self.through.take() {
            return self.send_with(pass, slot, now, context);
        }
        let pass = match self.plan.endpoint.admit(now, context.waker()) {
            Admit::Go(pass) => pass,
            Admit::Full => {
                self.stand_back();
                return Ok(Turned::Wait);
            }
            Admit::Later(until) => {
                self.stand_back();
                return Ok(self.pause_until(until, context));
            }
        };
        self.pause = None;
        if let Some(Err(until)) = self.plan.rate.as_mut().map(|rate| rate.take(now)) {
            return Ok(self.nap_until(until, context));
        }
        let sent = match self.slot(now, context) {
            Some(slot) => self.send_with(pass, slot, now, context),
            None => Ok(Turned::Wait),
        };
        if let (Ok(Turned::Wait) | Err(_), None, Some(rate)) =
            (&sent, &self.through, &mut self.plan.rate)
        {
            rate.give_back();
        }
        sent
    }

    /// The right to one more request among all, and memory for it. `None`: it is woken for it.
    fn slot(&mut self, now: Moment, context: &mut Context<'_>) -> Option<Slot> {
        let share = &self.plan.endpoint.share;
        if let Poll::Ready(slot) = share.poll_slot(&mut self.turn, now, context)
            && self.shared.memory.has_room(share.is_proven(), context.waker())
        {
            return Some(slot);
        }
        self.leasing.let_go();
        None
    }

    /// Leases what the next request carries and sends it. Without anything to lease all that it
    /// took for it is given back, unless that is being read.
    fn send_with(
        &mut self,
        pass: Pass,
        slot: Slot,
        now: Moment,
        context: &mut Context<'_>,
    ) -> Result<Turned> {
        let consumer = match self.asking {
            Some(consumer) => consumer,
            None => match self.idle.pop() {
                Some(consumer) => consumer,
                None => self.subscription.open_push_consumer()?,
            },
        };
        self.asking = Some(consumer);
        if self.lingers(now, consumer, context)? {
            return Ok(Turned::Wait);
        }
        // A message that failed may be to blame for the breaker: one that never did is a better
        // probe, and is not held up by the other.
        let want = Want {
            prefers_fresh: pass.is_probe(),
            // The answer of one that is in flight brings the next of its lane.
            keeps_read: !self.requests.is_empty(),
            ..self.plan.want()
        };
        let Poll::Ready(leases) = self.leasing.poll_lease(consumer, &want, context) else {
            self.through = self.leasing.is_reading().then_some((pass, slot));
            return Ok(Turned::Wait);
        };
        let leases = leases?;
        self.notice_seek();
        (self.asking, self.lingering, self.has_warned) = (None, None, false);
        self.send(consumer, &leases, pass, slot);
        Ok(Turned::On)
    }

    /// Whether the next request waits for more messages to carry.
    fn lingers(
        &mut self,
        now: Moment,
        consumer: ConsumerId,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let Some(batch) = self.plan.settings.batch.filter(|batch| !batch.linger.is_zero()) else {
            return Ok(false);
        };
        let size = self.plan.batch.as_ref().map_or(1, BatchSize::messages) as u64;
        let available = self.subscription.wait_for(size, consumer, context.waker())?;
        self.leasing.leave_line();
        if available == 0 || available >= size {
            return Ok(false);
        }
        let clock = &self.shared.runtime.clock;
        let timer = self.lingering.get_or_insert_with(|| clock.sleep_until(now.plus(batch.linger)));
        Ok(timer.as_mut().poll(context).is_pending())
    }

    fn send(&mut self, consumer: ConsumerId, leases: &[Lease], pass: Pass, slot: Slot) {
        let lanes: Vec<_> = leases.iter().map(|lease| self.plan.lane(lease)).collect();
        let request = match self.request(leases, self.chain(leases, &lanes)) {
            Ok(request) => request,
            Err(error) => {
                self.refuse(leases, &error);
                self.idle.push(consumer);
                return;
            }
        };
        let sent = leases.iter().zip(lanes).map(|(lease, lane)| Sent {
            ack_id: lease.ack_id,
            attempt: lease.attempt,
            lane,
        });
        let flight = Flight {
            consumer,
            leases: sent.collect(),
            started: self.now(),
            pass,
            slot,
            is_batch: self.plan.batch.is_some(),
            _hold: self.shared.memory.hold(request.body.len()),
        };
        let key = self.next_flight;
        self.next_flight += 1;
        self.flights.insert(key, flight);
        self.requests.push(Exchange { key, sending: self.shared.sender.send(request) });
    }

    fn request(&self, leases: &[Lease], chain: Option<Chain>) -> Result<Request, Unsendable> {
        let (plan, shared) = (&self.plan, &self.shared);
        let (now, topic) = (shared.runtime.clock.wall(), self.subscription.topic().id());
        let mut messages = Vec::new();
        if plan.template.is_wrapped() {
            for lease in leases {
                messages.push(shared.built.get_or_build(topic, &lease.record)?);
            }
        }
        let token = match plan.template.oidc() {
            Some((email, audience)) => Some(shared.keys.token(email, audience, now)?),
            None => None,
        };
        let parcel = Parcel { leases, messages: &messages, chain };
        Ok(plan.template.request(&parcel, now, token.as_ref(), plan.timeout)?)
    }

    /// Settles what cannot be sent. A message that cannot be read counts as failed; for want of a
    /// token none is to blame.
    fn refuse(&mut self, leases: &[Lease], error: &Unsendable) {
        tracing::error!(subscription = %self.subscription.name(), %error, "cannot be sent");
        let failure = Failure::of("unreadable");
        let is_alone = leases.len() == 1;
        let settlement = || match error {
            Unsendable::Malformed(_) if is_alone => Settlement::Fail(&failure),
            Unsendable::Malformed(_) | Unsendable::NoToken(_) => Settlement::GiveBack,
        };
        let settled = leases.iter().map(|lease| (lease.ack_id, settlement()));
        self.subscription.settle_pushed(settled);
        if let Some(batch) = &mut self.plan.batch {
            batch.on_failure();
        }
        self.nap = Some(self.shared.runtime.clock.sleep_until(self.now().plus(ERROR_NAP)));
    }

    /// Whether it signs tokens.
    pub(super) fn needs_keys(&self) -> bool {
        self.plan.template.oidc().is_some()
    }

    /// What lets the receiver check the order; `None` where there is none.
    fn chain(&self, leases: &[Lease], lanes: &[Option<Arc<str>>]) -> Option<Chain> {
        let (first, lane) = (leases.first()?, lanes.first()?.as_ref()?);
        // A request with messages of several lanes has no one before it.
        if leases.len() > 1 && self.plan.rules.ordering != Ordering::Fifo {
            return None;
        }
        let epoch = first.ack_id.epoch();
        Some(Chain { previous: self.chains.last(lane), epoch: epoch.0 })
    }

    /// It cannot send: it gives up its place, and an endpoint that does not work pins nothing.
    fn stand_back(&mut self) {
        self.turn = None;
        if !self.plan.endpoint.is_proven() {
            self.leasing.let_go();
        }
    }

    /// Looks again then, or when it is woken before.
    fn pause_until(&mut self, until: Moment, context: &mut Context<'_>) -> Turned {
        let clock = &self.shared.runtime.clock;
        if self.pause.as_ref().is_none_or(|(planned, _)| *planned != until) {
            self.pause = Some((until, clock.sleep_until(until)));
        }
        let is_over =
            self.pause.as_mut().is_none_or(|(_, timer)| timer.as_mut().poll(context).is_ready());
        if is_over {
            self.pause = None;
            return Turned::On;
        }
        Turned::Wait
    }

    fn nap_until(&mut self, until: Moment, context: &mut Context<'_>) -> Turned {
        let mut nap = self.shared.runtime.clock.sleep_until(until);
        if nap.as_mut().poll(context).is_ready() {
            return Turned::On;
        }
        self.nap = Some(nap);
        Turned::Wait
    }

    fn now(&self) -> Moment {
        self.shared.runtime.clock.now()
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.cut_off();
        for consumer in self.idle.drain(..).chain(self.asking.take()) {
            self.subscription.close_push_consumer(consumer);
        }
        self.plan.endpoint.wake_waiting();
    }
}

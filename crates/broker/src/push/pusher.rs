//! Pushing for one subscription: leases what may be sent, sends it, and settles it.
//!
//! ```text
//!   permit ─► rate ─► global slot ─► memory ─► lease ─► request in flight ─► outcome ─► settled
//!     └── given back at once if there is nothing to lease ──┘
//! ```
//!
//! Each request in flight has its own consumer, so a lane in which one request holds something is
//! closed to all others: at most one request in flight per lane.

pub(super) mod settling;

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::delivery::{ConsumerId, Lease, Ordering};
use domain::push::{BatchSize, Outcome, Settlement};
use domain::{Moment, Now};
use futures::future::BoxFuture;

use super::budget::{Slot, Turn};
use super::chain::Chains;
use super::drivers::Driver;
use super::endpoint::SendPermit;
use super::envelope::{Chain, Order};
use super::flight::{Exchange, Flight, Sent, Stage};
use super::plan::{Plan, is_pushed};
use super::scheduler::Shared;
use crate::consumer::{Leasing, Want};
use crate::error::{Error, Result};
use crate::subscription::Subscription;

/// How long to wait after something that should not happen.
const ERROR_SLEEP: Duration = Duration::from_secs(1);

/// How many requests are sent before looking at the answers of others.
const REQUESTS_MAX: usize = 64;

/// How many requests more than its equal share a driver may have before it leaves some to others.
const DRIVER_SLACK: usize = 4;

/// One subscription being pushed.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    subscription: Arc<Subscription>,
    plan: Plan,
    leasing: Leasing,
    /// Consumers that hold nothing.
    idle: Vec<ConsumerId>,
    /// The one that is asking for records, or waiting for them.
    asking: Option<ConsumerId>,
    turn: Option<Turn>,
    /// The permits for the next request, held while its messages are read from disk. If released
    /// meanwhile, they might be gone when the messages are there, again and again.
    through: Option<(SendPermit, Slot)>,
    /// The drivers that send requests; the first one stays.
    drivers: Vec<Busy>,
    /// Requests for the driver whose turn it is.
    outgoing: Vec<Exchange>,
    flights: HashMap<u64, Flight>,
    next_flight: u64,
    chains: Chains,
    /// How many seeks the subscription had done when last checked.
    seeks: u64,
    /// Nothing is sent before it ends.
    sleep: Option<BoxFuture<'static, ()>>,
    /// The endpoint is sent nothing until then, unless it shows sooner that it works.
    pause: Option<(Moment, BoxFuture<'static, ()>)>,
    /// The next request waits for more messages until this ends.
    lingering: Option<BoxFuture<'static, ()>>,
    /// It sends nothing more; requests in flight may finish.
    is_draining: bool,
    /// It does nothing more.
    is_over: bool,
    /// Whether it was logged that it cannot lease.
    has_warned: bool,
}

/// A driver, and how many requests it has in flight.
struct Busy {
    driver: Arc<Driver>,
    in_flight: usize,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// Something was done; there may be more to do.
    On,
    /// Nothing can be done until the driver is woken.
    Wait,
    /// The driver is no longer needed.
    Done,
}

impl Pusher {
    /// Starts pushing. `None` if there is nothing to push, or nobody to push to.
    pub(super) fn new(
        shared: Arc<Shared>,
        subscription: Arc<Subscription>,
        first: Arc<Driver>,
    ) -> Option<Self> {
        let seeks = subscription.seeks();
        let plan = Plan::new(&shared, &subscription)?;
        let leasing = Leasing::new(Arc::clone(&subscription));
        Some(Self {
            shared,
            subscription,
            plan,
            leasing,
            idle: Vec::new(),
            asking: None,
            turn: None,
            through: None,
            drivers: vec![Busy { driver: first, in_flight: 0 }],
            outgoing: Vec::new(),
            flights: HashMap::new(),
            next_flight: 0,
            chains: Chains::default(),
            seeks,
            sleep: None,
            pause: None,
            lingering: None,
            is_draining: false,
            is_over: false,
            has_warned: false,
        })
    }

    /// Whether requests in flight are to be given up.
    fn is_cut_off(&self) -> bool {
        self.shared.is_stopping() || self.subscription.serving().is_cut_off()
    }

    /// Checks the settings and the server again. False: pushing ends here.
    pub(super) fn look_again(&mut self) -> bool {
        let settings = self.subscription.settings();
        if self.is_cut_off() || self.subscription.is_deleted() || !is_pushed(&settings) {
            self.cut_off();
            return false;
        }
        self.is_draining = self.shared.is_draining() || self.subscription.serving().is_over();
        if self.is_draining {
            self.through = None;
        }
        self.notice_seek();
        if Arc::ptr_eq(&settings, &self.plan.settings) {
            return true;
        }
        let Some(plan) = Plan::new(&self.shared, &self.subscription) else { return false };
        if !Arc::ptr_eq(&plan.endpoint, &self.plan.endpoint) {
            self.cut_off();
            self.plan.endpoint.wake_waiting();
        }
        self.plan = plan.after(&mut self.plan);
        (self.sleep, self.pause, self.lingering) = (None, None, None);
        (self.turn, self.through) = (None, None);
        true
    }

    /// After a seek, messages in flight are no longer the next of their lanes.
    fn notice_seek(&mut self) {
        let seeks = self.subscription.seeks();
        if std::mem::replace(&mut self.seeks, seeks) != seeks {
            self.cut_off();
            self.chains = Chains::default();
        }
    }

    /// Cancels every request in flight. What they carried counts as never sent.
    fn cut_off(&mut self) {
        for busy in &mut self.drivers {
            busy.driver.cut_off();
            busy.in_flight = 0;
        }
        self.outgoing.clear();
        if self.flights.is_empty() {
            return;
        }
        let flights: Vec<Flight> = self.flights.drain().map(|(_, flight)| flight).collect();
        if self.is_cut_off() {
            self.shared.note_given_back(flights.iter().map(|flight| flight.leases.len()).sum());
        }
        let sent = flights.iter().flat_map(|flight| flight.leases.iter());
        let leases = sent.map(|sent| (sent.ack_id, Settlement::GiveBack));
        self.subscription.settle_pushed(self.shared.runtime.now(), leases);
        self.idle.extend(flights.iter().map(|flight| flight.consumer));
    }

    /// Ends pushing.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.cut_off();
        for consumer in self.idle.drain(..).chain(self.asking.take()) {
            self.subscription.close_push_consumer(consumer);
        }
        (self.turn, self.through) = (None, None);
        self.leasing.let_go();
        self.plan.endpoint.wake_waiting();
        self.wake_others();
    }

    /// Settles requests that have ended and sends the next ones, all by `driver`. `context` is that
    /// of the first driver.
    pub(super) fn turn(
        &mut self,
        driver: &Arc<Driver>,
        outcomes: Vec<(u64, Outcome)>,
        context: &mut Context<'_>,
    ) -> Turned {
        if self.is_over {
            return Turned::Done;
        }
        let now = self.shared.runtime.now();
        let mut is_done = self.settle(outcomes, now, context);
        while !self.is_draining && self.outgoing.len() < REQUESTS_MAX {
            if !self.is_next_for(driver) {
                self.wake_least_busy();
                break;
            }
            match self.try_send(now, driver.number, context) {
                Turned::On => is_done = true,
                _ => break,
            }
        }
        // Under the lock, so that a cutoff finds them.
        driver.send(self.outgoing.drain(..));
        match self.flights.is_empty() {
            true => self.rest(driver, is_done),
            false if is_done => Turned::On,
            false => Turned::Wait,
        }
    }

    /// Nothing is in flight: only the first driver continues, unless everything is drained.
    fn rest(&mut self, driver: &Arc<Driver>, is_done: bool) -> Turned {
        self.wake_others();
        if driver.number != 0 {
            self.drivers.retain(|busy| busy.driver.number != driver.number);
            return Turned::Done;
        }
        match (self.is_draining, is_done) {
            (true, _) => Turned::Done,
            (false, true) => Turned::On,
            (false, false) => Turned::Wait,
        }
    }

    /// Whether the next request is for this driver: each has about as many.
    fn is_next_for(&self, driver: &Arc<Driver>) -> bool {
        let part = self.flights.len().div_ceil(self.drivers.len().max(1));
        let own = self.drivers.iter().find(|busy| busy.driver.number == driver.number);
        self.drivers.len() <= 1 || own.is_some_and(|own| own.in_flight < part + DRIVER_SLACK)
    }

    fn wake_least_busy(&self) {
        if let Some(busy) = self.drivers.iter().min_by_key(|busy| busy.in_flight) {
            busy.driver.wake();
        }
    }

    fn wake_others(&self) {
        self.drivers.iter().skip(1).for_each(|busy| busy.driver.wake());
    }

    /// The number of another driver, if one may join. With only one request in flight at a time it
    /// would have nothing to do.
    pub(super) fn wants_driver(&self) -> Option<usize> {
        let is_wanted = self.drivers.len() < self.shared.drivers_max
            && self.plan.rules.ordering != Ordering::Fifo
            && !self.is_draining
            && !self.is_over;
        let is_free =
            |number: &usize| self.drivers.iter().all(|busy| busy.driver.number != *number);
        is_wanted.then(|| (1..self.shared.drivers_max).find(is_free)).flatten()
    }

    /// Another driver joins.
    pub(super) fn add_driver(&mut self, driver: Arc<Driver>) {
        self.drivers.push(Busy { driver, in_flight: 0 });
    }

    fn try_send(&mut self, now: Now, driver: usize, context: &mut Context<'_>) -> Turned {
        match self.send_next(now.moment, driver, context) {
            Ok(turned) => turned,
            // The server is stopping, and will say so in a moment.
            Err(Error::Closing) => Turned::Wait,
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(subscription = %self.subscription.name(), %error, "cannot push");
                }
                self.sleep_until(now.moment.plus(ERROR_SLEEP), context)
            }
        }
    }

    /// Sends the next request, or says that there is nothing to do.
    fn send_next(
        &mut self,
        now: Moment,
        driver: usize,
        context: &mut Context<'_>,
    ) -> Result<Turned> {
        if let Some(sleep) = &mut self.sleep {
            if sleep.as_mut().poll(context).is_pending() {
                return Ok(Turned::Wait);
            }
            self.sleep = None;
        }
        if self.plan.rules.ordering == Ordering::Fifo && !self.flights.is_empty() {
            return Ok(Turned::Wait);
        }
        if let Some(through) = self.through.take() {
            return self.send_with(through, now, driver, context);
        }
        let permit = match self.plan.endpoint.admit(now, context.waker()) {
            Ok(permit) => permit,
            Err(until) => {
                self.stand_back();
                return Ok(match until {
                    Some(until) => self.pause_until(until, context),
                    None => Turned::Wait,
                });
            }
        };
        self.pause = None;
        if let Some(Err(until)) = self.plan.rate.as_mut().map(|rate| rate.take(now)) {
            return Ok(self.sleep_until(until, context));
        }
        let sent = match self.slot(now, context) {
            Some(slot) => self.send_with((permit, slot), now, driver, context),
            None => Ok(Turned::Wait),
        };
        if let (Ok(Turned::Wait) | Err(_), None, Some(rate)) =
            (&sent, &self.through, &mut self.plan.rate)
        {
            rate.give_back();
        }
        sent
    }

    /// A global slot for one more request, and memory for it. `None`: it will be woken for it.
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

    /// Leases the messages of the next request and sends it. If there is nothing to lease,
    /// everything it took for that is released, unless a read is in progress.
    fn send_with(
        &mut self,
        through: (SendPermit, Slot),
        now: Moment,
        driver: usize,
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
        if !self.leasing.is_transforming() && self.lingers(now, consumer, context)? {
            return Ok(Turned::Wait);
        }
        // A message that failed may be the reason the breaker opened: one that never failed is a
        // better probe, and is not held up by the other.
        let want = Want {
            prefers_fresh: through.0.is_probe(),
            // The answer to one in flight brings the next of its lane.
            keeps_read: !self.flights.is_empty(),
            ..self.plan.want()
        };
        let Poll::Ready(leases) = self.leasing.poll_lease(consumer, &want, context) else {
            self.through = self.leasing.is_reading().then_some(through);
            return Ok(Turned::Wait);
        };
        let leases = leases?;
        self.notice_seek();
        (self.asking, self.lingering, self.has_warned) = (None, None, false);
        self.send(consumer, leases, through, now, driver);
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
        self.leasing.leave_line(consumer);
        if available == 0 || available >= size {
            return Ok(false);
        }
        let clock = &self.shared.runtime.clock;
        let timer = self.lingering.get_or_insert_with(|| clock.sleep_until(now.plus(batch.linger)));
        Ok(timer.as_mut().poll(context).is_pending())
    }

    fn send(
        &mut self,
        consumer: ConsumerId,
        leases: Vec<Lease>,
        through: (SendPermit, Slot),
        started: Moment,
        driver: usize,
    ) {
        let (order, sent) = self.note_sent(&leases);
        let builder = Arc::clone(&self.plan.builder);
        let hold = self.shared.memory.hold(builder.bytes(&leases));
        let (permit, slot) = through;
        let flight =
            Flight { consumer, leases: Arc::clone(&sent), started, permit, slot, driver, hold };
        let key = self.next_flight;
        self.next_flight += 1;
        self.flights.insert(key, flight);
        if let Some(busy) = self.drivers.iter_mut().find(|busy| busy.driver.number == driver) {
            busy.in_flight += 1;
        }
        let stage = Stage::Leased(leases, order);
        self.outgoing.push(Exchange { key, leases: sent, started, builder, stage });
    }

    /// What lets the receiver verify the order, and what to remember about the leases.
    fn note_sent(&self, leases: &[Lease]) -> (Order, Arc<[Sent]>) {
        let mut order = Order::default();
        let sent = leases.iter().enumerate().map(|(at, lease)| {
            let record = lease.stored_record();
            let key = self.plan.rules.lane_key(&record);
            let lane = key.map(|key| self.chains.find(key));
            if let (Some((_, previous)), true) = (&lane, at == 0) {
                order.chain = Some(Chain { previous: *previous, epoch: lease.ack_id.epoch().0 });
            }
            let lane = lane.map(|(lane, _)| lane);
            Sent { ack_id: lease.ack_id, attempt: lease.attempt, lane }
        });
        let sent: Arc<[Sent]> = sent.collect();
        if sent.len() > 1 && self.plan.rules.ordering == Ordering::ByKey {
            let lanes = sent.iter().map(|sent| (sent.lane.as_deref(), sent.ack_id.offset()));
            order.links = self.chains.links(lanes);
        }
        (order, sent)
    }

    /// Whether it signs tokens.
    pub(super) fn needs_keys(&self) -> bool {
        self.plan.builder.template.oidc().is_some()
    }

    /// It cannot send: it gives up its place, and an endpoint that is not working pins nothing.
    fn stand_back(&mut self) {
        self.turn = None;
        if !self.plan.endpoint.is_proven() {
            self.leasing.let_go();
        }
    }

    /// Looks again then, or when woken earlier.
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

    fn sleep_until(&mut self, until: Moment, context: &mut Context<'_>) -> Turned {
        let mut sleep = self.shared.runtime.clock.sleep_until(until);
        if sleep.as_mut().poll(context).is_ready() {
            return Turned::On;
        }
        self.sleep = Some(sleep);
        Turned::Wait
    }
}

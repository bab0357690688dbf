//! A request in flight: what it carries, and how it is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use domain::Moment;
use domain::delivery::{AckId, ConsumerId, Lease};
use domain::push::Class;

use super::budget::Slot;
use super::endpoint::SendPermit;
use super::envelope::Order;
use super::exchange::{Answer, NoAnswer};
use super::memory::Hold;
use super::request_builder::{RequestBuilder, Unsendable};
use super::sender::Sending;

/// What a request in flight holds.
pub(super) struct Flight {
    pub(super) consumer: ConsumerId,
    pub(super) leases: Arc<[Sent]>,
    pub(super) started: Moment,
    pub(super) permit: SendPermit,
    pub(super) slot: Slot,
    /// The driver that runs it.
    pub(super) driver: usize,
    /// The memory of its body.
    pub(super) hold: Hold,
}

/// A lease in flight, without its record.
pub(super) struct Sent {
    pub(super) ack_id: AckId,
    pub(super) attempt: u32,
    pub(super) lane: Option<Arc<str>>,
}

/// A request in flight. It is built when it is first polled.
pub(super) struct Exchange {
    /// The number of its flight.
    pub(super) key: u64,
    pub(super) leases: Arc<[Sent]>,
    pub(super) started: Moment,
    pub(super) builder: Arc<RequestBuilder>,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    Leased(Vec<Lease>, Order),
    Sending(Sending),
}

/// A request that has ended.
pub(super) struct Ended {
    pub(super) key: u64,
    pub(super) leases: Arc<[Sent]>,
    pub(super) started: Moment,
    pub(super) builder: Arc<RequestBuilder>,
    pub(super) result: Result<Result<Answer, NoAnswer>, Unsendable>,
}

impl Exchange {
    fn end(&self, result: Result<Result<Answer, NoAnswer>, Unsendable>) -> Poll<Ended> {
        let (leases, builder) = (Arc::clone(&self.leases), Arc::clone(&self.builder));
        Poll::Ready(Ended { key: self.key, leases, started: self.started, builder, result })
    }
}

impl Future for Exchange {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Leased(leases, order) = &mut self.stage {
            let (leases, order) = (std::mem::take(leases), std::mem::take(order));
            match self.builder.send(&leases, &order) {
                Ok(sending) => self.stage = Stage::Sending(sending),
                // Treated like an address we may not connect to.
                Err(Unsendable::Refused(message)) => {
                    let (class, address) = (Class::Blocked, None);
                    return self.end(Ok(Err(NoAnswer { class, message, address, is_ours: false })));
                }
                Err(error) => return self.end(Err(error)),
            }
        }
        let Stage::Sending(sending) = &mut self.stage else { return Poll::Pending };
        match Pin::new(sending).poll(context) {
            Poll::Ready(answer) => self.end(Ok(answer)),
            Poll::Pending => Poll::Pending,
        }
    }
}

//! Unary pull, then ack, in a closed loop.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use prost::Message;

use super::closed_loop::{self, Call, Goal};
use crate::grpc::{Caller, Channel};
use crate::lean::{self, Acks, Delivered};

/// Callers that pull and ack, and how much they ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pullers {
    pub(crate) callers: u32,
    pub(crate) messages_max: u32,
}

impl Pullers {
    /// Messages that must be there beyond those wanted, or the last pulls would wait for more.
    pub(crate) fn spare(self) -> u64 {
        u64::from(self.callers) * u64::from(self.messages_max)
    }
}

/// Pulls and acks until at least `wanted` messages of a subscription have come, of which there
/// must be [`Pullers::spare`] more. Returns how many came, and in which time.
pub(crate) async fn pull_and_ack(
    channel: &Channel,
    subscription: &str,
    pullers: Pullers,
    wanted: u64,
    time_max: Duration,
) -> Result<(u64, Duration)> {
    let request = wire::pubsub::PullRequest {
        subscription: subscription.to_owned(),
        max_messages: i32::try_from(pullers.messages_max)?,
        ..Default::default()
    };
    let request = lean::frame(&request);
    let received = Arc::new(AtomicU64::new(0));
    let mut callers = Vec::new();
    for index in 0..pullers.callers {
        let index = usize::try_from(index)?;
        callers.push(Puller {
            pull: channel.caller(index, "Subscriber/Pull")?,
            ack: channel.caller(index, "Subscriber/Acknowledge")?,
            request: request.clone(),
            subscription: subscription.to_owned(),
            received: Arc::clone(&received),
            wanted,
        });
    }
    let slice = closed_loop::run(callers, Goal::calls(u64::MAX, time_max)).await?;
    Ok((received.load(Ordering::Relaxed), slice.elapsed))
}

struct Puller {
    pull: Caller,
    ack: Caller,
    request: Bytes,
    subscription: String,
    received: Arc<AtomicU64>,
    wanted: u64,
}

impl Call for Puller {
    async fn call(&mut self) -> Result<ControlFlow<()>> {
        if self.received.load(Ordering::Relaxed) >= self.wanted {
            return Ok(ControlFlow::Break(()));
        }
        let delivered = Delivered::decode(self.pull.unary(self.request.clone()).await?)?;
        self.received.fetch_add(delivered.received.len() as u64, Ordering::Relaxed);
        if !delivered.received.is_empty() {
            let ack_ids = delivered.received.into_iter().map(|received| received.ack_id).collect();
            let acks = Acks { subscription: self.subscription.clone(), ack_ids };
            self.ack.unary(lean::frame(&acks)).await?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

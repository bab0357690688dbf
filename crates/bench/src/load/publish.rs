//! Publishing in a closed loop.

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::sync::Semaphore;

use super::Call;
use crate::grpc::Caller;
use crate::lean::{self, Outgoing, PublishRequest};
use crate::raw_log::{Appender, RawLog};

/// A framed request that publishes so many messages of so many bytes.
pub(crate) fn request_of(topic: &str, messages: u32, message_bytes: usize) -> Bytes {
    let message = Outgoing { data: filler(message_bytes), ..Outgoing::default() };
    framed(topic, (0..messages).map(|_| message.clone()).collect())
}

/// A framed request that publishes these messages.
pub(crate) fn framed(topic: &str, messages: Vec<Outgoing>) -> Bytes {
    lean::frame(&PublishRequest { topic: topic.to_owned(), messages })
}

/// Bytes without a pattern that a disk or a file system could make smaller.
pub(crate) fn filler(bytes: usize) -> Bytes {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        // xorshift: the same bytes in every run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

/// Publishes the same encoded requests again and again, all of the same number of messages.
pub(crate) struct Publisher {
    caller: Caller,
    requests: Arc<[Bytes]>,
    next: usize,
    messages: u32,
    lead: Option<Arc<Semaphore>>,
}

impl Publisher {
    /// A publisher of requests with so many messages each, beginning with the `next`-th.
    pub(crate) fn new(caller: Caller, requests: Arc<[Bytes]>, next: usize, messages: u32) -> Self {
        Self { caller, requests, next, messages, lead: None }
    }

    /// Takes a permit for each message, which the subscriber gives back.
    pub(crate) fn with_lead(mut self, lead: Arc<Semaphore>) -> Self {
        self.lead = Some(lead);
        self
    }
}

impl Call for Publisher {
    async fn call(&mut self) -> Result<ControlFlow<()>> {
        if let Some(lead) = &self.lead {
            lead.acquire_many(self.messages).await.context("the subscriber ended")?.forget();
        }
        let request = self.requests.get(self.next % self.requests.len().max(1));
        self.next = self.next.wrapping_add(1);
        self.caller.unary(request.context("nothing to publish")?.clone()).await?;
        Ok(ControlFlow::Continue(()))
    }
}

/// Appends the same bytes to the raw log again and again.
pub(crate) struct Appending {
    appender: Appender,
    bytes: Bytes,
}

impl Appending {
    /// So many callers of a log.
    pub(crate) fn several(log: &RawLog, bytes: &Bytes, callers: u32) -> Vec<Self> {
        let one = |_| Self { appender: log.appender(), bytes: bytes.clone() };
        (0..callers).map(one).collect()
    }
}

impl Call for Appending {
    async fn call(&mut self) -> Result<ControlFlow<()>> {
        self.appender.append(self.bytes.clone()).await?;
        Ok(ControlFlow::Continue(()))
    }
}

//! Leases on their way through the transforms of their subscription, before they are delivered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::delivery::Lease;
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::subscription::{Passed, Subscription};
use crate::transform::{ASK_AGAIN, Functions, Running};

/// Leases that are being transformed. Dropped before their end, they count as never given.
pub(super) struct Transforming {
    subscription: Arc<Subscription>,
    functions: Arc<Functions>,
    leases: Vec<Lease>,
    /// How long the consumer will have for them; the subscription's own deadline if `None`.
    ack_deadline: Option<Duration>,
    stage: Stage,
}

enum Stage {
    /// There was no room among all that waits for transforms; it asks again then.
    Waiting(BoxFuture<'static, ()>),
    Running(Running),
}

impl Transforming {
    pub(super) fn start(
        subscription: Arc<Subscription>,
        functions: Arc<Functions>,
        leases: Vec<Lease>,
        ack_deadline: Option<Duration>,
    ) -> Result<Self> {
        let stage = Stage::Waiting(Box::pin(std::future::ready(())));
        let mut started = Self { subscription, functions, leases, ack_deadline, stage };
        started.stage = started.submit()?;
        Ok(started)
    }

    fn submit(&self) -> Result<Stage> {
        match self.subscription.start_transforms(&self.functions, &self.leases) {
            Ok(running) => Ok(Stage::Running(running)),
            Err(Error::TransformsBusy) => {
                Ok(Stage::Waiting(self.subscription.sleep_for(ASK_AGAIN)))
            }
            Err(error) => Err(error),
        }
    }

    /// What became of them, once all are through.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Passed>> {
        loop {
            match &mut self.stage {
                Stage::Waiting(sleep) => {
                    ready!(sleep.as_mut().poll(context));
                    self.stage = self.submit()?;
                }
                Stage::Running(running) => {
                    let results = ready!(Pin::new(running).poll(context)).ok_or(Error::Closing)?;
                    let leases = std::mem::take(&mut self.leases);
                    let (subscription, deadline) = (&self.subscription, self.ack_deadline);
                    return Poll::Ready(Ok(subscription.pass_on(leases, results, deadline)));
                }
            }
        }
    }
}

impl Drop for Transforming {
    fn drop(&mut self) {
        if !self.leases.is_empty() {
            self.subscription.give_back(&self.leases);
        }
    }
}

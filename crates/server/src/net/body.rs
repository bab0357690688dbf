//! A request body that may not pause for too long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

/// The client paused in the middle of a body for longer than allowed.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request stopped coming")]
pub(crate) struct Stalled;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body whose frames must follow each other within a time. No timer is set up while frames are
/// there, so that it costs nothing for a body that comes at once.
pub(crate) struct Paced {
    inner: Incoming,
    pause_max: Option<Duration>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    /// A body that may pause for `pause_max` at most; `None` = for ever, as a stream does.
    pub(crate) fn new(inner: Incoming, pause_max: Option<Duration>) -> Self {
        Self { inner, pause_max, pause: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(frame) => {
                this.pause = None;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                let Some(pause_max) = this.pause_max else { return Poll::Pending };
                let pause =
                    this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause_max)));
                match pause.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(Stalled.into()))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

//! A request's body: it may neither pause nor last too long, nor take more memory than there is.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};
use tonic::{Code, Status};
use wire::allowance;

use super::budget::{Charge, Exhausted};
use super::framing::{Gather, Messages, Surplus};

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The client paused for too long.
    #[error("the request body stopped arriving")]
    Stalled,
    /// The client took too long for all of it.
    #[error("the request body took too long to arrive (limits.body_deadline)")]
    Late,
    /// The client sent more than one request.
    #[error("the call takes one request, but more arrived")]
    Surplus,
    /// There is no memory for it.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

impl Broken {
    pub(crate) fn code(self) -> Code {
        match self {
            Self::Stalled | Self::Late => Code::DeadlineExceeded,
            Self::Surplus => Code::InvalidArgument,
            Self::Exhausted(_) => Code::ResourceExhausted,
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a body may pause, and how long all of it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) pause_max: Duration,
    pub(crate) total_max: Duration,
}

/// What is done with the bytes.
enum Use {
    /// They are read as they are.
    Plain,
    /// They are one message of gRPC, which is held back until the body has ended: what is built of
    /// it must not wait for a client that does not finish.
    Call(Gather),
    /// They are messages of gRPC for as long as both sides like. The transport keeps room for the
    /// largest, so that it is charged; and the stream with it.
    Stream(Messages, Charge),
}

/// A body whose frames must follow each other within a time. No timer is set up while frames are
/// there, so that it costs nothing for a body that comes at once.
pub(crate) struct Paced {
    inner: Incoming,
    /// `None` = it may take its time, as a stream does.
    pace: Option<Pace>,
    pause: Option<Pin<Box<Sleep>>>,
    /// When all of it must be there, once it has paused.
    end: Option<Instant>,
    used: Use,
}

impl Paced {
    /// A body that is read as it is.
    pub(crate) fn plain(inner: Incoming, pace: Pace) -> Self {
        Self { inner, pace: Some(pace), pause: None, end: None, used: Use::Plain }
    }

    /// The body of a gRPC call with one request.
    pub(crate) fn call(inner: Incoming, pace: Pace) -> Self {
        let used = Use::Call(Gather::default());
        Self { inner, pace: Some(pace), pause: None, end: None, used }
    }

    /// The body of a gRPC call with many requests. Pings watch over it.
    pub(crate) fn stream(inner: Incoming, charge: Charge) -> Self {
        let used = Use::Stream(Messages::default(), charge);
        Self { inner, pace: None, pause: None, end: None, used }
    }

    /// Waits for the next frame within the pace.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Broken> {
        let Some(pace) = self.pace else { return Poll::Pending };
        let pause = self.pause.get_or_insert_with(|| {
            let mut pause = Box::pin(tokio::time::sleep(pace.pause_max));
            let until = pause.deadline();
            let end = *self.end.get_or_insert_with(|| until - pace.pause_max + pace.total_max);
            if end < until {
                pause.as_mut().reset(end);
            }
            pause
        });
        std::task::ready!(pause.as_mut().poll(context));
        let is_late = self.end.is_some_and(|end| pause.deadline() >= end);
        Poll::Ready(if is_late { Broken::Late } else { Broken::Stalled })
    }

    /// Counts what has come.
    fn count(&mut self, data: &Bytes) -> Result<(), Exhausted> {
        match &mut self.used {
            Use::Plain => allowance::take(data.len()),
            Use::Call(gather) => {
                let is_first = gather.expects().is_none();
                gather.note(data);
                // All of it or nothing: what cannot be kept is not read.
                match gather.expects().filter(|_| is_first) {
                    Some(bytes) => allowance::reach(bytes),
                    None => Ok(()),
                }
            }
            Use::Stream(messages, charge) => {
                messages.note(data);
                // As it came, and unpacked if it was compressed.
                charge.reach(2 * messages.largest())
            }
        }
    }

    fn poll_inner(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Pending => return self.wait(context).map(|broken| Some(Err(broken.into()))),
            Poll::Ready(frame) => frame,
        };
        self.pause = None;
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(exhausted) = self.count(data)
        {
            return Poll::Ready(Some(Err(Broken::from(exhausted).into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
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
        loop {
            if let Use::Call(gather) = &mut this.used
                && let Some(frame) = gather.next()
            {
                return Poll::Ready(Some(Ok(frame)));
            }
            let frame = std::task::ready!(this.poll_inner(context));
            let has_ended = this.inner.is_end_stream();
            match (&mut this.used, frame) {
                (Use::Plain, frame) => return Poll::Ready(frame),
                (_, Some(Err(error))) => return Poll::Ready(Some(Err(as_status(error)))),
                (Use::Stream(..), frame) => return Poll::Ready(frame),
                (Use::Call(gather), None) => return Poll::Ready(gather.end().map(Ok)),
                (Use::Call(gather), Some(Ok(frame))) => match gather.pass(frame, has_ended) {
                    Ok(None) => {}
                    Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    Err(Surplus) => {
                        let error = as_status(Broken::Surplus.into());
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_holding = matches!(&self.used, Use::Call(gather) if gather.is_holding());
        self.inner.is_end_stream() && !is_holding
    }

    fn size_hint(&self) -> SizeHint {
        match self.used {
            Use::Plain => self.inner.size_hint(),
            Use::Call(_) | Use::Stream(..) => SizeHint::default(),
        }
    }
}

/// The transport takes a status for what it is, and anything else for unknown.
fn as_status(error: BoxError) -> BoxError {
    match error.downcast_ref::<Broken>() {
        Some(broken) => Box::new(Status::new(broken.code(), broken.to_string())),
        None => error,
    }
}

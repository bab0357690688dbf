//! An answer's body, made when there is room for it and counted until it was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::answers::{Kind, Outlet, Room};

/// A first part of no more than this is not counted: most answers are no longer, and need not
/// touch the counters that all connections share.
const FREE_BYTES: usize = 4 << 10;

type Polled = Option<Result<Frame<Bytes>, Status>>;

/// A body whose parts are counted.
pub(crate) struct Answered {
    inner: Body,
    room: Room,
    /// What was made along with the answer itself.
    first: Option<Polled>,
    /// Whether nothing was made yet.
    is_fresh: bool,
}

impl Answered {
    /// Of a long answer the first part is made at once: what it is made of would take memory that
    /// nobody has counted.
    pub(crate) fn begin(inner: Body, room: Room, context: &mut Context<'_>) -> Self {
        let mut body = Self { inner, room, first: None, is_fresh: true };
        if body.room.kind() != Kind::Brief && !body.inner.is_end_stream() {
            let outlet = body.room.outlet();
            if let Poll::Ready(frame) = body.poll_inner(context, &outlet) {
                body.first = Some(frame);
            }
        }
        body
    }

    fn poll_inner(&mut self, context: &mut Context<'_>, outlet: &Arc<Outlet>) -> Poll<Polled> {
        poll_counted(&mut self.inner, &mut self.is_fresh, context, outlet)
    }
}

fn poll_counted(
    inner: &mut Body,
    is_fresh: &mut bool,
    context: &mut Context<'_>,
    outlet: &Arc<Outlet>,
) -> Poll<Polled> {
    let frame = ready!(Pin::new(inner).poll_frame(context));
    let is_first = std::mem::take(is_fresh);
    Poll::Ready(frame.map(|frame| frame.map(|frame| count(frame, is_first, outlet))))
}

fn count(frame: Frame<Bytes>, is_first: bool, outlet: &Arc<Outlet>) -> Frame<Bytes> {
    match frame.into_data() {
        Ok(data) if data.is_empty() || (is_first && data.len() <= FREE_BYTES) => Frame::data(data),
        Ok(data) => Frame::data(outlet.hold(data)),
        Err(trailers) => trailers,
    }
}

impl http_body::Body for Answered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { inner, room, first, is_fresh } = &mut *self;
        let frame = match first.take() {
            Some(first) => first,
            None => ready!(room.work(context, |context, outlet| {
                poll_counted(inner, is_fresh, context, outlet)
            })),
        };
        if matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
            room.note_messages_made();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.inner.size_hint();
        let Some(Some(Ok(frame))) = &self.first else { return hint };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(bytes));
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(bytes));
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::{BodyExt, Full};

    use super::super::admission::Connections;
    use super::super::answers::Answers;
    use super::*;

    fn begin(bytes: usize, kind: Kind) -> (Answered, Arc<Outlet>) {
        let outlet = Answers::new(1 << 20, Connections::default()).outlet();
        let body = Body::new(Full::new(Bytes::from(vec![7; bytes])));
        let mut context = Context::from_waker(Waker::noop());
        (Answered::begin(body, outlet.room(kind), &mut context), outlet)
    }

    #[tokio::test]
    async fn a_body_is_the_same_whether_it_was_begun_or_not() {
        for kind in [Kind::Brief, Kind::Messages, Kind::Stream] {
            for bytes in [0, 1, FREE_BYTES, FREE_BYTES + 1] {
                let (body, outlet) = begin(bytes, kind);
                assert_eq!(body.size_hint().exact(), Some(bytes as u64), "{kind:?}");
                assert_eq!(body.is_end_stream(), bytes == 0, "{kind:?}");
                let whole = body.collect().await.unwrap().to_bytes();
                assert_eq!(whole.len(), bytes);
                drop(whole);
                assert_eq!(outlet.held(), 0);
            }
        }
    }

    #[test]
    fn little_is_free_and_much_is_counted_from_when_it_is_made() {
        assert_eq!(begin(FREE_BYTES, Kind::Messages).1.held(), 0);
        let (body, outlet) = begin(FREE_BYTES + 1, Kind::Messages);
        assert!(outlet.held() > FREE_BYTES);
        drop(body);
        assert_eq!(outlet.held(), 0);
        let (_body, outlet) = begin(FREE_BYTES + 1, Kind::Brief);
        assert_eq!(outlet.held(), 0, "it is not made yet");
    }
}

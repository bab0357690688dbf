//! Responses of streams as bytes.
//!
//! The transport's own way keeps the buffer of the last response until the next one is made, at
//! up to 10 MB for each stream that is open and quiet. Here a response takes what it needs, and
//! only until it was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use futures::stream::Empty;
use http::HeaderMap;
use http_body::Frame;
use parking_lot::Mutex;
use prost::Message;
use tonic::body::Body;
use tonic::{Response, Status};

/// What the transport is given instead of responses.
pub(super) type Nothing<M> = Empty<Result<M, Status>>;

/// What stands before a response: whether it is packed, and its length.
const PREFIX: usize = 5;

/// Responses that are there are sent together until they have this length.
const ENOUGH_BYTES: usize = 32 << 10;

/// A body on its way around the transport, from a call to its answer.
#[derive(Clone)]
pub(super) struct Framed(Arc<Mutex<Option<Body>>>);

impl Framed {
    /// Answers a call with these responses.
    pub(super) fn attach<M, S>(responses: S) -> Response<Nothing<M>>
    where
        M: Message + 'static,
        S: Stream<Item = Result<M, Status>> + Send + Unpin + 'static,
    {
        let body = Body::new(Responses { responses, end: End::Open });
        let mut response = Response::new(futures::stream::empty());
        response.extensions_mut().insert(Self(Arc::new(Mutex::new(Some(body)))));
        response
    }

    /// Puts the body that a call attached into its answer.
    pub(super) fn put(mut response: http::Response<Body>) -> http::Response<Body> {
        let framed = response.extensions_mut().remove::<Self>();
        match framed.and_then(|framed| framed.0.lock().take()) {
            Some(framed) => response.map(|_| framed),
            None => response,
        }
    }
}

/// Responses as the frames of a body.
struct Responses<S> {
    responses: S,
    end: End,
}

/// How far a stream is on its way to the end.
enum End {
    Open,
    /// What is left to be said.
    Near(Status),
    Said,
}

impl<M, S> Responses<S>
where
    M: Message,
    S: Stream<Item = Result<M, Status>> + Unpin,
{
    /// Puts all responses that are there into `out`, until it is long enough or they end.
    fn gather(&mut self, context: &mut Context<'_>, out: &mut BytesMut) {
        while out.len() < ENOUGH_BYTES && matches!(self.end, End::Open) {
            match Pin::new(&mut self.responses).poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(None) => self.end = End::Near(Status::ok("")),
                Poll::Ready(Some(Err(status))) => self.end = End::Near(status),
                Poll::Ready(Some(Ok(response))) => {
                    if let Err(status) = put(out, &response) {
                        self.end = End::Near(status);
                    }
                }
            }
        }
    }
}

/// Appends a response and what stands before it.
fn put<M: Message>(out: &mut BytesMut, response: &M) -> Result<(), Status> {
    let bytes = response.encoded_len();
    let Ok(length) = u32::try_from(bytes) else {
        return Err(Status::resource_exhausted("the response is too long"));
    };
    out.reserve(PREFIX + bytes);
    out.put_u8(0);
    out.put_u32(length);
    response.encode_raw(out);
    Ok(())
}

impl<M, S> http_body::Body for Responses<S>
where
    M: Message,
    S: Stream<Item = Result<M, Status>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut out = BytesMut::new();
        self.gather(context, &mut out);
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(out.freeze()))));
        }
        match std::mem::replace(&mut self.end, End::Said) {
            End::Open => {
                self.end = End::Open;
                Poll::Pending
            }
            End::Near(status) => {
                let mut trailers = HeaderMap::new();
                let put = status.add_header(&mut trailers);
                Poll::Ready(Some(put.map(|()| Frame::trailers(trailers))))
            }
            End::Said => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.end, End::Said)
    }
}

//! A request being sent.

use bytes::{Buf, Bytes};
use http::HeaderValue;

use crate::push::exchange::Request;

/// A body up to this size goes out in one piece with its head: copying it costs less than two
/// writes.
const COPIED_MAX: usize = 16 * 1024;
/// Size of most heads.
const HEAD_BYTES: usize = 384;

/// What remains to be written of a request.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The head, plus the body if it is small.
    head: Vec<u8>,
    written: usize,
    body: Bytes,
}

impl Outgoing {
    /// The request as bytes, for a host with this name.
    pub(super) fn new(request: &Request, host: &HeaderValue) -> Self {
        let is_copied = request.body.len() <= COPIED_MAX;
        let room = if is_copied { request.body.len() } else { 0 };
        let mut head = Vec::with_capacity(HEAD_BYTES + room);
        put_head(&mut head, request, host);
        let body = match is_copied {
            true => {
                head.extend_from_slice(&request.body);
                Bytes::new()
            }
            false => request.body.clone(),
        };
        Self { head, written: 0, body }
    }

    /// Whether all of it was written.
    pub(super) fn is_sent(&self) -> bool {
        self.written == self.head.len() && self.body.is_empty()
    }

    /// What is left, in two slices.
    pub(super) fn left(&self) -> (&[u8], &[u8]) {
        (self.head.get(self.written..).unwrap_or_default(), &self.body)
    }

    /// Notes that this many bytes were written.
    pub(super) fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len() - self.written);
        self.written += of_head;
        self.body.advance(count - of_head);
    }
}

fn put_head(out: &mut Vec<u8>, request: &Request, host: &HeaderValue) {
    let target = request.endpoint.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut put = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    // A missing path is the root; so is one before a bare query.
    let root: &[u8] = if target.starts_with('/') { b"" } else { b"/" };
    put(&[request.method.as_str().as_bytes(), b" ", root, target.as_bytes()]);
    put(&[b" HTTP/1.1\r\nhost: ", host.as_bytes(), b"\r\n"]);
    for (name, value) in request.headers.iter() {
        put(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    let mut length = itoa::Buffer::new();
    let length = length.format(request.body.len());
    put(&[&request.lines, b"content-length: ", length.as_bytes(), b"\r\n\r\n"]);
}

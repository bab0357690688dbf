//! Any bytes as an endpoint's answer.

use bytes::BytesMut;

use super::body::{Body, Reading};
use super::head;

/// The first byte says in how small pieces the rest comes; what is read must not depend on it.
pub fn answer(input: &[u8]) -> String {
    let (&pieces, bytes) = input.split_first().unwrap_or((&0, &[]));
    let whole = read(bytes, usize::MAX);
    let cut = read(bytes, usize::from(pieces % 32) + 1);
    assert_eq!(whole, cut, "an answer that comes in pieces is another one");
    whole
}

fn read(bytes: &[u8], piece: usize) -> String {
    let mut read = BytesMut::new();
    let mut left = bytes.chunks(piece.min(bytes.len().max(1)));
    let head = loop {
        match head::parse(&read) {
            Ok(Some(head)) => break head,
            Err(bad) => return format!("{bad:?}"),
            Ok(None) => match left.next() {
                Some(more) => read.extend_from_slice(more),
                None => return "no end of the head".to_owned(),
            },
        }
    };
    drop(read.split_to(head.bytes));
    let mut body = Body::new(head.framing);
    let mut reading = body.take(&mut read);
    while reading == Reading::On
        && let Some(more) = left.next()
    {
        read.extend_from_slice(more);
        reading = body.take(&mut read);
    }
    let (status, is_kept, kept) = (head.status, head.is_kept, body.into_bytes());
    assert!(kept.len() <= crate::push::exchange::ANSWER_BYTES_MAX);
    format!("{status} {:?} {is_kept} {reading:?} {kept:?}", head.headers)
}

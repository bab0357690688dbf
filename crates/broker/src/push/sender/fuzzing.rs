//! Feeds arbitrary bytes as an endpoint's answer.

use bytes::BytesMut;
use domain::Timestamp;
use domain::push::{Class, Outcome, Success};

use super::body::{Body, Reading};
use super::head;
use crate::push::exchange::{ANSWER_BYTES_MAX, Answer};
use crate::push::outcome::classify;

/// The first byte sets the size of the pieces in which the rest arrives; the result must not depend
/// on it.
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
    let (status, is_kept, body) = (head.status, head.is_kept, body.into_bytes());
    assert!(body.len() <= ANSWER_BYTES_MAX);
    let said = format!("{status} {:?} {is_kept} {reading:?} {body:?}", head.headers);
    let address = ([127, 0, 0, 1], 80).into();
    let answer = Answer { status, headers: head.headers, body, address };
    format!("{said} {:?}", acked(answer))
}

/// How many messages an answer acks, alone and as an answer to a batch, or how it failed.
fn acked(answer: Answer) -> [Result<usize, Class>; 2] {
    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
    let answer = Ok(answer);
    [(1, false), (10, true)].map(|(sent, is_batch)| {
        match classify(&answer, Success::Google, sent, is_batch, NOW) {
            Outcome::Acked { count, .. } => {
                assert!((1..=sent).contains(&count), "{count} of {sent} are acked");
                Ok(count)
            }
            Outcome::Failed { class, failure, .. } => {
                let message = failure.message.unwrap_or_default();
                assert!(message.len() <= 1_024 && !message.chars().any(char::is_control));
                assert_ne!(class, Class::Ok);
                Err(class)
            }
            Outcome::Unsent(_) | Outcome::PutOff => panic!("there was an answer"),
        }
    })
}

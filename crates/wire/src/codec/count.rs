//! What a message would take in memory, found out from its bytes.

// `SHAPES`: for every message of the definitions, which of its fields are messages, and which.
include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// What a field that is a message takes besides what is in it, about: the object, its place in a
/// list or a map.
const MESSAGE_BYTES: usize = 128;
/// What any other field takes besides its own bytes, about.
const SCALAR_BYTES: usize = 32;

/// What one request may take besides its own bytes. The largest that is allowed, 1,000 messages
/// with 100 attributes each, takes a little less.
pub const WEIGHT_MAX: usize = 24 << 20;

/// Messages inside each other that are looked into; the decoder refuses deeper ones.
const DEPTH_MAX: usize = 100;

/// Why a request is not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncountable {
    /// There is too much in it.
    #[error(
        "the request has too many parts: about {} MiB in memory besides its own bytes is the most; \
         a publish holds 1,000 messages with 100 attributes each, at most",
        WEIGHT_MAX >> 20
    )]
    TooMany,
    /// It holds something that no request of this API does.
    #[error("the request is not well-formed: it has groups")]
    Groups,
}

/// What a message of that shape takes besides its bytes, about. Bytes that make no message weigh
/// what they do up to there: the decoder comes no further.
pub fn weight(bytes: &[u8], shape: usize) -> Result<usize, Uncountable> {
    let mut sum = 0;
    add(bytes, SHAPES.get(shape).copied().unwrap_or_default(), DEPTH_MAX, &mut sum)?;
    Ok(sum)
}

fn add(
    mut bytes: &[u8],
    shape: &[(u64, usize)],
    depth_left: usize,
    sum: &mut usize,
) -> Result<(), Uncountable> {
    while let Some(key) = varint(&mut bytes) {
        let content = match key & 7 {
            0 => varint(&mut bytes).map(|_| None),
            1 => skip(&mut bytes, 8).map(|_| None),
            2 => varint(&mut bytes).and_then(|length| skip(&mut bytes, length)).map(Some),
            5 => skip(&mut bytes, 4).map(|_| None),
            3 | 4 => return Err(Uncountable::Groups),
            _ => None,
        };
        let Some(content) = content else { return Ok(()) };
        let inner = shape.iter().find(|(number, _)| *number == key >> 3);
        *sum += if inner.is_some() { MESSAGE_BYTES } else { SCALAR_BYTES };
        if *sum > WEIGHT_MAX {
            return Err(Uncountable::TooMany);
        }
        if let (Some(content), Some((_, inner)), Some(depth_left)) =
            (content, inner, depth_left.checked_sub(1))
        {
            let inner = SHAPES.get(*inner).copied().unwrap_or_default();
            add(content, inner, depth_left, sum)?;
        }
    }
    Ok(())
}

/// The next number; `None` = there is none that is whole.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn skip<'bytes>(bytes: &mut &'bytes [u8], length: u64) -> Option<&'bytes [u8]> {
    let (skipped, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(skipped)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prost::Message;

    use super::*;
    use crate::codec::Asked;
    use crate::pubsub::{
        AcknowledgeRequest, PublishRequest, PubsubMessage, Subscription, UpdateSubscriptionRequest,
    };

    fn weigh<M: Message + Asked>(message: &M) -> Result<usize, Uncountable> {
        weight(&message.encode_to_vec(), M::SHAPE)
    }

    fn publish(messages: usize, attributes: usize) -> PublishRequest {
        let attributes = (0..attributes).map(|key| (format!("key-{key}"), "value".to_owned()));
        let message = PubsubMessage {
            data: "data".into(),
            ordering_key: "key".to_owned(),
            attributes: attributes.collect(),
            ..PubsubMessage::default()
        };
        PublishRequest {
            topic: "projects/p/topics/t".to_owned(),
            messages: vec![message; messages],
        }
    }

    #[test]
    fn the_largest_publish_that_is_allowed_is_counted_and_fits() {
        let one = weigh(&publish(1, 0)).unwrap();
        assert_eq!(one, SCALAR_BYTES + MESSAGE_BYTES + 2 * SCALAR_BYTES);
        assert!(weigh(&publish(1_000, 100)).unwrap() > WEIGHT_MAX / 2);
    }

    #[test]
    fn what_would_fill_the_memory_is_refused_by_its_bytes_alone() {
        let messages = [0x12, 0].repeat(5 << 20);
        assert_eq!(weight(&messages, PublishRequest::SHAPE), Err(Uncountable::TooMany));
        let ids = [0x12, 0].repeat(5 << 20);
        assert_eq!(weight(&ids, AcknowledgeRequest::SHAPE), Err(Uncountable::TooMany));
        let attributes = publish(1, 500_000);
        assert_eq!(weigh(&attributes), Err(Uncountable::TooMany));
        let labels: BTreeMap<_, _> =
            (0..500_000).map(|key| (key.to_string(), String::new())).collect();
        let deep = UpdateSubscriptionRequest {
            subscription: Some(Subscription { labels, ..Subscription::default() }),
            ..UpdateSubscriptionRequest::default()
        };
        assert_eq!(weigh(&deep), Err(Uncountable::TooMany));
    }

    #[test]
    fn data_is_not_taken_for_messages() {
        let data = [0x12, 0].repeat(4 << 20);
        let message = PubsubMessage { data: data.into(), ..PubsubMessage::default() };
        let request = PublishRequest { messages: vec![message], ..PublishRequest::default() };
        assert!(weigh(&request).unwrap() < 1_000);
    }

    #[test]
    fn bytes_that_make_no_message_end_the_count() {
        let whole = publish(3, 3).encode_to_vec();
        let weight_of = |bytes: &[u8]| weight(bytes, PublishRequest::SHAPE);
        let full = weight_of(&whole).unwrap();
        for end in 0..whole.len() {
            assert!(weight_of(&whole[..end]).unwrap() <= full);
        }
        assert_eq!(weight_of(&[0x13, 0x14]), Err(Uncountable::Groups));
        assert_eq!(weight_of(&[0xff; 20]), Ok(0));
        assert_eq!(
            weight_of(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Ok(0)
        );
        assert_eq!(weight_of(&[0x0f, 0]), Ok(0));
    }
}

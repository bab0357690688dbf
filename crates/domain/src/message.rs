//! A message, and the layout in which a record stores it.
//!
//! The layout is the protobuf encoding of Google's `PubsubMessage` with the id and the publish time
//! filled in, so that delivering a record copies its bytes and encodes nothing:
//!
//! ```text
//! 0a len data | 12 len (0a len key 12 len value) … | 1a len id
//!             | 22 len (08 seconds 10 nanos) | 2a len ordering key
//! ```

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes};

use crate::offset::Offset;
use crate::time::Timestamp;

/// What a publisher sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The bytes to deliver.
    pub data: Bytes,
    /// Names and values delivered along with the data; filters test them.
    pub attributes: BTreeMap<String, String>,
    /// Messages with the same key are delivered in order to a subscription that asks for it; empty
    /// = no key.
    pub ordering_key: String,
}

impl Message {
    /// Its size in a request, without encoding overhead.
    pub fn content_bytes(&self) -> usize {
        let pairs = self.attributes.iter();
        let attributes: usize = pairs.map(|(key, value)| key.len() + value.len()).sum();
        self.data.len() + attributes + self.ordering_key.len()
    }
}

/// The attribute that names the schema a message was validated against. This and the next two are
/// Google's, and only the server sets them.
pub const SCHEMA_NAME: &str = "googclient_schemaname";
/// The attribute that says how such a message is encoded: `JSON` or `BINARY`.
pub const SCHEMA_ENCODING: &str = "googclient_schemaencoding";
/// The attribute that names the schema revision that accepted such a message.
pub const SCHEMA_REVISION: &str = "googclient_schemarevisionid";

/// Whether only the server sets this attribute.
pub fn is_set_by_server(key: &str) -> bool {
    [SCHEMA_NAME, SCHEMA_ENCODING, SCHEMA_REVISION].contains(&key)
}

const DATA: u8 = 0x0a;
const ATTRIBUTE: u8 = 0x12;
const ID: u8 = 0x1a;
const PUBLISH_TIME: u8 = 0x22;
const ORDERING_KEY: u8 = 0x2a;
const PAIR_KEY: u8 = 0x0a;
const PAIR_VALUE: u8 = 0x12;
const SECONDS: u8 = 0x08;
const NANOS: u8 = 0x10;

/// Appends the record body of `message` at `offset` to `out`.
pub fn encode(message: &Message, offset: Offset, publish_time: Timestamp, out: &mut impl BufMut) {
    if !message.data.is_empty() {
        put_bytes(out, DATA, &message.data);
    }
    for (key, value) in &message.attributes {
        out.put_u8(ATTRIBUTE);
        put_varint(out, field_len(key.len()) + field_len(value.len()));
        put_bytes(out, PAIR_KEY, key.as_bytes());
        put_bytes(out, PAIR_VALUE, value.as_bytes());
    }
    let mut digits = [0_u8; 20];
    put_bytes(out, ID, decimal(offset.0, &mut digits));
    out.put_u8(PUBLISH_TIME);
    let (seconds, nanos) = (publish_time.seconds(), u64::from(publish_time.subsecond_nanos()));
    put_varint(out, 2 + varint_len(seconds) + varint_len(nanos));
    out.put_u8(SECONDS);
    put_varint(out, seconds);
    out.put_u8(NANOS);
    put_varint(out, nanos);
    if !message.ordering_key.is_empty() {
        put_bytes(out, ORDERING_KEY, message.ordering_key.as_bytes());
    }
}

/// An upper bound on what `encode` appends for `message`.
pub fn encoded_len_max(message: &Message) -> usize {
    const ID_AND_TIME: usize = 48;
    const PER_FIELD: usize = 16;
    let attributes: usize =
        message.attributes.iter().map(|(key, value)| key.len() + value.len() + PER_FIELD).sum();
    message.data.len() + attributes + message.ordering_key.len() + 2 * PER_FIELD + ID_AND_TIME
}

/// A record body that is not in the layout of `encode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record body is malformed")]
pub struct Malformed;

/// Decodes a message from a record body, without copying the data.
pub fn decode(body: &Bytes) -> Result<Message, Malformed> {
    let mut message = Message::default();
    let mut rest = Fields { bytes: body };
    while let Some((tag, value)) = rest.next_field()? {
        match tag {
            DATA => message.data = body.slice_ref(value),
            ATTRIBUTE => {
                let (key, value) = pair(value)?;
                message.attributes.insert(key.to_owned(), value.to_owned());
            }
            ORDERING_KEY => message.ordering_key = text(value)?.to_owned(),
            ID | PUBLISH_TIME => {}
            _ => return Err(Malformed),
        }
    }
    Ok(message)
}

/// The ordering key inside a record body; empty = none.
pub fn ordering_key(body: &[u8]) -> Result<&str, Malformed> {
    let mut rest = Fields { bytes: body };
    while let Some((tag, value)) = rest.next_field()? {
        if tag == ORDERING_KEY {
            return text(value);
        }
    }
    Ok("")
}

/// The value of attribute `name` inside a record body.
pub fn attribute<'body>(body: &'body [u8], name: &str) -> Result<Option<&'body str>, Malformed> {
    let mut rest = Fields { bytes: body };
    while let Some((tag, value)) = rest.next_field()? {
        if tag == ATTRIBUTE {
            let (key, value) = pair(value)?;
            if key == name {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

/// The data inside a record body; empty = none.
pub fn data(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut rest = Fields { bytes: body };
    let mut data = &[][..];
    while let Some((tag, value)) = rest.next_field()? {
        if tag == DATA {
            data = value;
        }
    }
    Ok(data)
}

/// One part of a message in a record body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'body> {
    /// The data, if there is any.
    Data(&'body [u8]),
    /// An attribute's key and value.
    Attribute(&'body str, &'body str),
    /// The ordering key, if there is one.
    OrderingKey(&'body str),
}

/// The parts of the message in a record body, in storage order: data, attributes by key, ordering
/// key. Ends after the first error.
pub fn parts(body: &[u8]) -> impl Iterator<Item = Result<Part<'_>, Malformed>> + use<'_> {
    let mut rest = Fields { bytes: body };
    std::iter::from_fn(move || {
        let part = next_part(&mut rest);
        if part.is_err() {
            rest.bytes = &[];
        }
        part.transpose()
    })
}

fn next_part<'body>(rest: &mut Fields<'body>) -> Result<Option<Part<'body>>, Malformed> {
    while let Some((tag, value)) = rest.next_field()? {
        return Ok(Some(match tag {
            DATA => Part::Data(value),
            ATTRIBUTE => pair(value).map(|(key, value)| Part::Attribute(key, value))?,
            ORDERING_KEY => Part::OrderingKey(text(value)?),
            ID | PUBLISH_TIME => continue,
            _ => return Err(Malformed),
        }));
    }
    Ok(None)
}

/// A key and its value in a record body.
pub(crate) type BytePair<'body> = (&'body [u8], &'body [u8]);

/// The attributes in a record body, in order. They are returned as bytes, because a caller that
/// only compares them need not validate the UTF-8 again. Ends after the first error.
pub(crate) fn attributes(
    body: &[u8],
) -> impl Iterator<Item = Result<BytePair<'_>, Malformed>> + use<'_> {
    let mut rest = Fields { bytes: body };
    std::iter::from_fn(move || {
        loop {
            match rest.next_field() {
                Ok(Some((ATTRIBUTE, bytes))) => return Some(byte_pair(bytes)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(malformed) => {
                    rest.bytes = &[];
                    return Some(Err(malformed));
                }
            }
        }
    })
}

/// The length-delimited fields of a record body, in order.
struct Fields<'body> {
    bytes: &'body [u8],
}

impl<'body> Fields<'body> {
    fn next_field(&mut self) -> Result<Option<(u8, &'body [u8])>, Malformed> {
        let Some((&tag, rest)) = self.bytes.split_first() else { return Ok(None) };
        let (length, rest) = take_varint(rest)?;
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(Some((tag, value)))
    }
}

fn pair(bytes: &[u8]) -> Result<(&str, &str), Malformed> {
    let (key, value) = byte_pair(bytes)?;
    Ok((text(key)?, text(value)?))
}

fn byte_pair(bytes: &[u8]) -> Result<BytePair<'_>, Malformed> {
    let (mut key, mut value) = (&[][..], &[][..]);
    let mut rest = Fields { bytes };
    while let Some((tag, part)) = rest.next_field()? {
        match tag {
            PAIR_KEY => key = part,
            PAIR_VALUE => value = part,
            _ => return Err(Malformed),
        }
    }
    Ok((key, value))
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

fn put_bytes(out: &mut impl BufMut, tag: u8, bytes: &[u8]) {
    out.put_u8(tag);
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn field_len(length: usize) -> u64 {
    1 + varint_len(length as u64) + length as u64
}

/// Appends `value` as a varint: seven bits at a time, lowest first.
pub(crate) fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.put_u8(low_byte(value));
}

/// Reads what `put_varint` wrote; also returns the rest of the bytes.
pub(crate) fn take_varint(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let mut value = 0_u64;
    let mut rest = bytes;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Malformed)?;
        rest = tail;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(Malformed);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(Malformed)
}

fn varint_len(value: u64) -> u64 {
    u64::from(70 - (value | 1).leading_zeros()) / 7
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Writes `value` in decimal into `digits` and returns the part used.
fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + low_byte(value % 10);
        value /= 10;
        used += 1;
        if value == 0 {
            break;
        }
    }
    digits.get(20 - used..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
        (
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::btree_map(".{0,20}", ".{0,20}", 0..5),
            ".{0,20}",
        )
            .prop_map(|(data, attributes, ordering_key)| Message {
                data: data.into(),
                attributes,
                ordering_key,
            })
    }

    fn collected(body: &[u8]) -> Result<Message, Malformed> {
        let mut message = Message::default();
        for part in parts(body) {
            match part? {
                Part::Data(data) => message.data = Bytes::copy_from_slice(data),
                Part::Attribute(key, value) => {
                    message.attributes.insert(key.to_owned(), value.to_owned());
                }
                Part::OrderingKey(key) => message.ordering_key = key.to_owned(),
            }
        }
        Ok(message)
    }

    proptest! {
        #[test]
        fn a_message_comes_back_byte_for_byte(message in any_message(), offset: u64, time: u64) {
            let mut out = Vec::new();
            encode(&message, Offset(offset), Timestamp(time), &mut out);
            prop_assert!(out.len() <= encoded_len_max(&message));
            let body = Bytes::from(out);
            prop_assert_eq!(ordering_key(&body).unwrap(), message.ordering_key.as_str());
            for (key, value) in &message.attributes {
                prop_assert_eq!(attribute(&body, key).unwrap(), Some(value.as_str()));
            }
            prop_assert_eq!(attribute(&body, "not there, too long to be made").unwrap(), None);
            prop_assert_eq!(decode(&body).unwrap(), message.clone());
            prop_assert_eq!(collected(&body).unwrap(), message);
        }

        #[test]
        fn rubbish_is_refused_and_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let body = Bytes::from(bytes);
            let _ = (decode(&body).is_ok(), ordering_key(&body).is_ok());
            let is_bad = parts(&body).take(99).any(|part| part.is_err());
            prop_assert_eq!(is_bad, decode(&body).is_err());
        }

        #[test]
        fn varints_come_back(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len() as u64, varint_len(value));
            prop_assert_eq!(take_varint(&out).unwrap(), (value, &[][..]));
        }
    }

    #[test]
    fn attributes_come_in_order_and_end_after_an_error() {
        let body = b"\x0a\x01x\x12\x06\x0a\x01a\x12\x01b\x1a\x011\x12\x02\x0a\x00\x12\x09cut";
        let found: Vec<_> = attributes(body).take(9).collect();
        assert_eq!(found, [Ok((&b"a"[..], &b"b"[..])), Ok((b"", b"")), Err(Malformed)]);
    }

    #[test]
    fn the_id_is_the_offset_in_decimal() {
        let mut out = Vec::new();
        encode(&Message::default(), Offset(90_210), Timestamp(1_500_000), &mut out);
        let mut expected = b"\x1a\x0590210".to_vec();
        expected.extend([0x22, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]);
        assert_eq!(out, expected);
    }
}

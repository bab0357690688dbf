//! A message as JSON, written in one pass.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::Record;
use domain::message::{Malformed, Part, parts};

/// How often the id and the time appear in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As in the JSON of Google's API.
    Once,
    /// In both spellings, as in Google's push envelopes.
    Twice,
}

/// The message as Google's JSON object. It is the same for all subscriptions.
pub(crate) fn message_json(record: &Record, spelling: Spelling) -> Result<Bytes, Malformed> {
    let mut out = Vec::with_capacity(message_bytes(record));
    put_message(&mut out, record, spelling)?;
    Ok(out.into())
}

/// Approximate size of a message's JSON.
pub(super) fn message_bytes(record: &Record) -> usize {
    // Base64 takes a third more, ids and times appear twice, and most texts need no escapes.
    const AROUND: usize = 256;
    record.body.len() / 3 * 4 + AROUND
}

/// Appends the message as JSON.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    record: &Record,
    spelling: Spelling,
) -> Result<(), Malformed> {
    let (mut data, mut ordering_key): (&[u8], &str) = (&[], "");
    let mut has_attributes = false;
    out.push(b'{');
    for part in parts(&record.body) {
        match part? {
            Part::Data(bytes) => data = bytes,
            Part::OrderingKey(key) => ordering_key = key,
            Part::Attribute(key, value) => {
                let is_first = !std::mem::replace(&mut has_attributes, true);
                out.extend_from_slice(if is_first { b"\"attributes\":{" } else { b"," });
                put_string(out, key);
                out.push(b':');
                put_string(out, value);
            }
        }
    }
    if has_attributes {
        out.extend_from_slice(b"},");
    }
    // Receivers written for Google's push expect it, even if it is empty.
    if !data.is_empty() || spelling == Spelling::Twice {
        out.extend_from_slice(b"\"data\":\"");
        put_base64(out, data);
        out.extend_from_slice(b"\",");
    }
    let (id, time) = (record.offset.0, record.publish_time);
    put_text(out, ["messageId", "message_id"], spelling, |out| put_number(out, id));
    out.push(b',');
    put_text(out, ["publishTime", "publish_time"], spelling, |out| {
        time.put_rfc3339_micros(out);
    });
    if !ordering_key.is_empty() {
        out.extend_from_slice(b",\"orderingKey\":");
        put_string(out, ordering_key);
    }
    out.push(b'}');
    Ok(())
}

/// The data of the message. Copied: the record is part of a large buffer, which a hanging request
/// must not pin.
pub(super) fn data(record: &Record) -> Result<Bytes, Malformed> {
    let mut found: &[u8] = &[];
    for part in parts(&record.body) {
        if let Part::Data(data) = part? {
            found = data;
        }
    }
    Ok(Bytes::copy_from_slice(found))
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// `"one":"text"` or `"one":"text","two":"text"`, for a text with nothing to escape.
fn put_text(
    out: &mut Vec<u8>,
    [one, two]: [&str; 2],
    spelling: Spelling,
    put: impl FnOnce(&mut Vec<u8>),
) {
    for piece in ["\"", one, "\":\""] {
        out.extend_from_slice(piece.as_bytes());
    }
    let begin = out.len();
    put(out);
    let end = out.len();
    if spelling == Spelling::Twice {
        for piece in ["\",\"", two, "\":\""] {
            out.extend_from_slice(piece.as_bytes());
        }
        out.extend_from_within(begin..end);
    }
    out.push(b'"');
}

fn put_base64(out: &mut Vec<u8>, data: &[u8]) {
    let begin = out.len();
    out.resize(begin + data.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(data, &mut out[begin..]);
    assert_eq!(written.ok(), Some(out.len() - begin), "base64 takes four bytes for three");
}

/// Appends `text` as a JSON string: quotes, backslashes and control characters are escaped.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

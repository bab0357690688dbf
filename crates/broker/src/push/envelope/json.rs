//! A message as JSON, written in one go.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::Record;
use domain::message::{Malformed, Part, parts};

use crate::rfc3339;

/// The message as Google's JSON object has it. It is the same for all subscriptions.
pub(crate) fn message_json(record: &Record) -> Result<Bytes, Malformed> {
    // Base64 takes a third more, ids and times stand twice, and most texts need no escapes.
    const AROUND: usize = 256;
    let mut out = Vec::with_capacity(record.body.len() / 3 * 4 + AROUND);
    let (mut data, mut ordering_key): (&[u8], &str) = (&[], "");
    out.push(b'{');
    for part in parts(&record.body) {
        match part? {
            Part::Data(bytes) => data = bytes,
            Part::OrderingKey(key) => ordering_key = key,
            Part::Attribute(key, value) => put_attribute(&mut out, key, value),
        }
    }
    if out.len() > 1 {
        out.extend_from_slice(b"},");
    }
    if !data.is_empty() {
        out.extend_from_slice(b"\"data\":\"");
        put_base64(&mut out, data);
        out.extend_from_slice(b"\",");
    }
    let id = record.offset.to_string();
    put_twice(&mut out, "messageId", "message_id", &id);
    out.push(b',');
    put_twice(&mut out, "publishTime", "publish_time", &rfc3339::text(record.publish_time));
    if !ordering_key.is_empty() {
        out.extend_from_slice(b",\"orderingKey\":");
        put_string(&mut out, ordering_key);
    }
    out.push(b'}');
    Ok(out.into())
}

/// The data of the message. Copied: the record is part of a large buffer, which a request that
/// hangs must not keep.
pub(super) fn data(record: &Record) -> Result<Bytes, Malformed> {
    let mut found: &[u8] = &[];
    for part in parts(&record.body) {
        if let Part::Data(data) = part? {
            found = data;
        }
    }
    Ok(Bytes::copy_from_slice(found))
}

fn put_attribute(out: &mut Vec<u8>, key: &str, value: &str) {
    let is_first = out.len() == 1;
    out.extend_from_slice(if is_first { b"\"attributes\":{" } else { b"," });
    put_string(out, key);
    out.push(b':');
    put_string(out, value);
}

/// `"one":"text","two":"text"`, for a text without anything to escape.
fn put_twice(out: &mut Vec<u8>, one: &str, two: &str, text: &str) {
    for piece in ["\"", one, "\":\"", text, "\",\"", two, "\":\"", text, "\""] {
        out.extend_from_slice(piece.as_bytes());
    }
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

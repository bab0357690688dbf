//! Bytes that nobody of ours wrote, given to what reads pushes. For fuzzing alone.

use bytes::Bytes;
use domain::Timestamp;
use domain::push::Secret;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::token::{Gatekeeper, Refusal};
use super::{Keys, Oidc, Verifier, envelope, unwrapped};

/// 2026-11-16, when the tokens among the seeds are good.
const NOW: Timestamp = Timestamp(1_794_787_200_000_000);

/// Any bytes as a body in Google's envelope; and with lines of headers in front, as a message
/// whose data is sent alone, and as a signed one.
pub fn envelope(input: &[u8]) -> String {
    let said = match envelope::read(input) {
        Ok(message) => {
            assert!(!message.id.is_empty(), "a message without an id");
            "read".to_owned()
        }
        Err(broken) => format!("{:?}", broken.failure),
    };
    let (headers, body) = headers(input);
    let unwrapped = unwrapped::read(&headers, Bytes::copy_from_slice(body));
    let signed = Verifier::new(&[Secret::new(b"a secret of tests, of 32 bytes..")])
        .map(|verifier| verifier.check(&headers, body, NOW));
    assert_ne!(signed, Some(Ok(())), "nobody signed this");
    format!("{said}; {:?}; {signed:?}", unwrapped.map(|message| message.attributes.len()))
}

/// Any text as a bearer token, and any text as a set of keys.
pub fn token(input: &[u8]) -> String {
    let (token, keys) = match input.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    let oidc = Oidc {
        audience: "https://push.example".to_owned(),
        email: Some("push@example.com".to_owned()),
        issuer: None,
        keys: Keys::Set(String::from_utf8_lossy(keys).into_owned()),
    };
    let mut headers = HeaderMap::new();
    let value = [b"Bearer ", token].concat();
    match HeaderValue::from_bytes(&value) {
        Ok(value) => headers.insert(http::header::AUTHORIZATION, value),
        Err(_) => return "no header".to_owned(),
    };
    let gatekeeper = match Gatekeeper::new(oidc) {
        Ok(gatekeeper) => gatekeeper,
        Err(problem) => return problem,
    };
    // Keys that are given are not waited for.
    match gatekeeper.check(&headers, NOW).now_or_never() {
        Some(Err(Refusal::Bad(why))) => why.to_owned(),
        other => panic!("a token that nobody signed: {other:?}"),
    }
}

/// The lines in front of an empty one as headers; what is none is passed over.
fn headers(input: &[u8]) -> (HeaderMap, &[u8]) {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((&[][..], input), |at| (&input[..at], &input[at + 2..]));
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
        let value = parts.next().map(<[u8]>::trim_ascii).map(HeaderValue::from_bytes);
        if let (Some(name), Some(Ok(value))) = (name, value) {
            headers.append(name, value);
        }
    }
    (headers, body)
}

//! The head of an answer: its status line, its headers, and what they say about the body.

use std::mem::MaybeUninit;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::body::Framing;

/// Maximum bytes of an answer's head.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of headers of an answer.
const HEADERS_MAX: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the connection may be reused after the body.
    pub(super) is_kept: bool,
    /// Its length in bytes.
    pub(super) bytes: usize,
}

/// Why bytes are not the head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    TooLarge,
    /// One interim answer after another, and no final one.
    OnlyInterim,
    /// The problem, as text.
    NotHttp(&'static str),
}

/// The head at the beginning of `read`; `None` = it is not complete yet.
pub(super) fn parse(read: &[u8]) -> Result<Option<Head>, BadHead> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, read, &mut headers);
    let bytes = match parsed {
        Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(httparse::Status::Partial) if read.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLarge),
        Err(error) => return Err(BadHead::NotHttp(in_words(error))),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let status = status.map_err(|_| {
        BadHead::NotHttp(
            "its status is not a number from 100 to \
                                                      999",
        )
    })?;
    let is_old = response.version == Some(0);
    let mut said = BodyHeaders { is_kept: !is_old, ..BodyHeaders::default() };
    let mut kept = HeaderMap::new();
    for header in response.headers.iter() {
        said.note(header)?;
        let name = HeaderName::from_bytes(header.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) {
            kept.append(name, value);
        }
    }
    let (framing, is_kept) = said.framing(status);
    Ok(Some(Head { status, headers: kept, framing, is_kept, bytes }))
}

/// What the headers say about body and connection.
#[derive(Default)]
struct BodyHeaders {
    is_kept: bool,
    length: Option<u64>,
    is_encoded: bool,
    is_chunked: bool,
}

impl BodyHeaders {
    fn note(&mut self, header: &httparse::Header<'_>) -> Result<(), BadHead> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let length = number(header.value);
            let is_new = self.length.is_none() || self.length == length;
            self.length = length.filter(|_| is_new);
            if self.length.is_none() {
                return Err(BadHead::NotHttp("its content-length is not a number"));
            }
        } else if is("transfer-encoding") {
            self.is_encoded = true;
            let last = words(header.value).last();
            self.is_chunked = last.is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
        } else if is("connection") {
            for word in words(header.value) {
                if word.eq_ignore_ascii_case(b"close") {
                    self.is_kept = false;
                } else if word.eq_ignore_ascii_case(b"keep-alive") {
                    self.is_kept = true;
                }
            }
        }
        Ok(())
    }

    /// According to RFC 9112, section 6.3.
    fn framing(&self, status: StatusCode) -> (Framing, bool) {
        let is_kept = self.is_kept && status != StatusCode::SWITCHING_PROTOCOLS;
        if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
            return (Framing::Length(0), is_kept);
        }
        match self.length {
            // Having both is a sign of request smuggling.
            Some(_) if self.is_encoded && self.is_chunked => (Framing::Chunked, false),
            None if self.is_chunked => (Framing::Chunked, is_kept),
            Some(length) if !self.is_encoded => (Framing::Length(length), is_kept),
            _ => (Framing::UntilClosed, false),
        }
    }
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_plain.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}

fn in_words(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::Version => "its version is not supported",
        httparse::Error::Status => "its status line cannot be read",
        httparse::Error::HeaderName => "the name of a header cannot be read",
        httparse::Error::HeaderValue => "the value of a header cannot be read",
        _ => "its head cannot be read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(text: &str) -> (Framing, bool) {
        let head = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(head.bytes, text.len());
        (head.framing, head.is_kept)
    }

    #[test]
    fn what_follows_a_head_is_known_from_it() {
        for (head, expected) in [
            ("HTTP/1.1 204 No Content\r\n\r\n", (Framing::Length(0), true)),
            ("HTTP/1.1 204 x\r\ncontent-length: 9\r\n\r\n", (Framing::Length(0), true)),
            ("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", (Framing::Length(0), true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", (Framing::Length(12), true)),
            ("HTTP/1.1 200\r\ncontent-length:  7 \r\n\r\n", (Framing::Length(7), true)),
            ("HTTP/1.1 200 OK\r\n\r\n", (Framing::UntilClosed, false)),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: x, Close\r\n\r\n",
                (Framing::Length(3), false),
            ),
            ("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n", (Framing::Length(3), false)),
            (
                "HTTP/1.0 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\n",
                (Framing::Length(3), true),
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", (Framing::Chunked, true)),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n",
                (Framing::Chunked, true),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\ncontent-length: 3\r\n\r\n",
                (Framing::UntilClosed, false),
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
                (Framing::Chunked, false),
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\n",
                (Framing::Length(3), true),
            ),
            ("HTTP/1.1 101 x\r\nconnection: upgrade\r\n\r\n", (Framing::Length(0), false)),
        ] {
            assert_eq!(framing(head), expected, "{head}");
        }
    }

    #[test]
    fn lengths_that_are_none_are_refused() {
        for lengths in [
            "content-length: -1",
            "content-length: +1",
            "content-length: 1 2",
            "content-length: 1, 1",
            "content-length:",
            "content-length: 99999999999999999999",
            "content-length: 1\r\ncontent-length: 2",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n");
            assert!(parse(text.as_bytes()).is_err(), "{lengths}");
        }
    }

    #[test]
    fn a_head_cut_anywhere_is_not_whole() {
        let text = b"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 3\r\n\r\n";
        for end in 0..text.len() {
            assert!(parse(&text[..end]).unwrap().is_none(), "{end}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(long.as_bytes()).unwrap_err(), BadHead::TooLarge);
        let long = format!("{long}\r\n\r\n");
        assert_eq!(parse(long.as_bytes()).unwrap_err(), BadHead::TooLarge);
    }
}

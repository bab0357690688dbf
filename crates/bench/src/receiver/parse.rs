//! HTTP/1.1 requests with a `content-length`, and nothing else of HTTP.

use anyhow::{Context, Result, ensure};

/// Largest head and body taken, above everything that a push may send.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 64 << 20;

/// What is at the beginning of the bytes read so far.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed<'a> {
    Whole(Request<'a>),
    /// A part of a request; at least so many more bytes are missing.
    Partial {
        missing: usize,
    },
}

/// One request.
#[derive(Debug, PartialEq)]
pub(super) struct Request<'a> {
    pub(super) path: &'a str,
    pub(super) body: &'a [u8],
    /// Messages in the body, by its `postrider-batch-size`.
    pub(super) messages: u64,
    /// Bytes of head and body.
    pub(super) bytes: usize,
}

/// Reads the first request; an error if it never will be one.
pub(super) fn parse(read: &[u8]) -> Result<Parsed<'_>> {
    let Some(head) = head(read)? else {
        ensure!(read.len() <= HEAD_BYTES_MAX, "a head of more than {HEAD_BYTES_MAX} bytes");
        return Ok(Parsed::Partial { missing: 1 });
    };
    let length = head.length.context("a request without content-length")?;
    ensure!(length <= BODY_BYTES_MAX, "a body of {length} bytes");
    let bytes = head.bytes + length;
    match read.get(head.bytes..bytes) {
        Some(body) => {
            let (path, messages) = (head.path, head.messages);
            Ok(Parsed::Whole(Request { path, body, messages, bytes }))
        }
        None => Ok(Parsed::Partial { missing: bytes - read.len() }),
    }
}

struct Head<'a> {
    path: &'a str,
    length: Option<usize>,
    messages: u64,
    bytes: usize,
}

/// The whole head, or none if its end has not been read.
fn head(read: &[u8]) -> Result<Option<Head<'_>>> {
    let mut lines = Lines { read, at: 0 };
    let Some(first) = lines.next()? else { return Ok(None) };
    let mut head = Head { path: path(first)?, length: None, messages: 1, bytes: 0 };
    loop {
        let Some(line) = lines.next()? else { return Ok(None) };
        if line.is_empty() {
            head.bytes = lines.at;
            return Ok(Some(head));
        }
        header(line, &mut head)?;
    }
}

struct Lines<'a> {
    read: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line without its end, or none if its end has not been read.
    fn next(&mut self) -> Result<Option<&'a [u8]>> {
        let rest = &self.read[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r").context("a line without a carriage return")?;
        Ok(Some(line))
    }
}

/// The path of `POST /path HTTP/1.1`.
fn path(line: &[u8]) -> Result<&str> {
    let line = str::from_utf8(line).context("a request line that is not text")?;
    let rest = line.strip_suffix(" HTTP/1.1").with_context(|| format!("not HTTP/1.1: {line}"))?;
    let (method, path) = rest.split_once(' ').with_context(|| format!("no path: {line}"))?;
    ensure!(matches!(method, "POST" | "PUT" | "PATCH"), "method {method}");
    ensure!(path.starts_with('/') && !path.contains(' '), "path {path}");
    Ok(path)
}

/// Takes note of the few headers that matter.
fn header(line: &[u8], head: &mut Head<'_>) -> Result<()> {
    let colon = line.iter().position(|byte| *byte == b':').context("a header without a colon")?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    ensure!(!name.is_empty() && !name.contains(&b' '), "a header without a proper name");
    if name.eq_ignore_ascii_case(b"content-length") {
        ensure!(head.length.is_none(), "two lengths");
        head.length = Some(number(value).context("content-length")?);
    } else if name.eq_ignore_ascii_case(b"postrider-batch-size") {
        head.messages = number(value).context("postrider-batch-size")? as u64;
    }
    ensure!(!name.eq_ignore_ascii_case(b"transfer-encoding"), "a body in chunks");
    Ok(())
}

fn number(value: &[u8]) -> Result<usize> {
    ensure!(!value.is_empty() && value.iter().all(u8::is_ascii_digit), "not a number");
    Ok(str::from_utf8(value)?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"POST /ok/7 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc\
        PUT /fail/0 HTTP/1.1\r\ncontent-length:0\r\npostrider-batch-size: 100\r\n\r\n";

    fn whole(read: &[u8]) -> Request<'_> {
        match parse(read).unwrap() {
            Parsed::Whole(request) => request,
            Parsed::Partial { missing } => panic!("{missing} bytes missing"),
        }
    }

    #[test]
    fn requests_that_come_together_are_taken_one_by_one() {
        let first = whole(TWO);
        assert_eq!((first.path, first.body, first.messages), ("/ok/7", &b"abc"[..], 1));
        let second = whole(&TWO[first.bytes..]);
        assert_eq!((second.path, second.body, second.messages), ("/fail/0", &b""[..], 100));
        assert_eq!(first.bytes + second.bytes, TWO.len());
    }

    #[test]
    fn a_request_cut_anywhere_is_a_part_and_never_a_whole_one() {
        let bytes = whole(TWO).bytes;
        for cut in 0..bytes {
            let Parsed::Partial { missing } = parse(&TWO[..cut]).unwrap() else {
                panic!("whole at {cut}");
            };
            assert!(missing > 0 && cut + missing <= bytes, "cut at {cut}");
        }
    }

    #[test]
    fn a_missing_body_is_known_to_the_byte() {
        let head = b"POST / HTTP/1.1\r\ncontent-length: 1000\r\n\r\nab";
        assert_eq!(parse(head).unwrap(), Parsed::Partial { missing: 998 });
    }

    #[test]
    fn what_is_not_a_plain_request_is_refused() {
        for bad in [
            "GET /ok/1 HTTP/1.1\r\n\r\n",
            "POST /ok/1 HTTP/1.0\r\n\r\n",
            "POST HTTP/1.1\r\n\r\n",
            "POST /a b HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\ncontent-length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
            "POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\na",
            "POST / HTTP/1.1\r\ncontent-length 1\r\n\r\na",
            "POST / HTTP/1.1\r\ncontent-length : 1\r\n\r\na",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(parse(&vec![b'a'; HEAD_BYTES_MAX + 1]).is_err());
    }
}

//! The body of an answer, as much of it as is kept.

use bytes::{Buf, Bytes, BytesMut};

use crate::push::exchange::ANSWER_BYTES_MAX;

/// Maximum bytes around the chunks of a body: sizes, extensions, trailers.
const AROUND_BYTES_MAX: usize = 16 * 1024;

/// How the end of a body is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    Chunked,
    UntilClosed,
}

/// How far a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// There is more to come.
    On,
    /// It is complete.
    Done,
    /// It is too large or malformed: there will be no more than what came so far.
    Over,
}

/// A body being received.
#[derive(Debug)]
pub(super) struct Body {
    framing: Framing,
    chunk: Chunk,
    /// Bytes around the chunks so far.
    around: usize,
    kept: Vec<u8>,
}

/// The position of the next byte in a chunked body.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    /// In the size of a chunk; `None` = before its first digit.
    Size(Option<u64>),
    /// After the size.
    Extension(u64),
    Data(u64),
    /// After the data: the end of its line.
    DataEnd,
    /// At the beginning of a trailer line.
    Trailer,
    /// In a trailer line.
    TrailerLine,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, chunk: Chunk::Size(None), around: 0, kept: Vec::new() }
    }

    /// Takes this body's part from the beginning of `read`.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Reading {
        match self.framing {
            Framing::Length(left) => {
                let (left, reading) = self.keep(left, read);
                self.framing = Framing::Length(left);
                match reading {
                    Reading::On if left == 0 => Reading::Done,
                    other => other,
                }
            }
            Framing::UntilClosed => self.keep(u64::MAX, read).1,
            Framing::Chunked => self.take_chunks(read),
        }
    }

    /// What was received.
    pub(super) fn into_bytes(self) -> Bytes {
        self.kept.into()
    }

    /// Keeps up to `left` bytes, and returns how many are then left.
    fn keep(&mut self, left: u64, read: &mut BytesMut) -> (u64, Reading) {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(read.len());
        let room = ANSWER_BYTES_MAX - self.kept.len();
        self.kept.extend_from_slice(&read[..count.min(room)]);
        read.advance(count);
        let reading = if count > room { Reading::Over } else { Reading::On };
        (left - count as u64, reading)
    }

    fn take_chunks(&mut self, read: &mut BytesMut) -> Reading {
        while !read.is_empty() {
            if let Chunk::Data(left) = self.chunk {
                let (left, reading) = self.keep(left, read);
                self.chunk = if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) };
                if reading == Reading::Over {
                    return Reading::Over;
                }
                continue;
            }
            self.around += 1;
            let next = next(self.chunk, read.get_u8());
            match next.filter(|_| self.around <= AROUND_BYTES_MAX) {
                Some(Next::Chunk(chunk)) => self.chunk = chunk,
                Some(Next::End) => return Reading::Done,
                None => return Reading::Over,
            }
        }
        Reading::On
    }
}

enum Next {
    Chunk(Chunk),
    /// The body ends with this byte.
    End,
}

/// Where a non-data byte leads; `None` = it is not allowed there.
fn next(chunk: Chunk, byte: u8) -> Option<Next> {
    let begin = |size: u64| if size == 0 { Chunk::Trailer } else { Chunk::Data(size) };
    let digit = || (byte as char).to_digit(16).map(u64::from);
    Some(Next::Chunk(match (chunk, byte) {
        (Chunk::Size(Some(size)) | Chunk::Extension(size), b'\n') => begin(size),
        (Chunk::Size(Some(size)), b'\r' | b';' | b' ' | b'\t') | (Chunk::Extension(size), _) => {
            Chunk::Extension(size)
        }
        (Chunk::Size(size), _) => {
            let size = size.unwrap_or(0).checked_mul(16)?;
            Chunk::Size(Some(size.checked_add(digit()?)?))
        }
        (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Size(None),
        (Chunk::DataEnd | Chunk::Data(_), _) => return None,
        (Chunk::Trailer, b'\n') => return Some(Next::End),
        (Chunk::Trailer, b'\r') => Chunk::Trailer,
        (Chunk::TrailerLine, b'\n') => Chunk::Trailer,
        (Chunk::Trailer | Chunk::TrailerLine, _) => Chunk::TrailerLine,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `pieces` one after the other; also returns what is left over.
    fn read(framing: Framing, pieces: &[&[u8]]) -> (Reading, Vec<u8>, usize) {
        let (mut body, mut buffer, mut reading) = (Body::new(framing), BytesMut::new(), None);
        for piece in pieces {
            assert!(reading.is_none_or(|reading| reading == Reading::On));
            buffer.extend_from_slice(piece);
            reading = Some(body.take(&mut buffer));
        }
        (reading.unwrap(), body.into_bytes().to_vec(), buffer.len())
    }

    #[test]
    fn a_body_ends_where_its_framing_says() {
        let length = Framing::Length(3);
        assert_eq!(read(length, &[b"ab"]), (Reading::On, b"ab".to_vec(), 0));
        assert_eq!(read(length, &[b"ab", b"cd"]), (Reading::Done, b"abc".to_vec(), 1));
        assert_eq!(read(Framing::Length(0), &[b""]), (Reading::Done, vec![], 0));
        assert_eq!(read(Framing::UntilClosed, &[b"ab"]), (Reading::On, b"ab".to_vec(), 0));
        let text = b"3;x=y\r\nabc\r\n0A \r\n0123456789\r\n0\r\nx: y\r\n\r\nHTTP";
        let expected = (Reading::Done, b"abc0123456789".to_vec(), 4);
        assert_eq!(read(Framing::Chunked, &[text]), expected);
    }

    #[test]
    fn chunks_that_are_none_end_the_body() {
        for (text, kept) in [
            ("zz\r\n", ""),
            ("\r\n", ""),
            ("-1\r\n", ""),
            ("3\r\nabcd\r\n", "abc"),
            ("11111111111111111\r\n", ""),
        ] {
            let (reading, body, _) = read(Framing::Chunked, &[text.as_bytes()]);
            assert_eq!((reading, &body[..]), (Reading::Over, kept.as_bytes()), "{text}");
        }
        let endless = format!("1;{}", "x".repeat(AROUND_BYTES_MAX));
        assert_eq!(read(Framing::Chunked, &[endless.as_bytes()]).0, Reading::Over);
        let trailer = format!("0\r\n{}", "x: y\r\n".repeat(AROUND_BYTES_MAX));
        assert_eq!(read(Framing::Chunked, &[trailer.as_bytes()]).0, Reading::Over);
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let large = vec![b'x'; ANSWER_BYTES_MAX + 1];
        for framing in [Framing::Length(1 << 30), Framing::UntilClosed] {
            let (reading, body, _) = read(framing, &[&large]);
            assert_eq!((reading, body.len()), (Reading::Over, ANSWER_BYTES_MAX));
        }
    }

    proptest! {
        #[test]
        fn chunks_may_be_cut_anywhere(
            data in proptest::collection::vec(any::<u8>(), 0..200),
            sizes in proptest::collection::vec(1..40_usize, 1..20),
            cut in 0..400_usize,
        ) {
            let (mut text, mut rest) = (Vec::new(), &data[..]);
            for size in sizes.iter().cycle() {
                let (chunk, behind) = rest.split_at((*size).min(rest.len()));
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
                rest = behind;
                if chunk.is_empty() {
                    break;
                }
            }
            let (one, two) = text.split_at(cut.min(text.len() - 1));
            prop_assert_eq!(read(Framing::Chunked, &[one, two]), (Reading::Done, data, 0));
        }

        #[test]
        fn whatever_comes_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let (_, body, _) = read(Framing::Chunked, &[&bytes]);
            prop_assert!(body.len() <= bytes.len());
        }
    }
}

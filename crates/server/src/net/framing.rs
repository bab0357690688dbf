//! Where the messages of gRPC begin and end: five bytes tell the length of what follows.

use bytes::Bytes;
use http_body::Frame;

const PREFIX: usize = 5;

/// Reads the prefixes of messages, however they are cut.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: [u8; PREFIX],
    prefix_bytes: usize,
    /// What is missing of the present message.
    missing: usize,
    largest: usize,
}

impl Messages {
    pub(super) fn note(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            let skipped = self.missing.min(rest.len());
            self.missing -= skipped;
            rest = rest.get(skipped..).unwrap_or_default();
            let Some((byte, after)) = rest.split_first() else { return };
            if let Some(place) = self.prefix.get_mut(self.prefix_bytes) {
                *place = *byte;
            }
            self.prefix_bytes += 1;
            rest = after;
            if self.prefix_bytes == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.missing = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.largest = self.largest.max(self.missing);
                self.prefix_bytes = 0;
            }
        }
    }

    /// The length of the longest message so far.
    pub(super) fn largest(&self) -> usize {
        self.largest
    }
}

/// Holds back the end of the one message of a call until its body has ended.
#[derive(Debug, Default)]
pub(super) struct Gather {
    prefix: [u8; PREFIX],
    received: usize,
    held: Option<Bytes>,
    /// What came behind the data, to be passed on behind it.
    last: Option<Frame<Bytes>>,
}

/// A call with one request has sent more behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Surplus;

impl Gather {
    pub(super) fn note(&mut self, data: &[u8]) {
        let places = self.prefix.iter_mut().skip(self.received);
        places.zip(data).for_each(|(place, byte)| *place = *byte);
        self.received = self.received.saturating_add(data.len());
    }

    /// The length of the message with its prefix, once that is there.
    pub(super) fn expects(&self) -> Option<usize> {
        let [_, length @ ..] = self.prefix;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        (self.received >= PREFIX).then(|| length.saturating_add(PREFIX))
    }

    /// What to pass on for a frame that was noted; nothing if it is held back. `has_ended` = no
    /// other frame follows.
    pub(super) fn pass(
        &mut self,
        frame: Frame<Bytes>,
        has_ended: bool,
    ) -> Result<Option<Frame<Bytes>>, Surplus> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(last) => {
                self.last = Some(last);
                return Ok(self.next());
            }
        };
        if self.held.is_some() && !data.is_empty() {
            return Err(Surplus);
        }
        let data = self.held.take().unwrap_or(data);
        if !has_ended && self.expects().is_some_and(|bytes| self.received >= bytes) {
            self.held = Some(data);
            return Ok(None);
        }
        Ok(Some(Frame::data(data)))
    }

    /// What was held back, once nothing more comes.
    pub(super) fn end(&mut self) -> Option<Frame<Bytes>> {
        self.held.take().map(Frame::data)
    }

    /// What is to be passed on before anything else is read.
    pub(super) fn next(&mut self) -> Option<Frame<Bytes>> {
        if self.last.is_none() { None } else { self.end().or_else(|| self.last.take()) }
    }

    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some() || self.last.is_some()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    /// A message of this many bytes with its prefix.
    fn message(length: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, length];
        bytes.extend((0..length).map(|_| 7));
        bytes
    }

    #[test]
    fn the_longest_message_is_known_however_it_is_cut() {
        let bytes = [message(3), message(0), message(9), message(1)].concat();
        for size in 1..bytes.len() {
            let mut messages = Messages::default();
            bytes.chunks(size).for_each(|part| messages.note(part));
            assert_eq!((messages.largest(), messages.missing), (9, 0), "{size}");
        }
        let mut messages = Messages::default();
        messages.note(&[1, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(messages.largest(), u32::MAX as usize);
    }

    /// What is passed on for each part, and what at the end.
    fn pass(parts: &[&[u8]], ends_with_last: bool) -> (Vec<usize>, Option<usize>) {
        let mut gather = Gather::default();
        let mut passed = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            gather.note(part);
            let has_ended = ends_with_last && index + 1 == parts.len();
            let frame = Frame::data(Bytes::copy_from_slice(part));
            let frame = gather.pass(frame, has_ended).unwrap();
            passed.push(frame.map_or(0, |frame| frame.into_data().unwrap().len()));
        }
        (passed, gather.end().map(|frame| frame.into_data().unwrap().len()))
    }

    #[test]
    fn the_end_of_a_message_waits_for_the_end_of_the_body() {
        let whole = message(10);
        let (start, end) = whole.split_at(8);
        assert_eq!(pass(&[&whole], true), (vec![15], None));
        assert_eq!(pass(&[&whole], false), (vec![0], Some(15)));
        assert_eq!(pass(&[&whole, b""], true), (vec![0, 15], None));
        assert_eq!(pass(&[start, end], false), (vec![8, 0], Some(7)));
        assert_eq!(pass(&[start, end], true), (vec![8, 7], None));
        assert_eq!(pass(&[&whole[..2], &whole[2..]], false), (vec![2, 0], Some(13)));
        assert_eq!(pass(&[start], false), (vec![8], None));
        assert_eq!(pass(&[&message(0)], false), (vec![0], Some(5)));
    }

    #[test]
    fn trailers_go_behind_what_was_held_back() {
        let mut gather = Gather::default();
        gather.note(&message(1));
        assert!(gather.pass(Frame::data(message(1).into()), false).unwrap().is_none());
        let trailers = Frame::trailers(HeaderMap::new());
        assert!(gather.pass(trailers, false).unwrap().unwrap().is_data());
        assert!(gather.is_holding());
        assert!(gather.next().unwrap().is_trailers());
        assert!(!gather.is_holding());
    }

    #[test]
    fn one_request_is_one_request() {
        let mut gather = Gather::default();
        gather.note(&message(1));
        assert!(gather.pass(Frame::data(message(1).into()), false).unwrap().is_none());
        gather.note(&message(1));
        assert_eq!(gather.pass(Frame::data(message(1).into()), false).unwrap_err(), Surplus);
    }
}

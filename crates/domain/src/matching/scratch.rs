//! What matching needs besides the index, reused for every message.

use super::paths::{ATTRIBUTES, DATA, Paths};
use crate::filter::Seen;
use crate::json::{self, Members, NotJson, Number, Value};
use crate::message::{self, Malformed};

/// How much buffer for unescaped strings is kept; more is released after the message.
const TEXT_BYTES_KEPT: usize = 64 << 10;

/// Working memory for matching one message at a time. Keep one per thread, so that matching does
/// not allocate.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The current message's number: anything noted under another number is stale.
    round: u32,
    /// By path.
    slots: Vec<Slot>,
    /// The paths that the message has, attributes first.
    pub(super) found: Vec<u32>,
    /// Unescaped copies of strings in the data that had escapes.
    text: String,
    /// The round in which each group was last met, by group.
    met: Vec<u32>,
    /// One encoded value.
    pub(super) key: Vec<u8>,
    readable: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    round: u32,
    what: What,
}

/// A value, with strings and lists as places in the message or in `text`.
#[derive(Clone, Copy, Debug)]
enum What {
    Null,
    Bool(bool),
    Number(Number),
    Attribute(Span),
    Text(Span),
    Unescaped(Span),
    List(Span),
    Object(Span),
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// The message to match.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'message> {
    /// The record body, in the layout of `message::encode`; the attributes come from it.
    pub record: &'message [u8],
    /// The data. Usually the record's own; pass another document to match that instead.
    pub data: &'message [u8],
}

impl<'message> Subject<'message> {
    /// A record with its own data.
    pub fn of(record: &'message [u8]) -> Result<Self, Malformed> {
        Ok(Self { record, data: message::data(record)? })
    }
}

/// A message as filters see it.
pub(super) struct Look<'message> {
    scratch: &'message Scratch,
    subject: Subject<'message>,
}

impl Scratch {
    /// Notes the fields of a message that `paths` knows.
    pub(super) fn look(
        &mut self,
        paths: &Paths,
        subject: Subject<'_>,
        needs_data: bool,
    ) -> Result<(), Malformed> {
        self.begin(paths.bound());
        if paths.has_below(ATTRIBUTES) {
            for pair in message::attributes(subject.record) {
                let (key, value) = pair?;
                if let Some(path) = paths.find(ATTRIBUTES, key) {
                    self.note(path, What::Attribute(span(subject.record, value)));
                }
            }
        }
        self.readable = needs_data && self.read(paths, subject.data).is_ok();
        Ok(())
    }

    fn begin(&mut self, paths: usize) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.clear();
            self.met.clear();
            self.round = 1;
        }
        if self.slots.len() < paths {
            self.slots.resize(paths, Slot { round: 0, what: What::Null });
        }
        self.found.clear();
        self.text.clear();
        if self.text.capacity() > TEXT_BYTES_KEPT {
            self.text = String::new();
        }
    }

    fn read(&mut self, paths: &Paths, data: &[u8]) -> Result<(), NotJson> {
        // Positions are 32 bits wide, far beyond what a message may hold.
        if u32::try_from(data.len()).is_err() {
            return Err(NotJson);
        }
        let Some(members) = json::open(data)? else { return Ok(()) };
        let attributes = self.found.len();
        if let Err(error) = self.read_members(paths, data, DATA, members) {
            for path in self.found.drain(attributes..) {
                if let Some(slot) = self.slots.get_mut(path as usize) {
                    slot.round = 0;
                }
            }
            return Err(error);
        }
        // Descend into objects only after everything around them is noted, so that the last of two
        // equal names counts.
        let mut at = attributes;
        while let Some(path) = self.found.get(at).copied() {
            if paths.has_below(path) {
                self.go_into(paths, data, path)?;
            }
            at += 1;
        }
        Ok(())
    }

    fn go_into(&mut self, paths: &Paths, data: &[u8], path: u32) -> Result<(), NotJson> {
        let Some(Slot { what: What::Object(span), .. }) = self.slots.get(path as usize) else {
            return Ok(());
        };
        match json::open(span.of(data))? {
            Some(members) => self.read_members(paths, data, path, members),
            None => Ok(()),
        }
    }

    fn read_members(
        &mut self,
        paths: &Paths,
        data: &[u8],
        above: u32,
        members: Members<'_>,
    ) -> Result<(), NotJson> {
        let wanted = paths.has_below(above);
        for member in members {
            let (key, value) = member?;
            if !wanted {
                continue;
            }
            let path = match key.plain() {
                Some(plain) => paths.find(above, plain.as_bytes()),
                None => {
                    let start = self.text.len();
                    key.append_to(&mut self.text);
                    let path = paths.find(above, tail(&self.text, start));
                    self.text.truncate(start);
                    path
                }
            };
            if let Some(path) = path {
                let what = self.what(data, value);
                self.note(path, what);
            }
        }
        Ok(())
    }

    fn what(&mut self, data: &[u8], value: Value<'_>) -> What {
        match value {
            Value::Null => What::Null,
            Value::Bool(bool) => What::Bool(bool),
            Value::Number(number) => What::Number(number),
            Value::List(text) => What::List(span(data, text.as_bytes())),
            Value::Object(text) => What::Object(span(data, text.as_bytes())),
            Value::Text(text) => match text.plain() {
                Some(plain) => What::Text(span(data, plain.as_bytes())),
                None => {
                    let start = self.text.len();
                    text.append_to(&mut self.text);
                    What::Unescaped(Span::new(start, self.text.len()))
                }
            },
        }
    }

    fn note(&mut self, path: u32, what: What) {
        let round = self.round;
        let Some(slot) = self.slots.get_mut(path as usize) else { return };
        if slot.round != round {
            self.found.push(path);
        }
        *slot = Slot { round, what };
    }

    /// Whether this message meets `group` for the first time.
    pub(super) fn meet(&mut self, group: u32) -> bool {
        let group = group as usize;
        if self.met.len() <= group {
            self.met.resize(group + 1, 0);
        }
        let round = self.round;
        self.met.get_mut(group).is_some_and(|met| std::mem::replace(met, round) != round)
    }

    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    pub(super) fn view<'look>(&'look self, subject: Subject<'look>) -> Look<'look> {
        Look { scratch: self, subject }
    }
}

impl<'message> Look<'message> {
    /// Whether the data was read and is JSON.
    pub(super) fn is_readable(&self) -> bool {
        self.scratch.readable
    }

    /// The message's value at `path`.
    pub(super) fn get(&self, path: u32) -> Option<Seen<'message>> {
        let slot = self.scratch.slots.get(path as usize)?;
        if slot.round != self.scratch.round {
            return None;
        }
        Some(match slot.what {
            What::Null => Seen::Null,
            What::Bool(bool) => Seen::Bool(bool),
            What::Number(number) => Seen::Number(number),
            What::Attribute(span) => Seen::Text(span.of(self.subject.record)),
            What::Text(span) => Seen::Text(span.of(self.subject.data)),
            What::Unescaped(span) => Seen::Text(span.of(self.scratch.text.as_bytes())),
            What::List(span) => {
                Seen::List(std::str::from_utf8(span.of(self.subject.data)).unwrap_or("[]"))
            }
            What::Object(_) => Seen::Object,
        })
    }
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: place(start), end: place(end) }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The position of `part` in `whole`, which contains it.
fn span(whole: &[u8], part: &[u8]) -> Span {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    Span::new(start, start + part.len())
}

fn tail(text: &str, start: usize) -> &[u8] {
    text.as_bytes().get(start..).unwrap_or_default()
}

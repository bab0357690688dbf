//! Checks a message in Protobuf's binary form.
//!
//! Nothing is built. Fields that the schema does not know are walked over, as every parser does.
//! A known field of another wire type is refused: some parsers would take it for an unknown one,
//! and the publisher's mistake would stay hidden.

use super::tree::{Field, Kind, Label, Message, Tree, Wire};
use crate::bits::Bits;
use crate::limits::MESSAGE_DEPTH_MAX;
use crate::problem::Problem;

/// Checks a message.
pub(crate) fn check(tree: &Tree, message: &[u8]) -> Result<(), Problem> {
    let mut walk = Walk { tree, bytes: message, at: 0 };
    walk.message(0, None, 0).map_err(|problem| *problem)
}

/// Behind a pointer, so that a good result is one word.
type Checked<T> = Result<T, Box<Problem>>;

struct Walk<'m> {
    tree: &'m Tree,
    /// Up to where the message that is walked ends.
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Walk<'m> {
    /// A message up to the end of the bytes, or a group up to its end tag.
    fn message(&mut self, index: usize, group: Option<u32>, depth: usize) -> Checked<()> {
        let tree = self.tree;
        let Some(message) = tree.message(index) else { return Ok(()) };
        self.check_depth(depth)?;
        let mut required = Bits::default();
        let mut next = 0;
        while let Some((number, wire)) = self.tag(group)? {
            if wire == Wire::GroupEnd {
                break;
            }
            let known = message.field(number, next);
            let Some((index, field)) = known.and_then(|i| Some((i, message.fields.get(i)?))) else {
                self.skip(number, wire, depth)?;
                continue;
            };
            next = index + 1;
            if field.label == Label::Required {
                required.put(index);
            }
            self.field(field, wire, depth)
                .map_err(|problem| Box::new(problem.inside(&field.name)))?;
        }
        if required.count() < message.required {
            return Err(self.missing(message, &required));
        }
        Ok(())
    }

    /// The next field's number and wire type; none at the end of a message. The end of a group
    /// must be that of the group that is open.
    fn tag(&mut self, group: Option<u32>) -> Checked<Option<(u32, Wire)>> {
        let start = self.at;
        if start == self.bytes.len() {
            return match group {
                None => Ok(None),
                Some(number) => Err(self.fault(format!("group {number} has no end"))),
            };
        }
        let tag = u32::try_from(self.varint()?).unwrap_or_default();
        let (number, wire) = (tag >> 3, Wire::of(tag));
        match wire {
            Some(Wire::GroupEnd) if group == Some(number) => Ok(Some((number, Wire::GroupEnd))),
            Some(Wire::GroupEnd) => {
                Err(self.fault_at(start, "the end of a group that is not open"))
            }
            Some(wire) if number > 0 => Ok(Some((number, wire))),
            _ => Err(self.fault_at(start, "not the beginning of a field")),
        }
    }

    fn field(&mut self, field: &Field, wire: Wire, depth: usize) -> Checked<()> {
        let expected = field.kind.wire();
        if wire == expected {
            return self.value(field, depth);
        }
        let is_packed = wire == Wire::Length
            && field.label == Label::Repeated
            && matches!(expected, Wire::Varint | Wire::Four | Wire::Eight);
        if is_packed {
            return self.packed(expected);
        }
        let what = format!("wire type {wire:?}, expected {expected:?} for {}", field.kind.word());
        Err(self.fault(what))
    }

    fn value(&mut self, field: &Field, depth: usize) -> Checked<()> {
        match field.kind {
            Kind::Text { is_checked } => {
                let bytes = self.length()?;
                if is_checked && std::str::from_utf8(bytes).is_err() {
                    return Err(self.fault_at(self.at - bytes.len(), "a string is not UTF-8"));
                }
                Ok(())
            }
            Kind::Message(index) => {
                let end = self.at_end_of_length()?;
                let outer = self.bytes;
                self.bytes = outer.get(..end).unwrap_or(outer);
                self.message(index, None, depth + 1)?;
                self.bytes = outer;
                Ok(())
            }
            Kind::Group(index) => self.message(index, Some(field.number), depth + 1),
            kind => self.plain(kind.wire()),
        }
    }

    /// A value that is not looked into.
    fn plain(&mut self, wire: Wire) -> Checked<()> {
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::Four => self.take(4),
            Wire::Eight => self.take(8),
            _ => self.length().map(drop),
        }
    }

    /// Several values of a repeated field in one.
    fn packed(&mut self, wire: Wire) -> Checked<()> {
        let end = self.at_end_of_length()?;
        let outer = self.bytes;
        self.bytes = outer.get(..end).unwrap_or(outer);
        while self.at < end {
            self.plain(wire)?;
        }
        self.bytes = outer;
        Ok(())
    }

    /// A field that the schema does not know.
    fn skip(&mut self, number: u32, wire: Wire, depth: usize) -> Checked<()> {
        if wire != Wire::GroupStart {
            return self.plain(wire);
        }
        self.check_depth(depth)?;
        while let Some((inner, wire)) = self.tag(Some(number))? {
            if wire == Wire::GroupEnd {
                break;
            }
            self.skip(inner, wire, depth + 1)?;
        }
        Ok(())
    }

    /// Where what begins here, with its length, ends. The length itself is read.
    fn at_end_of_length(&mut self) -> Checked<usize> {
        let start = self.at;
        let length = self.varint()?;
        let left = self.bytes.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => Ok(self.at + length),
            _ => Err(self.fault_at(start, format!("{length} bytes long, but {left} are left"))),
        }
    }

    fn length(&mut self) -> Checked<&'m [u8]> {
        let end = self.at_end_of_length()?;
        let bytes = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        Ok(bytes)
    }

    fn take(&mut self, count: usize) -> Checked<()> {
        if self.bytes.len() - self.at < count {
            return Err(self.fault("the message ends within a number"));
        }
        self.at += count;
        Ok(())
    }

    #[inline]
    fn varint(&mut self) -> Checked<u64> {
        match self.bytes.get(self.at) {
            // Most numbers are lengths and tags of one byte.
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Checked<u64> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in 0..10_u32 {
            let Some(byte) = self.bytes.get(self.at) else {
                return Err(self.fault("the message ends within a number"));
            };
            if shift == 9 && *byte > 1 {
                break;
            }
            self.at += 1;
            value |= u64::from(byte & 0x7f) << (7 * shift);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.fault_at(start, "a number of more than 64 bits"))
    }

    fn check_depth(&self, depth: usize) -> Checked<()> {
        if depth > MESSAGE_DEPTH_MAX {
            return Err(self.fault(format!("nested deeper than {MESSAGE_DEPTH_MAX}")));
        }
        Ok(())
    }

    fn missing(&self, message: &Message, seen: &Bits) -> Box<Problem> {
        let mut fields = message.fields.iter().enumerate();
        let is_missing =
            |(i, field): &(usize, &Field)| field.label == Label::Required && !seen.has(*i);
        let name = fields.find(is_missing).map_or("", |(_, field)| &field.name);
        self.fault(format!("required field {name} of {} is missing", message.name))
    }

    fn fault(&self, what: impl Into<String>) -> Box<Problem> {
        self.fault_at(self.at, what)
    }

    fn fault_at(&self, byte: usize, what: impl Into<String>) -> Box<Problem> {
        Box::new(Problem::at_byte(what, byte))
    }
}

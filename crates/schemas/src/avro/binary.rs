//! Checks a message in Avro's binary form.
//!
//! Nothing is built, so a message can take no memory by claiming to be large. Its time is bounded
//! by its bytes: whatever takes no bytes is not walked.

use super::tree::{Node, NodeId, Record, Tree};
use crate::limits::{EMPTY_ITEMS_MAX, MESSAGE_DEPTH_MAX};
use crate::problem::Problem;

/// Checks a message; bytes behind it are a fault.
pub(crate) fn check(tree: &Tree, message: &[u8]) -> Result<(), Problem> {
    let mut walk = Walk { tree, message, at: 0, empty_items: 0 };
    let done = walk.node(tree.root, 0);
    done.map_err(|problem| *problem)?;
    match message.len() - walk.at {
        0 => Ok(()),
        more => {
            Err(Problem::at_byte(format!("{more} more bytes than the schema asks for"), walk.at))
        }
    }
}

/// Behind a pointer, so that a good result is one word.
type Checked<T> = Result<T, Box<Problem>>;

struct Walk<'m> {
    tree: &'m Tree,
    message: &'m [u8],
    at: usize,
    /// Items of no bytes so far.
    empty_items: u64,
}

impl<'m> Walk<'m> {
    fn node(&mut self, id: NodeId, depth: usize) -> Checked<()> {
        let tree = self.tree;
        match tree.node(id) {
            Node::Null => Ok(()),
            Node::Boolean => self.boolean(),
            Node::Int => self.int(),
            Node::Long => self.long().map(drop),
            Node::Float => self.take(4, "a float").map(drop),
            Node::Double => self.take(8, "a double").map(drop),
            Node::Bytes => self.bytes("bytes").map(drop),
            Node::String => self.string(),
            Node::Fixed(fixed) => self.take(fixed.size, "a fixed").map(drop),
            Node::Enum(an_enum) => self.index("an enum", an_enum.symbols.len()).map(drop),
            _ if depth >= MESSAGE_DEPTH_MAX => {
                Err(self.fault(format!("nested deeper than {MESSAGE_DEPTH_MAX}")))
            }
            Node::Array(items) => self.blocks(*items, depth, false),
            Node::Map(items) => self.blocks(*items, depth, true),
            Node::Union(union) => {
                let index = self.index("a union", union.branches.len())?;
                match union.branches.get(index) {
                    Some(branch) => self.node(branch.node, depth + 1),
                    None => Ok(()),
                }
            }
            Node::Record(record) => self.record(record, depth),
        }
    }

    fn record(&mut self, record: &Record, depth: usize) -> Checked<()> {
        for index in &record.in_binary {
            let Some(field) = record.fields.get(*index) else { continue };
            self.node(field.node, depth + 1)
                .map_err(|problem| Box::new(problem.inside(&field.name)))?;
        }
        Ok(())
    }

    /// An array or map: blocks of items until one has none.
    fn blocks(&mut self, items: NodeId, depth: usize, is_map: bool) -> Checked<()> {
        let is_empty = !is_map && self.tree.is_empty(items);
        let mut index = 0_u64;
        loop {
            let (count, end) = self.block()?;
            if count == 0 {
                return Ok(());
            }
            if is_empty {
                self.skip_empty(count)?;
            } else if count > self.left() as u64 {
                return Err(self.fault(format!("a block of {count} items, but the message ends")));
            } else {
                for _ in 0..count {
                    self.item(items, depth, is_map)
                        .map_err(|problem| Box::new(problem.inside(&format!("[{index}]"))))?;
                    index += 1;
                }
            }
            if end.is_some_and(|end| end != self.at) {
                return Err(self.fault("a block does not end where it says"));
            }
        }
    }

    /// The number of items of a block and, where the block says so, where it ends.
    fn block(&mut self) -> Checked<(u64, Option<usize>)> {
        let count = self.long()?;
        if count >= 0 {
            return Ok((count.unsigned_abs(), None));
        }
        let bytes = self.length("a block")?;
        Ok((count.unsigned_abs(), Some(self.at + bytes)))
    }

    fn item(&mut self, id: NodeId, depth: usize, is_map: bool) -> Checked<()> {
        if is_map {
            self.string()?;
        }
        self.node(id, depth + 1)
    }

    fn skip_empty(&mut self, count: u64) -> Checked<()> {
        self.empty_items = self.empty_items.saturating_add(count);
        if self.empty_items > EMPTY_ITEMS_MAX {
            let what = format!("more than {EMPTY_ITEMS_MAX} items that take no bytes");
            return Err(self.fault(what));
        }
        Ok(())
    }

    fn boolean(&mut self) -> Checked<()> {
        match self.take(1, "a boolean")? {
            [0 | 1] => Ok(()),
            _ => Err(self.fault_before(1, "a boolean is 0 or 1")),
        }
    }

    fn string(&mut self) -> Checked<()> {
        let bytes = self.bytes("a string")?;
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.fault_before(bytes.len(), "a string is not UTF-8")),
        }
    }

    fn int(&mut self) -> Checked<()> {
        let start = self.at;
        match i32::try_from(self.long()?) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.fault_before(self.at - start, "a number too large for an int")),
        }
    }

    fn index(&mut self, of: &str, count: usize) -> Checked<usize> {
        let start = self.at;
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < count => Ok(index),
            _ => {
                let what = format!("index {index} of {of}, which has {count}");
                Err(self.fault_before(self.at - start, what))
            }
        }
    }

    fn bytes(&mut self, what: &str) -> Checked<&'m [u8]> {
        let length = self.length(what)?;
        self.take(length, what)
    }

    /// A length, of no more than is left.
    fn length(&mut self, what: &str) -> Checked<usize> {
        let start = self.at;
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.left() => Ok(length),
            _ => {
                let what = format!("{what} of {length} bytes, but {} are left", self.left());
                Err(self.fault_before(self.at - start, what))
            }
        }
    }

    fn take(&mut self, length: usize, what: &str) -> Checked<&'m [u8]> {
        let end = self.at.saturating_add(length);
        match self.message.get(self.at..end) {
            Some(bytes) => {
                self.at = end;
                Ok(bytes)
            }
            None => Err(self.fault(format!("the message ends within {what}"))),
        }
    }

    /// A number of 64 bits: seven bits a byte, the lowest first, the sign in the lowest bit.
    #[inline]
    fn long(&mut self) -> Checked<i64> {
        let value = match self.message.get(self.at) {
            // Most numbers are lengths and indices of one byte.
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                u64::from(*byte)
            }
            _ => self.varint()?,
        };
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn varint(&mut self) -> Checked<u64> {
        let mut value = 0_u64;
        for shift in 0..10_u32 {
            let Some(byte) = self.message.get(self.at) else {
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
        Err(self.fault("a number of more than 64 bits"))
    }

    fn left(&self) -> usize {
        self.message.len() - self.at
    }

    fn fault(&self, what: impl Into<String>) -> Box<Problem> {
        self.fault_before(0, what)
    }

    /// A fault in what was just read.
    fn fault_before(&self, bytes: usize, what: impl Into<String>) -> Box<Problem> {
        Box::new(Problem::at_byte(what, self.at.saturating_sub(bytes)))
    }
}

//! Checks a message in Avro's JSON form.
//!
//! As Avro's specification has it: a value of a union is `null` or an object with one key, the name
//! of its branch; bytes are a text of characters below 256; every field of a record is there, and
//! none beside. Defaults are for who reads with another schema, so they replace nothing here.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::defaults::is_bytes;
use super::tree::{Node, NodeId, Record, Tree, Union};
use crate::bits::Bits;
use crate::json::{self, Trace};
use crate::problem::{Problem, quoted};

/// Checks a message.
pub(crate) fn check(tree: &Tree, message: &[u8]) -> Result<(), Problem> {
    let trace = Trace::default();
    json::check(message, &trace, Check { tree, node: tree.root, trace: &trace })
}

/// Checks one value.
#[derive(Clone, Copy)]
struct Check<'t> {
    tree: &'t Tree,
    node: NodeId,
    trace: &'t Trace,
}

impl<'t> Check<'t> {
    fn of(self, node: NodeId) -> Self {
        Self { node, ..self }
    }

    fn node(&self) -> &'t Node {
        self.tree.node(self.node)
    }

    fn integer<E: Error>(self, value: i64) -> Result<(), E> {
        match self.node() {
            Node::Int if i32::try_from(value).is_err() => {
                Err(E::invalid_value(Unexpected::Signed(value), &self))
            }
            Node::Int | Node::Long | Node::Float | Node::Double => Ok(()),
            _ => Err(E::invalid_type(Unexpected::Signed(value), &self)),
        }
    }

    fn record<'de, A: MapAccess<'de>>(self, record: &Record, mut map: A) -> Result<(), A::Error> {
        let mut seen = Bits::default();
        // Fields mostly come in their order, so the next one is tried before it is looked up.
        let mut next = 0;
        while let Some(index) = map.next_key_seed(FieldName { record, next })? {
            let Some(field) = record.fields.get(index) else { continue };
            if !seen.put(index) {
                return Err(A::Error::custom(format!("field {} twice", quoted(&field.name))));
            }
            map.next_value_seed(self.of(field.node)).map_err(self.trace.inside(&field.name))?;
            next = index + 1;
        }
        if seen.count() == record.fields.len() {
            return Ok(());
        }
        let missing = record.fields.iter().enumerate().find(|(index, _)| !seen.has(*index));
        let name = missing.map_or("", |(_, field)| &field.name);
        Err(A::Error::custom(format!("field {} is missing", quoted(name))))
    }

    fn union<'de, A: MapAccess<'de>>(self, union: &Union, mut map: A) -> Result<(), A::Error> {
        let Some(branch) = map.next_key_seed(BranchName { union })? else {
            return Err(A::Error::invalid_length(0, &self));
        };
        let Some(branch) = union.branches.get(branch) else { return Ok(()) };
        map.next_value_seed(self.of(branch.node)).map_err(self.trace.inside(&branch.name))?;
        match map.next_key_seed(BranchName { union })? {
            None => Ok(()),
            Some(_) => Err(A::Error::invalid_length(2, &self)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node() {
            Node::Null => f.write_str("null"),
            Node::Bytes => f.write_str("bytes, as a text of characters below 256"),
            Node::Fixed(fixed) => {
                write!(f, "{} of {} bytes, as a text", fixed.named.full, fixed.size)
            }
            Node::Enum(an_enum) => write!(f, "a symbol of {}", an_enum.named.full),
            Node::Record(record) => write!(f, "record {}", record.named.full),
            Node::Union(union) => {
                let names = union.branches.iter().take(8).map(|branch| &*branch.name);
                let names = names.collect::<Vec<_>>().join(", ");
                write!(f, "a union, as an object with one key out of {names}")
            }
            node => f.write_str(node.word()),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.node() {
            Node::Null => Ok(()),
            Node::Union(union) if union.has_null() => Ok(()),
            _ => Err(E::invalid_type(Unexpected::Unit, &self)),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.node() {
            Node::Boolean => Ok(()),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.integer(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match (i64::try_from(value), self.node()) {
            (Ok(value), _) => self.integer(value),
            (Err(_), Node::Float | Node::Double) => Ok(()),
            _ => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.node() {
            Node::Float | Node::Double => Ok(()),
            _ => Err(E::invalid_type(Unexpected::Float(value), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let is_good = match self.node() {
            Node::String => true,
            Node::Bytes => is_bytes(text),
            Node::Fixed(fixed) => is_bytes(text) && text.chars().count() == fixed.size,
            Node::Enum(an_enum) => an_enum.known.contains(text),
            _ => return Err(E::custom(format!("a text, expected {}", Expected(self)))),
        };
        if is_good {
            return Ok(());
        }
        Err(E::custom(format!("{}, expected {}", quoted(text), Expected(self))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Node::Array(items) = self.node() else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        let mut index = 0_usize;
        while let Some(()) = seq
            .next_element_seed(self.of(*items))
            .map_err(self.trace.inside(format_args!("[{index}]")))?
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match self.node() {
            Node::Record(record) => self.record(record, map),
            Node::Union(union) => self.union(union, map),
            Node::Map(items) => {
                let mut index = 0_usize;
                while let Some(AnyKey) = map.next_key()? {
                    map.next_value_seed(self.of(*items))
                        .map_err(self.trace.inside(format_args!("[{index}]")))?;
                    index += 1;
                }
                Ok(())
            }
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

/// What a check expects, as text.
struct Expected<'t>(Check<'t>);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

/// A key of a record: the index of its field.
struct FieldName<'t> {
    record: &'t Record,
    next: usize,
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a field of {}", self.record.named.full)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        match self.record.fields.get(self.next) {
            Some(field) if *field.name == *name => Ok(self.next),
            _ => self.record.by_name.get(name).copied().ok_or_else(|| {
                let record = &self.record.named.full;
                E::custom(format!("record {record} has no field {}", quoted(name)))
            }),
        }
    }
}

/// The key of a union's object: the index of its branch.
struct BranchName<'t> {
    union: &'t Union,
}

impl<'de> DeserializeSeed<'de> for BranchName<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for BranchName<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a branch of a union")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        // A null has no object around it.
        let found = self.union.by_name.get(name).copied().filter(|_| name != "null");
        found.ok_or_else(|| E::custom(format!("the union has no branch {}", quoted(name))))
    }
}

/// A key that may be anything.
struct AnyKey;

impl<'de> serde::Deserialize<'de> for AnyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

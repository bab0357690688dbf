//! A definition as messages in one list, which name each other by index.

use std::collections::HashMap;

use crate::problem::Problem;

/// A definition. The first message is the one at the top.
pub(crate) struct Tree {
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
}

pub(super) struct Message {
    pub(super) name: Box<str>,
    pub(super) form: Form,
    /// By number.
    pub(super) fields: Vec<Field>,
    /// By name and by JSON name.
    pub(super) by_name: HashMap<Box<str>, usize>,
    /// How many fields are required (proto2).
    pub(super) required: usize,
}

/// How a message is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As an object of its fields.
    Fields,
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// As its only field's value.
    Wrapper(Kind),
}

pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: Box<str>,
    pub(super) json_name: Box<str>,
    pub(super) kind: Kind,
    pub(super) label: Label,
    pub(super) oneof: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Optional,
    Required,
    Repeated,
    /// Repeated, of messages with a key and a value; an object in JSON.
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    /// UTF-8 in proto3; in proto2 nobody looks.
    Text {
        is_checked: bool,
    },
    Bytes,
    Enum(usize),
    Message(usize),
    /// A message between two tags (proto2).
    Group(usize),
}

pub(super) struct Enum {
    /// Whether it is `google.protobuf.NullValue`, which JSON writes as null.
    pub(super) is_null: bool,
    pub(super) values: HashMap<Box<str>, i32>,
}

impl Tree {
    /// Reads a definition.
    pub(crate) fn read(definition: &str) -> Result<Self, Problem> {
        super::read::read(definition)
    }

    /// The message of an index; every index comes from the list.
    pub(super) fn message(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }
}

impl Message {
    /// The field of a number. Fields mostly come in their order, so those from `next` on are
    /// tried before the rest is searched.
    pub(super) fn field(&self, number: u32, next: usize) -> Option<usize> {
        let is_it = |index: &usize| self.fields.get(*index).is_some_and(|f| f.number == number);
        let near = [next.saturating_sub(1), next].into_iter().find(is_it);
        near.or_else(|| self.fields.binary_search_by_key(&number, |field| field.number).ok())
    }
}

/// How a value is written in a binary message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    Eight,
    Length,
    GroupStart,
    GroupEnd,
    Four,
}

impl Wire {
    pub(super) fn of(tag: u32) -> Option<Self> {
        Some(match tag & 7 {
            0 => Self::Varint,
            1 => Self::Eight,
            2 => Self::Length,
            3 => Self::GroupStart,
            4 => Self::GroupEnd,
            5 => Self::Four,
            _ => return None,
        })
    }
}

impl Kind {
    pub(super) fn wire(self) -> Wire {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => Wire::Eight,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => Wire::Four,
            Self::Text { .. } | Self::Bytes | Self::Message(_) => Wire::Length,
            Self::Group(_) => Wire::GroupStart,
            _ => Wire::Varint,
        }
    }

    /// The word of it in a definition.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Float => "float",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Sint32 => "sint32",
            Self::Sint64 => "sint64",
            Self::Fixed32 => "fixed32",
            Self::Fixed64 => "fixed64",
            Self::Sfixed32 => "sfixed32",
            Self::Sfixed64 => "sfixed64",
            Self::Bool => "bool",
            Self::Text { .. } => "string",
            Self::Bytes => "bytes",
            Self::Enum(_) => "enum",
            Self::Message(_) => "message",
            Self::Group(_) => "group",
        }
    }
}

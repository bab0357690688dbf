//! A definition as nodes in one list, which name each other by index: a type that contains itself
//! is a circle, not a copy.

use std::collections::{HashMap, HashSet};

use crate::problem::Problem;

/// The index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub(super) u32);

/// A definition.
pub(crate) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
    /// Which nodes take no bytes in a binary message.
    pub(super) is_empty: Vec<bool>,
}

pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(Fixed),
    Enum(Enum),
    Array(NodeId),
    Map(NodeId),
    Union(Union),
    Record(Record),
}

pub(super) struct Fixed {
    pub(super) named: Named,
    pub(super) size: usize,
}

pub(super) struct Enum {
    pub(super) named: Named,
    /// The symbols, in order, are all that a binary message says; JSON has them as text.
    pub(super) symbols: Vec<Box<str>>,
    pub(super) known: HashSet<Box<str>>,
    pub(super) has_default: bool,
}

pub(super) struct Union {
    pub(super) branches: Vec<Branch>,
    pub(super) by_name: HashMap<Box<str>, usize>,
}

pub(super) struct Branch {
    /// What the branch is called in JSON: a primitive's or container's name, or a full name.
    pub(super) name: Box<str>,
    pub(super) node: NodeId,
}

pub(super) struct Record {
    pub(super) named: Named,
    pub(super) fields: Vec<Field>,
    pub(super) by_name: HashMap<Box<str>, usize>,
    /// Fields that take bytes in a binary message. The others are not even looked at there, or a
    /// record of ten thousand nulls and one byte would cost ten thousand steps for each byte.
    pub(super) in_binary: Vec<usize>,
}

pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) aliases: Vec<Box<str>>,
    pub(super) node: NodeId,
    pub(super) has_default: bool,
}

/// The name of a record, enum or fixed.
pub(super) struct Named {
    pub(super) full: Box<str>,
    /// Other names under which data of an older schema is known, in full.
    pub(super) aliases: Vec<Box<str>>,
}

impl Tree {
    /// Reads a definition.
    pub(crate) fn read(definition: &str) -> Result<Self, Problem> {
        super::read::read(definition)
    }

    pub(super) fn new(nodes: Vec<Node>, root: NodeId) -> Self {
        let mut tree = Self { is_empty: vec![false; nodes.len()], nodes, root };
        tree.find_empty();
        tree
    }

    /// The node of an index. Every index comes from a list that only grew.
    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0 as usize).unwrap_or(&Node::Null)
    }

    pub(super) fn is_empty(&self, id: NodeId) -> bool {
        self.is_empty.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Marks the nodes that take no bytes: nulls, and what is made of nothing else. A type comes
    /// before those that contain it, so the first round finds nearly all; a record that contains
    /// itself is never marked.
    fn find_empty(&mut self) {
        loop {
            let mut found = 0;
            for index in 0..self.nodes.len() {
                let takes_nothing = match self.nodes.get(index) {
                    Some(Node::Null) => true,
                    Some(Node::Fixed(fixed)) => fixed.size == 0,
                    Some(Node::Record(record)) => {
                        record.fields.iter().all(|field| self.is_empty(field.node))
                    }
                    _ => false,
                };
                if let Some(mark) = self.is_empty.get_mut(index) {
                    found += usize::from(takes_nothing && !*mark);
                    *mark = takes_nothing;
                }
            }
            if found == 0 {
                break;
            }
        }
        let is_empty = &self.is_empty;
        for node in &mut self.nodes {
            if let Node::Record(record) = node {
                let fields = record.fields.iter().enumerate();
                let takes_bytes =
                    |id: NodeId| !is_empty.get(id.0 as usize).copied().unwrap_or_default();
                record.in_binary = fields
                    .filter(|(_, field)| takes_bytes(field.node))
                    .map(|(index, _)| index)
                    .collect();
            }
        }
    }
}

impl Union {
    pub(super) fn has_null(&self) -> bool {
        self.by_name.contains_key("null")
    }

    /// The branch of a name.
    pub(super) fn branch(&self, name: &str) -> Option<&Branch> {
        self.by_name.get(name).and_then(|index| self.branches.get(*index))
    }
}

impl Node {
    /// The name of a record, enum or fixed.
    pub(super) fn named(&self) -> Option<&Named> {
        match self {
            Self::Fixed(fixed) => Some(&fixed.named),
            Self::Enum(an_enum) => Some(&an_enum.named),
            Self::Record(record) => Some(&record.named),
            _ => None,
        }
    }

    /// What a union calls the type: its full name, or the word of its kind.
    pub(super) fn called(&self) -> &str {
        self.named().map_or_else(|| self.word(), |named| &named.full)
    }

    /// The word of the kind.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Fixed(_) => "fixed",
            Self::Enum(_) => "enum",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record(_) => "record",
        }
    }
}

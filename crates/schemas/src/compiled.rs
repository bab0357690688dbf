//! A definition that was read and found good, ready to check messages.

use std::fmt;

use domain::Encoding;

use crate::limits::DEFINITION_BYTES_MAX;
use crate::problem::Problem;
use crate::{avro, protobuf};

/// The language of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Apache Avro 1.11.
    Avro,
    /// Protocol Buffers, proto2 or proto3.
    Protobuf,
}

impl Kind {
    /// Google's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Protobuf => "PROTOCOL_BUFFER",
        }
    }
}

/// A definition that was read and found good.
///
/// Compiling costs milliseconds and is done once; a check costs microseconds, takes no memory to
/// speak of, and its work grows with the message, not with what the message says of itself.
pub struct Compiled {
    tree: Tree,
}

enum Tree {
    Avro(avro::Tree),
    Protobuf(protobuf::Tree),
}

impl Compiled {
    /// Reads a definition, by Google's rules: at most 300 KB; one type at the top (in Protobuf one
    /// message; other messages may be nested in it); imports only of `google/protobuf/`.
    pub fn new(kind: Kind, definition: &str) -> Result<Self, Problem> {
        if definition.len() > DEFINITION_BYTES_MAX {
            let what = format!(
                "the definition has {} bytes, {DEFINITION_BYTES_MAX} are allowed",
                definition.len()
            );
            return Err(Problem::new(what));
        }
        if definition.trim().is_empty() {
            return Err(Problem::new("the definition is empty"));
        }
        let tree = match kind {
            Kind::Avro => Tree::Avro(avro::Tree::read(definition)?),
            Kind::Protobuf => Tree::Protobuf(protobuf::Tree::read(definition)?),
        };
        Ok(Self { tree })
    }

    /// The language of the definition.
    pub fn kind(&self) -> Kind {
        match &self.tree {
            Tree::Avro(_) => Kind::Avro,
            Tree::Protobuf(_) => Kind::Protobuf,
        }
    }

    /// Whether a message is of this schema.
    ///
    /// In JSON, fields that the schema does not know are refused. In Protobuf's binary form they
    /// are allowed, as by every Protobuf parser; a known field of a wrong wire type is refused. In
    /// Avro's binary form bytes behind the message are refused.
    pub fn check(&self, encoding: Encoding, message: &[u8]) -> Result<(), Problem> {
        match (&self.tree, encoding) {
            (Tree::Avro(tree), Encoding::Binary) => avro::check_binary(tree, message),
            (Tree::Avro(tree), Encoding::Json) => avro::check_json(tree, message),
            (Tree::Protobuf(tree), Encoding::Binary) => protobuf::check_binary(tree, message),
            (Tree::Protobuf(tree), Encoding::Json) => protobuf::check_json(tree, message),
        }
    }

    /// A message in Avro's JSON form, which passed the check, in its binary form.
    pub fn json_to_binary(&self, message: &[u8]) -> Result<Vec<u8>, Problem> {
        match &self.tree {
            Tree::Avro(tree) => avro::json_to_binary(tree, message),
            Tree::Protobuf(_) => Err(Problem::new("only Avro is written in another form")),
        }
    }

    /// Whether this may become a revision beside `former`; if not, what keeps it from it.
    ///
    /// Google's rule for Avro: each must be able to read, as Avro resolves schemas, what the other
    /// wrote. For Protobuf: optional fields may be added and removed; other fields may not, and no
    /// field that stays may be changed.
    pub fn check_beside(&self, former: &Self) -> Result<(), Problem> {
        match (&self.tree, &former.tree) {
            (Tree::Avro(new), Tree::Avro(old)) => avro::check_compatible(new, old),
            (Tree::Protobuf(new), Tree::Protobuf(old)) => protobuf::check_compatible(new, old),
            _ => Err(Problem::new(format!(
                "the type is {}, that of the schema is {}",
                self.kind().as_str(),
                former.kind().as_str()
            ))),
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

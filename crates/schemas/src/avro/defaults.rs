//! Checks that the default of a field is a value of its type.

use serde_json::{Map, Value};

use super::tree::{Node, NodeId, Record, Tree};
use crate::limits::DEFAULT_STEPS_MAX;
use crate::problem::Problem;

/// A default, and where it is.
pub(super) struct Default<'v> {
    pub(super) node: NodeId,
    pub(super) value: &'v Value,
    pub(super) path: String,
}

/// Checks all defaults of a definition.
///
/// The default of a union may be of any branch: 1.11 says the first, its libraries take any, and
/// 1.12 says so too. A record's default may leave out fields that have defaults themselves.
pub(super) fn check(tree: &Tree, defaults: &[Default<'_>]) -> Result<(), Problem> {
    let mut checker = Checker { tree, steps: 0 };
    for default in defaults {
        let fits = checker.fits(default.value, default.node);
        let kind = tree.node(default.node).word();
        let what = match fits {
            _ if checker.steps > DEFAULT_STEPS_MAX => "the defaults take too long to check".into(),
            false => format!("the default is not of the field's type, {kind}"),
            true => continue,
        };
        return Err(Problem::new(what).inside("default").inside(&default.path));
    }
    Ok(())
}

struct Checker<'t> {
    tree: &'t Tree,
    steps: u32,
}

impl Checker<'_> {
    /// Whether a value is one of the type. Each call inside goes into the value, so it ends with
    /// it; a union tries its branches, and that is what the steps bound.
    fn fits(&mut self, value: &Value, id: NodeId) -> bool {
        self.steps += 1;
        if self.steps > DEFAULT_STEPS_MAX {
            return false;
        }
        let tree = self.tree;
        match (tree.node(id), value) {
            (Node::Null, Value::Null) | (Node::Boolean, Value::Bool(_)) => true,
            (Node::Int, value) => value.as_i64().is_some_and(|value| i32::try_from(value).is_ok()),
            (Node::Long, value) => value.is_i64(),
            (Node::Float | Node::Double, value) => value.is_number(),
            (Node::String, Value::String(_)) => true,
            (Node::Bytes, Value::String(text)) => is_bytes(text),
            (Node::Fixed(fixed), Value::String(text)) => {
                is_bytes(text) && text.chars().count() == fixed.size
            }
            (Node::Enum(an_enum), Value::String(text)) => an_enum.known.contains(text.as_str()),
            (Node::Array(items), Value::Array(values)) => {
                values.iter().all(|value| self.fits(value, *items))
            }
            (Node::Map(items), Value::Object(object)) => {
                object.values().all(|value| self.fits(value, *items))
            }
            (Node::Union(union), value) => {
                union.branches.iter().any(|branch| self.fits(value, branch.node))
            }
            (Node::Record(record), Value::Object(object)) => self.fits_record(object, record),
            _ => false,
        }
    }

    fn fits_record(&mut self, object: &Map<String, Value>, record: &Record) -> bool {
        record.fields.iter().all(|field| match object.get(&*field.name) {
            Some(value) => self.fits(value, field.node),
            None => {
                self.steps += 1;
                field.has_default
            }
        })
    }
}

/// Whether a text stands for bytes: each character is one.
pub(super) fn is_bytes(text: &str) -> bool {
    text.chars().all(|character| u32::from(character) < 256)
}

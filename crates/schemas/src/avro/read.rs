//! Reads a definition.
//!
//! Written here because what a crate offers for it takes memory and time without bound for small
//! definitions of a hostile kind; the decision record has the figures.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::defaults;
use super::names::{self, PRIMITIVES};
use super::tree::{Branch, Enum, Field, Fixed, Named, Node, NodeId, Record, Tree, Union};
use crate::json;
use crate::limits::{FIELDS_MAX, UNION_BRANCHES_MAX};
use crate::problem::{Problem, quoted};

type Object = Map<String, Value>;

/// Reads a definition. The JSON parser refuses more than 128 brackets within each other, which
/// bounds every recursion over what it returns.
pub(super) fn read(definition: &str) -> Result<Tree, Problem> {
    let value: Value = serde_json::from_str(definition).map_err(|error| json::problem(&error))?;
    if value.is_array() {
        let what = "a union cannot be at the top: a schema has exactly one type there";
        return Err(Problem::new(what));
    }
    let mut reader = Reader::default();
    let root = reader.read_type(&value, "")?;
    let tree = Tree::new(reader.nodes, root);
    defaults::check(&tree, &reader.defaults)?;
    Ok(tree)
}

#[derive(Default)]
struct Reader<'v> {
    nodes: Vec<Node>,
    known: HashMap<String, NodeId>,
    fields: usize,
    /// Defaults are checked when all types are known, with the place where each is.
    defaults: Vec<defaults::Default<'v>>,
    path: Vec<String>,
}

impl<'v> Reader<'v> {
    fn read_type(&mut self, value: &'v Value, namespace: &str) -> Result<NodeId, Problem> {
        match value {
            Value::String(name) => self.read_name(name, namespace),
            Value::Array(branches) => self.read_union(branches, namespace),
            Value::Object(object) => self.read_object(object, namespace),
            _ => Err(Problem::new("a type is a name, an object or an array of types")),
        }
    }

    fn read_name(&mut self, name: &str, namespace: &str) -> Result<NodeId, Problem> {
        if let Some(node) = primitive(name) {
            return self.add(node);
        }
        let full = names::full(name, namespace)?;
        self.known.get(&full).copied().ok_or_else(|| {
            Problem::new(format!("type {} is not defined before its use", quoted(&full)))
        })
    }

    fn read_object(&mut self, object: &'v Object, namespace: &str) -> Result<NodeId, Problem> {
        let kind = object.get("type").ok_or_else(|| Problem::new("\"type\" is missing"))?;
        let Value::String(kind) = kind else {
            return self.within("type", |reader| reader.read_type(kind, namespace));
        };
        match kind.as_str() {
            "record" => self.read_record(object, namespace),
            "enum" => self.read_enum(object, namespace),
            "fixed" => self.read_fixed(object, namespace),
            "array" => self.read_items(object, "items", namespace, Node::Array),
            "map" => self.read_items(object, "values", namespace, Node::Map),
            name => self.read_name(name, namespace),
        }
    }

    fn read_record(&mut self, object: &'v Object, namespace: &str) -> Result<NodeId, Problem> {
        let named = read_named(object, namespace)?;
        let fields = list(object, "fields")?;
        self.fields += fields.len();
        if self.fields > FIELDS_MAX {
            return Err(Problem::new(format!("there are more than {FIELDS_MAX} fields")));
        }
        let inner = names::namespace(&named.full).to_owned();
        // Known before its fields are read: a record may contain itself.
        let id = self.add(Node::Null)?;
        self.define(&named, id)?;
        let mut by_name = HashMap::with_capacity(fields.len());
        let mut read = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let place = format!("fields[{index}]");
            let field = self.within(&place, |reader| reader.read_field(field, &inner))?;
            if by_name.insert(field.name.clone(), index).is_some() {
                let what = format!("there is another field {}", quoted(&field.name));
                return Err(Problem::new(what).inside(&place));
            }
            read.push(field);
        }
        let record = Record { named, fields: read, by_name, in_binary: Vec::new() };
        self.set(id, Node::Record(record));
        Ok(id)
    }

    fn read_field(&mut self, field: &'v Value, namespace: &str) -> Result<Field, Problem> {
        let Value::Object(field) = field else {
            return Err(Problem::new("a field is an object"));
        };
        let name = text(field, "name")?;
        names::check_plain(name)?;
        let kind = field.get("type").ok_or_else(|| Problem::new("\"type\" is missing"))?;
        let node = self.within("type", |reader| reader.read_type(kind, namespace))?;
        let default = field.get("default");
        if let Some(value) = default {
            self.defaults.push(defaults::Default { node, value, path: self.path.join(".") });
        }
        let aliases = texts(field, "aliases")?.into_iter().map(Box::from).collect();
        Ok(Field { name: name.into(), aliases, node, has_default: default.is_some() })
    }

    fn read_enum(&mut self, object: &'v Object, namespace: &str) -> Result<NodeId, Problem> {
        let named = read_named(object, namespace)?;
        list(object, "symbols")?;
        let symbols: Vec<Box<str>> = texts(object, "symbols")?.into_iter().map(Box::from).collect();
        let mut known = HashSet::with_capacity(symbols.len());
        for (index, symbol) in symbols.iter().enumerate() {
            let place = format!("symbols[{index}]");
            names::check_plain(symbol).map_err(|problem| problem.inside(&place))?;
            if !known.insert(symbol.clone()) {
                let what = format!("there is another symbol {}", quoted(symbol));
                return Err(Problem::new(what).inside(&place));
            }
        }
        let default = object.get("default");
        match default {
            None => {}
            Some(Value::String(symbol)) if known.contains(symbol.as_str()) => {}
            Some(_) => return Err(Problem::new("the default is not one of the symbols")),
        }
        let has_default = default.is_some();
        let id = self.add(Node::Null)?;
        self.define(&named, id)?;
        self.set(id, Node::Enum(Enum { named, symbols, known, has_default }));
        Ok(id)
    }

    fn read_fixed(&mut self, object: &'v Object, namespace: &str) -> Result<NodeId, Problem> {
        let named = read_named(object, namespace)?;
        let size = object.get("size").and_then(Value::as_u64);
        let size = size.and_then(|size| u32::try_from(size).ok());
        let size = size.ok_or_else(|| Problem::new("\"size\" must be a number from 0 on"))?;
        let id = self.add(Node::Null)?;
        self.define(&named, id)?;
        self.set(id, Node::Fixed(Fixed { named, size: size as usize }));
        Ok(id)
    }

    fn read_items(
        &mut self,
        object: &'v Object,
        key: &str,
        namespace: &str,
        node: fn(NodeId) -> Node,
    ) -> Result<NodeId, Problem> {
        let items = object.get(key).ok_or_else(|| Problem::new(format!("\"{key}\" is missing")))?;
        let items = self.within(key, |reader| reader.read_type(items, namespace))?;
        self.add(node(items))
    }

    fn read_union(&mut self, types: &'v [Value], namespace: &str) -> Result<NodeId, Problem> {
        if types.len() > UNION_BRANCHES_MAX {
            let what = format!("the union has more than {UNION_BRANCHES_MAX} branches");
            return Err(Problem::new(what));
        }
        if types.is_empty() {
            return Err(Problem::new("the union is empty"));
        }
        let mut branches = Vec::with_capacity(types.len());
        let mut by_name = HashMap::with_capacity(types.len());
        for (index, value) in types.iter().enumerate() {
            let place = format!("[{index}]");
            let node = self.within(&place, |reader| reader.read_type(value, namespace))?;
            let name = self.called(node, value, namespace);
            if name == "union" {
                let what = "a union cannot contain a union";
                return Err(Problem::new(what).inside(&place));
            }
            if by_name.insert(Box::from(&*name), index).is_some() {
                let what = format!("the union contains {} twice", quoted(&name));
                return Err(Problem::new(what).inside(&place));
            }
            branches.push(Branch { name: name.into(), node });
        }
        self.add(Node::Union(Union { branches, by_name }))
    }

    /// What a union calls a branch. A record that is just being read is not there yet; it is
    /// then here by its name.
    fn called(&self, id: NodeId, value: &Value, namespace: &str) -> String {
        match (self.nodes.get(id.0 as usize), reference(value)) {
            (Some(Node::Null), Some(name)) if name != "null" => {
                names::full(name, namespace).unwrap_or_default()
            }
            (Some(node), _) => node.called().to_owned(),
            (None, _) => String::new(),
        }
    }

    fn define(&mut self, named: &Named, id: NodeId) -> Result<(), Problem> {
        if PRIMITIVES.contains(&names::last(&named.full)) {
            let what = format!("{} is the name of a type of Avro's own", quoted(&named.full));
            return Err(Problem::new(what));
        }
        if self.known.insert(named.full.to_string(), id).is_some() {
            let what = format!("type {} is defined twice", quoted(&named.full));
            return Err(Problem::new(what));
        }
        Ok(())
    }

    /// Reads a part; a problem in it is one in that part.
    fn within<T>(
        &mut self,
        part: &str,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.path.push(part.to_owned());
        let done = read(self).map_err(|problem| problem.inside(part));
        self.path.pop();
        done
    }

    fn add(&mut self, node: Node) -> Result<NodeId, Problem> {
        let too_many = |_| Problem::new("the definition has too many types");
        let id = NodeId(u32::try_from(self.nodes.len()).map_err(too_many)?);
        self.nodes.push(node);
        Ok(id)
    }

    fn set(&mut self, id: NodeId, node: Node) {
        if let Some(place) = self.nodes.get_mut(id.0 as usize) {
            *place = node;
        }
    }
}

/// The name that a type consists of, written plainly or as `{"type": "name"}`.
fn reference(value: &Value) -> Option<&str> {
    match value {
        Value::String(name) => Some(name),
        Value::Object(object) => object.get("type").and_then(reference),
        _ => None,
    }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::String,
        _ => return None,
    })
}

fn read_named(object: &Object, namespace: &str) -> Result<Named, Problem> {
    let name = text(object, "name")?;
    let own = match object.get("namespace") {
        None => namespace,
        Some(Value::String(own)) => own,
        Some(_) => return Err(Problem::new("\"namespace\" must be a text")),
    };
    let full = names::full(name, own)?;
    let inner = names::namespace(&full);
    let aliases = texts(object, "aliases")?.into_iter();
    let aliases = aliases.map(|alias| names::full(alias, inner).map(Box::from));
    let aliases = aliases.collect::<Result<_, _>>().map_err(|problem| problem.inside("aliases"))?;
    Ok(Named { full: full.into(), aliases })
}

fn text<'v>(object: &'v Object, key: &str) -> Result<&'v str, Problem> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Problem::new(format!("\"{key}\" must be a text"))),
        None => Err(Problem::new(format!("\"{key}\" is missing"))),
    }
}

fn list<'v>(object: &'v Object, key: &str) -> Result<&'v [Value], Problem> {
    match object.get(key) {
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Problem::new(format!("\"{key}\" must be an array"))),
        None => Err(Problem::new(format!("\"{key}\" is missing"))),
    }
}

/// A list of texts; none where there is no such key.
fn texts<'v>(object: &'v Object, key: &str) -> Result<Vec<&'v str>, Problem> {
    if !object.contains_key(key) {
        return Ok(Vec::new());
    }
    let texts = list(object, key)?.iter().map(Value::as_str).collect::<Option<_>>();
    texts.ok_or_else(|| Problem::new(format!("\"{key}\" must be an array of texts")))
}

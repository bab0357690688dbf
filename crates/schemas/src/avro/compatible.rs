//! Whether two definitions can read what the other wrote, by Avro's rules of schema resolution.

use std::collections::HashSet;

use super::names;
use super::tree::{Branch, Enum, Named, Node, NodeId, Record, Tree, Union};
use crate::problem::{Problem, quoted};

/// Checks both directions: a topic may accept several revisions at a time, and a consumer may
/// have either.
pub(crate) fn check(new: &Tree, old: &Tree) -> Result<(), Problem> {
    can_read(new, old).map_err(|problem| of("the new revision cannot read the old", problem))?;
    can_read(old, new).map_err(|problem| of("the old revision cannot read the new", problem))
}

fn of(direction: &str, problem: Problem) -> Problem {
    let what = format!("{direction}: {}", problem.what);
    Problem { place: problem.place, ..Problem::new(what) }
}

/// Whether everything that `writer` may have written can be read.
///
/// A list of pairs to look at instead of a recursion, each pair once: types may contain themselves
/// and may be chained as long as the definition is.
fn can_read(reader: &Tree, writer: &Tree) -> Result<(), Problem> {
    let mut walk = Walk { reader, writer, seen: HashSet::new(), pairs: Vec::new() };
    walk.push(reader.root, writer.root, None, "");
    let mut next = 0;
    while let Some((read, write)) = walk.pairs.get(next).map(|pair| (pair.read, pair.write)) {
        let parent = Some(next);
        if let Err(problem) = walk.pair(read, write, parent) {
            return Err(walk.place(problem, parent));
        }
        next += 1;
    }
    Ok(())
}

struct Pair {
    read: NodeId,
    write: NodeId,
    /// The pair that this one is a part of, and the part.
    parent: Option<usize>,
    part: Box<str>,
}

struct Walk<'t> {
    reader: &'t Tree,
    writer: &'t Tree,
    seen: HashSet<(NodeId, NodeId)>,
    pairs: Vec<Pair>,
}

impl<'t> Walk<'t> {
    fn push(&mut self, read: NodeId, write: NodeId, parent: Option<usize>, part: &str) {
        if self.seen.insert((read, write)) {
            self.pairs.push(Pair { read, write, parent, part: part.into() });
        }
    }

    /// The problem, with the names on the way to it.
    fn place(&self, mut problem: Problem, mut index: Option<usize>) -> Problem {
        while let Some(pair) = index.and_then(|index| self.pairs.get(index)) {
            if !pair.part.is_empty() {
                problem = problem.inside(&pair.part);
            }
            index = pair.parent;
        }
        problem
    }

    fn pair(&mut self, read: NodeId, write: NodeId, at: Option<usize>) -> Result<(), Problem> {
        match (self.reader.node(read), self.writer.node(write)) {
            (_, Node::Union(union)) => {
                for branch in &union.branches {
                    self.push(read, branch.node, at, "");
                }
                Ok(())
            }
            (Node::Union(union), written) => {
                let found = self.branch(union, written);
                let Some(branch) = found else {
                    let what = format!("the union has no branch for {}", written.called());
                    return Err(Problem::new(what));
                };
                self.push(branch.node, write, at, "");
                Ok(())
            }
            (reading, written) if !matches(reading, written) => {
                let (reading, written) = (reading.called(), written.called());
                Err(Problem::new(format!("{written} cannot be read as {reading}")))
            }
            (Node::Array(read), Node::Array(write)) | (Node::Map(read), Node::Map(write)) => {
                self.push(*read, *write, at, "[]");
                Ok(())
            }
            (Node::Enum(read), Node::Enum(write)) => enums(read, write),
            (Node::Record(read), Node::Record(write)) => self.records(read, write, at),
            _ => Ok(()),
        }
    }

    /// The branch that reads a type: the one of that very name, or the first that matches. Names
    /// match without their namespaces, and a union may have several such.
    fn branch(&self, union: &'t Union, written: &Node) -> Option<&'t Branch> {
        let is_match = |branch: &&Branch| matches(self.reader.node(branch.node), written);
        let same = union.branch(written.called()).filter(is_match);
        same.or_else(|| union.branches.iter().find(is_match))
    }

    fn records(
        &mut self,
        read: &'t Record,
        write: &'t Record,
        at: Option<usize>,
    ) -> Result<(), Problem> {
        for field in &read.fields {
            let mut known = std::iter::once(&field.name).chain(&field.aliases);
            let written = known.find_map(|name| write.by_name.get(name));
            match written.and_then(|index| write.fields.get(*index)) {
                Some(written) => self.push(field.node, written.node, at, &field.name),
                None if field.has_default => {}
                None => {
                    let name = quoted(&field.name);
                    let what = format!("field {name} is not written, and has no default");
                    return Err(Problem::new(what));
                }
            }
        }
        Ok(())
    }
}

fn enums(read: &Enum, write: &Enum) -> Result<(), Problem> {
    let unknown = write.symbols.iter().find(|symbol| !read.known.contains(*symbol));
    match unknown {
        Some(symbol) if !read.has_default => Err(Problem::new(format!(
            "symbol {} is not known, and there is no default",
            quoted(symbol)
        ))),
        _ => Ok(()),
    }
}

/// Whether two types match, before their parts are looked at: Avro's word for what decides which
/// branch of a union reads a value.
fn matches(read: &Node, write: &Node) -> bool {
    match (read, write) {
        (Node::Long | Node::Float | Node::Double, Node::Int)
        | (Node::Float | Node::Double, Node::Long)
        | (Node::Double, Node::Float)
        | (Node::Bytes, Node::String)
        | (Node::String, Node::Bytes) => true,
        (Node::Fixed(read), Node::Fixed(write)) => {
            read.size == write.size && is_named(&read.named, &write.named)
        }
        (Node::Enum(read), Node::Enum(write)) => is_named(&read.named, &write.named),
        (Node::Record(read), Node::Record(write)) => is_named(&read.named, &write.named),
        _ => std::mem::discriminant(read) == std::mem::discriminant(write),
    }
}

/// Names are the same without their namespaces, or the reader knows the writer's as an alias.
fn is_named(read: &Named, write: &Named) -> bool {
    names::last(&read.full) == names::last(&write.full) || read.aliases.contains(&write.full)
}

//! The fields that filters test, each as a number.
//!
//! They form a tree from name to name, so that a document is walked once from its own side: a
//! member costs one lookup, however many fields there are. A field is known as long as a filter
//! names it.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::slab::Slab;
use crate::filter::Field;

/// The parent of all data paths.
pub(super) const DATA: u32 = 0;
/// The parent of all attribute keys.
pub(super) const ATTRIBUTES: u32 = 1;

#[derive(Clone, Debug)]
pub(super) struct Paths {
    hasher: RandomState,
    nodes: Slab<Node>,
    by_name: HashTable<u32>,
}

#[derive(Clone, Debug)]
struct Node {
    above: u32,
    name: Box<[u8]>,
    /// How many filters name exactly this field.
    uses: u32,
    below: u32,
}

impl Paths {
    pub(super) fn new(hasher: RandomState) -> Self {
        let mut nodes = Slab::default();
        for root in [DATA, ATTRIBUTES] {
            nodes.insert(Node { above: root, name: Box::default(), uses: 1, below: 0 });
        }
        Self { hasher, nodes, by_name: HashTable::new() }
    }

    /// All numbers are below this.
    pub(super) fn bound(&self) -> usize {
        self.nodes.bound()
    }

    /// The field's number, for a filter that names it from now on.
    pub(super) fn acquire(&mut self, field: &Field) -> u32 {
        let path = match field {
            Field::Attribute(key) => self.below(ATTRIBUTES, key.as_bytes()),
            Field::Data(path) => {
                path.iter().fold(DATA, |above, name| self.below(above, name.as_bytes()))
            }
        };
        if let Some(node) = self.nodes.get_mut(path) {
            node.uses += 1;
        }
        path
    }

    /// One filter fewer names this field.
    pub(super) fn release(&mut self, path: u32) {
        if let Some(node) = self.nodes.get_mut(path) {
            node.uses -= 1;
        }
        let mut at = path;
        while let Some(Node { above, uses: 0, below: 0, .. }) = self.nodes.get(at) {
            let above = *above;
            let hash = self.hash_of(at);
            if let Ok(entry) = self.by_name.find_entry(hash, |held| *held == at) {
                entry.remove();
            }
            self.nodes.remove(at);
            if let Some(node) = self.nodes.get_mut(above) {
                node.below -= 1;
            }
            at = above;
        }
    }

    /// The child of this name under another field, if a filter names it or one below it.
    pub(super) fn find(&self, above: u32, name: &[u8]) -> Option<u32> {
        let is = |held: &u32| {
            self.nodes.get(*held).is_some_and(|node| node.above == above && *node.name == *name)
        };
        self.by_name.find(self.hash(above, name), is).copied()
    }

    /// The number of a field, if a filter names it.
    pub(super) fn lookup(&self, field: &Field) -> Option<u32> {
        match field {
            Field::Attribute(key) => self.find(ATTRIBUTES, key.as_bytes()),
            Field::Data(path) => {
                path.iter().try_fold(DATA, |above, name| self.find(above, name.as_bytes()))
            }
        }
    }

    /// The field of a number.
    pub(super) fn field(&self, path: u32) -> Option<Field> {
        let mut names = Vec::new();
        let mut at = path;
        while at != DATA && at != ATTRIBUTES {
            let node = self.nodes.get(at)?;
            names.push(String::from_utf8(node.name.to_vec()).ok()?);
            at = node.above;
        }
        names.reverse();
        if at == DATA { Some(Field::Data(names)) } else { names.pop().map(Field::Attribute) }
    }

    /// Whether filters name fields below this one.
    pub(super) fn has_below(&self, path: u32) -> bool {
        self.nodes.get(path).is_some_and(|node| node.below > 0)
    }

    fn below(&mut self, above: u32, name: &[u8]) -> u32 {
        if let Some(path) = self.find(above, name) {
            return path;
        }
        let path = self.nodes.insert(Node { above, name: name.into(), uses: 0, below: 0 });
        if let Some(node) = self.nodes.get_mut(above) {
            node.below += 1;
        }
        let hash = self.hash(above, name);
        let Self { hasher, nodes, by_name } = self;
        by_name.insert_unique(hash, path, |held| {
            nodes.get(*held).map_or(0, |node| hasher.hash_one((node.above, &*node.name)))
        });
        path
    }

    fn hash(&self, above: u32, name: &[u8]) -> u64 {
        self.hasher.hash_one((above, name))
    }

    fn hash_of(&self, path: u32) -> u64 {
        self.nodes.get(path).map_or(0, |node| self.hash(node.above, &node.name))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(path: &[&str]) -> Field {
        Field::Data(path.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_field_is_known_while_it_is_named() {
        let mut paths = Paths::new(RandomState::new());
        let long = paths.acquire(&data(&["a", "b", "c"]));
        let short = paths.acquire(&data(&["a", "b"]));
        let again = paths.acquire(&data(&["a", "b"]));
        let key = paths.acquire(&Field::Attribute("a".to_owned()));
        assert_eq!((short, paths.len()), (again, 4));
        assert_ne!(paths.find(DATA, b"a"), Some(key));
        assert_eq!(paths.lookup(&data(&["a", "b", "c"])), Some(long));
        assert_eq!(paths.field(long), Some(data(&["a", "b", "c"])));
        assert_eq!(paths.field(key), Some(Field::Attribute("a".to_owned())));
        assert!(paths.has_below(short) && !paths.has_below(long));
        paths.release(short);
        paths.release(long);
        assert_eq!((paths.find(short, b"c"), paths.len()), (None, 3));
        paths.release(again);
        assert_eq!((paths.find(DATA, b"a"), paths.len()), (None, 1));
        paths.release(key);
        assert_eq!(paths.len(), 0);
        assert!(!paths.has_below(DATA) && !paths.has_below(ATTRIBUTES));
    }
}

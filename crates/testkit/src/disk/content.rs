//! What is on the disk, what is only in its cache, and what of the cache may reach the disk.
//!
//! ```text
//! cached  = what reads see                 names      = what `open` and `list` see
//! kept    = what a power cut leaves        kept_names = the names a power cut leaves
//! unsynced = changes of `cached` not yet in `kept`, in order; `moves` the same for names
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::fault::Errno;

/// One file, whatever its name is at the moment.
#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) cached: Arc<Vec<u8>>,
    pub(super) kept: Arc<Vec<u8>>,
    pub(super) unsynced: Vec<Change>,
    /// Changes whose sync failed: the cache counts them as clean, so no later sync writes them,
    /// but some of their bytes may have reached the disk.
    pub(super) lost: Vec<Change>,
    /// Space taken: up to here writes need no new space.
    pub(super) allocated: u64,
}

/// A change of a file's content, with its place in the order of all changes of the disk.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) order: u64,
    pub(super) what: What,
}

#[derive(Clone)]
pub(super) enum What {
    Write { at: u64, bytes: Arc<[u8]> },
    Length(u64),
}

/// A change of names.
#[derive(Clone)]
pub(super) struct Move {
    pub(super) order: u64,
    /// The name that goes away.
    pub(super) from: Option<String>,
    /// The name that comes, and the file it names.
    pub(super) to: Option<(String, usize)>,
}

#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) inodes: Vec<Inode>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) kept_names: BTreeMap<String, usize>,
    pub(super) moves: Vec<Move>,
    pub(super) capacity: Option<u64>,
    pub(super) changes: u64,
}

impl What {
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => write(content, *at, bytes),
            Self::Length(length) => content.resize(place(*length), 0),
        }
    }
}

impl Move {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, inode)) = &self.to {
            names.insert(to.clone(), *inode);
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.from.as_deref().into_iter().chain(self.to.as_ref().map(|(name, _)| name.as_str()))
    }
}

/// Writes `bytes` at `at`, filling what lies between with zeros.
pub(super) fn write(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = place(at);
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Content {
    fn next_change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    pub(super) fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What the file is called now.
    pub(super) fn name(&self, inode: usize) -> &str {
        let named = self.names.iter().find(|(_, named)| **named == inode);
        named.map_or("(removed)", |(name, _)| name)
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<usize> {
        if let Ok(inode) = self.inode(name) {
            self.set_len(inode, 0)?;
            return Ok(inode);
        }
        let inode = self.inodes.len();
        self.inodes.push(Inode::default());
        self.change_names(None, Some((name.to_owned(), inode)));
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.inode(from)?;
        self.change_names(Some(from.to_owned()), Some((to.to_owned(), inode)));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.inode(name)?;
        self.change_names(Some(name.to_owned()), None);
        Ok(())
    }

    fn change_names(&mut self, from: Option<String>, to: Option<(String, usize)>) {
        let change = Move { order: self.next_change(), from, to };
        change.apply(&mut self.names);
        self.moves.push(change);
    }

    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let inside = self.names.keys().filter(|name| folder_of(name) == folder);
        inside.map(|name| name[name.rfind('/').map_or(0, |slash| slash + 1)..].to_owned()).collect()
    }

    /// Keeps every change of names in `folder`, and the earlier ones it builds on. Changes in
    /// other folders stay unsynced: nothing promises that one folder's sync carries another's.
    pub(super) fn sync_folder(&mut self, folder: &str) {
        let mut touched = BTreeSet::new();
        let mut synced = vec![false; self.moves.len()];
        for (place, change) in self.moves.iter().enumerate().rev() {
            let inside = change.names().any(|name| folder_of(name) == folder);
            if inside || change.names().any(|name| touched.contains(name)) {
                synced[place] = true;
                touched.extend(change.names().map(str::to_owned));
            }
        }
        let mut place = 0;
        let kept_names = &mut self.kept_names;
        self.moves.retain(|change| {
            let synced = synced[place];
            place += 1;
            if synced {
                change.apply(kept_names);
            }
            !synced
        });
    }

    pub(super) fn write_at(&mut self, inode: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.take_space(inode, at + bytes.len() as u64)?;
        self.change(inode, What::Write { at, bytes: bytes.into() });
        Ok(())
    }

    pub(super) fn set_len(&mut self, inode: usize, length: u64) -> io::Result<()> {
        let allocated = &mut self.inodes[inode].allocated;
        *allocated = (*allocated).min(length);
        self.change(inode, What::Length(length));
        Ok(())
    }

    pub(super) fn allocate(&mut self, inode: usize, length: u64) -> io::Result<()> {
        self.take_space(inode, length)?;
        if (self.inodes[inode].cached.len() as u64) < length {
            self.change(inode, What::Length(length));
        }
        Ok(())
    }

    fn change(&mut self, inode: usize, what: What) {
        let order = self.next_change();
        let inode = &mut self.inodes[inode];
        what.apply(Arc::make_mut(&mut inode.cached));
        inode.unsynced.push(Change { order, what });
    }

    pub(super) fn sync(&mut self, inode: usize) {
        let inode = &mut self.inodes[inode];
        if inode.unsynced.is_empty() {
            return;
        }
        inode.lost.clear();
        let kept = Arc::make_mut(&mut inode.kept);
        for change in inode.unsynced.drain(..) {
            change.what.apply(kept);
        }
    }

    /// A sync that failed: its changes count as clean from now on and are never written.
    pub(super) fn lose(&mut self, inode: usize) {
        let inode = &mut self.inodes[inode];
        inode.lost.append(&mut inode.unsynced);
    }

    /// Bytes taken by the files that have a name.
    pub(super) fn used(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[*inode].allocated).sum()
    }

    fn take_space(&mut self, inode: usize, end: u64) -> io::Result<()> {
        let more = end.saturating_sub(self.inodes[inode].allocated);
        if more > 0 && self.capacity.is_some_and(|capacity| self.used() + more > capacity) {
            return Err(Errno::NoSpace.into());
        }
        self.inodes[inode].allocated += more;
        Ok(())
    }
}

//! What is left of a disk after the power was cut.

use std::sync::Arc;

use super::content::{Change, Content, Inode, What};
use crate::Random;

/// Which unsynced changes happened to reach the disk before the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// None of them.
    LosesUnsynced,
    /// All of them, even those whose sync failed.
    LosesNothing,
    /// In the order in which they were made, the first `whole` ones, and the first `torn` bytes
    /// of the next one if it is a write.
    Prefix {
        /// How many survive.
        whole: usize,
        /// How much of the one after them survives.
        torn: usize,
    },
    /// Each sector of each write survives or not, cut anywhere; of the changes of names the first
    /// ones; all drawn from this seed.
    Random(
        /// The seed.
        u64,
    ),
}

const SECTOR: usize = 512;

/// The content as the cut leaves it: nothing unsynced is left.
pub(super) fn after(content: &Content, cut: Cut) -> Content {
    let mut left = Content { capacity: content.capacity, ..Content::default() };
    left.inodes.clone_from(&content.inodes);
    left.kept_names.clone_from(&content.kept_names);
    match cut {
        Cut::LosesUnsynced => {}
        Cut::LosesNothing => keep_orders(content, &mut left, u64::MAX, 0),
        Cut::Prefix { whole, torn } => {
            let orders = orders(content);
            let bound = orders.get(whole).copied().unwrap_or(u64::MAX);
            keep_orders(content, &mut left, bound, torn);
        }
        Cut::Random(seed) => keep_randomly(content, &mut left, &mut Random::seeded(seed)),
    }
    left.names.clone_from(&left.kept_names);
    for inode in &mut left.inodes {
        inode.cached = Arc::clone(&inode.kept);
        inode.unsynced.clear();
        inode.lost.clear();
        inode.allocated = inode.kept.len() as u64;
    }
    left
}

/// The orders of all unsynced changes, ascending.
pub(super) fn orders(content: &Content) -> Vec<u64> {
    let writes = content.inodes.iter().flat_map(|inode| &inode.unsynced);
    let mut orders: Vec<_> = writes.map(|change| change.order).collect();
    orders.extend(content.moves.iter().map(|change| change.order));
    orders.sort_unstable();
    orders
}

/// Changes that may survive: those whose sync failed, then those not synced yet.
fn survivors(inode: &Inode) -> impl Iterator<Item = &Change> {
    inode.lost.iter().chain(&inode.unsynced)
}

/// Keeps what came before `bound`, and `torn` bytes of what is at it.
fn keep_orders(content: &Content, left: &mut Content, bound: u64, torn: usize) {
    for (inode, kept) in content.inodes.iter().zip(&mut left.inodes) {
        for change in survivors(inode) {
            if change.order < bound {
                change.what.apply(Arc::make_mut(&mut kept.kept));
            } else if let (What::Write { at, bytes }, true) = (&change.what, change.order == bound)
            {
                let bytes: Arc<[u8]> = bytes[..torn.min(bytes.len())].into();
                if !bytes.is_empty() {
                    What::Write { at: *at, bytes }.apply(Arc::make_mut(&mut kept.kept));
                }
            }
        }
    }
    for change in content.moves.iter().filter(|change| change.order < bound) {
        change.apply(&mut left.kept_names);
    }
}

fn keep_randomly(content: &Content, left: &mut Content, random: &mut Random) {
    for (inode, kept) in content.inodes.iter().zip(&mut left.inodes) {
        for change in survivors(inode) {
            // Whole changes are lost or kept more often than not, so that later ones matter.
            match random.below(4) {
                0 => {}
                1 => change.what.apply(Arc::make_mut(&mut kept.kept)),
                _ => keep_sectors(&change.what, Arc::make_mut(&mut kept.kept), random),
            }
        }
    }
    let moves = random.index(content.moves.len() + 1);
    for change in &content.moves[..moves] {
        change.apply(&mut left.kept_names);
    }
}

fn keep_sectors(what: &What, content: &mut Vec<u8>, random: &mut Random) {
    let What::Write { at, bytes } = what else {
        what.apply(content);
        return;
    };
    let mut at = *at;
    for sector in bytes.chunks(SECTOR) {
        let survives = match random.below(8) {
            0..4 => sector.len(),
            4..7 => 0,
            _ => random.index(sector.len() + 1),
        };
        if survives > 0 {
            super::content::write(content, at, &sector[..survives]);
        }
        at += sector.len() as u64;
    }
}

//! Chores that run beside the work, one file each.

pub(crate) mod checkpointer;
pub(crate) mod clock_watcher;
pub(crate) mod expirer;
pub(crate) mod retention;

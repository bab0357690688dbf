//! Chores that run beside the work, one file each.

mod checkpointer;
mod clock_watcher;
mod copy;
mod expirer;
mod retention;

pub(crate) use checkpointer::Checkpointer;
pub use clock_watcher::ClockStatus;
pub(crate) use clock_watcher::ClockWatcher;
pub(crate) use expirer::Expirer;

//! The core over the store in memory, on one thread and by a clock of its own.

mod answers;
mod bed;
mod histories;
mod owners;
mod pool;
mod trimming;

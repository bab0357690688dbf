//! The engine for one machine: a write-ahead log, topic segments, SQLite.

mod seam;

pub use seam::{Disk, File};

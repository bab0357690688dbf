//! The engine without a disk.

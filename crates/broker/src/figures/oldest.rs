//! The oldest unacked record.

use domain::{Offset, Timestamp};
use storage::ReadLimit;

/// The record at a subscription's cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oldest {
    /// The cursor for which it was found.
    pub(crate) cursor: Offset,
    pub(crate) publish_time: Timestamp,
    /// Bytes of its body.
    pub(crate) bytes: u64,
}

/// One record from the cursor on.
pub(crate) const ONE: ReadLimit = ReadLimit { records: 1, bytes: 0 };

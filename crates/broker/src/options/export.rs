//! What exporting can be told.

use export::Place;

/// What exporting can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Where buckets are; `None` = nowhere, so that no subscription can be exported.
    pub place: Option<Place>,
    /// Bytes of messages and unsent parts of objects in memory, all together.
    pub memory_bytes_max: usize,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { place: None, memory_bytes_max: 64 << 20 }
    }
}

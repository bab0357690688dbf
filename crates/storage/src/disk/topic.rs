//! Where the disk has a topic's records.

use std::sync::Arc;

use domain::Offset;

use super::database::TopicRow;
use super::format::{BLOCK, GROUP_HEADER};
use super::index::WalIndex;
use super::segments::Segment;
use crate::front::{self, Part};

/// One topic of the log.
///
/// ```text
/// low ≤ segments (with gaps) < log index (dense) ≤ end
///                                   memory (dense) ≤ end
/// ```
pub(super) type Topic = front::Topic<Places>;
/// What changes about it.
pub(super) type State = front::State<Places>;
/// Every topic the log knows.
pub(super) type Topics = front::Topics<Places>;

/// The disk's own part of a topic.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The records in the write-ahead log.
    pub log: WalIndex,
    /// The older records, in segment files, ascending.
    pub segments: Vec<Arc<Segment>>,
    /// What the last checkpoint wrote about it.
    pub saved: Option<TopicRow>,
}

impl Part for Places {
    const HEADER: usize = GROUP_HEADER;
    const BLOCK: usize = BLOCK;
}

impl State {
    /// The lowest offset that is kept, or the end.
    pub(super) fn low(&self) -> Offset {
        let segment = self.own.segments.first().map(|segment| segment.first);
        segment.or_else(|| self.own.log.first()).unwrap_or(self.end)
    }
}

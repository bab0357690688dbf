//! Finds the good records in a stretch of the log whose groups are damaged.
#![warn(clippy::indexing_slicing)]

use std::collections::BTreeMap;

use domain::{Offset, TopicId};

use super::format::{RECORD_HEADER, RecordHead, record_holds, to_usize};
use super::outgoing::{Mover, Outgoing};
use super::scan::Scanner;
use crate::Result;

/// Hands every record between `at` and `end` with a valid checksum to its topic.
///
/// A record does not name its topic: its checksum identifies it, and its offset says which topics
/// to try. Frames are ignored, since the damage may be in their lengths.
pub(super) fn salvage(
    mover: &mut Mover<'_>,
    scanner: &mut Scanner<'_>,
    (mut at, end): (u64, u64),
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    while at + RECORD_HEADER as u64 <= end {
        let seen = (RECORD_HEADER as u64 + 8).min(end - at);
        let head = RecordHead::decode(scanner.bytes(at, to_usize(seen))?);
        let Some(head) = head.filter(|head| head.length as u64 <= end - at) else {
            at += 1;
            continue;
        };
        if !topics.values().any(|outgoing| outgoing.awaits(head.offset)) {
            at += 1;
            continue;
        }
        let record = scanner.bytes(at, head.length)?;
        match owner(topics, head.offset, record) {
            Some(outgoing) => {
                outgoing.take_found(mover, &head, record)?;
                at += head.length as u64;
            }
            None => at += 1,
        }
    }
    Ok(())
}

fn owner<'topics>(
    topics: &'topics mut BTreeMap<TopicId, Outgoing>,
    offset: Offset,
    record: &[u8],
) -> Option<&'topics mut Outgoing> {
    topics
        .values_mut()
        .find(|outgoing| outgoing.awaits(offset) && record_holds(record, outgoing.topic.seed))
}

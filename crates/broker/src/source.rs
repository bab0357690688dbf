//! Records for a `Delivery`: from what was read from disk, or else from the log's memory.

use domain::delivery::{self, Read};
use domain::{Offset, OffsetRange, Record, TopicId};
use storage::{Batch, MessageLog, ReadLimit, TailRead};

pub(crate) struct Source<'source> {
    log: &'source dyn MessageLog,
    topic: TopicId,
    fetched: Option<&'source Batch>,
}

impl<'source> Source<'source> {
    pub(crate) fn new(
        log: &'source dyn MessageLog,
        topic: TopicId,
        fetched: Option<&'source Batch>,
    ) -> Self {
        Self { log, topic, fetched }
    }
}

impl delivery::Source for Source<'_> {
    fn read(&mut self, from: Offset, records_max: usize, bytes_max: usize) -> Read {
        if let Some(batch) = self.fetched.filter(|batch| batch.covered.contains(from)) {
            return part(batch, from, records_max, bytes_max);
        }
        let limit = ReadLimit { records: records_max, bytes: bytes_max };
        match self.log.read_tail(self.topic, from, limit) {
            TailRead::Records(Batch { covered, records, damaged }) => {
                Read::Records { covered, records, damaged }
            }
            TailRead::AtEnd => Read::AtEnd,
            TailRead::NotInMemory => Read::Elsewhere,
        }
    }
}

/// What is at an offset.
pub(crate) enum Found {
    Record(Record),
    /// Nothing: it was dropped because nobody needed it, or never existed.
    Gap,
    /// A record that is unreadable.
    Damaged,
}

/// Looks up one offset, in memory or on disk.
pub(crate) async fn find(
    log: &dyn MessageLog,
    topic: TopicId,
    offset: Offset,
) -> storage::Result<Found> {
    let limit = ReadLimit { records: 1, bytes: 0 };
    let batch = read_some(log, topic, offset, limit).await?;
    let mut records = batch.records.into_iter();
    Ok(match records.next().filter(|record| record.offset == offset) {
        Some(record) => Found::Record(record),
        None if batch.damaged.contains(&offset) => Found::Damaged,
        None => Found::Gap,
    })
}

/// Reads from `from` on, in memory or on disk. An empty `covered` means that `from` is the end.
pub(crate) async fn read_some(
    log: &dyn MessageLog,
    topic: TopicId,
    from: Offset,
    limit: ReadLimit,
) -> storage::Result<Batch> {
    match log.read_tail(topic, from, limit) {
        TailRead::Records(batch) => Ok(batch),
        TailRead::AtEnd => {
            let covered = OffsetRange { from, to: from };
            Ok(Batch { covered, records: Vec::new(), damaged: Vec::new() })
        }
        TailRead::NotInMemory => log.read(topic, from, limit).await,
    }
}

/// The part of `batch` from `from` on, within the limits but at least one record.
fn part(batch: &Batch, from: Offset, records_max: usize, bytes_max: usize) -> Read {
    let start = batch.records.partition_point(|record| record.offset < from);
    let behind = batch.records.get(start..).unwrap_or_default();
    let mut bytes = 0_usize;
    let fitting = behind.iter().take(records_max.max(1)).take_while(|record| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(record.body.len());
        is_first || bytes <= bytes_max
    });
    let records: Vec<_> = fitting.cloned().collect();
    let to = match behind.get(records.len()) {
        Some(left) => left.offset,
        None => batch.covered.to,
    };
    let covered = OffsetRange { from, to };
    let damaged = batch.damaged.iter().copied().filter(|offset| covered.contains(*offset));
    Read::Records { covered, damaged: damaged.collect(), records }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{Record, Timestamp};

    use super::*;

    fn batch() -> Batch {
        let record = |offset: u64| Record {
            offset: Offset(offset),
            publish_time: Timestamp(1),
            addressee: None,
            body: Bytes::from_static(b"0123456789"),
        };
        Batch {
            covered: OffsetRange { from: Offset(10), to: Offset(20) },
            records: vec![record(10), record(11), record(14), record(15)],
            damaged: vec![Offset(13), Offset(16)],
        }
    }

    fn taken(from: u64, records_max: usize, bytes_max: usize) -> (Vec<u64>, u64, Vec<u64>) {
        match part(&batch(), Offset(from), records_max, bytes_max) {
            Read::Records { covered, records, damaged } => (
                records.iter().map(|record| record.offset.0).collect(),
                covered.to.0,
                damaged.iter().map(|offset| offset.0).collect(),
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_ends_before_the_first_record_left_out() {
        assert_eq!(taken(10, 2, 1_000), (vec![10, 11], 14, vec![13]));
        assert_eq!(taken(11, 9, 25), (vec![11, 14], 15, vec![13]));
        assert_eq!(taken(12, 9, 1_000), (vec![14, 15], 20, vec![13, 16]));
        assert_eq!(taken(17, 9, 1_000), (vec![], 20, vec![]));
    }

    #[test]
    fn one_record_comes_however_large() {
        assert_eq!(taken(10, 9, 1), (vec![10], 11, vec![]));
    }
}

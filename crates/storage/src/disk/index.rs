//! Where a topic's records are in the write-ahead log: at most one span per 64 KiB, in memory.

use std::collections::VecDeque;

use domain::{Offset, OffsetRange, Timestamp};

use super::format::to_usize;

/// A span grows to this many bytes of the file before the next one starts.
const SPAN_BYTES: u32 = 64 << 10;
/// Spans this close together are read in one go.
const HOLE_BYTES_MAX: u32 = 16 << 10;

/// Where some of a topic's frames are, among frames of other topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The log file.
    pub sequence: u64,
    /// Where the first frame starts.
    pub start: u32,
    /// Where the last frame ends.
    pub end: u32,
    /// The offset of the first record.
    pub first: Offset,
    /// When the first record was published.
    pub time: Timestamp,
}

/// A stretch of a log file to be read, and the offset that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub sequence: u64,
    pub start: u32,
    pub end: u32,
    pub first: Offset,
    pub next: Offset,
}

/// The spans of one topic, oldest first. Offsets are dense from the first span to the topic's end.
#[derive(Debug, Default)]
pub(super) struct WalIndex {
    spans: VecDeque<Span>,
}

impl WalIndex {
    /// Notes one more frame, after all others.
    pub(super) fn push(&mut self, frame: Span) {
        match self.spans.back_mut() {
            Some(last)
                if last.sequence == frame.sequence && frame.end - last.start <= SPAN_BYTES =>
            {
                last.end = frame.end;
            }
            _ => self.spans.push_back(frame),
        }
    }

    /// The lowest offset in the log; `None` if there is none.
    pub(super) fn first(&self) -> Option<Offset> {
        self.spans.front().map(|span| span.first)
    }

    /// What to read to find `from`, which is not below `first`: up to about `bytes_max` of one
    /// file, at least one span. `end` is the topic's end.
    pub(super) fn window(&self, from: Offset, end: Offset, bytes_max: u32) -> Option<Window> {
        let at = self.spans.partition_point(|span| span.first <= from).checked_sub(1)?;
        let mut spans = self.spans.range(at..);
        let span = spans.next()?;
        let mut window = Window {
            sequence: span.sequence,
            start: span.start,
            end: span.end,
            first: span.first,
            next: end,
        };
        for later in spans {
            window.next = later.first;
            let joins = later.sequence == window.sequence
                && later.start - window.end <= HOLE_BYTES_MAX
                && later.end - window.start <= bytes_max;
            if !joins {
                return Some(window);
            }
            window.end = later.end;
            window.next = end;
        }
        Some(window)
    }

    /// The offsets in file `sequence`. `end` is the topic's end.
    pub(super) fn within(&self, sequence: u64, end: Offset) -> Option<OffsetRange> {
        let start = self.spans.partition_point(|span| span.sequence < sequence);
        let stop = self.spans.partition_point(|span| span.sequence <= sequence);
        let from = self.spans.get(start).filter(|_| start < stop)?.first;
        let to = self.spans.get(stop).map_or(end, |span| span.first);
        Some(OffsetRange { from, to })
    }

    /// When the first of the records in file `sequence` was published.
    pub(super) fn time_within(&self, sequence: u64) -> Option<Timestamp> {
        let start = self.spans.partition_point(|span| span.sequence < sequence);
        self.spans.get(start).filter(|span| span.sequence == sequence).map(|span| span.time)
    }

    /// Bytes of the spans in file `sequence`, including frames of other topics in between.
    pub(super) fn bytes_within(&self, sequence: u64) -> usize {
        let start = self.spans.partition_point(|span| span.sequence < sequence);
        let spans = self.spans.range(start..).take_while(|span| span.sequence == sequence);
        spans.map(|span| to_usize(span.end - span.start)).sum()
    }

    /// Forgets every span in files up to `sequence`.
    pub(super) fn forget(&mut self, sequence: u64) {
        while self.spans.front().is_some_and(|span| span.sequence <= sequence) {
            self.spans.pop_front();
        }
        if self.spans.len() * 4 < self.spans.capacity() {
            self.spans.shrink_to(self.spans.len() * 2);
        }
    }

    /// An offset at or before the first record published at `time` or later, as far as the spans
    /// tell; `None` if every record in the log may be later.
    pub(super) fn before(&self, time: Timestamp) -> Option<Offset> {
        let at = self.spans.partition_point(|span| span.time < time).checked_sub(1)?;
        self.spans.get(at).map(|span| span.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(sequence: u64, start: u32, end: u32, first: u64) -> Span {
        Span { sequence, start, end, first: Offset(first), time: Timestamp(first * 10) }
    }

    fn index() -> WalIndex {
        let mut index = WalIndex::default();
        for (sequence, start, end, first) in [
            (1, 4_096, 30_000, 100),
            (1, 40_000, 60_000, 110),
            (1, 100_000, 170_000, 120),
            (1, 900_000, 910_000, 140),
            (2, 4_096, 9_000, 150),
        ] {
            index.push(frame(sequence, start, end, first));
        }
        index
    }

    #[test]
    fn near_frames_share_a_span() {
        let index = index();
        assert_eq!(index.spans.len(), 4);
        assert_eq!(index.spans[0].end, 60_000);
        assert_eq!(index.first(), Some(Offset(100)));
    }

    #[test]
    fn a_window_joins_neighbours_of_one_file() {
        let index = index();
        let window = index.window(Offset(115), Offset(160), 1 << 20).unwrap();
        assert_eq!((window.start, window.end, window.first), (4_096, 60_000, Offset(100)));
        assert_eq!(window.next, Offset(120), "the hole behind it is too wide");
        let window = index.window(Offset(159), Offset(160), 1 << 20).unwrap();
        assert_eq!((window.sequence, window.first, window.next), (2, Offset(150), Offset(160)));
        assert_eq!(index.window(Offset(99), Offset(160), 1 << 20), None);

        let mut dense = WalIndex::default();
        for at in 0..10 {
            dense.push(frame(1, 4_096 + at * 70_000, 4_096 + (at + 1) * 70_000, u64::from(at)));
        }
        let window = dense.window(Offset(2), Offset(10), 210_000).unwrap();
        assert_eq!((window.start, window.end), (4_096 + 140_000, 4_096 + 350_000));
        assert_eq!((window.first, window.next), (Offset(2), Offset(5)));
    }

    #[test]
    fn a_file_knows_its_offsets_until_it_is_forgotten() {
        let mut index = index();
        let range = |from, to| Some(OffsetRange { from: Offset(from), to: Offset(to) });
        assert_eq!(index.within(1, Offset(160)), range(100, 150));
        assert_eq!(index.within(2, Offset(160)), range(150, 160));
        assert_eq!(index.within(3, Offset(160)), None);
        let bytes = [1, 2, 3].map(|sequence| index.bytes_within(sequence));
        assert_eq!(bytes, [55_904 + 70_000 + 10_000, 4_904, 0]);
        index.forget(1);
        assert_eq!(index.first(), Some(Offset(150)));
        assert_eq!(index.within(1, Offset(160)), None);
    }

    #[test]
    fn a_time_leads_to_a_span_that_starts_before_it() {
        let index = index();
        assert_eq!(index.before(Timestamp(1_000)), None);
        assert_eq!(index.before(Timestamp(1_001)), Some(Offset(100)));
        assert_eq!(index.before(Timestamp(9_999)), Some(Offset(150)));
    }
}

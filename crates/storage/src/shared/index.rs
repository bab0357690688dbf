//! Where a topic's records are: which chunks hold them, which blocks.
//!
//! ```text
//! chunks   1 ─ 2 ─ 3 ─ 4 ─ 5 ─ 6 ─ 7 ─ 8 ─ 9 …
//!          └── stretch ──┘ └─ stretch ─┘ └─ open
//! topic      span  span      span          span
//! ```
//!
//! A stretch is what is saved, moved and trimmed as a whole; a span never reaches over its end.

use std::collections::{BTreeSet, VecDeque};

use domain::{Offset, OffsetRange, Timestamp, TopicId};

use super::chain::Link;

/// A span grows over this many bytes of chunks before the next one starts.
const SPAN_BYTES: u64 = 64 << 10;

/// Chunks with some of a topic's records, among those of other topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first and the last of the chunks.
    pub from: u64,
    pub to: u64,
    /// Bytes of the stretch before the first of them.
    pub at: u64,
    /// The offset of the first record.
    pub first: Offset,
    /// When the first record was published.
    pub time: Timestamp,
}

/// Where a chunk is in its stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub number: u64,
    /// The first chunk of the stretch.
    pub stretch: u64,
    /// Bytes of the stretch before the chunk, and with it.
    pub at: u64,
    pub end: u64,
}

/// Chunks to be read, and the offset that follows what they hold of the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub from: u64,
    pub to: u64,
    pub first: Offset,
    pub next: Offset,
}

/// The spans of one topic, oldest first. Offsets are dense from the first span to the topic's end.
#[derive(Debug, Default)]
pub(super) struct Spans(VecDeque<Span>);

impl Spans {
    /// Notes a frame of the chunk at `place`, after all others.
    pub(super) fn push(&mut self, place: Place, first: Offset, time: Timestamp) {
        match self.0.back_mut() {
            Some(last)
                if last.to == place.number
                    || last.from >= place.stretch && place.end - last.at <= SPAN_BYTES =>
            {
                last.to = place.number;
            }
            _ => {
                let (from, to) = (place.number, place.number);
                self.0.push_back(Span { from, to, at: place.at, first, time });
            }
        }
    }

    /// Adds a span that was saved, after all others.
    pub(super) fn adopt(&mut self, span: Span) {
        self.0.push_back(span);
    }

    /// The lowest offset in a chunk; `None` if there is none.
    pub(super) fn first(&self) -> Option<Offset> {
        self.0.front().map(|span| span.first)
    }

    /// What to read to find `from`, which is not below `first`: up to `spans_max` spans that follow
    /// each other without much in between. `end` is the topic's end.
    pub(super) fn window(&self, from: Offset, end: Offset, spans_max: usize) -> Option<Window> {
        const HOLE_MAX: u64 = 4;
        let at = self.0.partition_point(|span| span.first <= from).checked_sub(1)?;
        let mut spans = self.0.range(at..);
        let span = spans.next()?;
        let mut window = Window { from: span.from, to: span.to, first: span.first, next: end };
        for (count, later) in spans.enumerate() {
            window.next = later.first;
            if count + 1 >= spans_max || later.from > window.to + HOLE_MAX {
                return Some(window);
            }
            window.to = later.to;
            window.next = end;
        }
        Some(window)
    }

    /// The offsets in chunks up to `cut`, where a stretch ends. `end` is the topic's end.
    pub(super) fn up_to(&self, cut: u64, end: Offset) -> Option<OffsetRange> {
        let from = self.0.front().filter(|span| span.to <= cut)?.first;
        let stop = self.0.partition_point(|span| span.to <= cut);
        let to = self.0.get(stop).map_or(end, |span| span.first);
        Some(OffsetRange { from, to })
    }

    /// The spans in chunks `from..=to`.
    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Span> {
        let start = self.0.partition_point(|span| span.from < from);
        self.0.range(start..).take_while(move |span| span.to <= to)
    }

    /// Forgets every span in chunks up to `cut`.
    pub(super) fn forget(&mut self, cut: u64) {
        while self.0.front().is_some_and(|span| span.to <= cut) {
            self.0.pop_front();
        }
        if self.0.len() * 4 < self.0.capacity() {
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// An offset at or before the first record published at `time` or later, as far as the spans
    /// tell; `None` if every record in a chunk may be later.
    pub(super) fn before(&self, time: Timestamp) -> Option<Offset> {
        let at = self.0.partition_point(|span| span.time < time).checked_sub(1)?;
        self.0.get(at).map(|span| span.first)
    }
}

/// Some chunks in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its first chunk.
    pub from: u64,
    /// Its last chunk.
    pub last: Link,
    pub bytes: u64,
    /// Who has records in it; not known of one that was saved.
    pub topics: BTreeSet<TopicId>,
    pub is_saved: bool,
}

/// All chunks that are kept, oldest first.
#[derive(Debug)]
pub(super) struct Stretches {
    done: VecDeque<Stretch>,
    /// The one that chunks are added to; empty if it has no bytes.
    open: Stretch,
    bytes: u64,
    stretch_bytes: u64,
}

impl Stretches {
    /// The stretches that were saved, which end with `last`; others follow.
    pub(super) fn new(saved: Vec<Stretch>, last: Link, stretch_bytes: u64) -> Self {
        let bytes = saved.iter().map(|stretch| stretch.bytes).sum();
        let open = Stretch { from: last.number + 1, last, ..Stretch::default() };
        Self { done: saved.into(), open, bytes, stretch_bytes }
    }

    /// Adds the next chunk.
    pub(super) fn push(&mut self, chunk: Link, bytes: usize) -> Place {
        if self.open.bytes >= self.stretch_bytes {
            self.end();
        }
        let (stretch, at) = (self.open.from, self.open.bytes);
        self.open.bytes += bytes as u64;
        self.open.last = chunk;
        self.bytes += bytes as u64;
        Place { number: chunk.number, stretch, at, end: self.open.bytes }
    }

    /// Notes that `topic` has records in the last chunk.
    pub(super) fn note(&mut self, topic: TopicId) {
        self.open.topics.insert(topic);
    }

    /// Ends the open stretch if it has no chunk after `position`, and returns those up to there
    /// that are not saved.
    pub(super) fn unsaved(&mut self, position: u64) -> Vec<Stretch> {
        if self.open.bytes > 0 && self.open.last.number <= position {
            self.end();
        }
        let unsaved = self.done.iter().filter(|stretch| !stretch.is_saved);
        unsaved.take_while(|stretch| stretch.last.number <= position).cloned().collect()
    }

    /// Notes that the stretches up to `number` were saved.
    pub(super) fn saved(&mut self, number: u64) {
        for stretch in self.done.iter_mut().filter(|stretch| stretch.last.number <= number) {
            stretch.is_saved = true;
            stretch.topics = BTreeSet::new();
        }
    }

    /// The oldest saved stretches of about `bytes_max`, at least one, as long as `kept` bytes of
    /// chunks are left after them; how far they reach, and their bytes.
    pub(super) fn oldest(&self, bytes_max: u64, kept: u64) -> Option<(Vec<u64>, u64, u64)> {
        let (mut froms, mut bytes, mut cut) = (Vec::new(), 0, 0);
        for stretch in self.done.iter().take_while(|stretch| stretch.is_saved) {
            let with = bytes + stretch.bytes;
            if self.bytes - with < kept || (!froms.is_empty() && with > bytes_max) {
                break;
            }
            (bytes, cut) = (with, stretch.last.number);
            froms.push(stretch.from);
        }
        (!froms.is_empty()).then_some((froms, cut, bytes))
    }

    /// Forgets the stretches up to `cut`.
    pub(super) fn forget(&mut self, cut: u64) {
        while self.done.front().is_some_and(|stretch| stretch.last.number <= cut) {
            self.bytes -= self.done.pop_front().map_or(0, |stretch| stretch.bytes);
        }
    }

    /// Bytes of all chunks that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn end(&mut self) {
        let last = self.open.last;
        let next = Stretch { from: last.number + 1, last, ..Stretch::default() };
        self.done.push_back(std::mem::replace(&mut self.open, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: u64) -> Link {
        Link { number, checksum: 0 }
    }

    /// Chunks of 40 KiB from 1 on; the topic has two records in each.
    fn chunks(count: u64, stretch_bytes: u64) -> (Stretches, Spans) {
        let (mut stretches, mut spans) =
            (Stretches::new(Vec::new(), link(0), stretch_bytes), Spans::default());
        for number in 1..=count {
            let place = stretches.push(link(number), 40 << 10);
            stretches.note(TopicId(1));
            spans.push(place, Offset(number * 2), Timestamp(number * 10));
        }
        (stretches, spans)
    }

    #[test]
    fn a_span_ends_where_its_stretch_does() {
        let (_, spans) = chunks(6, 100 << 10);
        let ranges: Vec<_> = spans.0.iter().map(|span| (span.from, span.to)).collect();
        assert_eq!(ranges, [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]);
        let (mut stretches, mut spans) =
            (Stretches::new(vec![], link(0), 8 << 10), Spans::default());
        for number in 1..=8 {
            let place = stretches.push(link(number), 2 << 10);
            spans.push(place, Offset(number), Timestamp(number));
        }
        let ranges: Vec<_> = spans.0.iter().map(|span| (span.from, span.to)).collect();
        assert_eq!(ranges, [(1, 4), (5, 8)]);
    }

    #[test]
    fn a_window_goes_on_over_spans_that_follow() {
        let (_, spans) = chunks(6, 1 << 20);
        let window = spans.window(Offset(5), Offset(14), 3).unwrap();
        assert_eq!((window.from, window.to), (2, 4));
        assert_eq!((window.first, window.next), (Offset(4), Offset(10)));
        let window = spans.window(Offset(13), Offset(14), 3).unwrap();
        assert_eq!((window.from, window.next), (6, Offset(14)));
        assert_eq!(spans.window(Offset(1), Offset(14), 3), None);
        assert_eq!(spans.before(Timestamp(10)), None);
        assert_eq!(spans.before(Timestamp(31)), Some(Offset(6)));
    }

    #[test]
    fn what_was_saved_is_moved_oldest_first() {
        let (mut stretches, mut spans) = chunks(7, 80 << 10);
        assert_eq!(stretches.oldest(1 << 20, 0), None, "nothing is saved");
        let unsaved = stretches.unsaved(5);
        let ends: Vec<_> =
            unsaved.iter().map(|stretch| (stretch.from, stretch.last.number)).collect();
        assert_eq!(ends, [(1, 2), (3, 4)]);
        assert!(unsaved[0].topics.contains(&TopicId(1)));
        stretches.saved(4);
        assert_eq!(stretches.oldest(1, 0), Some((vec![1], 2, 80 << 10)));
        assert_eq!(stretches.oldest(1 << 20, 200 << 10), Some((vec![1], 2, 80 << 10)));
        assert_eq!(stretches.oldest(1 << 20, 0), Some((vec![1, 3], 4, 160 << 10)));
        let range = spans.up_to(4, Offset(16)).unwrap();
        assert_eq!((range.from, range.to), (Offset(2), Offset(10)));
        assert_eq!(spans.within(3, 4).count(), 2);
        stretches.forget(4);
        spans.forget(4);
        assert_eq!((stretches.bytes(), spans.first()), (120 << 10, Some(Offset(10))));
        assert_eq!(stretches.unsaved(7).len(), 2, "the open one has ended");
    }
}

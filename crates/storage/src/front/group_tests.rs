use domain::{Message, OffsetRange, TopicId};

use super::super::format::{Frame, RecordHead, frame_at};
use super::*;

/// Nothing of its own; groups as a disk has them.
#[derive(Debug, Default)]
struct Blocks;

impl Part for Blocks {
    const HEADER: usize = 32;
    const BLOCK: usize = 4096;
}

fn records(count: usize, bytes: usize) -> Vec<NewRecord> {
    let message = Message { data: vec![1; bytes].into(), ..Message::default() };
    vec![NewRecord { message, publish_time: Timestamp(5), addressee: None }; count]
}

fn topic(id: u64) -> Arc<Topic<Blocks>> {
    Arc::new(Topic::new(TopicId(id), Offset(0), 0))
}

fn frames<S: Part>(sealed: &Sealed<S>) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    let end = S::HEADER + sealed.body_length as usize;
    let mut at = S::HEADER;
    while at < end {
        let (frame, bytes) = frame_at(&sealed.bytes[at..end]).unwrap();
        frames.push(frame);
        at += bytes;
    }
    frames
}

#[test]
fn appends_in_a_row_to_one_topic_share_a_frame() {
    let (a, b) = (topic(1), topic(2));
    let mut forming = Forming::<Blocks>::new(1 << 20);
    forming.reserve(8 << 10);
    forming.append(&a, Offset(10), &records(2, 50));
    forming.append(&a, Offset(12), &records(1, 50));
    forming.append(&b, Offset(70), &records(1, 50));
    forming.append(&a, Offset(13), &records(1, 50));
    let sealed = forming.seal();
    assert_eq!(sealed.bytes.len() % 4096, 0);
    let found: Vec<_> = frames(&sealed)
        .into_iter()
        .map(|frame| match frame {
            Frame::Append(append) => (append.topic.0, append.first.0, append.count),
            Frame::Change { .. } => panic!("no changes were made"),
        })
        .collect();
    assert_eq!(found, [(1, 10, 3), (2, 70, 1), (1, 13, 1)]);
    assert!(forming.is_empty());
}

#[test]
fn long_appends_are_cut_into_frames_with_dense_offsets() {
    let topic = topic(1);
    let mut forming = Forming::<Blocks>::new(1 << 20);
    forming.reserve(200 << 10);
    forming.append(&topic, Offset(0), &records(100, 1_000));
    let sealed = forming.seal();
    assert!(sealed.frames.len() > 4);
    let mut next = Offset(0);
    for frame in &sealed.frames {
        assert_eq!(frame.first, next);
        let records = &sealed.bytes[frame.records()];
        assert_eq!(RecordHead::decode(records).unwrap().offset, next);
        next = next.plus(u64::from(frame.count));
    }
    assert_eq!(next, Offset(100));
}

#[test]
fn a_group_is_padded_only_where_the_engine_has_blocks() {
    #[derive(Debug, Default)]
    struct Plain;

    impl Part for Plain {
        const HEADER: usize = 24;
        const BLOCK: usize = 1;
    }

    let mut forming = Forming::<Plain>::new(1 << 20);
    forming.reserve(100);
    let topic = Arc::new(Topic::new(TopicId(1), Offset(0), 0));
    forming.append(&topic, Offset(0), &records(1, 10));
    let sealed = forming.seal();
    assert_eq!(sealed.bytes.len(), 24 + sealed.body_length as usize);
    assert_eq!(frames(&sealed).len(), 1);
}

#[test]
fn changes_come_after_the_appends_in_the_order_they_were_made() {
    let mut forming = Forming::<Blocks>::new(1 << 20);
    let settled = |from, to| {
        ProgressChange::Settled(vec![OffsetRange { from: Offset(from), to: Offset(to) }])
    };
    forming.change(SubscriptionId(1), settled(1, 2));
    forming.change(SubscriptionId(2), settled(5, 6));
    let sealed = forming.seal();
    let subscriptions: Vec<_> = sealed.changes.iter().map(|(id, _)| id.0).collect();
    assert_eq!(subscriptions, [1, 2]);
    assert_eq!(frames(&sealed).len(), 2);
    for (subscription, place) in &sealed.changes {
        let change = ProgressChange::decode(&sealed.bytes[place.clone()]).unwrap();
        let expected = if subscription.0 == 1 { settled(1, 2) } else { settled(5, 6) };
        assert_eq!(change, expected);
    }
}

#[test]
fn a_group_without_frames_has_no_bytes_and_keeps_the_buffer_for_the_next() {
    let mut forming = Forming::<Blocks>::new(1 << 20);
    forming.reserve(10);
    forming.append(&topic(1), Offset(0), &records(1, 10));
    let first = forming.seal();
    assert!(forming.seal().bytes.is_empty());
    forming.reserve(10);
    forming.append(&topic(1), Offset(1), &records(1, 10));
    let second = forming.seal();
    assert_eq!(second.bytes.as_ptr() as usize, first.bytes.as_ptr() as usize + first.bytes.len());
}

#[test]
fn memory_is_used_again_once_nobody_holds_it() {
    let mut forming = Forming::<Blocks>::new(1);
    let mut fill = || {
        forming.reserve(40 << 10);
        forming.append(&topic(1), Offset(0), &records(40, 1_000));
        forming.seal().bytes.freeze()
    };
    let first = fill();
    let place = first.as_ptr();
    let second = fill();
    assert_ne!(second.as_ptr(), place);
    drop(first);
    let third = fill();
    assert_eq!(third.as_ptr(), place, "the first piece is free again");
}

//! Feeds arbitrary bytes to the readers of what is on disk. For fuzzing only.

use bytes::BytesMut;
use domain::{ProgressChange, TopicId, message};

use super::format::{
    BLOCK, FileHeader, Frame, GROUP_HEADER, GroupHeader, RecordHead, append_head_at, finish_group,
    frames, padded, record_holds, record_seed, to_u32,
};
use super::segments::{decode_marks, encode_marks};

const SALT: u64 = 0x1234_5678_9abc_def0;

/// Any bytes as a log file: its first block, the frames of a group, the records in them.
pub fn log_file(input: &[u8]) -> String {
    let mut said = header(input);
    for (at, frame) in frames(input).take(1_000) {
        match frame {
            None => said.push_str(" none"),
            Some((Frame::Change { change, .. }, _)) => said.push_str(&change_of(change)),
            Some((Frame::Append(append), bytes)) => {
                let head = append_head_at(input.get(at..).unwrap_or_default());
                assert_eq!(head, Some((Some(append), bytes)), "two readers of one frame");
                said.push_str(&records(append.records, append.topic));
            }
        }
    }
    check_group(input);
    said
}

/// Any bytes as the sparse index of a segment.
pub fn segment_index(input: &[u8]) -> String {
    let marks = decode_marks(input);
    let whole = input.len() - input.len() % 24;
    assert_eq!(encode_marks(&marks), input.get(..whole).unwrap_or_default());
    String::new()
}

fn header(input: &[u8]) -> String {
    let mut block = [0; BLOCK];
    let length = input.len().min(BLOCK);
    if let (Some(to), Some(from)) = (block.get_mut(..length), input.get(..length)) {
        to.copy_from_slice(from);
    }
    match FileHeader::decode(&block) {
        Ok(header) => {
            let again = FileHeader::decode(header.encode().first_chunk().unwrap_or(&block));
            assert_eq!(again, Ok(header));
            "header".to_owned()
        }
        Err(fault) => format!("{fault:?}"),
    }
}

fn change_of(bytes: &[u8]) -> String {
    match ProgressChange::decode(bytes) {
        Ok(change) => {
            let mut again = Vec::new();
            change.encode(&mut again);
            assert_eq!(ProgressChange::decode(&again), Ok(change));
            " change".to_owned()
        }
        Err(malformed) => format!(" {malformed}"),
    }
}

fn records(mut bytes: &[u8], topic: TopicId) -> String {
    let mut said = String::new();
    while let Some(head) = RecordHead::decode(bytes) {
        let Some(record) = bytes.get(..head.length) else {
            said.push_str(" cut off");
            break;
        };
        let holds = record_holds(record, record_seed(topic, SALT));
        let body = record.get(head.body_at..).unwrap_or_default();
        let read = message::decode(&bytes::Bytes::copy_from_slice(body));
        said.push_str(if holds { " whole" } else { " damaged" });
        said.push_str(if read.is_ok() { " message" } else { " malformed" });
        bytes = bytes.get(head.length..).unwrap_or_default();
        if said.len() > 200 {
            break;
        }
    }
    said
}

/// Whatever the frames are, a sealed group validates, and with any bit flipped it does not.
fn check_group(body: &[u8]) {
    let mut group = BytesMut::zeroed(padded(GROUP_HEADER + body.len()));
    if let Some(place) = group.get_mut(GROUP_HEADER..GROUP_HEADER + body.len()) {
        place.copy_from_slice(body);
    }
    finish_group(&mut group, 7, to_u32(body.len()), SALT);
    let is_whole = |group: &[u8]| {
        GroupHeader::decode(group, SALT).is_some_and(|header| header.holds(group, SALT))
    };
    assert!(is_whole(&group), "a sealed group does not prove itself");
    let mixed = body.iter().fold(body.len(), |sum, &byte| sum.wrapping_mul(31) ^ usize::from(byte));
    let at = mixed % group.len();
    if let Some(byte) = group.get_mut(at) {
        *byte ^= 1 << (mixed % 8);
    }
    assert!(!is_whole(&group), "a flipped bit at {at} does not show");
}

use domain::Message;

use super::*;

fn record(data: &'static str, addressee: Option<u64>) -> NewRecord {
    NewRecord {
        message: Message { data: data.into(), ..Message::default() },
        publish_time: Timestamp(77),
        addressee: addressee.map(SubscriptionId),
    }
}

#[test]
fn a_file_header_comes_back_and_any_flipped_bit_shows() {
    let header = FileHeader { sequence: 7, salt: u64::MAX - 5, first_group: 99, length: 1 << 26 };
    let block = header.encode();
    assert_eq!(FileHeader::decode(block[..].first_chunk().unwrap()), Ok(header));
    for at in (0..BLOCK).step_by(3) {
        let mut flipped = block.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(FileHeader::decode(flipped[..].first_chunk().unwrap()).is_err(), "byte {at}");
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let header = FileHeader { sequence: 1, salt: 2, first_group: 3, length: 4096 };
    let mut block = header.encode();
    block[12] = 9;
    block[8..12].fill(0);
    let crc = crc32c::crc32c(&block);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    let decoded = FileHeader::decode(block[..].first_chunk().unwrap());
    assert_eq!(decoded, Err(HeaderFault::Format(9)));
}

fn group(salt: u64) -> Vec<u8> {
    let mut group = vec![0; GROUP_HEADER];
    group.extend_from_slice(b"frames");
    group.resize(BLOCK, 0);
    finish_group(&mut group, 12, 6, salt);
    group
}

fn is_valid(group: &[u8], salt: u64) -> bool {
    GroupHeader::decode(group, salt).is_some_and(|header| header.holds(group, salt))
}

#[test]
fn a_group_is_valid_only_under_its_salt() {
    let salt = 0x0123_4567_89ab_cdef;
    let group = group(salt);
    let header = GroupHeader::decode(&group, salt).unwrap();
    assert_eq!((header.number, header.body_length, header.group_bytes()), (12, 6, BLOCK));
    assert!(is_valid(&group, salt));
    assert!(!is_valid(&group, salt ^ 1));
    assert!(!is_valid(&group, salt ^ (1 << 40)));
}

#[test]
fn any_flipped_bit_of_a_group_shows_even_in_the_zeros_behind_it() {
    let group = group(5);
    for at in 0..BLOCK {
        let mut flipped = group.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(!is_valid(&flipped, 5), "byte {at}");
    }
}

#[test]
fn frames_come_back() {
    let mut out = BytesMut::new();
    begin_append(&mut out);
    put_record(&mut out, 1, Offset(40), &record("a", None));
    put_record(&mut out, 1, Offset(41), &record("b", Some(3)));
    finish_append(&mut out, TopicId(8), Offset(40), 2);
    let append_bytes = out.len();
    put_change(&mut out, SubscriptionId(6), b"change");

    let (frame, bytes) = frame_at(&out).unwrap();
    let Frame::Append(append) = frame else { panic!("{frame:?}") };
    assert_eq!((append.topic, append.first, append.end()), (TopicId(8), Offset(40), Offset(42)));
    assert_eq!(bytes, append_bytes);
    let (frame, bytes) = frame_at(&out[append_bytes..]).unwrap();
    assert_eq!(frame, Frame::Change { subscription: SubscriptionId(6), change: b"change" });
    assert_eq!(append_bytes + bytes, out.len());
    for cut in 0..append_bytes {
        assert!(frame_at(&out[..cut]).is_none());
    }
}

#[test]
fn a_record_comes_back_and_any_flipped_bit_shows() {
    for addressee in [None, Some(u64::MAX)] {
        let mut out = BytesMut::new();
        put_record(&mut out, 99, Offset(1 << 40), &record("data", addressee));
        let head = RecordHead::decode(&out).unwrap();
        assert_eq!((head.length, head.offset), (out.len(), Offset(1 << 40)));
        assert_eq!(head.addressee, addressee.map(SubscriptionId));
        assert_eq!(head.publish_time, Timestamp(77));
        let body = bytes::Bytes::copy_from_slice(&out[head.body_at..]);
        assert_eq!(message::decode(&body).unwrap().data, "data");
        assert!(record_holds(&out, 99));
        assert!(!record_holds(&out, 98), "a record of another topic");
        for at in 0..out.len() {
            let mut flipped = out.to_vec();
            flipped[at] ^= 1 << (at % 8);
            assert!(!record_holds(&flipped, 99), "byte {at}");
        }
    }
}

proptest::proptest! {
    #[test]
    fn rubbish_never_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = (frame_at(&bytes), append_head_at(&bytes), RecordHead::decode(&bytes));
        let _ = (GroupHeader::decode(&bytes, 0), record_holds(&bytes, 0));
    }
}

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
        let _ = record_holds(&bytes, 0);
    }
}

//! The JSON of messages that were built lately.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use domain::message::Malformed;
use domain::{Offset, Record, TopicId};
use parking_lot::Mutex;

use super::json::{Spelling, message_json};

/// Bytes that are kept, at most.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages that are kept, at most.
const MESSAGES_MAX: usize = 4_096;

/// Keeps the JSON of messages for a while, so that several subscriptions of a topic share it.
/// The oldest goes first.
#[derive(Default)]
pub(crate) struct Built {
    cache: Mutex<Cache>,
    readers: Mutex<HashMap<TopicId, Weak<Readers>>>,
}

/// Held by each who makes requests of one topic's messages.
pub(crate) struct Readers(());

impl Readers {
    /// Whether what one builds may be of use to another.
    pub(crate) fn are_several(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }
}

type Key = (TopicId, Offset);

#[derive(Default)]
struct Cache {
    by_key: HashMap<Key, Bytes>,
    oldest: VecDeque<Key>,
    bytes: usize,
}

impl Built {
    /// Joins those who make requests of a topic's messages.
    pub(crate) fn join(&self, topic: TopicId) -> Arc<Readers> {
        let mut readers = self.readers.lock();
        if let Some(readers) = readers.get(&topic).and_then(Weak::upgrade) {
            return readers;
        }
        readers.retain(|_, readers| readers.strong_count() > 0);
        let joined = Arc::new(Readers(()));
        readers.insert(topic, Arc::downgrade(&joined));
        joined
    }

    /// The JSON of `record` of `topic`, made if it is not kept.
    pub(crate) fn get_or_build(&self, topic: TopicId, record: &Record) -> Result<Bytes, Malformed> {
        let key = (topic, record.offset);
        if let Some(kept) = self.cache.lock().by_key.get(&key) {
            return Ok(kept.clone());
        }
        // Two may build the same at once: that is cheaper than to make one wait.
        let json = message_json(record, Spelling::Twice)?;
        self.cache.lock().put(key, json.clone());
        Ok(json)
    }
}

impl Cache {
    fn put(&mut self, key: Key, json: Bytes) {
        if json.len() > BYTES_MAX || self.by_key.contains_key(&key) {
            return;
        }
        self.bytes += json.len();
        self.by_key.insert(key, json);
        self.oldest.push_back(key);
        while self.bytes > BYTES_MAX || self.oldest.len() > MESSAGES_MAX {
            let Some(oldest) = self.oldest.pop_front() else { return };
            self.bytes -= self.by_key.remove(&oldest).map_or(0, |json| json.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Message, Timestamp, message};

    use super::*;

    fn record(offset: u64, bytes: usize) -> Record {
        let message = Message { data: vec![b'x'; bytes].into(), ..Message::default() };
        let mut body = Vec::new();
        message::encode(&message, Offset(offset), Timestamp(1), &mut body);
        let publish_time = Timestamp(1);
        Record { offset: Offset(offset), publish_time, addressee: None, body: body.into() }
    }

    #[test]
    fn what_was_built_is_shared_by_those_of_the_same_topic() {
        let (built, record) = (Built::default(), record(7, 10));
        let first = built.get_or_build(TopicId(1), &record).unwrap();
        let second = built.get_or_build(TopicId(1), &record).unwrap();
        let other = built.get_or_build(TopicId(2), &record).unwrap();
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert_eq!(first, other);
        assert_ne!(first.as_ptr(), other.as_ptr());
    }

    #[test]
    fn who_reads_a_topic_alone_is_told_so() {
        let built = Built::default();
        let (one, other) = (built.join(TopicId(1)), built.join(TopicId(2)));
        assert!(!one.are_several() && !other.are_several());
        let two = built.join(TopicId(1));
        assert!(one.are_several() && two.are_several() && !other.are_several());
        drop(one);
        assert!(!two.are_several());
    }

    #[test]
    fn messages_and_bytes_are_bounded_and_the_oldest_goes_first() {
        let built = Built::default();
        for offset in 0..5_000 {
            built.get_or_build(TopicId(1), &record(offset, 1)).unwrap();
        }
        let has = |offset| built.cache.lock().by_key.contains_key(&(TopicId(1), Offset(offset)));
        assert_eq!(built.cache.lock().by_key.len(), MESSAGES_MAX);
        assert!(!has(903) && has(904) && has(4_999));
        for offset in 5_000..5_009 {
            built.get_or_build(TopicId(1), &record(offset, 500_000)).unwrap();
        }
        assert!(!has(4_999) && !has(5_002) && has(5_003) && has(5_008));
        built.get_or_build(TopicId(1), &record(6_000, 9_000_000)).unwrap();
        assert!(!has(6_000) && has(5_008));
        let cache = built.cache.lock();
        let bytes: usize = cache.by_key.values().map(Bytes::len).sum();
        assert_eq!((bytes, cache.oldest.len()), (cache.bytes, cache.by_key.len()));
        assert!(bytes <= BYTES_MAX);
    }

    #[test]
    fn a_malformed_record_is_an_error_and_not_kept() {
        let mut record = record(1, 1);
        record.body = Bytes::from_static(b"\x0a\x09cut");
        let built = Built::default();
        assert_eq!(built.get_or_build(TopicId(1), &record), Err(Malformed));
        assert!(built.cache.lock().by_key.is_empty());
    }
}

//! The bytes of an object, made from messages one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::Timestamp;

use crate::avro::{self, Layout};

/// A message to be written.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'message> {
    /// The subscription that it is written for.
    pub subscription: &'message str,
    /// Its id.
    pub id: &'message str,
    /// When it was published.
    pub publish_time: Timestamp,
    /// Its attributes.
    pub attributes: &'message BTreeMap<String, String>,
    /// Its ordering key; empty = none.
    pub ordering_key: &'message str,
    /// Its data, in the form that the layout of the object wants.
    pub data: &'message [u8],
}

/// Makes the bytes of one object. What it has made is taken away piece by piece.
pub struct Encoder {
    form: Form,
    /// What was made and not taken yet; in Avro without the records of the open block.
    made: Vec<u8>,
    /// Bytes made so far, those that were taken included.
    length: u64,
    /// The records of the open block.
    block: Vec<u8>,
    block_records: u64,
}

enum Form {
    Text,
    Avro { layout: Arc<Layout>, sync: [u8; 16] },
}

impl Encoder {
    /// An object of lines.
    pub fn text() -> Self {
        Self::new(Form::Text)
    }

    /// An Avro file; `sync` separates its blocks and is in no other file.
    pub fn avro(layout: Arc<Layout>, sync: [u8; 16]) -> Self {
        let mut encoder = Self::new(Form::Avro { layout: Arc::clone(&layout), sync });
        avro::put_header(&mut encoder.made, layout.schema(), &sync);
        encoder.length = encoder.made.len() as u64;
        encoder
    }

    fn new(form: Form) -> Self {
        Self { form, made: Vec::new(), length: 0, block: Vec::new(), block_records: 0 }
    }

    /// The bytes of one message, to be added.
    pub fn record(&self, message: &Outgoing<'_>) -> Vec<u8> {
        let mut record = Vec::with_capacity(message.data.len() + 16);
        match &self.form {
            Form::Text => {
                record.extend_from_slice(message.data);
                record.push(b'\n');
            }
            Form::Avro { layout, .. } => layout.put(&mut record, message),
        }
        record
    }

    /// How long the object would be with one more record.
    pub fn length_with(&self, record: &[u8]) -> u64 {
        let open = (self.block.len() + record.len()) as u64;
        match self.form {
            Form::Text => self.length + record.len() as u64,
            Form::Avro { .. } => self.length + open + avro::BLOCK_OVERHEAD_MAX,
        }
    }

    /// Adds a message's bytes.
    pub fn add(&mut self, record: &[u8]) {
        match self.form {
            Form::Text => {
                self.made.extend_from_slice(record);
                self.length += record.len() as u64;
            }
            Form::Avro { .. } => {
                self.block.extend_from_slice(record);
                self.block_records += 1;
            }
        }
    }

    /// Takes away what was made: all of it, so that what was taken together is a whole object.
    pub fn take(&mut self) -> Bytes {
        if let Form::Avro { sync, .. } = &self.form
            && self.block_records > 0
        {
            let before = self.made.len();
            avro::put_block(&mut self.made, self.block_records, &self.block, sync);
            self.length += (self.made.len() - before) as u64;
            self.block.clear();
            self.block_records = 0;
        }
        Bytes::from(std::mem::take(&mut self.made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing<'m>(data: &'m [u8], attributes: &'m BTreeMap<String, String>) -> Outgoing<'m> {
        Outgoing {
            subscription: "projects/p/subscriptions/s",
            id: "17",
            publish_time: Timestamp(1_700_000_000_000_001),
            attributes,
            ordering_key: "customer",
            data,
        }
    }

    #[test]
    fn text_is_the_data_of_each_message_on_a_line() {
        let attributes = BTreeMap::new();
        let mut encoder = Encoder::text();
        for data in ["one", "", "three"] {
            let record = encoder.record(&outgoing(data.as_bytes(), &attributes));
            let expected = encoder.length_with(&record);
            encoder.add(&record);
            assert_eq!(encoder.length, expected);
        }
        assert_eq!(&encoder.take()[..], b"one\n\nthree\n");
        assert_eq!(&encoder.take()[..], b"", "nothing is taken twice");
    }

    #[test]
    fn an_avro_file_has_all_that_was_taken_in_one_piece_or_several() {
        let attributes = BTreeMap::from([("kind".to_owned(), "order".to_owned())]);
        for every in [1, 2, 5] {
            let mut encoder = Encoder::avro(Arc::new(Layout::plain(true)), [7; 16]);
            let (mut file, mut predicted) = (Vec::new(), 0);
            for at in 0..5_u8 {
                let record = encoder.record(&outgoing(&[at; 3], &attributes));
                predicted = encoder.length_with(&record);
                encoder.add(&record);
                if (at + 1) % every == 0 {
                    file.extend_from_slice(&encoder.take());
                }
            }
            file.extend_from_slice(&encoder.take());
            assert!(file.len() as u64 <= predicted, "{} of {predicted}", file.len());
            let reader = apache_avro::Reader::new(&file[..]).unwrap();
            let read: Vec<_> = reader.map(Result::unwrap).collect();
            assert_eq!(read.len(), 5);
            let apache_avro::types::Value::Record(fields) = &read[4] else { panic!() };
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
            let expected =
                ["subscription_name", "message_id", "publish_time", "attributes", "data"];
            assert_eq!(names, expected);
            assert_eq!(fields[4].1, apache_avro::types::Value::Bytes(vec![4; 3]));
            let apache_avro::types::Value::Map(map) = &fields[3].1 else { panic!() };
            let text = |text: &str| Some(apache_avro::types::Value::String(text.to_owned()));
            assert_eq!(map.get("kind").cloned(), text("order"));
            assert_eq!(map.get("ordering_key").cloned(), text("customer"));
            let micros = apache_avro::types::Value::TimestampMicros(1_700_000_000_000_001);
            assert_eq!(fields[2].1, micros);
        }
    }
}

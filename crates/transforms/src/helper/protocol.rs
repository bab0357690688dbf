//! What a process and its helper tell each other: Protobuf messages, each after its length.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use crate::chain::Udf;
use crate::error::{Cause, Failure, Field, Invalid};
use crate::limits::{Bounds, FRAME_BYTES_MAX, TEXT_BYTES_MAX};
use crate::message::{Input, Metadata, Outcome};
use crate::text::cleaned;

/// Messages to run, or a function to compile.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Request {
    /// The place of the sandbox.
    #[prost(uint32, tag = "1")]
    pub(crate) place: u32,
    /// What to make a new sandbox of at that place.
    #[prost(message, repeated, tag = "2")]
    pub(crate) scripts: Vec<Script>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) messages: Vec<Given>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compile: Option<Script>,
    #[prost(uint64, tag = "5")]
    pub(crate) time_ms: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) memory_bytes: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) memory_per_data_byte: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) stack_bytes: u64,
}

/// A function.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Script {
    #[prost(uint32, tag = "1")]
    pub(crate) index: u32,
    #[prost(string, tag = "2")]
    pub(crate) function_name: String,
    #[prost(string, tag = "3")]
    pub(crate) code: String,
}

/// A message on its way in.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Given {
    #[prost(bytes = "bytes", tag = "1")]
    data: Bytes,
    #[prost(btree_map = "string, string", tag = "2")]
    attributes: BTreeMap<String, String>,
    #[prost(string, optional, tag = "3")]
    message_id: Option<String>,
    #[prost(string, optional, tag = "4")]
    publish_time: Option<String>,
    #[prost(string, optional, tag = "5")]
    ordering_key: Option<String>,
}

/// Results of as many messages as there was time for, or why a function was refused.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Response {
    #[prost(message, repeated, tag = "1")]
    results: Vec<Made>,
    #[prost(message, optional, tag = "2")]
    refused: Option<Said>,
}

/// What became of a message: no data where it was dropped.
#[derive(Clone, PartialEq, Message)]
struct Made {
    #[prost(bytes = "bytes", optional, tag = "1")]
    data: Option<Bytes>,
    #[prost(btree_map = "string, string", tag = "2")]
    attributes: BTreeMap<String, String>,
    #[prost(message, optional, tag = "3")]
    failed: Option<Said>,
}

/// What is wrong.
#[derive(Clone, PartialEq, Message)]
struct Said {
    /// The index of a function, for a failure.
    #[prost(uint32, tag = "1")]
    index: u32,
    /// A number of `CAUSES` or `FIELDS`.
    #[prost(uint32, tag = "2")]
    kind: u32,
    #[prost(string, tag = "3")]
    what: String,
    #[prost(uint32, optional, tag = "4")]
    line: Option<u32>,
    #[prost(uint32, tag = "5")]
    column: u32,
}

const CAUSES: [Cause; 5] =
    [Cause::NotUtf8, Cause::Threw, Cause::BadResult, Cause::TooSlow, Cause::OutOfMemory];
const FIELDS: [Field; 2] = [Field::FunctionName, Field::Code];

fn number<T: PartialEq>(all: &[T], one: &T) -> u32 {
    all.iter().position(|it| it == one).and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
}

fn numbered<T: Copy>(all: &[T], number: u32) -> Option<T> {
    all.get(usize::try_from(number).ok()?).copied()
}

impl Request {
    /// A request within these bounds.
    pub(crate) fn within(bounds: Bounds) -> Self {
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        Self {
            time_ms: u64::try_from(bounds.time.as_millis()).unwrap_or(u64::MAX),
            memory_bytes: number(bounds.memory_bytes),
            memory_per_data_byte: number(bounds.memory_per_data_byte),
            stack_bytes: number(bounds.stack_bytes),
            ..Self::default()
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
        Bounds {
            time: Duration::from_millis(self.time_ms),
            memory_bytes: number(self.memory_bytes),
            memory_per_data_byte: number(self.memory_per_data_byte),
            stack_bytes: number(self.stack_bytes),
        }
    }
}

impl Script {
    pub(crate) fn new(index: usize, udf: &Udf) -> Self {
        Self {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            function_name: udf.function_name().to_string(),
            code: udf.code().to_owned(),
        }
    }
}

impl From<&Input> for Given {
    fn from(input: &Input) -> Self {
        let metadata = input.metadata.clone();
        Self {
            data: input.data.clone(),
            attributes: input.attributes.clone(),
            message_id: metadata.message_id,
            publish_time: metadata.publish_time,
            ordering_key: metadata.ordering_key,
        }
    }
}

impl From<Given> for Input {
    fn from(given: Given) -> Self {
        let Given { data, attributes, message_id, publish_time, ordering_key } = given;
        let metadata = Metadata { message_id, publish_time, ordering_key };
        Self { data, attributes, metadata }
    }
}

impl Response {
    pub(crate) fn compiled(refused: Option<Invalid>) -> Self {
        let refused = refused.map(|invalid| Said {
            index: 0,
            kind: number(&FIELDS, &invalid.field),
            what: invalid.what,
            line: invalid.line.map(|(line, _)| line),
            column: invalid.line.map_or(0, |(_, column)| column),
        });
        Self { results: Vec::new(), refused }
    }

    pub(crate) fn push(&mut self, result: Result<Outcome, Failure>) {
        self.results.push(match result {
            Ok(Outcome::Message { data, attributes }) => {
                Made { data: Some(data), attributes, failed: None }
            }
            Ok(Outcome::Filtered) => Made::default(),
            Err(failure) => Made {
                failed: Some(Said {
                    index: u32::try_from(failure.index).unwrap_or(u32::MAX),
                    kind: number(&CAUSES, &failure.cause),
                    what: failure.what,
                    line: failure.line,
                    column: 0,
                }),
                ..Made::default()
            },
        });
    }

    /// Why the function was refused, if it was. None where the answer makes no sense.
    pub(crate) fn into_compiled(self) -> Option<Result<(), Invalid>> {
        let Some(Said { kind, what, line, column, .. }) = self.refused else {
            return Some(Ok(()));
        };
        let line = line.map(|line| (line, column));
        Some(Err(Invalid { field: numbered(&FIELDS, kind)?, what: cleaned(&what), line }))
    }

    /// The results, each with the function of its failure taken from `udfs`. None where they make
    /// no sense: a script may have broken out.
    pub(crate) fn into_results(
        self,
        udfs: &[(usize, Udf)],
    ) -> Option<Vec<Result<Outcome, Failure>>> {
        self.results.into_iter().map(|made| made.into_result(udfs)).collect()
    }
}

impl Made {
    fn into_result(self, udfs: &[(usize, Udf)]) -> Option<Result<Outcome, Failure>> {
        let Some(Said { index, kind, what, line, .. }) = self.failed else {
            let Some(data) = self.data else { return Some(Ok(Outcome::Filtered)) };
            let attributes = self.attributes;
            return is_within(&data, &attributes)
                .then_some(Ok(Outcome::Message { data, attributes }));
        };
        let index = usize::try_from(index).ok()?;
        let (_, udf) = udfs.iter().find(|(at, _)| *at == index)?;
        let (function, cause) = (Arc::clone(udf.function_name()), numbered(&CAUSES, kind)?);
        Some(Err(Failure { index, function, cause, what: cleaned(&what), line }))
    }
}

/// Whether a message is within Pub/Sub's limits, as the helper has seen to.
fn is_within(data: &[u8], attributes: &BTreeMap<String, String>) -> bool {
    use domain::limits;
    let is_pair = |(key, value): (&String, &String)| {
        key.len() <= limits::ATTRIBUTE_KEY_BYTES_MAX
            && value.len() <= limits::ATTRIBUTE_VALUE_BYTES_MAX
    };
    data.len() <= limits::MESSAGE_DATA_BYTES_MAX
        && attributes.len() <= limits::ATTRIBUTES_MAX
        && attributes.iter().all(is_pair)
}

/// Reads a message. None at the end of the stream.
pub(crate) fn read<M: Message + Default>(from: &mut impl Read) -> io::Result<Option<M>> {
    let mut length = [0; 4];
    if let Err(error) = from.read_exact(&mut length) {
        let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
        return if is_end { Ok(None) } else { Err(error) };
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(Some(M::decode(Bytes::from(frame))?))
}

/// Writes a message.
pub(crate) fn write(to: &mut impl Write, message: &impl Message) -> io::Result<()> {
    const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize && TEXT_BYTES_MAX < FRAME_BYTES_MAX);
    let length = message.encoded_len();
    let short = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(4 + length);
    frame.extend_from_slice(&short.to_le_bytes());
    message.encode(&mut frame).map_err(io::Error::other)?;
    to.write_all(&frame)?;
    to.flush()
}

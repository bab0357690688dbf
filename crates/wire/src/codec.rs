//! Requests over gRPC, counted before they are built.
//!
//! Two bytes on the wire can become an object of a hundred, and a compressed body a thousand times
//! as many. So the bytes of a request are gone through once, without building anything, and what
//! they would take is compared with what the call may.

mod count;

use std::marker::PhantomData;

use bytes::Buf;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::{allowance, generated};

pub use count::{Uncountable, WEIGHT_MAX, weight};

/// What a service is asked with: build.rs makes it known for every call.
pub trait Asked {
    /// Its place among the shapes of all messages.
    const SHAPE: usize;
}

include!(concat!(env!("OUT_DIR"), "/asked.rs"));

/// The codec of our services. That of clients is the usual one: they asked for what they get.
#[derive(Debug)]
pub struct Counting<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Counting<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Counting<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Asked + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CountingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(ProstCodec::<T, U>::raw_decoder(BufferSettings::default()))
    }
}

/// Decodes what was found to be no more than allowed.
#[derive(Debug)]
pub struct CountingDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + Asked> Decoder for CountingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The transport has gathered the message in one piece.
        let bytes = buffer.chunk();
        let weight = weight(bytes, U::SHAPE)
            .map_err(|uncountable| Status::invalid_argument(uncountable.to_string()))?;
        allowance::reach(bytes.len().saturating_add(weight))
            .map_err(|exhausted| Status::resource_exhausted(exhausted.to_string()))?;
        self.0.decode(buffer)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

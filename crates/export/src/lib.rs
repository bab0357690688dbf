//! Objects that messages are exported to: what is in them, and the stores they are put in.
//!
//! `Encoder` makes the bytes of an object from messages, as text or as an Avro file. `Stores` knows
//! what a bucket's name stands for: a folder, or a bucket at a service that speaks Google Cloud
//! Storage's or S3's API. An `Upload` takes the bytes of one object as they come. Whatever happens,
//! there is no object under its final name before `complete` has begun, and it is whole then.

mod avro;
mod cloud;
mod encoder;
mod error;
mod folder;
mod http;
mod store;

pub use avro::{Layout, Mismatch};
pub use encoder::{Encoder, Outgoing};
pub use error::{Error, Kind};
pub use store::{Bucket, Place, Stores, Upload};

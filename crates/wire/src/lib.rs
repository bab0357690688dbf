//! Google Pub/Sub v1 and IAM v1 as spoken on the wire: messages, gRPC clients and servers, their
//! JSON form, and the REST paths. The definitions in `proto/` are written from the public names,
//! numbers and types; `tests/e2e/descriptors` compares them with an official client package. The
//! package `postrider.live.v1` is our own.

// The generated JSON code calls a crate of this name; what it calls is in `private`.
extern crate self as pbjson;

pub mod allowance;
pub mod codec;
mod generated;
pub mod json;
mod private;
pub mod protobuf;
mod received;
pub mod rest;
pub mod rpc;

pub use generated::google;
pub use generated::google::iam::v1 as iam;
pub use generated::google::pubsub::v1 as pubsub;
pub use generated::postrider;
pub use generated::postrider::live::v1 as live;
pub use received::ReceivedMessage;

/// An encoded `google.protobuf.FileDescriptorSet` of every definition here and of what they
/// import, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/descriptor_set.bin"));

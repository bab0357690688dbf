//! The load: closed loops of callers, a stream that acks, calls at a fixed rate, and a bare HTTP
//! client.

mod bare;
mod closed_loop;
mod fixed_rate;
mod latencies;
mod publish;
mod pull;
mod stream;

pub(crate) use bare::{Exchange, Pool, batch_envelope, envelope, marked_envelope};
pub(crate) use closed_loop::{Call, Goal, Slice, run};
pub(crate) use fixed_rate::{
    AtRate, Pace, Sent, Stamp, append_at_rate, call_at_rate, stream_at_rate,
};
pub(crate) use latencies::Latencies;
pub(crate) use publish::{Appending, Publisher, filler, framed, request_of};
pub(crate) use pull::{Pullers, pull_and_ack};
pub(crate) use stream::{OUTSTANDING_BYTES_MAX, OUTSTANDING_MESSAGES_MAX, Subscriber, Wanted};

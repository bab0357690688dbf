//! The consumer runtime: a program says how to decode a message and what to do with it, and this
//! crate answers for it: the right ack every time, and each effect once.
//!
//! Implement `Handler`, make a `Consumer` of it, and give that to `pull::run`, `push::Server` or
//! `push::router`. `rules` says what is answered, `effects` has stores in which an effect happens
//! once, and `docs/consumer.md` tells it all on one page. `materialize` is a handler without code:
//! a file of routes says what is written into Firestore (`docs/materialize.md`).

mod audit;
mod clock;
mod connection;
mod consumer;
pub mod effects;
mod fetch;
pub mod firestore;
mod forward;
pub mod gateway;
pub mod google;
mod handler;
pub mod log;
pub mod materialize;
mod message;
mod metrics;
pub mod observe;
mod outcome;
pub mod pull;
pub mod push;
pub mod router;
pub mod rules;
mod settings;

pub use connection::{Connection, GOOGLE, TokenSource};
pub use consumer::Consumer;
pub use domain::push::Secret;
pub use domain::{Moment, Timestamp};
pub use forward::REASON as FORWARD_REASON;
pub use handler::Handler;
pub use message::Message;
pub use metrics::Metrics;
pub use outcome::{About, Failure, Handled, Outcome};
pub use settings::{Known, Order, Settings, StartError};

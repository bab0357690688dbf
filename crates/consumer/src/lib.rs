//! The consumer runtime: a program says how to decode a message and what to do with it, and this
//! crate answers for it: the right ack every time, and each effect once.

mod clock;
pub mod effects;
pub mod firestore;
pub mod google;
mod message;
mod outcome;
pub mod router;

pub use domain::{Moment, Timestamp};
pub use message::Message;
pub use outcome::{About, Failure, Handled, Outcome};

//! Firestore: our own thin client, effects that happen once, and a fake to test against.
//!
//! | File | Holds |
//! |---|---|
//! | `client` | begin, batch get, commit, rollback, each with a deadline |
//! | `effects` | `Effects`: look, decide, and commit on the condition that nothing has changed |
//! | `note` | the document that says a message was handled |
//! | `value` | values and field paths as Firestore has them |
//! | `turns` | those who write the same document one after the other |
//! | `figures` | what Firestore answered, counted |
//! | `retry` | what may be tried again, and how long to wait |
//! | `visibility` | a record of every delivery, if wanted |
//! | `fake` | a Firestore in this process, for tests: the same gRPC, conditions and transactions
//! enforced |

mod client;
mod effects;
pub mod fake;
pub mod figures;
mod note;
mod proto;
mod retry;
#[cfg(test)]
mod tests;
mod turns;
mod value;
mod visibility;

pub use client::{Client, ConnectError, Options, Transaction};
pub use effects::FirestoreEffects;
pub use figures::Figures;
pub use proto::google::firestore::v1 as api;
pub use retry::Retry;
pub use value::{from_api, to_api};
pub use visibility::Visibility;

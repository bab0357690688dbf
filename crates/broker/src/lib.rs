//! The running broker: publishing, subscriptions, and the chores beside them.
//!
//! The rules are in `domain`, the bytes in `storage`; here they meet time, tasks and locks. One
//! short lock guards one subscription, whoever calls runs its state machine inline, and no lock
//! is held across an await.

mod broker;
mod clock;
mod consumer;
mod definition;
mod error;
mod maintenance;
mod runtime;
mod settings;
mod source;
pub mod spawn;
mod subscription;
mod tail;
mod timers;
mod topic;
mod waiters;

pub use broker::{Broker, Options, Page};
pub use clock::{Clock, SystemClock};
pub use consumer::Consumer;
pub use definition::Unreadable;
pub use error::{Error, Resource, Result};
pub use subscription::{Cursor, Subscription};
pub use topic::Topic;

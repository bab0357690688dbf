//! The words and rules of Postrider.
//!
//! Names, messages, subscription settings and their validation, `Progress` (what a subscription
//! remembers) and `Delivery` (who gets which record when). Nothing here does I/O, reads a clock,
//! draws a random number or awaits: time and events come in, actions go out.
#![warn(missing_docs, clippy::iter_over_hash_type, clippy::indexing_slicing)]

pub mod alert;
pub mod backoff;
pub mod clock;
pub mod delivery;
pub mod drift;
pub mod error;
pub mod export;
pub mod filter;
pub mod json;
pub mod kept;
pub mod letter;
pub mod limits;
pub mod lint;
pub mod live;
pub mod matching;
pub mod message;
pub mod name;
pub mod offset;
pub mod policy;
pub mod progress;
pub mod push;
pub mod replay;
pub mod schema;
pub mod setting;
pub mod shard;
pub mod snapshot;
pub mod subscription;
pub mod text;
pub mod time;
pub mod topic;
pub mod transform;
pub mod validate;
pub mod web;

pub use backoff::Backoff;
pub use clock::{ClockGuard, ClockMark, Uptime};
pub use error::Invalid;
pub use filter::Filter;
pub use letter::Letter;
pub use message::Message;
pub use name::{ProjectName, SchemaName, SnapshotName, SubscriptionName, TopicName};
pub use offset::{Epoch, Offset, OffsetRange, Record, SubscriptionId, TopicId};
pub use policy::{DeadLetterPolicy, Poison, RetryPolicy};
pub use progress::{Progress, ProgressChange};
pub use schema::{Encoding, RevisionId};
pub use shard::{NodeId, ShardId};
pub use snapshot::Snapshot;
pub use subscription::{Start, Subscription};
pub use time::{Moment, Now, Timestamp};
pub use topic::Topic;
pub use transform::Transform;

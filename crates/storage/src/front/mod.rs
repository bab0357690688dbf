//! What an engine with a log of groups has above its files or its server: how commits become
//! groups, how a durable group becomes visible, and what of it stays in memory.
//!
//! ```text
//!  commit ─▶ queue ─▶ group ─▶ the engine makes it durable ─▶ publisher ─▶ tail, pending
//!           (checks,  (encoded once,                          (visible, answered,
//!            fences)   as it is written)                       listener told)
//! ```
//!
//! `S`, the engine's own part, is what it keeps about each topic: where the records are that have
//! left memory, and what its checkpoint saved.
//!
//! | File | For |
//! |---|---|
//! | `format` | the bytes of frames and records |
//! | `queue`, `group` | commits on their way, and the group they are encoded into |
//! | `publisher` | makes a durable group visible and answers |
//! | `topic`, `tail` | the topics of a log, and their newest records in memory |
//! | `pending` | changes of progress that are newer than the checkpoint |
//! | `listening` | the listener of the current owner |
//! | `log` | all of it together, with the wait for room |

pub(crate) mod format;
mod group;
mod listening;
mod log;
mod pending;
mod publisher;
mod queue;
mod tail;
mod topic;

use std::fmt::Debug;

pub(crate) use group::{Answer, Sealed};
pub(crate) use listening::Listening;
pub(crate) use log::{Bounds, Found, Front};
pub(crate) use pending::Pending;
pub(crate) use publisher::Publisher;
pub(crate) use queue::closed;
pub(crate) use tail::{Filling, nothing};
pub(crate) use topic::{State, Topic, Topics};

/// An engine's own part of a topic, and the outline of its groups.
pub(crate) trait Part: Debug + Default + Send + 'static {
    /// Bytes that a group has in front of its frames, for the engine's header.
    const HEADER: usize;
    /// Groups are padded with zeros to a multiple of this; 1 = not at all.
    const BLOCK: usize;
}

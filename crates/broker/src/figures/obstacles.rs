//! What keeps a subscription from delivering: facts for whoever asks why nothing comes.

use domain::delivery::Waits;
use domain::{Moment, Now, Timestamp};

/// What a subscription waits for now, whether or not there is anything to deliver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// An operator paused it.
    pub is_paused: bool,
    /// Since when; `None` = not paused, or that was before the server started.
    pub paused_since: Option<Timestamp>,
    /// It is detached from its topic.
    pub is_detached: bool,
    /// Consumers that are connected: pulls under way and open streams; those of push do not count.
    pub consumers: usize,
    /// Its endpoint is left alone; `None` = it is not, or nothing is pushed.
    pub left_alone: Option<LeftAlone>,
    /// Lanes that stand still, and backoffs.
    pub waits: Waits,
}

/// Why an endpoint is sent nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Why.
    pub cause: Cause,
    /// Until when; `None` = until it is known what became of one request that tries.
    pub until: Option<Timestamp>,
}

/// What an endpoint is left alone for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It failed too often.
    Failures,
    /// It asked for it, with `Retry-After`.
    RetryAfter,
    /// One request finds out whether it works again.
    Probe,
}

impl Cause {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::RetryAfter => "retry_after",
            Self::Probe => "probe",
        }
    }
}

/// What is known about an endpoint that someone pushes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointFigures {
    /// Requests it is sent at a time, at most.
    pub(crate) window: u32,
    /// Why it is sent nothing, and until when.
    pub(crate) left_alone: Option<(Cause, Option<Moment>)>,
}

impl EndpointFigures {
    /// Until when it is left alone, on the wall clock.
    pub(crate) fn left_alone(&self, now: Now) -> Option<LeftAlone> {
        let (cause, until) = self.left_alone?;
        let until = until.map(|until| now.wall.plus(until.since(now.moment)));
        Some(LeftAlone { cause, until })
    }
}

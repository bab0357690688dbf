//! What keeps a subscription from delivering: facts for anyone who asks why nothing arrives.

use domain::delivery::Waits;
use domain::{Moment, Now, Timestamp};

/// What a subscription is waiting for now, whether or not there is anything to deliver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// An operator paused it.
    pub is_paused: bool,
    /// Since when; `None` = not paused, or that was before the server started.
    pub paused_since: Option<Timestamp>,
    /// It is detached from its topic.
    pub is_detached: bool,
    /// Connected consumers: pulls in progress and open streams; push does not count.
    pub consumers: usize,
    /// Set while its endpoint is sent nothing; `None` = it is not, or nothing is pushed.
    pub left_alone: Option<LeftAlone>,
    /// Blocked lanes, and backoffs.
    pub waits: Waits,
}

/// Why an endpoint is sent nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Why.
    pub cause: Cause,
    /// Until when; `None` = until the outcome of a probe is known.
    pub until: Option<Timestamp>,
}

/// Why an endpoint is sent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It failed too often.
    Failures,
    /// It asked for that, with `Retry-After`.
    RetryAfter,
    /// A single request is testing whether it works again.
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

/// What is known about an endpoint that is pushed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointFigures {
    /// Maximum number of requests it is sent at a time.
    pub(crate) window: u32,
    /// Why it is sent nothing, and until when.
    pub(crate) left_alone: Option<(Cause, Option<Moment>)>,
}

impl EndpointFigures {
    /// Until when it is sent nothing, on the wall clock.
    pub(crate) fn left_alone(&self, now: Now) -> Option<LeftAlone> {
        let (cause, until) = self.left_alone?;
        let until = until.map(|until| now.wall.plus(until.since(now.moment)));
        Some(LeftAlone { cause, until })
    }
}

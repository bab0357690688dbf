//! The lanes of a subscription: what each does, and what an operator does with one that is stuck.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::Obstacles;
use domain::delivery::LaneView;
use domain::{Invalid, Offset, Timestamp};

use super::{Api, paging};
use crate::status::Result;

/// Which lanes to list.
#[derive(Debug, Default)]
pub(crate) struct ListLanes {
    /// Of which subscription.
    pub(crate) subscription: String,
    /// Whether only those that something holds.
    pub(crate) is_blocked_only: bool,
    /// Most in one answer; 0 leaves it to us.
    pub(crate) page_size: i32,
    /// Where to continue; empty = at the beginning.
    pub(crate) page_token: String,
}

/// A page of lanes, those blocked longest first.
pub(crate) struct LanesPage {
    pub(crate) lanes: Vec<LaneView>,
    /// Empty = this is the last one.
    pub(crate) next_page_token: String,
    /// How often a message is tried; `None` = without end.
    pub(crate) attempts_max: Option<u32>,
    /// When it was so.
    pub(crate) at: Timestamp,
    /// What keeps the subscription from delivering besides.
    pub(crate) obstacles: Obstacles,
}

impl Api {
    pub(crate) async fn list_lanes(&self, request: &ListLanes) -> Result<LanesPage> {
        let subscription = self.subscription(&request.subscription)?;
        let size = paging::page_size(request.page_size)?;
        let after = ListPosition::from_token(&request.page_token)?;
        let mut lanes = subscription.lanes(request.is_blocked_only).await?;
        lanes.retain(|lane| after.as_ref().is_none_or(|after| ListPosition::of(lane) > *after));
        lanes.sort_by_cached_key(ListPosition::of);
        let has_more = lanes.len() > size;
        lanes.truncate(size);
        let last = lanes.last().filter(|_| has_more);
        Ok(LanesPage {
            next_page_token: last.map(|lane| ListPosition::of(lane).token()).unwrap_or_default(),
            lanes,
            attempts_max: subscription.settings().attempts_allowed(),
            at: self.clock.wall(),
            obstacles: self.broker.obstacles(subscription.name())?,
        })
    }

    /// Lets the message that blocks a lane be tried at once, as if it had never been.
    pub(crate) async fn release_lane(&self, subscription: &str, key: &str) -> Result<()> {
        Ok(self.subscription(subscription)?.release_lane(key).await?)
    }

    /// Gives up the message that blocks a lane.
    pub(crate) async fn skip_lane(&self, subscription: &str, key: &str) -> Result<()> {
        Ok(self.subscription(subscription)?.skip_lane(key).await?)
    }
}

/// Where a lane stands in the list. It may have moved by the time of the next page; then it is
/// listed twice or not at all, and the others are as they should be.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListPosition {
    since: u64,
    next: u64,
    key: String,
}

impl ListPosition {
    fn of(lane: &LaneView) -> Self {
        Self {
            since: lane.blocked_since.map_or(u64::MAX, |since| since.0),
            next: lane.next.map_or(u64::MAX, |Offset(next)| next),
            key: lane.key.clone(),
        }
    }

    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{} {} {}", self.since, self.next, self.key))
    }

    fn from_token(token: &str) -> Result<Option<Self>, Invalid> {
        if token.is_empty() {
            return Ok(None);
        }
        let wrong = || Invalid::new("page_token", "not a page token from this server");
        Self::decode(token).map(Some).ok_or_else(wrong)
    }

    fn decode(token: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let mut parts = text.splitn(3, ' ');
        let since = parts.next()?.parse().ok()?;
        let next = parts.next()?.parse().ok()?;
        Some(Self { since, next, key: parts.next()?.to_owned() })
    }
}

/// Whether `token` names a place, for fuzzing: one that does comes back.
pub(super) fn check_token(token: &str) -> bool {
    match ListPosition::from_token(token) {
        Ok(Some(place)) => {
            assert_eq!(ListPosition::from_token(&place.token()), Ok(Some(place)));
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for key in ["", "k", "with blanks and €"] {
            let place = ListPosition { since: 7, next: u64::MAX, key: key.to_owned() };
            assert_eq!(ListPosition::from_token(&place.token()), Ok(Some(place)));
        }
        assert_eq!(ListPosition::from_token(""), Ok(None));
        for bad in ["rubbish", "!!!", "MSAy"] {
            assert_eq!(ListPosition::from_token(bad).unwrap_err().field, "page_token", "{bad}");
        }
    }

    #[test]
    fn those_blocked_longest_come_first() {
        let place = |since, next, key: &str| ListPosition { since, next, key: key.to_owned() };
        let sorted = [place(1, 9, "z"), place(2, 1, "a"), place(2, 1, "b"), place(u64::MAX, 0, "")];
        assert!(sorted.is_sorted());
    }
}

//! Messages looked at without being taken.

use std::time::Duration;

use broker::{Obstacles, PEEK_WAIT_MAX, Peek, PeekFrom, Peeked};
use domain::{Filter, Invalid, Offset, SubscriptionName, TopicName};

use super::{Api, paging};
use crate::convert;
use crate::status::Result;

/// Messages in an answer unless another number is asked for.
const PAGE_SIZE_DEFAULT: i32 = 100;

/// What to look at, as a caller writes it. Empty = it is not said.
#[derive(Debug, Default)]
pub(crate) struct PeekMessages {
    /// A topic or a subscription.
    pub(crate) resource: String,
    /// An offset, `earliest` or `latest`.
    pub(crate) from: String,
    pub(crate) time: String,
    pub(crate) filter: String,
    pub(crate) page_size: i32,
    pub(crate) page_token: String,
    /// Seconds to wait for a message if there is none.
    pub(crate) wait: String,
}

/// What was seen.
pub(crate) struct PeekedPage {
    pub(crate) messages: Vec<Peeked>,
    /// Empty = there is no more. A call that waits always gets one.
    pub(crate) next_page_token: String,
    /// What keeps the subscription from delivering; `None` of a topic.
    pub(crate) obstacles: Option<Obstacles>,
}

impl Api {
    pub(crate) async fn peek(&self, request: &PeekMessages) -> Result<PeekedPage> {
        let peek = query(request)?;
        let resource = request.resource.as_str();
        let mut obstacles = None;
        let page = if resource.contains("/subscriptions/") {
            let name = SubscriptionName::parse("subscription", resource)?;
            let page = self.broker.peek_subscription(&name, &peek).await?;
            obstacles = Some(self.broker.obstacles(&name)?);
            page
        } else {
            self.broker.peek_topic(&TopicName::parse("topic", resource)?, &peek).await?
        };
        let goes_on = !page.is_end || !peek.wait.is_zero();
        let next_page_token = if goes_on { paging::offset_token(page.next) } else { String::new() };
        Ok(PeekedPage { messages: page.messages, next_page_token, obstacles })
    }
}

fn query(request: &PeekMessages) -> Result<Peek, Invalid> {
    let size = if request.page_size == 0 { PAGE_SIZE_DEFAULT } else { request.page_size };
    let filter = Some(&request.filter).filter(|text| !text.is_empty());
    Ok(Peek {
        from: from(request)?,
        filter: filter.map(|text| Filter::parse("filter", text)).transpose()?,
        limit: paging::page_size(size)?,
        wait: wait(&request.wait)?,
    })
}

/// A token continues where an answer ended, whatever else the request says.
fn from(request: &PeekMessages) -> Result<PeekFrom, Invalid> {
    if let Some(offset) = paging::offset_of(&request.page_token)? {
        return Ok(PeekFrom::Offset(offset));
    }
    match (request.from.as_str(), request.time.as_str()) {
        ("", "") | ("earliest", "") => Ok(PeekFrom::Earliest),
        ("latest", "") => Ok(PeekFrom::Latest),
        ("", time) => Ok(PeekFrom::Time(convert::time("time", time)?)),
        (from, "") => from.parse().map(|offset| PeekFrom::Offset(Offset(offset))).map_err(|_| {
            Invalid::new("from", format!("{from:?} is not an offset, earliest or latest"))
        }),
        _ => Err(Invalid::new("from", "give from or time, not both")),
    }
}

fn wait(text: &str) -> Result<Duration, Invalid> {
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.filter(|&wait| wait <= PEEK_WAIT_MAX).ok_or_else(|| {
        let problem = format!("{text:?}, 0 to {} seconds are allowed", PEEK_WAIT_MAX.as_secs());
        Invalid::new("wait", problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(from: &str, time: &str) -> PeekMessages {
        PeekMessages { from: from.to_owned(), time: time.to_owned(), ..PeekMessages::default() }
    }

    #[test]
    fn a_place_is_an_offset_a_word_a_time_or_a_token() {
        for (text, expected) in [
            ("", PeekFrom::Earliest),
            ("earliest", PeekFrom::Earliest),
            ("latest", PeekFrom::Latest),
            ("77", PeekFrom::Offset(Offset(77))),
        ] {
            assert_eq!(from(&asked(text, "")), Ok(expected));
        }
        let at = from(&asked("", "1970-01-01T00:00:01Z"));
        assert_eq!(at, Ok(PeekFrom::Time(domain::Timestamp(1_000_000))));
        let page_token = paging::offset_token(Offset(5));
        let paged = PeekMessages { page_token, ..asked("latest", "") };
        assert_eq!(from(&paged), Ok(PeekFrom::Offset(Offset(5))));
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        assert_eq!(from(&asked("soon", "")).unwrap_err().field, "from");
        assert_eq!(from(&asked("", "soon")).unwrap_err().field, "time");
        assert_eq!(from(&asked("7", "1970-01-01T00:00:01Z")).unwrap_err().field, "from");
        for bad in ["31", "-1", "1.5", "long"] {
            assert_eq!(wait(bad).unwrap_err().field, "wait", "{bad}");
        }
        assert_eq!(wait("30"), Ok(Duration::from_secs(30)));
    }
}

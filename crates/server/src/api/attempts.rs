//! What became of the attempts to push a subscription's messages.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{AttemptQuery, NumberedAttempt};
use domain::limits::PAGE_SIZE_MAX;
use domain::{Invalid, Offset};

use super::{Api, paging};
use crate::status::Result;

/// Attempts on a page unless another number is asked for.
const PAGE_SIZE_DEFAULT: i32 = 100;

/// Which attempts to list.
#[derive(Debug, Default)]
pub(crate) struct ListAttempts {
    /// Of which subscription.
    pub(crate) subscription: String,
    /// Only those of this class; empty = of all.
    pub(crate) class: String,
    /// Only those of this message; empty = of all.
    pub(crate) message_id: String,
    /// Most in one answer; 0 leaves it to us.
    pub(crate) page_size: i32,
    /// Where to continue; empty = at the newest.
    pub(crate) page_token: String,
}

/// A page of attempts, the newest first.
pub(crate) struct AttemptsPage {
    pub(crate) attempts: Vec<NumberedAttempt>,
    /// Empty = this is the last one.
    pub(crate) next_page_token: String,
}

impl Api {
    pub(crate) async fn list_attempts(&self, request: &ListAttempts) -> Result<AttemptsPage> {
        let subscription = self.subscription(&request.subscription)?;
        let page = self.broker.attempts(subscription.name(), query(request)?).await?;
        let next_page_token = page.next.map(token).unwrap_or_default();
        Ok(AttemptsPage { attempts: page.attempts, next_page_token })
    }
}

fn query(request: &ListAttempts) -> Result<AttemptQuery, Invalid> {
    let size = if request.page_size == 0 { PAGE_SIZE_DEFAULT } else { request.page_size };
    let class = Some(request.class.clone()).filter(|class| !class.is_empty());
    let offset = match request.message_id.as_str() {
        "" => None,
        id => Some(offset(id)?),
    };
    let before = match request.page_token.as_str() {
        "" => None,
        token => Some(number(token)?),
    };
    let limit = paging::page_size(size)?.min(PAGE_SIZE_MAX);
    Ok(AttemptQuery { class, offset, before, limit })
}

/// A message id is the offset in decimal.
fn offset(message_id: &str) -> Result<Offset, Invalid> {
    let wrong = |_| Invalid::new("message_id", format!("{message_id:?} is not a message id"));
    message_id.parse().map(Offset).map_err(wrong)
}

fn token(before: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("before {before}"))
}

fn number(token: &str) -> Result<u64, Invalid> {
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|text| String::from_utf8(text).ok());
    let number = decoded.and_then(|text| text.strip_prefix("before ")?.parse().ok());
    number.ok_or_else(|| Invalid::new("page_token", "not a page token from this server"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_left_to_us() {
        let expected = AttemptQuery { limit: 100, ..AttemptQuery::default() };
        assert_eq!(query(&ListAttempts::default()), Ok(expected));
    }

    #[test]
    fn everything_can_be_asked_for() {
        let request = ListAttempts {
            class: "http_5xx".to_owned(),
            message_id: "1790000000000001".to_owned(),
            page_size: 5_000,
            page_token: token(7),
            ..ListAttempts::default()
        };
        let expected = AttemptQuery {
            class: Some("http_5xx".to_owned()),
            offset: Some(Offset(1_790_000_000_000_001)),
            before: Some(7),
            limit: 1_000,
        };
        assert_eq!(query(&request), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        let plain = ListAttempts::default;
        for message_id in ["x", "-1", "1.5", "99999999999999999999"] {
            let request = ListAttempts { message_id: message_id.to_owned(), ..plain() };
            assert_eq!(query(&request).unwrap_err().field, "message_id", "{message_id}");
        }
        for token in ["rubbish", "!!!", "MSAy", "YmVmb3JlIA"] {
            let request = ListAttempts { page_token: token.to_owned(), ..plain() };
            assert_eq!(query(&request).unwrap_err().field, "page_token", "{token}");
        }
        let request = ListAttempts { page_size: -1, ..plain() };
        assert_eq!(query(&request).unwrap_err().field, "page_size");
    }
}

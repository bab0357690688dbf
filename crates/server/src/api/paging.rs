//! Lists in pages: how many entries, and where the next page begins.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::limits::PAGE_SIZE_MAX;
use domain::{Invalid, Offset};

/// The number of entries a page may have; 0 leaves it to us.
pub(super) fn page_size(asked: i32) -> Result<usize, Invalid> {
    match usize::try_from(asked) {
        Ok(0) => Ok(PAGE_SIZE_MAX),
        Ok(asked) => Ok(asked.min(PAGE_SIZE_MAX)),
        Err(_) => Err(Invalid::new("page_size", format!("{asked} is negative"))),
    }
}

/// The token for the page after the entry `name`; empty = there is none.
pub(super) fn token(next: Option<String>) -> String {
    next.map(|name| URL_SAFE_NO_PAD.encode(name)).unwrap_or_default()
}

/// The name a token stands for. `is_name` says whether it can be one of this list.
pub(super) fn after(
    token: &str,
    is_name: impl Fn(&str) -> bool,
) -> Result<Option<String>, Invalid> {
    if token.is_empty() {
        return Ok(None);
    }
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|name| String::from_utf8(name).ok());
    match decoded {
        Some(name) if is_name(&name) => Ok(Some(name)),
        _ => Err(Invalid::new("page_token", "not a page token from this server")),
    }
}

/// The token for what begins at `offset`.
pub(super) fn offset_token(offset: Offset) -> String {
    URL_SAFE_NO_PAD.encode(format!("at {offset}"))
}

/// The offset that such a token stands for; `None` if there is no token.
pub(super) fn offset_of(token: &str) -> Result<Option<Offset>, Invalid> {
    if token.is_empty() {
        return Ok(None);
    }
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|text| String::from_utf8(text).ok());
    let offset = decoded.and_then(|text| text.strip_prefix("at ")?.parse().ok()).map(Offset);
    match offset {
        Some(offset) => Ok(Some(offset)),
        None => Err(Invalid::new("page_token", "not a page token from this server")),
    }
}

/// The token for what comes after the one of that number.
pub(super) fn number_token(number: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("after {number}"))
}

/// The number that such a token stands for; `None` if there is no token.
pub(super) fn number_of(token: &str) -> Result<Option<u64>, Invalid> {
    if token.is_empty() {
        return Ok(None);
    }
    let decoded = URL_SAFE_NO_PAD.decode(token).ok().and_then(|text| String::from_utf8(text).ok());
    match decoded.and_then(|text| text.strip_prefix("after ")?.parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(Invalid::new("page_token", "not a page token from this server")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let name = "projects/p/topics/orders";
        let token = token(Some(name.to_owned()));
        assert_eq!(after(&token, |_| true).unwrap().as_deref(), Some(name));
        assert_eq!(after("", |_| false).unwrap(), None);
        assert_eq!(super::token(None), "");
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for bad in ["rubbish", "!!!", "cHJvamVjdHM=", "_-_-"] {
            assert_eq!(
                after(bad, |name| name.starts_with("projects/")).unwrap_err().field,
                "page_token"
            );
        }
        let other = token(Some("projects/q/topics/orders".to_owned()));
        assert!(after(&other, |name| name.starts_with("projects/p/")).is_err());
    }

    #[test]
    fn sizes_are_capped_and_not_negative() {
        assert_eq!(page_size(0), Ok(1_000));
        assert_eq!(page_size(1), Ok(1));
        assert_eq!(page_size(1_000_000), Ok(1_000));
        assert_eq!(page_size(-1).unwrap_err().field, "page_size");
    }

    #[test]
    fn tokens_of_numbers_come_back() {
        assert_eq!(number_of(&number_token(7)), Ok(Some(7)));
        assert_eq!(number_of(""), Ok(None));
        for bad in ["rubbish", "!!!", &offset_token(Offset(7))] {
            assert_eq!(number_of(bad).unwrap_err().field, "page_token", "{bad}");
        }
    }

    #[test]
    fn tokens_of_offsets_come_back() {
        assert_eq!(offset_of(&offset_token(Offset(7))), Ok(Some(Offset(7))));
        assert_eq!(offset_of(""), Ok(None));
        for bad in ["rubbish", "!!!", "YXQgeA", "NzA"] {
            assert_eq!(offset_of(bad).unwrap_err().field, "page_token", "{bad}");
        }
    }
}

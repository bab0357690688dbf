//! `GET /internal/v1/interest`: what is wanted in a collection, for producers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::live::collection_path;
use domain::matching::{BLOOM_HASHES, Interest, Summary};
use http::header::{ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tonic::body::Body;

use super::query::Query;
use super::{Inner, Result};
use crate::rest::{JSON, json_response, response};

/// The summary, unless the asker has it.
pub(super) fn answer(inner: &Inner, head: &Parts) -> Result<Response<Body>> {
    let mut query = Query::read(head.uri.query(), &["tenant", "collection"])?;
    let (tenant, collection) = (query.need("tenant")?, query.need("collection")?);
    collection_path(&collection)?;
    let summary = inner.api.live().interest(&tenant, &collection);
    // Versions restart with the server, and an old answer must not be mistaken for a new one.
    let tag = format!("\"{}-{}\"", inner.started.0, summary.version);
    let has_it = head.headers.get_all(IF_NONE_MATCH).iter().any(|value| names(value, &tag));
    let mut answer = match has_it {
        true => response(StatusCode::NOT_MODIFIED, JSON, ""),
        false => json_response(StatusCode::OK, show(&summary).to_string()),
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    Ok(answer)
}

/// Whether a list of tags has this one. A proxy may have made it a weak one.
fn names(value: &HeaderValue, tag: &str) -> bool {
    let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
    tags.map(|one| one.strip_prefix("W/").unwrap_or(one)).any(|one| one == tag)
}

fn show(summary: &Summary) -> Value {
    let mut shown = json!({"version": summary.version, "matchAll": summary.match_all});
    match &summary.interest {
        Interest::Exact(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:016x}")).collect();
            shown["kind"] = json!("exact");
            shown["keys"] = json!(keys);
        }
        Interest::Bloom(words) => {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            shown["kind"] = json!("bloom");
            shown["bits"] = json!(STANDARD.encode(bytes));
            shown["hashes"] = json!(BLOOM_HASHES);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_shown_by_their_kind() {
        let summary = |interest| Summary { version: 7, match_all: false, interest };
        let few = show(&summary(Interest::Exact(vec![1, 255 << 56])));
        let keys = json!(["0000000000000001", "ff00000000000000"]);
        assert_eq!(few, json!({"version": 7, "matchAll": false, "kind": "exact", "keys": keys}));
        let many = show(&summary(Interest::Bloom(vec![1, 2])));
        assert_eq!((&many["kind"], &many["hashes"]), (&json!("bloom"), &json!(7)));
        assert_eq!(many["bits"], json!("AQAAAAAAAAACAAAAAAAAAA=="));
    }

    #[test]
    fn tags_are_found_in_lists() {
        for (value, is_there) in [
            ("\"1-7\"", true),
            ("W/\"1-7\"", true),
            ("\"1-6\", \"1-7\"", true),
            ("\"1-70\"", false),
            ("1-7", false),
            ("", false),
        ] {
            assert_eq!(names(&HeaderValue::from_static(value), "\"1-7\""), is_there, "{value}");
        }
    }
}

//! Any bytes as a REST request.

use wire::rest::route;

use super::{check_path_field, paths};

/// The first line is a path, the second a query, the rest a body.
pub fn rest(input: &[u8]) -> String {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut line = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (path, query) = (line(), line());
    let body = lines.next().filter(|body| !body.is_empty());
    let body = body.and_then(|body| wire::json::parse(body).ok());
    ["GET", "PUT", "POST", "PATCH", "DELETE"]
        .map(|verb| {
            let found = match paths::find(verb, &path) {
                Ok(Some(found)) => found,
                Err(refusal) => return refusal.to_string(),
                Ok(None) => match route(verb, &path) {
                    Ok(found) => found,
                    Err(none) => return format!("{none:?}"),
                },
            };
            let call = found.method.call;
            if let Err(refusal) = check_path_field(&found, body.as_ref()) {
                return format!("{call}: {refusal}");
            }
            match found.request(&query, body.clone()) {
                Ok(request) => {
                    assert!(request.is_object(), "{request}");
                    format!("{call}: {}", found.field)
                }
                Err(error) => format!("{call}: {error}"),
            }
        })
        .join("; ")
}

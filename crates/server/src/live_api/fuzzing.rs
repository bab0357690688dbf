//! Any bytes as what gateways send: bodies, paths, queries, where a stream resumes.

use http::{HeaderMap, HeaderValue};

use super::{paths, read, stream};

/// The first line is a path with its query, the second the id of the last event, the rest a body.
pub fn live(input: &[u8]) -> String {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut line = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (address, last) = (line(), line());
    let (path, query) = match address.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (address.as_str(), None),
    };
    let mut headers = HeaderMap::new();
    if let Ok(last) = HeaderValue::from_str(&last) {
        headers.insert("last-event-id", last);
    }
    let calls = ["GET", "POST", "PUT", "DELETE"].map(|verb| match paths::find(verb, path) {
        Ok(call) => format!("{call:?}"),
        Err(fault) => fault.show().to_string(),
    });
    let start = match stream::start(query, &headers) {
        Ok(_) => "a start".to_owned(),
        Err(fault) => fault.show().to_string(),
    };
    format!("{}; {start}; {}", calls.join(", "), body(lines.next().unwrap_or_default()))
}

fn body(bytes: &[u8]) -> String {
    let Ok(body) = wire::json::parse(bytes) else { return "no JSON".to_owned() };
    let shown = |said: Result<String, super::fault::Fault>| match said {
        Ok(said) => said,
        Err(fault) => fault.show().to_string(),
    };
    [
        shown(read::registration(Some(body.clone())).map(|request| {
            let filters = request.filters.len();
            format!("{filters} filters, {}", request.filter.is_some())
        })),
        shown(read::batch(Some(body.clone())).map(|batch| format!("{} of a batch", batch.len()))),
        shown(read::ids(Some(body)).map(|ids| format!("{} ids", ids.len()))),
    ]
    .join("; ")
}

//! The paths that are not Google's: health, a page for people, and a subscription's cursor.

use http::StatusCode;
use serde_json::json;
use wire::rest::route;

use super::{HTML, Reply, Rest, TEXT, health, no_route, to_json};
use crate::status::Result;

/// The answer if the path is one of ours.
pub(super) fn find(rest: &Rest, verb: &str, path: &str) -> Result<Option<Reply>> {
    let text = |code, text| Ok(Some(Reply::Text(code, text)));
    match (verb, path) {
        ("GET", "/") => {
            let page = health::front_page(&rest.0.api, rest.is_ready());
            Ok(Some(Reply::Typed(HTML, page.into_bytes())))
        }
        ("GET", "/status") => {
            let status = health::status(&rest.0.api, rest.is_ready())?;
            Ok(Some(Reply::Json(to_json(&status)?)))
        }
        ("GET", "/healthz") => text(StatusCode::OK, "ok\n"),
        ("GET", "/readyz") if rest.is_ready() => {
            Ok(Some(Reply::Typed(TEXT, readiness(rest).into_bytes())))
        }
        ("GET", "/readyz") => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        ("GET", "/alerts") => alerts(rest),
        ("GET", _) => match path.strip_suffix("/cursor") {
            Some(subscription) => cursor(rest, subscription),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// What does not work keeps nobody from publishing and consuming, so it is ready and says so: were
/// it not, a server whose clock jumped would take no calls until someone came.
fn readiness(rest: &Rest) -> String {
    let degraded = rest.0.api.broker().degraded_server();
    let lines = degraded.iter().map(|one| format!("degraded: {}: {}\n", one.code, one.problem));
    std::iter::once("ready\n".to_owned()).chain(lines).collect()
}

/// `GET /alerts`: what is wrong now.
fn alerts(rest: &Rest) -> Result<Option<Reply>> {
    let body = json!({"alerts": rest.0.api.broker().alerts()});
    Ok(Some(Reply::Json(to_json(&body)?)))
}

/// `GET /v1/{subscription}/cursor`: the names of the source design, so `updated_at` is snake case.
fn cursor(rest: &Rest, path: &str) -> Result<Option<Reply>> {
    let found = route("GET", path).map_err(|none| no_route(none, path))?;
    if found.method.call != "GetSubscription" {
        return Ok(None);
    }
    let cursor = rest.0.api.cursor(&found.value)?;
    let body = json!({
        // The highest offset up to which all is acked: one before the first to be delivered.
        "offset": cursor.resume.0.saturating_sub(1),
        "updated_at": cursor.saved_at.seconds(),
        "ackedAbove": cursor.acked_above,
    });
    Ok(Some(Reply::Json(to_json(&body)?)))
}

//! The paths that are not Google's: a subscription's cursor, health, and a page for people.

use http::StatusCode;
use serde_json::json;
use wire::rest::route;

use super::{Reply, Rest, no_route, to_json};
use crate::status::Result;

/// What `GET /` says.
const FRONT_PAGE: &str = "\
Postrider: a Pub/Sub server. It speaks Google Pub/Sub v1 here, over gRPC and as REST under /v1.

Client libraries:   export PUBSUB_EMULATOR_HOST=<this address>
Topics by hand:     GET /v1/projects/{project}/topics
A saved cursor:     GET /v1/projects/{project}/subscriptions/{subscription}/cursor
Lanes that wait:    GET /v1/projects/{project}/subscriptions/{subscription}/lanes?state=blocked
Push attempts:      GET /v1/projects/{project}/subscriptions/{subscription}/attempts
What is wrong:      GET /alerts
Metrics:            GET /metrics (Prometheus, OpenMetrics)
Is it up:           GET /healthz (the process), GET /readyz (takes calls)
";

/// The answer if the path is one of ours.
pub(super) fn find(rest: &Rest, verb: &str, path: &str) -> Result<Option<Reply>> {
    let text = |code, text| Ok(Some(Reply::Text(code, text)));
    match (verb, path) {
        ("GET", "/") => text(StatusCode::OK, FRONT_PAGE),
        ("GET", "/healthz") => text(StatusCode::OK, "ok\n"),
        ("GET", "/readyz") if rest.is_ready() => text(StatusCode::OK, "ready\n"),
        ("GET", "/readyz") => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        ("GET", "/alerts") => alerts(rest),
        ("GET", _) => match path.strip_suffix("/cursor") {
            Some(subscription) => cursor(rest, subscription),
            None => Ok(None),
        },
        _ => Ok(None),
    }
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

//! The calls.

use domain::live::gateway_id;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tonic::body::Body;

use super::fault::Fault;
use super::paths::Call;
use super::query::Query;
use super::{Inner, Result, interest, no_body, read, show};
use crate::api::{Api, LIVE_TURN, ListLive};
use crate::net::Phase;
use crate::rest::{JSON, response};

/// The header in which a gateway may say who it is.
const GATEWAY: &str = "x-gateway-id";
/// Collections that health shows, at most.
const LARGEST: usize = 10;

/// Makes a call.
pub(super) async fn call(
    inner: &Inner,
    call: Call,
    head: &Parts,
    body: Option<Value>,
) -> Result<Response<Body>> {
    let api = &inner.api;
    match call {
        Call::Register => return register(api, body),
        Call::RegisterBatch => return register_batch(api, body).await,
        Call::HeartbeatBatch => return heartbeat_batch(api, head, body).await,
        _ => no_body(body)?,
    }
    let live = api.live();
    match call {
        Call::List => list(api, head.uri.query()),
        Call::Get(id) => Ok(ok(&show::view(&live.get(&id).map_err(|r| Fault::touching(&r))?))),
        Call::Delete(id) => {
            live.delete(&id, gateway(head)?).map_err(|refusal| Fault::touching(&refusal))?;
            Ok(with_status(StatusCode::NO_CONTENT, String::new()))
        }
        Call::Heartbeat(id) => {
            let renewed = live.heartbeat(&id, gateway(head)?);
            Ok(ok(&show::renewed(&id, renewed.map_err(|refusal| Fault::touching(&refusal))?)))
        }
        Call::HeartbeatGateway(id) => {
            gateway_id(&id)?;
            Ok(ok(&json!({"renewed": live.heartbeat_gateway(&id)})))
        }
        Call::CloseGateway(id) => {
            gateway_id(&id)?;
            Ok(ok(&json!({"removed": live.close_gateway(&id)})))
        }
        Call::Interest => interest::answer(inner, head),
        _ => Ok(ok(&health(inner))),
    }
}

fn register(api: &Api, body: Option<Value>) -> Result<Response<Body>> {
    let (status, shown) = register_one(api, body, api.live_warning().as_deref())?;
    Ok(with_status(status, shown.to_string()))
}

fn register_one(
    api: &Api,
    body: Option<Value>,
    warning: Option<&str>,
) -> Result<(StatusCode, Value)> {
    let request = read::registration(body)?;
    let id = request.subscription.clone();
    let registered = api.live().register(request).map_err(|r| Fault::registering(&r))?;
    let status = if registered.renewed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, show::registered(&id, &registered, warning)))
}

async fn register_batch(api: &Api, body: Option<Value>) -> Result<Response<Body>> {
    let warning = api.live_warning();
    let mut results = Vec::new();
    for (index, item) in read::batch(body)?.into_iter().enumerate() {
        take_turns(index).await;
        results.push(match register_one(api, Some(item), warning.as_deref()) {
            Ok((status, shown)) => with(shown, status),
            Err(fault) => failed(&fault),
        });
    }
    Ok(ok(&json!({"results": results})))
}

async fn heartbeat_batch(api: &Api, head: &Parts, body: Option<Value>) -> Result<Response<Body>> {
    let gateway = gateway(head)?;
    let mut results = Vec::new();
    for (index, id) in read::ids(body)?.into_iter().enumerate() {
        take_turns(index).await;
        results.push(match api.live().heartbeat(&id, gateway) {
            Ok(expires) => with(show::renewed(&id, expires), StatusCode::OK),
            Err(refusal) => {
                let mut result = failed(&Fault::touching(&refusal));
                result["subscriptionId"] = json!(id);
                result
            }
        });
    }
    Ok(ok(&json!({"results": results})))
}

/// A batch must not keep others from being served.
async fn take_turns(index: usize) {
    if index % LIVE_TURN == LIVE_TURN - 1 {
        tokio::task::yield_now().await;
    }
}

fn with(mut shown: Value, status: StatusCode) -> Value {
    shown["status"] = json!(status.as_u16());
    shown
}

fn failed(fault: &Fault) -> Value {
    json!({"status": fault.status.as_u16(), "error": fault.show()})
}

fn list(api: &Api, query: Option<&str>) -> Result<Response<Body>> {
    let known = ["gatewayId", "tenant", "collection", "pageSize", "pageToken"];
    let mut query = Query::read(query, &known)?;
    let (views, next) = api.list_live(ListLive {
        gateway: query.take("gatewayId"),
        tenant: query.take("tenant"),
        collection: query.take("collection"),
        page_size: query.number("pageSize")?.unwrap_or_default(),
        page_token: query.take("pageToken").unwrap_or_default(),
    })?;
    let shown: Vec<Value> = views.iter().map(show::view).collect();
    let mut page = json!({"subscriptions": shown});
    if !next.is_empty() {
        page["nextPageToken"] = json!(next);
    }
    Ok(ok(&page))
}

fn health(inner: &Inner) -> Value {
    let live = inner.api.live();
    let figures = live.figures(LARGEST);
    let is_serving = *inner.phase.borrow() == Phase::Serving;
    let topics: Vec<String> = live.topics().iter().map(ToString::to_string).collect();
    let largest = figures.largest.iter().map(|(scope, count)| {
        json!({
            "tenant": &*scope.tenant,
            "collection": &*scope.collection,
            "subscriptions": count,
        })
    });
    let counts = figures.counts;
    json!({
        "status": if is_serving { "healthy" } else { "stopping" },
        "subscriptions": show::counts(&counts),
        "indexSize": figures.groups,
        // Every subscription has one deadline.
        "heapSize": counts.total,
        "streams": figures.streams,
        "topics": topics,
        "largestCollections": largest.collect::<Vec<Value>>(),
    })
}

/// Who calls, if it says so.
fn gateway(head: &Parts) -> Result<Option<&str>> {
    let Some(value) = head.headers.get(GATEWAY) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some).map_err(|_| Fault::argument(GATEWAY, "expected text in UTF-8"))
}

fn ok(shown: &Value) -> Response<Body> {
    with_status(StatusCode::OK, shown.to_string())
}

fn with_status(status: StatusCode, body: String) -> Response<Body> {
    response(status, JSON, body)
}

//! How the server is: `/status`, `/v1/{project}/lint`, and the front page for people.

use broker::{Degraded, ShardStatus};
use domain::lint::Finding;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::figures::seconds;
use super::known;
use super::postrider::show_time;
use crate::api::{About, Api};
use crate::descriptors::{self, Descriptors};
use crate::live_api;
use crate::status::Result;

/// Findings in `/status`, at most.
const FINDINGS_MAX: usize = 100;

/// `GET /v1/{project}/lint`.
pub(super) fn lint(api: &Api, request: Value) -> Result<Value> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request {
        project: String,
    }
    let request: Request = from_value(request)?;
    let findings: Vec<Value> = api.lint(Some(&request.project))?.iter().map(show_finding).collect();
    Ok(json!({ "findings": findings }))
}

/// `GET /status`: figures, what does not work, and what is worth putting right.
pub(super) fn status(api: &Api, is_ready: bool) -> Result<Value> {
    let status = api.status();
    let findings = api.lint(None)?;
    let about = api.about();
    let shown: Vec<Value> = findings.iter().take(FINDINGS_MAX).map(show_finding).collect();
    let degraded: Vec<Value> = status.degraded.iter().map(show_degraded).collect();
    Ok(known([
        ("status", Some(json!(word(is_ready, &status.degraded)))),
        ("version", Some(json!(crate::VERSION))),
        ("startTime", about.map(|about| show_time(about.started_at))),
        ("uptimeSeconds", Some(json!(api.uptime().as_secs()))),
        ("engine", about.map(|about| json!(about.engine))),
        ("durability", about.and_then(|about| about.durability).map(|word| json!(word))),
        ("recovery", about.and_then(show_recovery)),
        ("connections", about.map(|about| json!(about.connections.open()))),
        ("files", about.map(|about| show_files(&about.descriptors))),
        ("topics", Some(json!(status.topics))),
        (
            "subscriptions",
            Some(json!({
                "total": status.subscriptions,
                "active": status.subscriptions - status.detached,
                "detached": status.detached,
                "push": status.push,
            })),
        ),
        ("liveSubscriptions", Some(live_api::counts(api))),
        ("snapshots", Some(json!(status.snapshots))),
        ("backlogMessages", Some(json!(status.backlog))),
        ("outstanding", Some(json!(status.outstanding))),
        ("indexSize", Some(json!(status.indexed))),
        ("lanesBlocked", Some(json!(status.lanes_blocked))),
        ("lanesHalted", Some(json!(status.lanes_halted))),
        ("deadLettersWaiting", Some(json!(status.dead_letters_waiting))),
        ("replaysRunning", Some(json!(status.replays_running))),
        ("shards", Some(show_shards(api, &status.shards))),
        ("degraded", Some(json!(degraded))),
        ("findings", Some(json!(shown))),
        ("findingsTotal", Some(json!(findings.len()))),
    ]))
}

fn word(is_ready: bool, degraded: &[Degraded]) -> &'static str {
    match (is_ready, degraded.is_empty()) {
        (true, true) => "healthy",
        (true, false) => "degraded",
        (false, _) => "not ready",
    }
}

/// The shards that this server runs, of all the store has.
fn show_shards(api: &Api, open: &[ShardStatus]) -> Value {
    let shown: Vec<Value> = open
        .iter()
        .map(|shard| {
            json!({
                "id": shard.id.0,
                "epoch": shard.epoch.0.to_string(),
                "topics": shard.topics,
                "stalled": shard.is_stalled,
            })
        })
        .collect();
    json!({ "total": api.broker().shard_count(), "open": shown })
}

/// What the process may open, has open, and could not keep of its settings.
fn show_files(files: &Descriptors) -> Value {
    known([
        ("limit", files.limit.map(|limit| json!(limit))),
        ("open", descriptors::open().map(|open| json!(open))),
        ("connectionsMax", Some(json!(files.connections_max))),
        ("pushConnectionsMax", Some(json!(files.push_max))),
        ("lowered", Some(json!(files.lowered))),
    ])
}

fn show_recovery(about: &About) -> Option<Value> {
    let recovery = about.started.recovery?;
    Some(json!({
        "seconds": seconds(about.started.opening),
        "groups": recovery.groups,
        "bytes": recovery.bytes,
        "records": recovery.records,
        "tornBytesCut": recovery.torn_bytes_cut,
        "unsyncedCommitsCut": recovery.unsynced_groups_cut,
        "unsyncedBytesCut": recovery.unsynced_bytes_cut,
    }))
}

fn show_degraded(degraded: &Degraded) -> Value {
    known([
        ("code", Some(json!(degraded.code))),
        ("resource", degraded.resource.as_ref().map(|name| json!(name))),
        ("problem", Some(json!(degraded.problem))),
        ("remedy", Some(json!(degraded.remedy))),
    ])
}

fn show_finding(finding: &Finding) -> Value {
    json!({
        "code": finding.code,
        "resource": finding.resource,
        "problem": finding.problem,
        "remedy": finding.remedy,
    })
}

/// `GET /`: plain enough to be read with curl.
pub(super) fn front_page(api: &Api, is_ready: bool) -> String {
    let status = api.status();
    let state = word(is_ready, &status.degraded);
    let version = crate::VERSION;
    format!(
        r#"<!doctype html>
<html lang="en">
<title>Postrider</title>
<h1>Postrider {version}: {state}</h1>
<p>A Pub/Sub server. It speaks Google Pub/Sub v1 here, over gRPC and as REST under /v1.
<p>Client libraries: <code>export PUBSUB_EMULATOR_HOST=(this address)</code>
<h2>In it</h2>
<ul>
<li>topics: {topics}
<li>subscriptions: {subscriptions}
<li>messages not delivered yet: {backlog}
<li>dead letters waiting: {letters}
<li>lanes waiting for an operator: {halted}
</ul>
<h2>Where to look</h2>
<ul>
<li><a href="/status">/status</a>: figures, problems, what to fix
<li><a href="/metrics">/metrics</a>: for Prometheus
<li><a href="/alerts">/alerts</a>: what is wrong right now
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>: is it up, does it take calls
<li>/v1/projects/(project)/topics, /v1/projects/(project)/subscriptions
<li>/v1/projects/(project)/lint: risky setups
<li>/v1/(topic or subscription)/messages: look without taking
<li>/v1/(topic or subscription)/deadLetters: what was given up, and why
<li>/v1/(subscription)/delivery: what keeps it from delivering
<li>/v1/(subscription)/cursor, /lanes?state=blocked, /attempts
</ul>
</html>
"#,
        topics = status.topics,
        subscriptions = status.subscriptions,
        backlog = status.backlog,
        letters = status.dead_letters_waiting,
        halted = status.lanes_halted,
    )
}

//! How long after their time subscriptions are gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{SUBSCRIPTIONS, all_went_well, time};
use crate::clock;
use crate::load::Latencies;
use crate::plan::LivePlan;
use crate::report::Report;
use crate::rest::Rest;
use crate::target::Target;

/// The shortest that there is.
const TTL: Duration = Duration::from_secs(60);
/// Subscriptions registered at a time: their deadlines are known as exactly as a call takes.
const BATCH: usize = 100;
/// Between two looks.
const STEP: Duration = Duration::from_millis(20);
const LAG_MAX: Duration = Duration::from_secs(30);

/// Registers subscriptions that nobody renews, and looks how many are left.
pub(super) async fn run(target: &Target, plan: &LivePlan, report: &mut Report) -> Result<()> {
    let rest = target.channel.rest();
    let others = held(&rest).await?;
    let mut deadlines = Vec::new();
    for part in (0..plan.expiring).collect::<Vec<_>>().chunks(BATCH) {
        let wish = |number: &usize| {
            json!({
                "gatewayId": "expiring", "subscriptionId": format!("expiring-{number}"),
                "tenant": "expiring", "collection": "expiring", "ttl": TTL.as_secs(),
            })
        };
        let body = json!({ "subscriptions": part.iter().map(wish).collect::<Vec<_>>() });
        let sent = clock::now();
        let path = format!("{SUBSCRIPTIONS}:batch");
        all_went_well(&rest.call(Method::POST, &path, &body).await?)?;
        deadlines.extend(part.iter().map(|_| sent + TTL));
    }
    let lags = watch(&rest, others, &deadlines).await?;
    time(report, "live/expiry-lag-p99".to_owned(), lags.quantile(0.99));
    Ok(())
}

/// The lag of each, as they go in the order of their deadlines.
async fn watch(rest: &Rest, others: usize, deadlines: &[Instant]) -> Result<Latencies> {
    let mut lags = Latencies::new()?;
    let (first, last) = (deadlines.first().context("none")?, deadlines.last().context("none")?);
    tokio::time::sleep_until((*first).into()).await;
    let mut gone = 0;
    while gone < deadlines.len() {
        let left = held(rest).await?.saturating_sub(others);
        let now = clock::now();
        for deadline in deadlines.get(gone..deadlines.len() - left).unwrap_or_default() {
            ensure!(now >= *deadline, "one expired early");
            lags.add(now.duration_since(*deadline));
            gone += 1;
        }
        ensure!(now < *last + LAG_MAX, "{left} did not expire");
        tokio::time::sleep(STEP).await;
    }
    Ok(lags)
}

/// How many subscriptions the server holds.
async fn held(rest: &Rest) -> Result<usize> {
    let health = rest.call(Method::GET, "/internal/v1/health", &Value::Null).await?;
    let health: Value = serde_json::from_slice(&health)?;
    let total = health.pointer("/subscriptions/total").and_then(Value::as_u64);
    Ok(usize::try_from(total.context("no total in the health of live subscriptions")?)?)
}

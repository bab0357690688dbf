//! `delivery`: what keeps a subscription from delivering, in the answers that are asked for it.

use broker::{LeftAlone, Obstacles};
use domain::delivery::Waits;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::known;
use super::postrider::show_time;
use crate::api::Api;
use crate::status::Result;

/// `GET /v1/{subscription}/delivery`.
pub(super) fn get(api: &Api, request: Value) -> Result<Value> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request {
        subscription: String,
    }
    let request: Request = from_value(request)?;
    Ok(show(&api.obstacles(&request.subscription)?))
}

/// The facts; what is not in the way is left out, save what everyone asks for first.
pub(super) fn show(obstacles: &Obstacles) -> Value {
    let waits = &obstacles.waits;
    known([
        ("paused", Some(json!(obstacles.is_paused))),
        ("pausedSince", obstacles.paused_since.map(show_time)),
        ("detached", obstacles.is_detached.then_some(json!(true))),
        ("consumers", Some(json!(obstacles.consumers))),
        ("endpoint", obstacles.left_alone.as_ref().map(show_left_alone)),
        ("backoff", (waits.backing_off > 0).then(|| show_backoff(waits))),
        ("lanes", show_lanes(waits)),
    ])
}

fn show_left_alone(left_alone: &LeftAlone) -> Value {
    known([
        ("leftAloneFor", Some(json!(left_alone.cause.as_str()))),
        ("leftAloneUntil", left_alone.until.map(show_time)),
    ])
}

fn show_backoff(waits: &Waits) -> Value {
    known([
        ("waiting", Some(json!(waits.backing_off))),
        ("until", waits.backing_off_until.map(show_time)),
    ])
}

/// Lanes that stand still; `None` = none does.
fn show_lanes(waits: &Waits) -> Option<Value> {
    let is_stuck = waits.lanes_blocked > 0 || waits.lane_failing_since.is_some();
    is_stuck.then(|| {
        known([
            ("blocked", Some(json!(waits.lanes_blocked))),
            ("halted", Some(json!(waits.lanes_halted))),
            ("failingSince", waits.lane_failing_since.map(show_time)),
        ])
    })
}

#[cfg(test)]
mod tests {
    use broker::Cause;
    use domain::Timestamp;

    use super::*;

    #[test]
    fn what_is_not_in_the_way_is_left_out() {
        assert_eq!(show(&Obstacles::default()), json!({"paused": false, "consumers": 0}));
        let until = Some(Timestamp(2_000_000));
        let waits = Waits {
            lanes_blocked: 3,
            lanes_halted: 1,
            lane_failing_since: Some(Timestamp(1_000_000)),
            backing_off: 2,
            backing_off_until: until,
            ..Waits::default()
        };
        let obstacles = Obstacles {
            is_paused: true,
            paused_since: Some(Timestamp(0)),
            is_detached: true,
            consumers: 1,
            left_alone: Some(LeftAlone { cause: Cause::Failures, until }),
            waits,
        };
        let expected = json!({
            "paused": true, "pausedSince": "1970-01-01T00:00:00Z", "detached": true,
            "consumers": 1,
            "endpoint": {"leftAloneFor": "failures", "leftAloneUntil": "1970-01-01T00:00:02Z"},
            "backoff": {"waiting": 2, "until": "1970-01-01T00:00:02Z"},
            "lanes": {"blocked": 3, "halted": 1, "failingSince": "1970-01-01T00:00:01Z"},
        });
        assert_eq!(show(&obstacles), expected);
        let probed = LeftAlone { cause: Cause::Probe, until: None };
        assert_eq!(show_left_alone(&probed), json!({"leftAloneFor": "probe"}));
    }
}

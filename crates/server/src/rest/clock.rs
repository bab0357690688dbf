//! `GET /v1/clock` and `POST /v1/clock:confirm`: whether the wall clock is believed.

use broker::ClockStatus;
use serde_json::{Value, json};

use super::known;
use super::postrider::show_time;
use crate::api::Api;

/// How the clock stands.
pub(super) fn get(api: &Api) -> Value {
    show(&api.broker().clock())
}

/// Believes the clock; answers how it stood before.
pub(super) fn confirm(api: &Api) -> Value {
    show(&api.broker().confirm_clock())
}

fn show(status: &ClockStatus) -> Value {
    let clock = &status.clock;
    let jump = clock.suspended.as_ref();
    known([
        ("suspended", Some(json!(jump.is_some()))),
        ("time", Some(show_time(clock.wall))),
        ("expectedTime", Some(show_time(clock.expected))),
        ("retentionTime", Some(show_time(clock.retention))),
        ("suspendedSince", jump.map(|jump| show_time(jump.since))),
        ("aheadSeconds", jump.map(|jump| json!(jump.ahead.as_secs()))),
        ("believedAfterSeconds", jump.map(|jump| json!(jump.left.as_secs()))),
        ("expiringSubscriptions", jump.map(|_| json!(status.expiring_subscriptions))),
        ("expiringSnapshots", jump.map(|_| json!(status.expiring_snapshots))),
    ])
}

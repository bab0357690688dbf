//! `postrider subscription describe`.

use domain::Timestamp;
use domain::subscription::SETTINGS;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cli::client::{At, Client, Problem};
use crate::cli::settings::tell_all;
use crate::cli::table::{fact, plain};
use crate::cli::values::rfc3339;
use crate::cli::{Failure, obstacles, print, print_json};

pub(super) fn run(name: &str, at: &At) -> Result<(), Failure> {
    let name = at.subscription(name)?;
    let client = Client::new(at)?;
    let subscription = client.get(&name.path())?;
    let cursor = match client.call(Method::GET, &format!("{}/cursor", name.path()), None) {
        Ok(cursor) => cursor,
        // Only Postrider has it; the rest is worth showing for any server.
        Err(Problem::Refused { code: StatusCode::NOT_FOUND, .. }) => Value::Null,
        Err(problem) => return Err(client.failure(problem)),
    };
    let delivery = match client.call(Method::GET, &format!("{}/delivery", name.path()), None) {
        Ok(delivery) => delivery,
        Err(Problem::Refused { code: StatusCode::NOT_FOUND, .. }) => Value::Null,
        Err(problem) => return Err(client.failure(problem)),
    };
    if at.json {
        let shown = json!({"subscription": subscription, "cursor": cursor, "delivery": delivery});
        return print_json(&shown);
    }
    print(&describe(&subscription, &cursor, &delivery))
}

/// What is shown of a subscription that is no setting: its heading, and where the answer holds it.
const GIVEN: [(&str, &str); 3] =
    [("Subscription", "/name"), ("Topic", "/topic"), ("Detached", "/detached")];

fn describe(subscription: &Value, cursor: &Value, delivery: &Value) -> String {
    let mut text = String::new();
    for (title, pointer) in GIVEN {
        if let Some(value) = subscription.pointer(pointer) {
            fact(&mut text, title, &plain(value));
        }
    }
    tell_all(SETTINGS, subscription, &mut text);
    for (what, field, meaning) in [
        ("Cursor", "offset", " (all up to this offset is acked)"),
        ("Acked above", "ackedAbove", ""),
    ] {
        if let Some(value) = cursor.get(field) {
            fact(&mut text, what, &format!("{}{meaning}", plain(value)));
        }
    }
    if let Some(seconds) = cursor.get("updated_at").and_then(Value::as_u64) {
        fact(&mut text, "Saved at", &rfc3339(Timestamp(seconds.saturating_mul(1_000_000))));
    }
    if let Some(consumers) = delivery.get("consumers").filter(|_| !is_pushed(subscription)) {
        fact(&mut text, "Consumers", &plain(consumers));
    }
    for (what, value) in obstacles::facts(delivery) {
        fact(&mut text, what, &value);
    }
    let warnings = subscription.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        fact(&mut text, "Warning", &plain(warning));
    }
    text
}

fn is_pushed(subscription: &Value) -> bool {
    subscription.pointer("/pushConfig/pushEndpoint").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_shows_what_is_there() {
        let subscription = json!({
            "name": "projects/p/subscriptions/billing",
            "labels": {"team": "shop"},
            "filter": "attributes:kind",
            "expirationPolicy": {"ttl": "2678400s"},
            "deadLetterPolicy": {
                "deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 5,
            },
            "postrider": {"start": {"offset": "7"}, "fifo": true},
            "warnings": ["first", "second"],
        });
        let cursor = json!({"offset": 6, "updated_at": 60, "ackedAbove": 2});
        let delivery = json!({
            "paused": true, "pausedSince": "2026-11-16T09:00:00Z", "consumers": 2,
            "endpoint": {"leftAloneFor": "retry_after", "leftAloneUntil": "2026-11-16T09:01:00Z"},
            "backoff": {"waiting": 7, "until": "2026-11-16T09:02:00Z"},
        });
        let text = describe(&subscription, &cursor, &delivery);
        for line in [
            "Subscription     projects/p/subscriptions/billing\n",
            "Filter           attributes:kind\n",
            "FIFO             true\n",
            "Dead letters to  projects/p/topics/dead\n",
            "Dead after       5 attempts\n",
            "Labels           team=shop\n",
            "Start            offset=7\n",
            "Saved at         1970-01-01T00:01:00Z\n",
            "Expires after    31d\n",
            "Cursor           6 (all up to this offset is acked)\n",
            "Consumers        2\n",
            "Paused           yes, since 2026-11-16T09:00:00Z\n",
            "Left alone       the endpoint asked for it, until 2026-11-16T09:01:00Z\n",
            "Backing off      7 waiting, until 2026-11-16T09:02:00Z\n",
            "Warning          first\nWarning          second\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("Description"), "{text}");
        assert!(!text.contains("Backoff"), "{text}");
    }
}

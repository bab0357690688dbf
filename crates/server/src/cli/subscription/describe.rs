//! `postrider subscription describe`.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::cli::client::{At, Client, Problem};
use crate::cli::table::{fact, plain};
use crate::cli::{Failure, print, print_json};

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
    if at.json {
        return print_json(&json!({"subscription": subscription, "cursor": cursor}));
    }
    print(&describe(&subscription, &cursor))
}

/// What is shown of a subscription: its heading, where the answer holds it, and its unit.
const SHOWN: [(&str, &str, &str); 32] = [
    ("Subscription", "/name", ""),
    ("Topic", "/topic", ""),
    ("Detached", "/detached", ""),
    ("Ack deadline", "/ackDeadlineSeconds", "s"),
    ("Retention", "/messageRetentionDuration", ""),
    ("Keeps acked", "/retainAckedMessages", ""),
    ("Expires after", "/expirationPolicy/ttl", ""),
    ("Filter", "/filter", ""),
    ("Exactly once", "/enableExactlyOnceDelivery", ""),
    ("Ordering keys", "/enableMessageOrdering", ""),
    ("FIFO", "/postrider/fifo", ""),
    ("Lanes by", "/postrider/laneBy", ""),
    ("Poison", "/postrider/poison", ""),
    ("Paused", "/postrider/paused", ""),
    ("Backoff from", "/retryPolicy/minimumBackoff", ""),
    ("Backoff up to", "/retryPolicy/maximumBackoff", ""),
    ("Dead letters to", "/deadLetterPolicy/deadLetterTopic", ""),
    ("Dead after", "/deadLetterPolicy/maxDeliveryAttempts", " attempts"),
    ("Max attempts", "/postrider/maxAttempts", ""),
    ("Backoff", "/postrider/backoff", ""),
    ("Endpoint", "/pushConfig/pushEndpoint", ""),
    ("Timeout", "/pushConfig/timeoutSeconds", "s"),
    ("Token for", "/pushConfig/oidcToken/serviceAccountEmail", ""),
    ("Method", "/postrider/method", ""),
    ("Headers", "/postrider/headers", ""),
    ("Signed", "/postrider/signing", ""),
    ("Batch", "/postrider/batch", ""),
    ("Rate limit", "/postrider/rateLimit", " a second"),
    ("Labels", "/labels", ""),
    ("Start", "/postrider/start", ""),
    ("Description", "/postrider/description", ""),
    ("Metadata", "/postrider/metadata", ""),
];

fn describe(subscription: &Value, cursor: &Value) -> String {
    let mut text = String::new();
    for (what, pointer, unit) in SHOWN {
        if let Some(value) = subscription.pointer(pointer) {
            // An object without fields is a setting that is on and has nothing more to say.
            let is_on = value.as_object().is_some_and(serde_json::Map::is_empty);
            let shown = if is_on { "yes".to_owned() } else { plain(value) };
            fact(&mut text, what, &format!("{shown}{unit}"));
        }
    }
    for (what, field, meaning) in [
        ("Cursor", "offset", " (all up to this offset is acked)"),
        ("Acked above", "ackedAbove", ""),
        ("Saved at", "updated_at", " (Unix seconds)"),
    ] {
        if let Some(value) = cursor.get(field) {
            fact(&mut text, what, &format!("{}{meaning}", plain(value)));
        }
    }
    let warnings = subscription.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        fact(&mut text, "Warning", &plain(warning));
    }
    text
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
            "deadLetterPolicy": {
                "deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 5,
            },
            "postrider": {"start": {"offset": "7"}, "fifo": true},
            "warnings": ["first", "second"],
        });
        let cursor = json!({"offset": 6, "updated_at": 1, "ackedAbove": 2});
        let text = describe(&subscription, &cursor);
        for line in [
            "Subscription     projects/p/subscriptions/billing\n",
            "Filter           attributes:kind\n",
            "FIFO             true\n",
            "Dead letters to  projects/p/topics/dead\n",
            "Dead after       5 attempts\n",
            "Labels           team=shop\n",
            "Start            offset=7\n",
            "Cursor           6 (all up to this offset is acked)\n",
            "Warning          first\nWarning          second\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("Description"), "{text}");
        assert!(!text.contains("Backoff"), "{text}");
    }
}

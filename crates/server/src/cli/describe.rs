//! `postrider subscription describe`: asks a running server over REST.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client};
use super::{Failure, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider subscription describe projects/my-project/subscriptions/billing
  postrider subscription describe projects/my-project/subscriptions/billing --json
  postrider subscription describe projects/p/subscriptions/s01 --server http://10.0.0.7:8085";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription: projects/{project}/subscriptions/{subscription}
    name: String,
    #[command(flatten)]
    at: At,
    /// Print JSON: {"subscription": …, "cursor": …}
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.name, &arguments.at)?;
    let subscription = client.get("")?;
    let cursor = client.get("/cursor")?;
    if arguments.json {
        let both = json!({"subscription": subscription, "cursor": cursor});
        return print(&format!("{both:#}\n"));
    }
    print(&describe(&subscription, &cursor))
}

/// What is shown of a subscription: its heading, where the answer holds it, and its unit.
const SHOWN: [(&str, &str, &str); 23] = [
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
    ("Labels", "/labels", ""),
    ("Start", "/postrider/start", ""),
    ("Description", "/postrider/description", ""),
    ("Metadata", "/postrider/metadata", ""),
];

fn describe(subscription: &Value, cursor: &Value) -> String {
    let mut text = String::new();
    for (what, pointer, unit) in SHOWN {
        if let Some(value) = subscription.pointer(pointer) {
            line(&mut text, what, &format!("{}{unit}", plain(value)));
        }
    }
    for (what, field, meaning) in [
        ("Cursor", "offset", " (all up to this offset is acked)"),
        ("Acked above", "ackedAbove", ""),
        ("Saved at", "updated_at", " (Unix seconds)"),
    ] {
        if let Some(value) = cursor.get(field) {
            line(&mut text, what, &format!("{}{meaning}", plain(value)));
        }
    }
    let warnings = subscription.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        line(&mut text, "Warning", &plain(warning));
    }
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    text.push_str(&format!("{what:<17}{value}\n"));
}

/// A value without the quotes JSON puts around texts.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
            pairs.join(", ")
        }
        other => other.to_string(),
    }
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

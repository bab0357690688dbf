//! `postrider subscription describe`: asks a running server over REST.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use domain::SubscriptionName;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Failure, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider subscription describe projects/my-project/subscriptions/billing
  postrider subscription describe projects/my-project/subscriptions/billing --json
  postrider subscription describe projects/p/subscriptions/s01 --server http://10.0.0.7:8085";

/// How long the server may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription: projects/{project}/subscriptions/{subscription}
    name: String,
    /// The server to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8085")]
    server: String,
    /// Print JSON: {"subscription": …, "cursor": …}
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = SubscriptionName::parse("name", &arguments.name).map_err(Failure::usage)?;
    let host = host(&arguments.server)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let (subscription, cursor) = runtime.block_on(async {
        let path = path(&name);
        let subscription = get(host, &path).await?;
        let cursor = get(host, &format!("{path}/cursor")).await?;
        Ok::<_, Failure>((subscription, cursor))
    })?;
    if arguments.json {
        let both = json!({"subscription": subscription, "cursor": cursor});
        return print(&format!("{both:#}\n"));
    }
    print(&describe(&subscription, &cursor))
}

/// The host and port of `http://host:port`; the scheme may be left out.
fn host(server: &str) -> Result<&str, Failure> {
    let host = server.strip_prefix("http://").unwrap_or(server).trim_end_matches('/');
    if host.is_empty() || host.contains('/') || !host.contains(':') {
        let problem = format!("{server:?} is not a server such as http://127.0.0.1:8085");
        return Err(Failure::usage(problem));
    }
    Ok(host)
}

/// Names may hold a percent sign, which means something else in a path.
fn path(name: &SubscriptionName) -> String {
    format!("/v1/{}", name.as_str().replace('%', "%25"))
}

async fn get(host: &str, path: &str) -> Result<Value, Failure> {
    let failed = |problem: String| Failure::failed(format!("{host}: {problem}"));
    let asked = tokio::time::timeout(TIMEOUT, request(host, path)).await;
    let answered = asked.map_err(|_| failed("did not answer in time".to_owned()))?;
    let (code, body) = answered.map_err(|error| failed(error.to_string()))?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if code == StatusCode::OK {
        return Ok(answer);
    }
    let message = answer.pointer("/error/message").and_then(Value::as_str);
    Err(failed(message.map_or_else(|| format!("answered {code}"), str::to_owned)))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn request(host: &str, path: &str) -> Result<(StatusCode, Bytes), BoxError> {
    let stream = TcpStream::connect(host).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, host).body(Empty::<Bytes>::new())?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let code = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?;
        Ok((code, body.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The whole answer may have come with the end of the connection.
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.into()),
        },
    }
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
    fn servers_are_given_with_or_without_scheme() {
        for good in ["http://127.0.0.1:8085", "http://127.0.0.1:8085/", "127.0.0.1:8085"] {
            assert_eq!(host(good).ok(), Some("127.0.0.1:8085"), "{good}");
        }
        for bad in ["", "http://", "https://x:1", "localhost", "http://x:1/path"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }

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
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("Description"), "{text}");
        assert!(!text.contains("Backoff"), "{text}");
    }
}

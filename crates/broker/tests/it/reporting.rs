//! Lines about deliveries: which there are, what each says, and how many there may be.

use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use domain::{Poison, RetryPolicy, Subscription};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{Fixture, HOUR, dead_letters_to, settings, until};

/// What is logged on this thread, as long as the guard lives.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn listen(level: Level) -> (Self, DefaultGuard) {
        static EVERYWHERE: Once = Once::new();
        // While there is one subscriber, a line that a thread without it comes to first is taken
        // to be wanted by nobody, on every thread. So there is one on every thread.
        EVERYWHERE.call_once(|| {
            let everywhere = tracing_subscriber::fmt().with_max_level(Level::DEBUG);
            let everywhere = everywhere.with_writer(io::sink).finish();
            tracing::subscriber::set_global_default(everywhere).unwrap();
        });
        let lines = Self::default();
        let format = tracing_subscriber::fmt().json().flatten_event(true);
        let subscriber = format.with_max_level(level).with_writer(lines.clone()).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// All lines about deliveries so far.
    fn all(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == "delivery").collect()
    }

    fn with(&self, outcome: &str) -> Vec<Value> {
        self.all().into_iter().filter(|line| line["outcome"] == outcome).collect()
    }

    async fn wait_for(&self, outcome: &str, count: usize) -> Vec<Value> {
        until(|| self.with(outcome).len() >= count).await;
        self.with(outcome)
    }

    fn texts(&self) -> Vec<String> {
        let text = |line: &Value| line["message"].as_str().unwrap().to_owned();
        self.all().iter().map(text).filter(|text| text.starts_with("[FIFO]")).collect()
    }
}

impl<'writer> MakeWriter<'writer> for Lines {
    type Writer = Self;

    fn make_writer(&'writer self) -> Self {
        self.clone()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line without what no test can know.
fn plain(line: &Value) -> Value {
    let mut line = line.clone();
    let fields = line.as_object_mut().unwrap();
    fields.remove("timestamp");
    fields.remove("target");
    line
}

#[tokio::test]
async fn a_delivery_that_will_be_retried_is_an_error_with_every_field() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let ids = fixture.publish(&topic, &["payload canary", "b"]).await;
    let leases = fixture.pull("sub", 1).await;
    fixture.nack("sub", &leases).await;
    let told = lines.wait_for("retry", 1).await;
    let expected = json!({
        "level": "ERROR",
        "message": "delivery failed, will retry",
        "service": "postrider",
        "env": "",
        "version": env!("CARGO_PKG_VERSION"),
        "subscription": "projects/p/subscriptions/sub",
        "topic": "projects/p/topics/orders",
        "messageId": ids[0].to_string(),
        "publishTime": "2027-01-15T08:00:00.000000Z",
        "deliveryAttempt": 1,
        "outcome": "retry",
        "ack_action": "nack",
        "error_type": "nack",
        "error": "the consumer gave it back",
        "retryable": true,
    });
    assert_eq!(plain(&told[0]), expected);
    fixture.pull("sub", 2).await;
    fixture.clock.advance(Duration::from_secs(11));
    let told = lines.wait_for("retry", 3).await;
    let again: Vec<_> = told[1..].iter().map(|line| &line["ack_action"]).collect();
    assert_eq!(again, ["expired", "expired"]);
    assert_eq!(told[1]["error"], "the ack deadline passed");
    let mut attempts: Vec<_> =
        told[1..].iter().map(|line| line["deliveryAttempt"].as_u64()).collect();
    attempts.sort();
    assert_eq!(attempts, [Some(1), Some(2)]);
    assert!(!String::from_utf8(lines.0.lock().clone()).unwrap().contains("canary"));
}

#[tokio::test]
async fn what_went_well_is_told_only_to_whoever_asks_for_debug() {
    for (level, count) in [(Level::INFO, 0), (Level::DEBUG, 1)] {
        let (lines, _guard) = Lines::listen(level);
        let fixture = Fixture::new().await;
        let topic = fixture.topic().await;
        fixture.subscription(&topic, "sub").await;
        fixture.publish(&topic, &["a"]).await;
        let leases = fixture.pull("sub", 1).await;
        fixture.ack("sub", &leases).await;
        fixture.ack("sub", &leases).await;
        fixture.nack("sub", &leases).await;
        for outcome in ["applied", "duplicate", "stale_ignored"] {
            let told = lines.with(outcome);
            assert_eq!(told.len(), count, "{outcome}");
            assert!(told.iter().all(|line| line["level"] == "DEBUG" && line["retryable"] == false));
        }
        if let [applied] = &lines.with("applied")[..] {
            assert_eq!(applied["ack_action"], "ack");
            assert_eq!(applied["deliveryAttempt"], 1);
            assert_eq!(applied["publishTime"], "2027-01-15T08:00:00.000000Z");
            assert_eq!(lines.with("stale_ignored")[0]["ack_action"], "nack");
        }
    }
}

#[tokio::test]
async fn dead_letters_and_drops_are_told_once() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.topic_of("dead").await;
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    let attempts_max = Some(5);
    fixture.subscribe(Subscription { attempts_max, ..settings(&topic, "dropping") }).await;
    let ids = fixture.publish(&topic, &["bad"]).await;
    for (id, outcome) in [("sub", "dead_lettered"), ("dropping", "dropped")] {
        fixture.fail(id, 5).await;
        let told = lines.wait_for(outcome, 1).await;
        let line = &told[0];
        assert_eq!(line["subscription"], format!("projects/p/subscriptions/{id}"));
        assert_eq!(line["messageId"], ids[0].to_string());
        assert_eq!(line["publishTime"], "2027-01-15T08:00:00.000000Z");
        assert_eq!((&line["deliveryAttempt"], &line["level"]), (&json!(5), &json!("ERROR")));
        assert_eq!((&line["retryable"], &line["error_type"]), (&json!(false), &json!("nack")));
    }
    assert_eq!(lines.with("retry").len(), 8, "the last delivery of each is told as what it became");
    assert_eq!(lines.all().len(), 10);
}

#[tokio::test]
async fn what_cannot_be_dead_lettered_is_tried_again_and_says_why() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let told = lines.wait_for("retry", 5).await;
    assert_eq!(
        (&told[4]["error_type"], &told[4]["retryable"]),
        (&json!("dead_letter"), &json!(true))
    );
    assert!(told[4]["error"].as_str().unwrap().contains("projects/p/topics/dead does not exist"));
}

#[tokio::test]
async fn a_halted_lane_is_poison() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let halting = Subscription {
        fifo: true,
        poison: Poison::Halt,
        attempts_max: Some(2),
        ..settings(&topic, "sub")
    };
    fixture.subscribe(halting).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 2).await;
    let told = lines.wait_for("poison", 1).await;
    assert_eq!((&told[0]["retryable"], &told[0]["level"]), (&json!(false), &json!("ERROR")));
    assert_eq!(lines.with("retry").len(), 1);
}

#[tokio::test]
async fn so_many_failures_are_told_in_a_second_and_the_rest_counted_in_one_line() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    for id in ["sub", "other"] {
        fixture.subscription(&topic, id).await;
    }
    fixture.publish(&topic, &["x"; 250]).await;
    for id in ["sub", "other"] {
        let leases = fixture.pull(id, 250).await;
        fixture.nack(id, &leases).await;
    }
    lines.wait_for("retry", 200).await;
    let counted = || -> Vec<Value> {
        lines.all().into_iter().filter(|line| line.get("count").is_some()).collect()
    };
    assert_eq!(counted().len(), 0, "not before the second is over");
    fixture.clock.advance(Duration::from_secs(1));
    until(|| counted().len() == 2).await;
    assert_eq!(lines.with("retry").len(), 200, "100 of each subscription");
    for (line, id) in counted().iter().zip(["sub", "other"]) {
        assert_eq!(line["count"], 150);
        assert_eq!(line["subscription"], format!("projects/p/subscriptions/{id}"));
        assert_eq!(line["level"], "ERROR");
    }
    // Two hundred more in the next second: half is told, half counted when the server stops.
    fixture.fail("sub", 2).await;
    lines.wait_for("retry", 300).await;
    fixture.broker.close(Duration::ZERO).await.unwrap();
    assert_eq!((lines.with("retry").len(), counted().len()), (300, 3));
    assert_eq!(counted()[2]["count"], 100);
}

#[tokio::test]
async fn a_fifo_subscription_says_that_it_is_blocked_and_that_it_goes_on() {
    let (lines, _guard) = Lines::listen(Level::INFO);
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let minute = Duration::from_secs(60);
    let fifo = Subscription {
        fifo: true,
        retry_policy: Some(RetryPolicy { min: minute, max: minute }),
        attempts_max: Some(7),
        ..settings(&topic, "sub")
    };
    fixture.subscribe(fifo).await;
    let ids = fixture.publish(&topic, &["a", "b"]).await;
    fixture.fail("sub", 1).await;
    until(|| lines.texts().len() == 1).await;
    fixture.clock.advance(2 * minute);
    let leases = fixture.wait("sub").await;
    fixture.nack("sub", &leases[..1]).await;
    until(|| lines.texts().len() == 2).await;
    fixture.clock.advance(HOUR);
    let leases = fixture.wait("sub").await;
    fixture.ack("sub", &leases[..1]).await;
    until(|| lines.texts().len() == 3).await;
    let name = "projects/p/subscriptions/sub";
    let expected = [
        format!(
            "[FIFO] Subscription {name} blocked - waiting for request attempt {} to complete",
            ids[0]
        ),
        format!("[FIFO] Subscription {name} blocked for 120s - current attempt on retry 2/7"),
        format!("[FIFO] Subscription {name} unblocked after 3720s"),
    ];
    assert_eq!(lines.texts(), expected);
    let levels: Vec<_> = lines
        .all()
        .iter()
        .filter(|line| line["message"].as_str().unwrap().starts_with("[FIFO]"))
        .map(|line| line["level"].clone())
        .collect();
    assert_eq!(levels, ["INFO", "WARN", "INFO"]);
}

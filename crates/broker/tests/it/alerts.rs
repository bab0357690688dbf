//! Alerts over the broker's own figures, with a clock that only the test moves.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{AlertOptions, Options};
use domain::alert::{Adjusted, Part, RuleName, Settings};
use domain::delivery::Lease;
use domain::push::Endpoint;
use domain::{SubscriptionName, TopicName};

use crate::fixture::{Fixture, decoded, settings, settle, subscription_name, until};

const INTERVAL: Duration = Duration::from_secs(15);
const TOPIC: &str = "projects/_postrider/topics/alerts";

fn options(endpoint: Option<&str>) -> Options {
    let endpoint = endpoint.map(|text| Endpoint::parse("endpoint", text).unwrap());
    let alerts = Some(AlertOptions { interval: INTERVAL, endpoint });
    Options { alerts, ..Options::default() }
}

fn alerts_topic() -> TopicName {
    TopicName::parse("topic", TOPIC).unwrap()
}

impl Fixture {
    /// Lets minutes pass, with a look at every subscription each quarter of one.
    async fn pass_minutes(&self, minutes: u32) {
        for _ in 0..minutes * 4 {
            self.clock.advance(INTERVAL);
            settle().await;
        }
    }

    /// The alerts as `rule severity state subscription`.
    fn alerts(&self) -> Vec<String> {
        let alerts = self.broker.alerts();
        let text = |alert: &broker::AlertView| {
            let (rule, severity, state) = (alert.rule, alert.severity, alert.state.as_str());
            let of = alert.subscription.as_deref().unwrap_or("server");
            format!("{rule} {severity} {state} {of}")
        };
        alerts.iter().map(text).collect()
    }

    /// What is told, so many things and no more; acks it.
    async fn told(&self, id: &str, count: usize) -> Vec<BTreeMap<String, String>> {
        let mut leases: Vec<Lease> = Vec::new();
        while leases.len() < count {
            leases.extend(self.wait(id).await);
        }
        settle().await;
        leases.extend(self.pull(id, 100).await);
        assert_eq!(leases.len(), count);
        self.ack(id, &leases).await;
        leases.iter().map(|lease| decoded(lease).attributes).collect()
    }
}

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn what_waits_too_long_is_told_and_shown_until_it_is_acked() {
    let fixture = Fixture::with(options(None)).await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.subscription(&alerts_topic(), "reader").await;
    fixture.publish(&topic, &["one"]).await;
    let name = "projects/p/subscriptions/sub";
    fixture.pass_minutes(4).await;
    assert!(fixture.alerts().is_empty());
    fixture.pass_minutes(2).await;
    assert_eq!(fixture.alerts(), [format!("oldest_unacked_age warning firing {name}")]);
    assert!(fixture.broker.has_alert(&subscription_name("sub")));
    assert!(!fixture.broker.has_alert(&subscription_name("reader")));
    fixture.pass_minutes(10).await;
    assert_eq!(fixture.alerts(), [format!("oldest_unacked_age critical firing {name}")]);
    let leases = fixture.pull("sub", 1).await;
    fixture.ack("sub", &leases).await;
    fixture.pass_minutes(2).await;
    assert!(fixture.alerts().is_empty());
    let told = fixture.told("reader", 3).await;
    let common = [("rule", "oldest_unacked_age"), ("subscription", name)];
    let expected = [
        [&common[..], &[("severity", "warning"), ("state", "firing")]].concat(),
        [&common[..], &[("severity", "critical"), ("state", "firing"), ("before", "firing")]]
            .concat(),
        [&common[..], &[("severity", "critical"), ("state", "resolved"), ("before", "firing")]]
            .concat(),
    ];
    assert_eq!(told, expected.map(|pairs| attributes(&pairs)));
}

#[tokio::test]
async fn nobody_is_told_about_those_who_are_told() {
    let fixture = Fixture::with(options(None)).await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.subscription(&alerts_topic(), "reader").await;
    fixture.publish(&topic, &["one"]).await;
    // What is told lies unread for far longer than anybody else's messages might.
    fixture.pass_minutes(60).await;
    assert_eq!(fixture.alerts().len(), 1);
    fixture.told("reader", 2).await;
}

#[tokio::test]
async fn a_subscription_adjusts_its_levels_and_a_deleted_one_has_no_alerts() {
    let fixture = Fixture::with(options(None)).await;
    let topic = fixture.topic().await;
    let mut alerts = Settings::off();
    let soon = Adjusted::To { time: Some(Duration::from_secs(30)), above: None };
    alerts.adjust(RuleName::OldestUnackedAge, Part::Critical, soon);
    fixture.subscribe(domain::Subscription { alerts, ..settings(&topic, "soon") }).await;
    let never = domain::Subscription { alerts: Settings::off(), ..settings(&topic, "never") };
    fixture.subscribe(never).await;
    fixture.publish(&topic, &["one"]).await;
    fixture.pass_minutes(1).await;
    let expected = "oldest_unacked_age critical firing projects/p/subscriptions/soon";
    assert_eq!(fixture.alerts(), [expected]);
    fixture.broker.delete_subscription(&subscription_name("soon")).await.unwrap();
    fixture.pass_minutes(1).await;
    assert!(fixture.alerts().is_empty());
}

#[tokio::test]
async fn what_is_pending_starts_anew_after_a_restart() {
    let mut fixture = Fixture::with(options(None)).await;
    let topic = fixture.topic().await;
    let mut alerts = Settings::off();
    let minutes =
        |minutes: u64| Adjusted::To { time: Some(Duration::from_secs(60 * minutes)), above: None };
    alerts.adjust(RuleName::BacklogGrowing, Part::Warning, minutes(5));
    fixture.subscribe(domain::Subscription { alerts, ..settings(&topic, "sub") }).await;
    fixture.subscription(&alerts_topic(), "reader").await;
    for _ in 0..4 {
        fixture.publish(&topic, &["one"]).await;
        fixture.pass_minutes(1).await;
    }
    let pending = "backlog_growing warning pending projects/p/subscriptions/sub";
    assert_eq!(fixture.alerts(), [pending]);
    fixture.reopen().await;
    assert!(fixture.alerts().is_empty());
    for _ in 0..3 {
        fixture.pass_minutes(1).await;
        fixture.publish(&topic, &["one"]).await;
    }
    assert_eq!(fixture.alerts(), [pending]);
    let told = fixture.told("reader", 2).await;
    let states: Vec<&str> = told.iter().map(|one| one["state"].as_str()).collect();
    assert_eq!(states, ["pending", "pending"]);
}

#[tokio::test]
async fn the_one_endpoint_follows_the_settings() {
    let mut fixture = Fixture::with(options(Some("http://127.0.0.1:9/one"))).await;
    let name = "projects/_postrider/subscriptions/alerts-webhook";
    let name = SubscriptionName::parse("name", name).unwrap();
    let endpoint = |fixture: &Fixture| {
        let found = fixture.broker.subscription(&name).ok()?;
        let push = found.settings().push.clone()?;
        Some((found.id(), push.endpoint.text().to_owned()))
    };
    let (id, text) = endpoint(&fixture).unwrap();
    assert_eq!(text, "http://127.0.0.1:9/one");
    fixture.reopen().await;
    assert_eq!(endpoint(&fixture), Some((id, text)));
    fixture.options =
        Options { alerts: options(Some("http://127.0.0.1:9/two")).alerts, ..fixture.options };
    fixture.reopen().await;
    assert_eq!(endpoint(&fixture), Some((id, "http://127.0.0.1:9/two".to_owned())));
    fixture.options = Options { alerts: options(None).alerts, ..fixture.options };
    fixture.reopen().await;
    assert_eq!(endpoint(&fixture), None);
}

#[tokio::test]
async fn what_could_not_be_published_is_told_later() {
    let fixture = Fixture::with(options(None)).await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["one"]).await;
    fixture.broker.delete_topic(&alerts_topic()).await.unwrap();
    fixture.pass_minutes(6).await;
    // The topic is there again, with what was told on it.
    until(|| fixture.broker.topic(&alerts_topic()).is_ok()).await;
    let reader = domain::Subscription {
        start: domain::Start::Earliest,
        ..settings(&alerts_topic(), "reader")
    };
    fixture.subscribe(reader).await;
    fixture.told("reader", 1).await;
}

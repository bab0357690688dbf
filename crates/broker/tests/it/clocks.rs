//! Clocks that are set, stand still, run backwards or jump: nothing is lost to them, leases go by
//! the other clock, and ids are never given twice (row 10 of the fault table).

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{AlertOptions, LetterPlace, LetterQuery, Options, SeekTarget};
use domain::alert::RuleName;
use domain::delivery::Lease;
use domain::{Message, SnapshotName, Subscription, Timestamp, TopicName};

use crate::fixture::{
    DAY, Fixture, HOUR, dead_letters_to, keep, message, settings, settle, subscription_name, texts,
    topic_name, until,
};

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Longer than a lease lasts.
const LEASE: Duration = Duration::from_secs(11);

/// What the clocks do.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The wall clock is set forward.
    Forward(Duration),
    /// The wall clock is set back.
    Back(Duration),
    /// Time passes, and the wall clock stands still.
    Freeze(Duration),
    /// Time passes, and nobody looks: the process was stopped (SIGSTOP) and goes on.
    Pause(Duration),
    /// The wall clock goes back a second each second, so many times.
    Backwards(u32),
    /// The server is stopped and started.
    Restart,
    /// The machine is switched off and on, for a time it does not know.
    Off(Duration),
}

use Step::{Back, Backwards, Forward, Freeze, Off, Pause, Restart};

const fn times(count: u64, of: Duration) -> Duration {
    Duration::from_secs(count * of.as_secs())
}

/// Each is a life of clocks at whose end everything must still be there.
const SCENARIOS: [(&str, &[Step]); 20] = [
    ("an hour forward", &[Forward(HOUR)]),
    ("an hour back", &[Back(HOUR)]),
    ("a year forward", &[Forward(YEAR)]),
    ("a year back", &[Back(YEAR)]),
    ("a year forward and back", &[Forward(YEAR), Back(YEAR)]),
    ("a year back and forward", &[Back(YEAR), Forward(YEAR)]),
    ("eight days forward, a look, and back", &[Forward(times(8, DAY)), Back(times(8, DAY))]),
    (
        "to and fro",
        &[Forward(YEAR), Back(times(2, YEAR)), Forward(YEAR), Forward(YEAR), Back(YEAR)],
    ),
    ("frozen", &[Freeze(times(10, HOUR))]),
    ("frozen, then set right", &[Freeze(times(10, HOUR)), Forward(times(10, HOUR))]),
    ("backwards every second", &[Backwards(60)]),
    ("backwards every second, then set right", &[Backwards(60), Forward(times(2 * 60, SECOND))]),
    ("stopped for 30 seconds", &[Pause(times(30, SECOND))]),
    ("stopped for five hours", &[Pause(times(5, HOUR))]),
    ("stopped while the clock is set", &[Pause(times(5, HOUR)), Forward(times(40, DAY))]),
    ("forward, and a restart", &[Forward(times(40, DAY)), Restart]),
    (
        "forward, a restart, and back",
        &[Forward(times(40, DAY)), Restart, Back(times(40, DAY)), Restart],
    ),
    ("a start far ahead", &[Off(times(40, DAY))]),
    (
        "a start far ahead, put right",
        &[Off(times(40, DAY)), Restart, Back(times(40, DAY)), Restart],
    ),
    ("a start far behind, put right", &[Back(YEAR), Restart, Forward(YEAR), Restart]),
];

#[tokio::test]
async fn nothing_is_lost_to_a_clock_and_no_id_is_given_twice() {
    for (name, steps) in SCENARIOS {
        let mut world = World::new().await;
        world.check(name).await;
        for &step in steps {
            world.take(step).await;
            world.check(name).await;
        }
    }
}

/// A server with something of everything that time can end.
struct World {
    fixture: Fixture,
    topic: TopicName,
    expected: Vec<String>,
    last_id: u64,
}

impl World {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let topic = fixture.topic().await;
        fixture.subscription(&topic, "sub").await;
        let expiring = Subscription { expiration: Some(31 * DAY), ..settings(&topic, "unused") };
        fixture.subscribe(expiring).await;
        let kept = fixture.topic_of("kept").await;
        fixture.broker.update_topic(&kept, keep(DAY)).await.unwrap();
        fixture.subscription(&kept, "kept").await;
        fixture.publish(&kept, &["kept"]).await;
        fixture.topic_of("dead").await;
        let dead_letter_policy = dead_letters_to("dead");
        fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "failing") }).await;
        fixture.publish(&topic_name("dead"), &["letter"]).await;
        let name = SnapshotName::parse("name", "projects/p/snapshots/snap").unwrap();
        let of = subscription_name("kept");
        fixture.broker.create_snapshot(name, &of, BTreeMap::new(), BTreeMap::new()).await.unwrap();
        Self { fixture, topic, expected: Vec::new(), last_id: 0 }
    }

    async fn take(&mut self, step: Step) {
        let clock = &self.fixture.clock;
        match step {
            Forward(by) => clock.set_forward(by),
            Back(by) => clock.set_back(by),
            Freeze(by) => {
                for _ in 0..10 {
                    clock.advance(by / 10);
                    clock.set_back(by / 10);
                    settle().await;
                }
            }
            Pause(by) => clock.advance(by),
            Backwards(times) => {
                for _ in 0..times {
                    clock.advance(SECOND);
                    clock.set_back(2 * SECOND);
                    settle().await;
                }
            }
            Restart => self.fixture.reopen().await,
            Off(by) => {
                self.fixture.broker.close(Duration::ZERO).await.unwrap();
                self.fixture.clock.reboot();
                self.fixture.clock.set_forward(by);
                self.fixture.open_again().await;
            }
        }
        // Every chore has its chance to do harm.
        settle().await;
        self.fixture.clock.advance(LEASE);
        settle().await;
        self.fixture.trim().await;
        self.fixture.clock.advance(LEASE);
        settle().await;
    }

    async fn check(&mut self, name: &str) {
        let fixture = &self.fixture;
        let text = format!("message {}", self.expected.len());
        let ids = fixture.publish(&self.topic, &[&text]).await;
        assert!(ids[0] > self.last_id, "{name}: id {} after {}", ids[0], self.last_id);
        self.last_id = ids[0];
        self.expected.push(text);
        // Leases: all come, none comes early.
        let mut leases = fixture.pull("sub", 100).await;
        leases.sort_by_key(|lease| lease.record.offset);
        assert_eq!(texts(&leases), self.expected, "{name}");
        let times: Vec<Timestamp> = leases.iter().map(|lease| lease.record.publish_time).collect();
        assert!(times.is_sorted(), "{name}: {times:?}");
        assert!(fixture.pull("sub", 100).await.is_empty(), "{name}: a lease ended early");
        fixture.clock.advance(LEASE);
        settle().await;
        assert_eq!(fixture.pull("sub", 100).await.len(), leases.len(), "{name}: a lease stays");
        fixture.clock.advance(LEASE);
        settle().await;
        // What is kept for the topic's sake, for a snapshot's, and as a dead letter.
        let earliest = SeekTarget::Time(Timestamp(0));
        fixture.broker.seek(&subscription_name("kept"), earliest).await.unwrap();
        let kept = fixture.pull("kept", 10).await;
        assert_eq!(texts(&kept), ["kept"], "{name}");
        fixture.ack("kept", &kept).await;
        for id in ["sub", "unused", "kept", "failing"] {
            assert!(fixture.broker.subscription(&subscription_name(id)).is_ok(), "{name}: {id}");
        }
        let snapshot = SnapshotName::parse("name", "projects/p/snapshots/snap").unwrap();
        assert!(fixture.broker.snapshot(&snapshot).is_ok(), "{name}");
        let place = LetterPlace::Topic(topic_name("dead"));
        let query = LetterQuery { limit: 10, ..LetterQuery::default() };
        let letters = fixture.broker.dead_letters(&place, &query).await.unwrap();
        assert_eq!(letters.letters.len(), 1, "{name}");
    }
}

/// A subscription that keeps messages for a day, and one message.
async fn with_one() -> (Fixture, TopicName) {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let message_retention = DAY;
    fixture.subscribe(Subscription { message_retention, ..settings(&topic, "sub") }).await;
    let (expiration, message_retention) = (Some(DAY), DAY);
    let unused = Subscription { expiration, message_retention, ..settings(&topic, "unused") };
    fixture.subscribe(unused).await;
    fixture.publish(&topic, &["a"]).await;
    (fixture, topic)
}

impl Fixture {
    fn has_unused(&self) -> bool {
        self.broker.subscription(&subscription_name("unused")).is_ok()
    }
}

#[tokio::test]
async fn a_confirmed_jump_lets_retention_and_expiry_go_on_and_is_on_record() {
    let (fixture, _) = with_one().await;
    assert!(fixture.broker.clock().clock.suspended.is_none());
    assert!(fixture.broker.confirm_clock().clock.suspended.is_none());
    assert!(fixture.acts.0.lock().is_empty(), "there was nothing to confirm");
    fixture.clock.set_forward(2 * DAY);
    assert_eq!(fixture.pull("sub", 10).await.len(), 1);
    let status = fixture.broker.clock();
    assert_eq!(status.clock.suspended.unwrap().ahead, 2 * DAY);
    assert_eq!((status.expiring_subscriptions, status.expiring_snapshots), (1, 0));
    fixture.clock.advance(LEASE);
    settle().await;
    assert!(fixture.has_unused());
    fixture.broker.confirm_clock();
    until(|| !fixture.has_unused()).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    let acts = fixture.acts.0.lock();
    assert_eq!((acts.len(), acts[0].act, acts[0].resource.as_str()), (1, "confirm clock", "clock"));
}

#[tokio::test]
async fn a_confirmed_jump_stays_confirmed_over_a_restart() {
    let (mut fixture, _) = with_one().await;
    fixture.clock.set_forward(YEAR);
    settle().await;
    fixture.broker.confirm_clock();
    fixture.reopen().await;
    assert!(fixture.broker.clock().clock.suspended.is_none());
}

#[tokio::test]
async fn a_day_of_steady_running_lets_them_go_on() {
    let (fixture, _) = with_one().await;
    fixture.clock.set_forward(2 * DAY);
    for _ in 0..24 {
        settle().await;
        assert!(fixture.has_unused());
        fixture.clock.advance(HOUR);
    }
    // It was noticed within the first hour.
    settle().await;
    fixture.clock.advance(HOUR);
    until(|| !fixture.has_unused()).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
}

#[tokio::test]
async fn a_server_that_was_stopped_while_its_machine_ran_is_not_taken_for_one_that_jumped() {
    let (mut fixture, _) = with_one().await;
    fixture.broker.close(Duration::ZERO).await.unwrap();
    fixture.clock.advance(2 * DAY);
    fixture.open_again().await;
    assert!(fixture.broker.clock().clock.suspended.is_none());
    until(|| !fixture.has_unused()).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
}

/// What is told of alerts next, however many looks that takes: the clock and the alerts are each
/// looked at in their own time.
async fn told_in_time(fixture: &Fixture) -> Vec<Lease> {
    let telling = async {
        loop {
            fixture.clock.advance(15 * SECOND);
            settle().await;
            let told = fixture.pull("told", 10).await;
            if !told.is_empty() {
                return told;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), telling).await.expect("nothing is told")
}

#[tokio::test]
async fn a_server_says_that_its_clock_jumped_and_tells_when_it_is_right_again() {
    let alerts = AlertOptions { interval: 15 * SECOND, endpoint: None };
    let fixture = Fixture::with(Options { alerts: Some(alerts), ..Options::default() }).await;
    let name = TopicName::parse("topic", "projects/_postrider/topics/alerts").unwrap();
    fixture.subscription(&name, "told").await;
    fixture.clock.set_forward(2 * DAY);
    let told = told_in_time(&fixture).await;
    let attributes = crate::fixture::decoded(&told[0]).attributes;
    assert_eq!((&*attributes["rule"], &*attributes["state"]), ("clock_jumped", "firing"));
    assert_eq!(attributes.get("subscription"), None);
    fixture.ack("told", &told).await;
    let alerts = fixture.broker.alerts();
    assert_eq!((alerts.len(), alerts[0].rule), (1, RuleName::ClockJumped));
    assert!(alerts[0].summary.contains("48h"), "{}", alerts[0].summary);
    let degraded = fixture.broker.status().degraded;
    assert_eq!(degraded.iter().map(|one| one.code).collect::<Vec<_>>(), ["clock_jumped"]);
    fixture.clock.set_back(2 * DAY);
    let told = told_in_time(&fixture).await;
    assert_eq!(crate::fixture::decoded(&told[0]).attributes["state"], "resolved");
    assert!(fixture.broker.status().degraded.is_empty());
}

#[tokio::test]
async fn a_backoff_goes_by_the_clock_that_cannot_be_set() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retry_policy = Some(domain::RetryPolicy::default());
    fixture.subscribe(Subscription { retry_policy, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["a"]).await;
    fixture.fail("sub", 1).await;
    fixture.clock.set_forward(YEAR);
    assert!(fixture.pull("sub", 10).await.is_empty(), "not before its time");
    fixture.clock.set_back(2 * YEAR);
    fixture.clock.advance(LEASE + SECOND);
    assert_eq!(texts(&fixture.wait("sub").await), ["a"], "and not after it");
}

#[tokio::test]
async fn a_topic_made_again_under_its_name_by_a_clock_set_back_gives_no_id_twice() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let messages: Vec<Message> = (0..100).map(|n| message(&n.to_string())).collect();
    let before = fixture.broker.publish(&topic, messages).await.unwrap();
    fixture.broker.delete_topic(&topic).await.unwrap();
    fixture.clock.set_back(YEAR);
    fixture.reopen().await;
    let topic = fixture.topic().await;
    let after = fixture.publish(&topic, &["a"]).await;
    assert!(after[0] >= before.offsets.to.0, "{} after {}", after[0], before.offsets.to.0);
}

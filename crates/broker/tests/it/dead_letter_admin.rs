//! What operators do with dead letters: letters looked at, replayed, deleted and counted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::{
    LetterPage, LetterPlace, LetterQuery, LettersWanted, Replay, ReplayRequest, ReplayState,
};
use bytes::Bytes;
use domain::replay::{Criteria, Destination, Selection};
use domain::{Filter, Message, Offset, Subscription, SubscriptionName, Timestamp, TopicName};

use crate::fixture::{
    DAY, Fixture, HOUR, dead_letters_to, decoded, message, settings, subscription_name, texts,
    topic_name, until,
};

/// `orders` with `sub` on it, whose exhausted messages go to `dead`.
async fn with_desk() -> (Fixture, TopicName) {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.topic_of("dead").await;
    subscribe(&fixture, &topic, "sub").await;
    (fixture, topic)
}

async fn subscribe(fixture: &Fixture, topic: &TopicName, id: &str) {
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(topic, id) }).await;
}

/// Puts letters of `sub` straight into the dead letter topic, as many calls do slowly.
async fn write_letters(fixture: &Fixture, from: usize, count: usize) {
    for first in (from..from + count).step_by(500) {
        let until = (first + 500).min(from + count);
        let letters = (first..until).map(|n| letter(&n.to_string(), "sub", n)).collect();
        fixture.broker.publish(&topic_name("dead"), letters).await.unwrap();
    }
}

fn letter(text: &str, id: &str, number: usize) -> Message {
    let attributes = [
        ("original_subscription", subscription_name(id).to_string()),
        ("original_message_id", number.to_string()),
        ("error_class", if number.is_multiple_of(2) { "timeout" } else { "dns" }.to_owned()),
        ("color", "red".to_owned()),
    ];
    Message {
        attributes: attributes.map(|(key, value)| (key.to_owned(), value)).into(),
        ..message(text)
    }
}

fn of_sub() -> LetterPlace {
    LetterPlace::Subscription(subscription_name("sub"))
}

fn all() -> Selection {
    Selection::Matching(Criteria::default())
}

fn request(selection: Selection) -> ReplayRequest {
    ReplayRequest {
        place: of_sub(),
        selection,
        to: Destination::Subscription,
        per_second: 0,
        again: false,
    }
}

async fn list(fixture: &Fixture, wanted: LettersWanted) -> LetterPage {
    let query = LetterQuery { wanted, limit: 1_000, ..LetterQuery::default() };
    fixture.broker.dead_letters(&of_sub(), &query).await.unwrap()
}

fn listed(page: &LetterPage) -> Vec<String> {
    let text = |body: &Bytes| domain::message::decode(body).unwrap().data;
    let texts = page.letters.iter().map(|found| text(&found.record.body));
    texts.map(|data| String::from_utf8(data.to_vec()).unwrap()).collect()
}

async fn replay(fixture: &Fixture, request: ReplayRequest) -> Replay {
    let begun = fixture.broker.replay_letters(request).await.unwrap();
    ended(fixture, &begun.name).await
}

async fn ended(fixture: &Fixture, name: &str) -> Replay {
    let is_over = || fixture.broker.replay(name).unwrap().state != ReplayState::Running;
    until(is_over).await;
    fixture.broker.replay(name).unwrap()
}

fn waiting(fixture: &Fixture) -> u64 {
    fixture.broker.dead_letters_waiting(&subscription_name("sub"))
}

#[tokio::test]
async fn a_letter_is_replayed_to_its_own_subscription_as_it_was() {
    let (fixture, topic) = with_desk().await;
    fixture.subscription(&topic, "other").await;
    let ids = fixture.publish_keyed(&topic, &[("k", "bad")]).await;
    let others = fixture.pull("other", 10).await;
    fixture.ack("other", &others).await;
    fixture.fail("sub", 5).await;
    until(|| waiting(&fixture) == 1).await;
    let letters = list(&fixture, LettersWanted::Waiting).await;
    assert_eq!(listed(&letters), ["bad"]);
    let letter = &letters.letters[0].letter;
    assert_eq!(letter.message_id, Some(ids[0].to_string()));
    assert_eq!((letter.attempts, letter.class.as_deref()), (Some(5), Some("nack")));

    let done = replay(&fixture, request(all())).await;
    assert_eq!(done.state, ReplayState::Done);
    assert_eq!((done.total, done.replayed, done.skipped, done.failed), (1, 1, 0, 0));
    let again = fixture.wait("sub").await;
    let message = decoded(&again[0]);
    assert_eq!((&message.data[..], message.ordering_key.as_str()), (&b"bad"[..], "k"));
    let attributes: Vec<_> = message.attributes.into_iter().collect();
    assert_eq!(attributes, [("original_message_id".to_owned(), ids[0].to_string())]);
    assert_eq!(again[0].attempt, 1, "attempts start again");
    assert!(fixture.pull("other", 10).await.is_empty(), "it is for one subscription only");
    assert_eq!(waiting(&fixture), 0);
    assert!(listed(&list(&fixture, LettersWanted::Waiting).await).is_empty());
    assert_eq!(listed(&list(&fixture, LettersWanted::Replayed).await), ["bad"]);
}

#[tokio::test]
async fn a_replay_to_the_topic_is_for_everybody() {
    let (fixture, topic) = with_desk().await;
    fixture.subscription(&topic, "other").await;
    write_letters(&fixture, 0, 1).await;
    let to_topic = ReplayRequest { to: Destination::Topic, ..request(all()) };
    assert_eq!(replay(&fixture, to_topic).await.replayed, 1);
    assert_eq!(texts(&fixture.wait("other").await), ["0"]);
    assert_eq!(texts(&fixture.wait("sub").await), ["0"]);
}

#[tokio::test]
async fn the_message_and_the_mark_are_one_commit() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 3).await;
    fixture.log.take_commits();
    replay(&fixture, request(all())).await;
    let commits = fixture.log.take_commits();
    let appending: Vec<_> = commits.iter().filter(|commit| !commit.appends.is_empty()).collect();
    assert_eq!(appending.len(), 1);
    assert_eq!(appending[0].appends[0].records.len(), 3);
    assert_eq!(appending[0].progress.len(), 2, "what is done with letters, and the replay's own");
    let is_addressed = |record: &storage::NewRecord| record.addressee.is_some();
    assert!(appending[0].appends[0].records.iter().all(is_addressed));
}

#[tokio::test]
async fn nothing_is_replayed_twice_unless_asked_for() {
    let (mut fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 5).await;
    assert_eq!(replay(&fixture, request(all())).await.replayed, 5);
    let second = replay(&fixture, request(all())).await;
    assert_eq!((second.replayed, second.skipped, second.total), (0, 5, 5));
    fixture.reopen().await;
    let third = replay(&fixture, request(all())).await;
    assert_eq!((third.replayed, third.skipped), (0, 5), "marks survive a restart");
    let again = ReplayRequest { again: true, ..request(all()) };
    assert_eq!(replay(&fixture, again).await.replayed, 5);
    assert_eq!(fixture.pull("sub", 100).await.len(), 10);
}

#[tokio::test]
async fn some_are_found_by_attribute_class_time_and_id() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 4).await;
    let middle = fixture.now();
    fixture.clock.advance(DAY);
    write_letters(&fixture, 4, 4).await;
    let broker = &fixture.broker;
    let found = |criteria: Criteria| async move {
        let query = LetterQuery { criteria, limit: 100, ..LetterQuery::default() };
        listed(&broker.dead_letters(&of_sub(), &query).await.unwrap())
    };
    let any = Criteria::default;
    let red = Filter::parse("filter", r#"attributes.color = "red""#).unwrap();
    let blue = Filter::parse("filter", r#"attributes.color = "blue""#).unwrap();
    assert_eq!(found(Criteria { filter: Some(red), ..any() }).await.len(), 8);
    assert!(found(Criteria { filter: Some(blue), ..any() }).await.is_empty());
    let class = Some("dns".to_owned());
    assert_eq!(found(Criteria { class, ..any() }).await, ["1", "3", "5", "7"]);
    let later = Timestamp(middle.0 + 1);
    assert_eq!(found(Criteria { since: Some(later), ..any() }).await, ["4", "5", "6", "7"]);
    assert_eq!(found(Criteria { until: Some(later), ..any() }).await, ["0", "1", "2", "3"]);

    let letters = list(&fixture, LettersWanted::All).await.letters;
    let ids = [&letters[6], &letters[2]].map(|found| found.record.offset).into();
    assert_eq!(replay(&fixture, request(Selection::Messages(ids))).await.replayed, 2);
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["2", "6"]);
    let class = Some("timeout".to_owned());
    let rest = Selection::Matching(Criteria { class, ..any() });
    let done = replay(&fixture, request(rest)).await;
    assert_eq!((done.total, done.replayed, done.skipped), (4, 2, 2));
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["0", "4"]);
}

#[tokio::test]
async fn letters_come_in_pages_and_one_by_one() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 5).await;
    let mut from = None;
    let mut seen = Vec::new();
    loop {
        let query = LetterQuery { limit: 2, from, ..LetterQuery::default() };
        let page = fixture.broker.dead_letters(&of_sub(), &query).await.unwrap();
        assert!(page.letters.len() <= 2);
        seen.extend(listed(&page));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    let id = list(&fixture, LettersWanted::All).await.letters[3].record.offset;
    let one = fixture.broker.dead_letter(&topic_name("dead"), id).await.unwrap();
    assert_eq!(one.letter.message_id.as_deref(), Some("3"));
    let none = fixture.broker.dead_letter(&topic_name("dead"), Offset(7)).await.unwrap_err();
    assert!(none.to_string().contains("deadLetters/7 not found"), "{none}");
}

#[tokio::test]
async fn deleting_wants_the_right_number_and_is_for_good() {
    let (mut fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 6).await;
    until(|| waiting(&fixture) == 6).await;
    let class = Some("dns".to_owned());
    let odd = || Selection::Matching(Criteria { class: class.clone(), ..Criteria::default() });
    for wrong in [None, Some(2), Some(6)] {
        let refused = fixture
            .broker
            .delete_letters(&of_sub(), odd(), LettersWanted::All, wrong)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("confirm 3"), "{refused}");
    }
    assert_eq!(
        fixture.broker.delete_letters(&of_sub(), odd(), LettersWanted::All, Some(3)).await.unwrap(),
        3
    );
    assert_eq!(
        fixture.broker.delete_letters(&of_sub(), odd(), LettersWanted::All, Some(0)).await.unwrap(),
        0
    );
    assert_eq!(waiting(&fixture), 3);
    fixture.reopen().await;
    assert_eq!(listed(&list(&fixture, LettersWanted::All).await), ["0", "2", "4"]);
    let again = ReplayRequest { again: true, ..request(all()) };
    assert_eq!(replay(&fixture, again).await.replayed, 3);
    let acts = fixture.acts.0.lock();
    let told: Vec<_> = acts.iter().map(|act| (act.act, act.details.clone().unwrap())).collect();
    assert_eq!(told[0], ("delete dead letters", "3 deleted".to_owned()));
    assert!(told[1].1.ends_with("begun") && told[2].1.contains("3 replayed"), "{told:?}");
}

#[tokio::test]
async fn what_cannot_go_back_stays_and_the_rest_goes_on() {
    let (fixture, topic) = with_desk().await;
    subscribe(&fixture, &topic, "gone").await;
    let letters = vec![letter("a", "gone", 1), message("no letter"), letter("b", "sub", 2)];
    fixture.broker.publish(&topic_name("dead"), letters).await.unwrap();
    fixture.broker.delete_subscription(&subscription_name("gone")).await.unwrap();
    let place = LetterPlace::Topic(topic_name("dead"));
    let done = replay(&fixture, ReplayRequest { place, ..request(all()) }).await;
    assert_eq!((done.total, done.replayed, done.failed), (3, 1, 2));
    assert!(done.error.unwrap().contains("subscriptions/gone does not exist"));
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["b"]);
}

#[tokio::test]
async fn a_letter_that_everybody_acked_is_dealt_with() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 2).await;
    until(|| waiting(&fixture) == 2).await;
    fixture.subscription(&topic_name("dead"), "undertaker").await;
    assert_eq!(waiting(&fixture), 2, "who came later does not count for them");
    write_letters(&fixture, 2, 2).await;
    until(|| waiting(&fixture) == 4).await;
    let read = fixture.wait("undertaker").await;
    assert_eq!(texts(&read), ["2", "3"]);
    fixture.ack("undertaker", &read[..1]).await;
    assert_eq!(waiting(&fixture), 3);
    assert_eq!(listed(&list(&fixture, LettersWanted::Waiting).await), ["0", "1", "3"]);
    let done = replay(&fixture, request(all())).await;
    assert_eq!((done.replayed, done.skipped), (3, 1));
    assert_eq!(waiting(&fixture), 0);
    let acked = list(&fixture, LettersWanted::All).await.letters[2].record.offset;
    let by_name = request(Selection::Messages([acked].into()));
    assert_eq!(replay(&fixture, by_name).await.replayed, 1, "named, it goes all the same");
}

#[tokio::test]
async fn letters_of_one_lane_go_in_the_order_of_their_messages() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.topic_of("dead").await;
    let ordered = Subscription {
        dead_letter_policy: dead_letters_to("dead"),
        message_ordering: true,
        ..settings(&topic, "sub")
    };
    fixture.subscribe(ordered).await;
    let keyed = |text: &str, key: &str, number| Message {
        ordering_key: key.to_owned(),
        ..letter(text, "sub", number)
    };
    let letters = vec![keyed("b", "k", 2), keyed("x", "other", 9), keyed("a", "k", 1)];
    fixture.broker.publish(&topic_name("dead"), letters).await.unwrap();
    replay(&fixture, request(all())).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a", "x", "b"]);
}

#[tokio::test]
async fn a_replay_keeps_its_rate_and_can_be_cancelled() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 1_000).await;
    let slow = ReplayRequest { per_second: 100, ..request(all()) };
    let name = fixture.broker.replay_letters(slow).await.unwrap().name;
    let replayed = || fixture.broker.replay(&name).unwrap().replayed;
    for second in 1..=3_u64 {
        // The pace is kept by the clock, so that each step of it lets the next letters go.
        for _ in 0..20 {
            let before = replayed();
            fixture.clock.advance(Duration::from_millis(50));
            until(|| replayed() > before).await;
        }
        let expected = second * 100;
        assert!(replayed().abs_diff(expected) <= expected / 10, "{} of {expected}", replayed());
    }
    let cancelled = fixture.broker.cancel_replay(&name).await.unwrap();
    assert_eq!((cancelled.state, cancelled.total), (ReplayState::Cancelled, 1_000));
    fixture.clock.advance(DAY);
    assert_eq!(replayed(), cancelled.replayed);
    let refused = fixture.broker.cancel_replay(&name).await.unwrap_err();
    assert!(refused.to_string().contains("already ended"), "{refused}");
    let rest = replay(&fixture, request(all())).await;
    assert_eq!(rest.replayed + cancelled.replayed, 1_000);
}

#[tokio::test]
async fn a_replay_waits_for_space_and_goes_on() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 3).await;
    fixture.log.is_full.store(true, Ordering::SeqCst);
    let name = fixture.broker.replay_letters(request(all())).await.unwrap().name;
    let told = || fixture.broker.replay(&name).unwrap().error.is_some();
    until(told).await;
    fixture.log.is_full.store(false, Ordering::SeqCst);
    fixture.clock.advance(Duration::from_secs(2));
    assert_eq!(ended(&fixture, &name).await.replayed, 3);
}

#[tokio::test]
async fn a_replay_goes_on_after_a_restart() {
    let (mut fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 500).await;
    let slow = ReplayRequest { per_second: 1_000, ..request(all()) };
    let name = fixture.broker.replay_letters(slow).await.unwrap().name;
    until(|| fixture.broker.replay(&name).unwrap().replayed > 0).await;
    fixture.reopen().await;
    let before = fixture.broker.replay(&name).unwrap();
    assert_eq!(before.state, ReplayState::Running);
    assert!((1..500).contains(&before.replayed), "{before:?}");
    write_letters(&fixture, 500, 1).await;
    while fixture.broker.replay(&name).unwrap().state == ReplayState::Running {
        fixture.clock.advance(Duration::from_millis(50));
        crate::fixture::settle().await;
    }
    let done = fixture.broker.replay(&name).unwrap();
    assert_eq!((done.total, done.replayed, done.skipped), (500, 500, 0));
    let leases = fixture.pull("sub", 1_000).await;
    let expected: Vec<_> = (0..500).map(|n| n.to_string()).collect();
    assert_eq!(texts(&leases), expected, "each once, in order, and none that came later");
}

#[tokio::test]
async fn a_deleted_topic_takes_its_desk_along() {
    let (mut fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 100).await;
    let slow = ReplayRequest { per_second: 1, ..request(all()) };
    let name = fixture.broker.replay_letters(slow).await.unwrap().name;
    fixture.broker.delete_topic(&topic_name("dead")).await.unwrap();
    fixture.clock.advance(Duration::from_secs(2));
    let failed = loop {
        fixture.clock.advance(Duration::from_secs(1));
        crate::fixture::settle().await;
        let replay = fixture.broker.replay(&name).unwrap();
        if replay.state != ReplayState::Running {
            break replay;
        }
    };
    assert_eq!(failed.state, ReplayState::Failed);
    assert!(failed.error.unwrap().contains("was deleted"));
    fixture.reopen().await;
    let kinds =
        fixture.engine.catalogue.list(storage::Kind::HandledLetters, None, 10).await.unwrap();
    assert!(kinds.entries.is_empty());
    fixture.topic_of("dead").await;
    write_letters(&fixture, 0, 2).await;
    assert_eq!(replay(&fixture, request(all())).await.replayed, 2, "a new topic, new letters");
}

#[tokio::test]
async fn marks_keep_no_letters() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 2).await;
    replay(&fixture, request(all())).await;
    fixture.clock.advance(15 * DAY);
    fixture.trim().await;
    assert!(listed(&list(&fixture, LettersWanted::All).await).is_empty());
    until(|| waiting(&fixture) == 0).await;
}

#[tokio::test]
async fn as_many_replays_as_may_run_and_no_more() {
    let (fixture, _) = with_desk().await;
    write_letters(&fixture, 0, 100).await;
    let slow = || ReplayRequest { per_second: 1, ..request(all()) };
    let mut names = Vec::new();
    for _ in 0..8 {
        names.push(fixture.broker.replay_letters(slow()).await.unwrap().name);
    }
    let refused = fixture.broker.replay_letters(slow()).await.unwrap_err();
    assert!(refused.to_string().contains("cancel one"), "{refused}");
    fixture.broker.cancel_replay(&names[0]).await.unwrap();
    fixture.broker.replay_letters(slow()).await.unwrap();
    let project = domain::ProjectName::parse("", "projects/p").unwrap();
    assert_eq!(fixture.broker.replays(&project).len(), 9);
    let other = domain::ProjectName::parse("", "projects/q").unwrap();
    assert!(fixture.broker.replays(&other).is_empty());
}

#[tokio::test]
async fn a_subscription_without_a_policy_has_no_letters() {
    let (fixture, topic) = with_desk().await;
    fixture.subscription(&topic, "plain").await;
    let name: SubscriptionName = subscription_name("plain");
    assert_eq!(fixture.broker.dead_letters_waiting(&name), 0);
    let place = LetterPlace::Subscription(name);
    let refused = fixture.broker.dead_letters(&place, &LetterQuery::default()).await.unwrap_err();
    assert!(refused.to_string().contains("has no dead letter policy"), "{refused}");
}

/// The backlog of who reads the dead letter topic, and how old it is.
async fn of_reader(fixture: &Fixture) -> (u64, Option<Duration>) {
    fixture.broker.refresh_figures().await;
    let name = subscription_name("reader");
    let figures = fixture.broker.figures().into_iter().find(|one| one.name == name).unwrap();
    assert_eq!(figures.backlog_messages, fixture.find("reader").backlog());
    (figures.backlog_messages, figures.oldest_unacked_age)
}

#[tokio::test]
async fn letters_dealt_with_at_the_desk_count_no_more_for_who_reads_the_topic() {
    let (mut fixture, _) = with_desk().await;
    fixture.subscription(&topic_name("dead"), "reader").await;
    for number in 0..3 {
        write_letters(&fixture, number, 1).await;
        fixture.clock.advance(HOUR);
    }
    assert_eq!(of_reader(&fixture).await, (3, Some(3 * HOUR)));
    let letters = list(&fixture, LettersWanted::Waiting).await;
    let first = Selection::Messages([letters.letters[0].record.offset].into());
    assert_eq!(replay(&fixture, request(first)).await.replayed, 1);
    assert_eq!(of_reader(&fixture).await, (2, Some(2 * HOUR)), "as old as the next");
    let last = Selection::Messages([letters.letters[2].record.offset].into());
    fixture.broker.delete_letters(&of_sub(), last, LettersWanted::All, Some(1)).await.unwrap();
    assert_eq!(of_reader(&fixture).await, (1, Some(2 * HOUR)));
    assert_eq!(replay(&fixture, request(all())).await.replayed, 1);
    assert_eq!(of_reader(&fixture).await, (0, None));
    fixture.log.is_far.store(true, Ordering::SeqCst);
    fixture.reopen().await;
    assert_eq!(of_reader(&fixture).await, (0, None), "also after a restart");
    assert_eq!(fixture.pull("reader", 10).await.len(), 1, "who wants to read them still can");
}

//! Looking at messages: nothing changes by it.

use std::time::Duration;

use broker::{LetterPlace, LetterQuery, Peek, PeekFrom, PeekPage};
use domain::delivery::RecordState;
use domain::{Filter, Message, Offset, RetryPolicy, Subscription};
use futures::FutureExt;

use crate::fixture::{
    Fixture, HOUR, dead_letters_to, message, settings, subscription_name, texts, topic_name, until,
};

fn peek(from: PeekFrom) -> Peek {
    Peek { from, limit: 100, ..Peek::default() }
}

fn shown(page: &PeekPage) -> Vec<String> {
    let text = |body| domain::message::decode(body).unwrap().data;
    let datas = page.messages.iter().map(|peeked| text(&peeked.record.body));
    datas.map(|data| String::from_utf8(data.to_vec()).unwrap()).collect()
}

/// Everything that a look might change.
fn state(fixture: &Fixture, id: &str) -> String {
    let subscription = fixture.find(id);
    format!(
        "{:?} {} {} {}",
        subscription.cursor(),
        subscription.outstanding(),
        subscription.backlog(),
        subscription.dead_lettered()
    )
}

#[tokio::test]
async fn a_topic_is_looked_at_from_anywhere() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let ids = fixture.publish(&topic, &["a", "b"]).await;
    fixture.clock.advance(HOUR);
    let later = fixture.now();
    fixture.publish(&topic, &["c"]).await;
    for (from, expected) in [
        (PeekFrom::Earliest, vec!["a", "b", "c"]),
        (PeekFrom::Offset(Offset(ids[1])), vec!["b", "c"]),
        (PeekFrom::Time(later), vec!["c"]),
        (PeekFrom::Latest, vec![]),
    ] {
        let page = fixture.broker.peek_topic(&topic, &peek(from)).await.unwrap();
        assert_eq!(shown(&page), expected, "{from:?}");
        assert!(page.is_end);
    }
    let two = Peek { limit: 2, ..Peek::default() };
    let page = fixture.broker.peek_topic(&topic, &two).await.unwrap();
    assert_eq!((shown(&page), page.is_end), (vec!["a".to_owned(), "b".to_owned()], false));
    let rest = fixture.broker.peek_topic(&topic, &peek(PeekFrom::Offset(page.next))).await;
    assert_eq!(shown(&rest.unwrap()), ["c"]);
}

#[tokio::test]
async fn a_filter_leaves_others_out() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let colored = |color: &str| Message {
        attributes: [("color".to_owned(), color.to_owned())].into(),
        ..message(color)
    };
    fixture.subscription(&topic, "sub").await;
    fixture.broker.publish(&topic, vec![colored("red"), colored("blue")]).await.unwrap();
    let filter = Filter::parse("filter", r#"attributes.color = "blue""#).ok();
    let query = Peek { filter, ..peek(PeekFrom::Earliest) };
    let page = fixture.broker.peek_topic(&topic, &query).await.unwrap();
    assert_eq!(shown(&page), ["blue"]);
}

#[tokio::test]
async fn a_backlog_shows_how_each_message_stands_and_stays_as_it_is() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let waits = RetryPolicy { min: Duration::from_secs(60), max: Duration::from_secs(60) };
    let settings = Subscription { retry_policy: Some(waits), ..settings(&topic, "sub") };
    fixture.subscribe(settings).await;
    fixture.publish(&topic, &["acked", "failed", "held", "fresh"]).await;
    let leases = fixture.pull("sub", 3).await;
    fixture.ack("sub", &leases[..1]).await;
    fixture.nack("sub", &leases[1..2]).await;
    let before = state(&fixture, "sub");
    fixture.log.take_commits();
    for _ in 0..3 {
        let name = subscription_name("sub");
        let query = peek(PeekFrom::Earliest);
        let page = fixture.broker.peek_subscription(&name, &query).await.unwrap();
        assert_eq!(shown(&page), ["failed", "held", "fresh"]);
        let stands: Vec<_> = page.messages.iter().map(|peeked| peeked.view.unwrap()).collect();
        let stands: Vec<_> = stands.iter().map(|view| (view.state, view.attempts)).collect();
        let expected =
            [(RecordState::BackingOff, 1), (RecordState::Leased, 1), (RecordState::Waiting, 0)];
        assert_eq!(stands, expected);
    }
    assert_eq!(state(&fixture, "sub"), before);
    assert!(fixture.log.take_commits().is_empty(), "looking writes nothing");
    fixture.ack("sub", &leases[2..]).await;
    let next = fixture.pull("sub", 10).await;
    assert_eq!((texts(&next), next[0].attempt), (vec!["fresh".to_owned()], 1));
}

#[tokio::test]
async fn looking_at_dead_letters_changes_nothing() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let name = subscription_name("sub");
    until(|| fixture.broker.dead_letters_waiting(&name) == 1).await;
    let before = (state(&fixture, "sub"), state(&fixture, "undertaker"));
    fixture.log.take_commits();
    let query = LetterQuery { limit: 10, ..LetterQuery::default() };
    for place in [LetterPlace::Subscription(name), LetterPlace::Topic(topic_name("dead"))] {
        let page = fixture.broker.dead_letters(&place, &query).await.unwrap();
        assert_eq!(page.letters.len(), 1);
        let id = page.letters[0].record.offset;
        fixture.broker.dead_letter(&page.topic, id).await.unwrap();
    }
    assert_eq!((state(&fixture, "sub"), state(&fixture, "undertaker")), before);
    assert!(fixture.log.take_commits().is_empty(), "looking writes nothing");
    let letters = fixture.pull("undertaker", 10).await;
    assert_eq!((texts(&letters), letters[0].attempt), (vec!["bad".to_owned()], 1));
}

#[tokio::test]
async fn who_waits_is_shown_the_next_message_or_none_in_the_end() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let waiting = Peek { wait: Duration::from_secs(20), ..peek(PeekFrom::Latest) };
    let mut looking = Box::pin(fixture.broker.peek_topic(&topic, &waiting));
    assert!(looking.as_mut().now_or_never().is_none(), "there is nothing yet");
    fixture.publish(&topic, &["new"]).await;
    assert_eq!(shown(&looking.await.unwrap()), ["new"]);

    let mut looking = Box::pin(fixture.broker.peek_topic(&topic, &waiting));
    assert!(looking.as_mut().now_or_never().is_none(), "it was shown before");
    fixture.clock.advance(Duration::from_secs(21));
    let page = looking.await.unwrap();
    assert!(page.messages.is_empty() && page.is_end);
}

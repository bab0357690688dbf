//! What is written, and what is not.

use super::*;
use crate::Message;
use crate::effects::{Applied, Effects, StoreError};
use crate::firestore::Visibility;

#[tokio::test]
async fn a_message_takes_effect_once_and_is_noted() {
    let (fake, effects) = fake_and_effects().await;
    assert_eq!(effects.apply(&add("7", None)).await, Ok(Applied::Applied));
    assert_eq!(effects.apply(&add("7", None)).await, Ok(Applied::Duplicate));
    assert_eq!(effects.apply(&add("8", None)).await, Ok(Applied::Applied));
    assert_eq!(service(&fake)["count"], Value::Integer(2));
    let note = fake.document("ops_dedupe/7").unwrap();
    assert_eq!(note["document"], text("ops_services/api"));
    assert_eq!(note["outcome"], text("applied"));
    assert_eq!(note["expiresAt"], Value::Time(at(1_000_000)));
    assert!(matches!(note["handledAt"], Value::Time(_)));
}

#[tokio::test]
async fn an_older_event_is_noted_and_changes_nothing() {
    let (fake, effects) = fake_and_effects().await;
    for kind in [WriteKind::Set, WriteKind::Merge] {
        let state = |id: &str, seconds, state| {
            let id = format!("{kind:?}{id}");
            write(&id, kind, Some(seconds), &[("state", text(state))])
        };
        assert_eq!(effects.apply(&state("1", 10, "up")).await, Ok(Applied::Applied));
        assert_eq!(effects.apply(&state("2", 9, "down")).await, Ok(Applied::Stale));
        assert_eq!(effects.apply(&state("2", 9, "down")).await, Ok(Applied::Duplicate));
        assert_eq!(service(&fake)["state"], text("up"));
        assert_eq!(effects.apply(&state("3", 10, "equal")).await, Ok(Applied::Applied));
        assert_eq!(effects.apply(&state("4", 11, "later")).await, Ok(Applied::Applied));
        assert_eq!(service(&fake)["state"], text("later"));
        assert_eq!(service(&fake)["eventTime"], Value::Time(at(11)));
        let note = fake.document(&format!("ops_dedupe/{kind:?}2")).unwrap();
        assert_eq!(note["outcome"], text("stale_ignored"));
        fake.put("projects/p/databases/(default)/documents/ops_services/api", BTreeMap::new());
    }
}

#[tokio::test]
async fn set_replaces_merge_keeps_and_increment_adds() {
    let (fake, effects) = fake_and_effects().await;
    let first = [("a", Value::Integer(1)), ("b.c", text("x")), ("`d\\", Value::Bool(true))];
    effects.apply(&write("1", WriteKind::Set, None, &first)).await.unwrap();
    assert_eq!(service(&fake).len(), 3);
    let second = [("b.c", text("y")), ("`d\\", Value::Null)];
    effects.apply(&write("2", WriteKind::Merge, None, &second)).await.unwrap();
    let expected = [("`d\\", Value::Null), ("a", Value::Integer(1)), ("b.c", text("y"))];
    assert!(service(&fake).iter().map(|(name, value)| (&**name, value.clone())).eq(expected));
    let third = [("a", Value::Integer(4)), ("e", Value::Double(0.5)), ("b.c", Value::Integer(2))];
    effects.apply(&write("3", WriteKind::Increment, None, &third)).await.unwrap();
    let after = service(&fake);
    assert_eq!((&after["a"], &after["e"]), (&Value::Integer(5), &Value::Double(0.5)));
    assert_eq!(after["b.c"], Value::Integer(2), "what was no number is replaced");
    effects.apply(&write("4", WriteKind::Set, None, &[("z", Value::Null)])).await.unwrap();
    assert_eq!(service(&fake), BTreeMap::from([("z".to_owned(), Value::Null)]));
}

#[tokio::test]
async fn what_is_added_is_never_stale_and_the_latest_time_stays() {
    let (fake, effects) = fake_and_effects().await;
    for (id, seconds) in [("1", 10), ("2", 5), ("3", 12), ("4", 11)] {
        assert_eq!(effects.apply(&add(id, Some(seconds))).await, Ok(Applied::Applied));
    }
    assert_eq!(service(&fake)["count"], Value::Integer(4));
    assert_eq!(service(&fake)["eventTime"], Value::Time(at(12)));
}

#[tokio::test]
async fn a_field_that_holds_no_time_is_for_somebody_to_put_right() {
    let (fake, effects) = fake_and_effects().await;
    let fields = BTreeMap::from([("eventTime".to_owned(), text("yesterday"))]);
    fake.put("projects/p/databases/(default)/documents/ops_services/api", fields);
    let refused = effects.apply(&write("1", WriteKind::Set, Some(1), &[])).await;
    let Err(StoreError::Config(failure)) = refused else { panic!("{refused:?}") };
    assert!(failure.message.contains("ops_services/api: field eventTime"), "{failure:?}");
    assert_eq!(fake.count("ops_dedupe"), 0);
}

#[tokio::test]
async fn what_can_never_be_written_is_refused() {
    let (fake, effects) = fake_and_effects().await;
    let words = write("1", WriteKind::Increment, None, &[("count", text("one"))]);
    let long = "x".repeat(1 << 20);
    let large = write("2", WriteKind::Set, None, &[("text", text(&long))]);
    let mut nameless = add("3", None);
    nameless.document.id = String::new();
    for wrong in [words, large, nameless] {
        let refused = effects.apply(&wrong).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    assert_eq!(fake.count("ops_dedupe"), 0);
}

#[tokio::test]
async fn visibility_counts_deliveries_and_says_so() {
    let (fake, _) = fake_and_effects().await;
    let visibility = Visibility::new(Client::new(&options(&fake)).unwrap(), "ops_deliveries");
    let message = Message {
        id: "7".to_owned(),
        subscription: Some("projects/p/subscriptions/s".into()),
        ..Message::default()
    };
    let other = Message { id: "8".to_owned(), ..message.clone() };
    for delivered in [&message, &message, &other] {
        visibility.record(delivered, at(0)).await.unwrap();
    }
    let all = fake.document("ops_deliveries/s").unwrap();
    assert_eq!(all["deliveriesNotEvents"], Value::Integer(3), "a message twice counts twice");
    let one = fake.document("ops_deliveries/s/deliveries/7").unwrap();
    assert_eq!(one["deliveriesNotEvents"], Value::Integer(2));
    assert!(matches!(one["lastDeliveryAt"], Value::Time(_)));
    assert_eq!(one["expiresAt"], Value::Time(at(7 * 86_400)));
}

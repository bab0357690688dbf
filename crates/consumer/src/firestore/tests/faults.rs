//! What happens when Firestore does not do its part.

use std::sync::Arc;

use futures::future::join_all;
use tokio::net::TcpListener;
use tonic::Code;

use super::*;
use crate::effects::{Applied, Effects, StoreError};
use crate::firestore::fake::{Call, Faults};

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_made_twice() {
    let (fake, effects) = fake_and_effects().await;
    fake.lose_answers(1);
    assert_eq!(effects.apply(&add("1", None)).await, Ok(Applied::Applied));
    let set = |id, seconds| write(id, WriteKind::Set, Some(seconds), &[("count", Value::Null)]);
    effects.apply(&set("2", 9)).await.unwrap();
    fake.lose_answers(1);
    assert_eq!(effects.apply(&set("3", 8)).await, Ok(Applied::Stale));
    effects.apply(&set("4", 10)).await.unwrap();
    effects.apply(&add("5", None)).await.unwrap();
    fake.lose_answers(1);
    assert_eq!(effects.apply(&add("6", None)).await, Ok(Applied::Applied));
    assert_eq!(service(&fake)["count"], Value::Integer(2));
    assert_eq!(fake.counts().lost, 3);
}

#[tokio::test]
async fn what_is_redelivered_after_lost_answers_is_a_duplicate() {
    let (fake, effects) = fake_and_effects().await;
    fake.lose_answers(1);
    let once = FirestoreEffects::new(
        Client::new(&options(&fake)).unwrap(),
        Retry { attempts_max: 1, ..RETRY },
    );
    let lost = once.apply(&add("1", None)).await;
    assert!(matches!(lost, Err(StoreError::Transient(_))), "{lost:?}");
    assert_eq!(effects.apply(&add("1", None)).await, Ok(Applied::Duplicate));
    assert_eq!(service(&fake)["count"], Value::Integer(1));
}

#[tokio::test]
async fn effects_are_exact_though_many_collide_and_transactions_fail_by_chance() {
    let (fake, _) = fake_and_effects().await;
    fake.set_faults(Faults::by_chance(7, 20, 10));
    let patient = Retry { attempts_max: 200, ..RETRY };
    // As two programs would: what one of them puts in order, the other does not know of.
    let effects = [(); 2].map(|()| {
        let client = Client::new(&options(&fake)).unwrap();
        Arc::new(FirestoreEffects::new(client, patient))
    });
    let messages = (0..400_u64).map(|number| {
        let effects = Arc::clone(&effects[usize::from(number % 2 == 0)]);
        // Every message comes twice, at about the same time.
        async move { effects.apply(&add(&(number / 2).to_string(), Some(number / 2))).await }
    });
    let outcomes = join_all(messages).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(service(&fake)["count"], Value::Integer(200));
    assert_eq!(service(&fake)["eventTime"], Value::Time(at(199)));
    assert_eq!(fake.count("ops_dedupe"), 200);
    let counts = fake.counts();
    assert!(counts.conflicts > 0 && counts.aborted > 0 && counts.lost > 0, "{counts:?}");
}

#[tokio::test]
async fn what_may_go_well_later_is_tried_so_often_and_then_given_back() {
    let (fake, effects) = fake_and_effects().await;
    let codes = [Code::ResourceExhausted, Code::Unavailable, Code::DeadlineExceeded, Code::Aborted];
    for (number, code) in codes.into_iter().enumerate() {
        for call in [Call::Get, Call::Commit] {
            let id = format!("{number}{call:?}");
            fake.refuse(call, code, RETRY.attempts_max);
            let failed = effects.apply(&add(&id, None)).await;
            let Err(StoreError::Transient(failure)) = failed else { panic!("{failed:?}") };
            assert_eq!(failure.code.as_deref(), Some(wire::rpc::code_name(code)));
            fake.refuse(call, code, RETRY.attempts_max - 1);
            assert_eq!(effects.apply(&add(&id, None)).await, Ok(Applied::Applied));
        }
    }
    assert_eq!(service(&fake)["count"], Value::Integer(8));
    let errors: BTreeMap<_, _> = effects.figures().errors().collect();
    let each = u64::from(2 * (2 * RETRY.attempts_max - 1));
    assert_eq!(errors["RESOURCE_EXHAUSTED"], each);
    assert_eq!(errors.values().sum::<u64>(), 4 * each);
}

#[tokio::test]
async fn what_somebody_must_put_right_is_not_tried_again() {
    let (fake, effects) = fake_and_effects().await;
    for (code, tries) in [
        (Code::PermissionDenied, 1),
        (Code::NotFound, 1),
        // The token may have come to its end, so once more with a fresh one.
        (Code::Unauthenticated, 2),
    ] {
        let before = effects.figures().tries();
        fake.refuse(Call::Get, code, tries);
        let failed = effects.apply(&add("1", None)).await;
        assert!(matches!(failed, Err(StoreError::Config(_))), "{failed:?}");
        assert_eq!(effects.figures().tries() - before, u64::from(tries));
    }
    fake.refuse(Call::Commit, Code::InvalidArgument, 1);
    let failed = effects.apply(&add("1", None)).await;
    assert!(matches!(failed, Err(StoreError::Refused(_))), "{failed:?}");
    assert_eq!(effects.apply(&add("1", None)).await, Ok(Applied::Applied));
}

#[tokio::test]
async fn nobody_there_and_nobody_who_answers_may_both_be_better_later() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options {
        project: Some("p".to_owned()),
        emulator: Some(address.to_string()),
        call_timeout: Some(Duration::from_millis(50)),
        ..Options::default()
    };
    let retry = Retry { attempts_max: 1, ..RETRY };
    let effects = FirestoreEffects::new(Client::new(&options).unwrap(), retry);
    let silent = effects.apply(&add("1", None)).await;
    let Err(StoreError::Transient(failure)) = silent else { panic!("{silent:?}") };
    assert_eq!(failure.code.as_deref(), Some("DEADLINE_EXCEEDED"));
    drop(listener);
    let away = effects.apply(&add("1", None)).await;
    assert!(matches!(away, Err(StoreError::Transient(_))), "{away:?}");
}

#[tokio::test]
async fn the_client_begins_reads_and_ends_transactions() {
    let (fake, _) = fake_and_effects().await;
    let client = Client::new(&options(&fake)).unwrap();
    fake.put(&client.name(&path("c", "a")), BTreeMap::new());
    let names = [client.name(&path("c", "missing")), client.name(&path("c", "a"))];
    let begun = client.begin(None).await.unwrap();
    let documents = client.get(&names, Some(&begun)).await.unwrap();
    assert_eq!(documents.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    client.rollback(&begun).await.unwrap();
    let ended = client.commit(Vec::new(), Some(&begun)).await.unwrap_err();
    assert_eq!(ended.code(), Code::InvalidArgument);
    let second = client.begin(Some(&begun)).await.unwrap();
    client.get(&names, Some(&second)).await.unwrap();
    fake.put(&client.name(&path("c", "missing")), BTreeMap::new());
    let changed = client.commit(Vec::new(), Some(&second)).await.unwrap_err();
    assert_eq!((changed.code(), fake.open_transactions()), (Code::Aborted, 0));
    assert_eq!(fake.counts().rolled_back, 1);
    assert!(client.get(&names, None).await.unwrap()[1].is_some());
}

#[test]
fn without_a_project_there_is_no_client() {
    let options = Options { emulator: Some("127.0.0.1:1".to_owned()), ..Options::default() };
    let error = Client::new(&options).unwrap_err();
    assert!(error.to_string().contains("firestore.project"), "{error}");
}

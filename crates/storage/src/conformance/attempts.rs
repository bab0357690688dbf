//! `AttemptHistory`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Offset, SubscriptionId, Timestamp};

use super::support::{Held, hold, same};
use super::{Case, Check, Durable, cases};
use crate::{
    Attempt, AttemptPage, AttemptQuery, FAILURES_MAX, Kind, NumberedAttempt, RECENT_MAX, Result,
    Unsettled,
};

pub(super) const CASES: &[Case<Held>] = cases![
    a_new_history_is_empty,
    what_was_appended_is_listed_the_newest_first,
    an_attempt_comes_back_as_it_was,
    pages_hold_the_limit_and_tell_where_to_go_on,
    new_attempts_do_not_move_what_is_on_the_next_page,
    only_attempts_of_a_class_or_a_message_are_listed,
    an_attempt_that_is_there_is_replaced,
    a_history_knows_the_last_number_of_each_subscription,
    subscriptions_have_numbers_of_their_own,
    only_the_latest_attempts_of_a_subscription_are_kept,
    the_latest_failure_of_an_unsettled_message_outlives_them,
    beyond_their_bound_the_oldest_failures_go,
    a_forgotten_subscription_has_no_attempts,
];

/// What survives closing a store and opening it again.
pub(super) fn reopening<S: Durable>() -> &'static [Case<S>] {
    cases![attempts_are_there_after_a_reopen, attempts_of_what_is_gone_go_with_a_reopen,]
}

const SUBSCRIPTION: SubscriptionId = SubscriptionId(77);
const OTHER: SubscriptionId = SubscriptionId(78);

/// Says that only these messages are unsettled.
struct Open(Vec<u64>);

impl Unsettled for Open {
    fn unsettled(&self, _: SubscriptionId, offsets: &[Offset]) -> Vec<Offset> {
        offsets.iter().copied().filter(|offset| self.0.contains(&offset.0)).collect()
    }
}

/// Says that every message is unsettled.
struct AllOpen;

impl Unsettled for AllOpen {
    fn unsettled(&self, _: SubscriptionId, offsets: &[Offset]) -> Vec<Offset> {
        offsets.to_vec()
    }
}

/// An attempt that says no more than it must.
fn plain(number: u64, offset: u64, class: &'static str) -> NumberedAttempt {
    let attempt = Attempt {
        subscription: SUBSCRIPTION,
        offset: Offset(offset),
        attempt: 1,
        at: Timestamp(number),
        duration: Duration::from_micros(7),
        address: None,
        status: None,
        class: class.into(),
        error: None,
        response: Bytes::new(),
    };
    NumberedAttempt { number, attempt }
}

/// Successes with these numbers, each for its own message.
fn successes(numbers: std::ops::Range<u64>) -> Vec<NumberedAttempt> {
    numbers.map(|number| plain(number, 1_000_000 + number, "ok")).collect()
}

fn of_other(mut numbered: NumberedAttempt) -> NumberedAttempt {
    numbered.attempt.subscription = OTHER;
    numbered
}

async fn append(held: &Held, attempts: Vec<NumberedAttempt>) -> Result<()> {
    held.attempts.append(attempts, Arc::new(AllOpen)).await
}

async fn list(held: &Held, query: AttemptQuery) -> Result<AttemptPage> {
    held.attempts.list(SUBSCRIPTION, query).await
}

fn first(limit: usize) -> AttemptQuery {
    AttemptQuery { limit, ..AttemptQuery::default() }
}

fn numbers(page: &AttemptPage) -> Vec<u64> {
    page.attempts.iter().map(|numbered| numbered.number).collect()
}

async fn kept(held: &Held) -> Result<Vec<u64>> {
    Ok(numbers(&list(held, first(100_000)).await?))
}

/// The last numbers of both subscriptions.
async fn last(held: &Held) -> Result<Vec<u64>> {
    held.attempts.last(vec![SUBSCRIPTION, OTHER]).await
}

async fn a_new_history_is_empty(held: Held) -> Check {
    same("last", &last(&held).await?, &vec![0, 0])?;
    same("page", &list(&held, first(10)).await?, &AttemptPage::default())
}

async fn what_was_appended_is_listed_the_newest_first(held: Held) -> Check {
    append(&held, vec![plain(5, 1, "ok"), plain(3, 2, "ok"), plain(4, 3, "ok")]).await?;
    append(&held, vec![plain(9, 4, "ok"), of_other(plain(8, 4, "ok"))]).await?;
    same("numbers", &kept(&held).await?, &vec![9, 5, 4, 3])
}

async fn an_attempt_comes_back_as_it_was(held: Held) -> Check {
    let mut full = plain(1, u64::from(u32::MAX) * 1_000, "http_5xx");
    full.attempt.attempt = 17;
    full.attempt.at = Timestamp(1_790_000_000_123_456);
    full.attempt.duration = Duration::from_micros(30_000_001);
    full.attempt.address = Some(([127, 0, 0, 1], 8_080).into());
    full.attempt.status = Some(503);
    full.attempt.error = Some("it said \"no\" €".into());
    full.attempt.response = Bytes::from_static(b"\0\xff not text");
    let mut other = plain(2, 4, "dns");
    other.attempt.address = Some(([0, 0, 0, 0, 0, 0, 0, 1_u16], 443).into());
    append(&held, vec![full.clone(), other.clone()]).await?;
    same("attempts", &list(&held, first(10)).await?.attempts, &vec![other, full])
}

async fn pages_hold_the_limit_and_tell_where_to_go_on(held: Held) -> Check {
    append(&held, successes(1..6)).await?;
    let mut query = first(2);
    for (expected, next) in [(vec![5, 4], Some(4)), (vec![3, 2], Some(2)), (vec![1], None)] {
        let page = list(&held, query.clone()).await?;
        same("numbers", &numbers(&page), &expected)?;
        same("next", &page.next, &next)?;
        query.before = next;
    }
    let all = list(&held, first(5)).await?;
    same("next after a full last page", &all.next, &None)?;
    let far = AttemptQuery { before: Some(u64::MAX), ..first(1) };
    same("before the greatest number", &numbers(&list(&held, far).await?), &vec![5])
}

async fn new_attempts_do_not_move_what_is_on_the_next_page(held: Held) -> Check {
    append(&held, successes(1..5)).await?;
    let page = list(&held, first(2)).await?;
    append(&held, successes(5..20)).await?;
    let next = AttemptQuery { before: page.next, ..first(2) };
    same("numbers", &numbers(&list(&held, next).await?), &vec![2, 1])
}

async fn only_attempts_of_a_class_or_a_message_are_listed(held: Held) -> Check {
    let attempts = [(1, 7, "dns"), (2, 8, "tls"), (3, 7, "tls"), (4, 9, "ok"), (5, 7, "tls")];
    let attempts = attempts.map(|(number, offset, class)| plain(number, offset, class));
    append(&held, attempts.to_vec()).await?;
    let class = |class: &str| Some(class.to_owned());
    for (query, expected) in [
        (AttemptQuery { class: class("tls"), ..first(10) }, vec![5, 3, 2]),
        (AttemptQuery { offset: Some(Offset(7)), ..first(10) }, vec![5, 3, 1]),
        (AttemptQuery { class: class("tls"), offset: Some(Offset(7)), ..first(10) }, vec![5, 3]),
        (AttemptQuery { class: class("tls"), before: Some(5), ..first(1) }, vec![3]),
        (AttemptQuery { class: class("none"), ..first(10) }, vec![]),
        (AttemptQuery { offset: Some(Offset(6)), ..first(10) }, vec![]),
    ] {
        let page = list(&held, query.clone()).await?;
        hold(numbers(&page) == expected, || format!("{query:?} gave {:?}", numbers(&page)))?;
    }
    Ok(())
}

async fn an_attempt_that_is_there_is_replaced(held: Held) -> Check {
    append(&held, vec![plain(1, 7, "dns"), plain(2, 7, "dns")]).await?;
    append(&held, vec![plain(2, 7, "ok")]).await?;
    let page = list(&held, first(10)).await?;
    same("attempts", &page.attempts, &vec![plain(2, 7, "ok"), plain(1, 7, "dns")])
}

async fn a_history_knows_the_last_number_of_each_subscription(held: Held) -> Check {
    append(&held, vec![of_other(plain(40, 7, "dns")), plain(30, 7, "dns")]).await?;
    same("last", &last(&held).await?, &vec![30, 40])?;
    same("last of none", &held.attempts.last(Vec::new()).await?, &Vec::new())
}

async fn subscriptions_have_numbers_of_their_own(held: Held) -> Check {
    append(&held, vec![plain(1, 7, "dns"), of_other(plain(1, 8, "tls"))]).await?;
    append(&held, vec![of_other(plain(2, 9, "ok"))]).await?;
    same("one", &list(&held, first(10)).await?.attempts, &vec![plain(1, 7, "dns")])?;
    let other = held.attempts.list(OTHER, first(10)).await?.attempts;
    let expected = vec![of_other(plain(2, 9, "ok")), of_other(plain(1, 8, "tls"))];
    same("other", &other, &expected)?;
    held.attempts.forget(vec![OTHER]).await?;
    same("one", &list(&held, first(10)).await?.attempts, &vec![plain(1, 7, "dns")])
}

async fn only_the_latest_attempts_of_a_subscription_are_kept(held: Held) -> Check {
    let count = RECENT_MAX as u64;
    append(&held, vec![of_other(plain(1, 1, "ok"))]).await?;
    append(&held, successes(2..count)).await?;
    append(&held, successes(count..count + 10)).await?;
    let expected: Vec<u64> = (10..count + 10).rev().collect();
    same("numbers", &kept(&held).await?, &expected)?;
    let other = held.attempts.list(OTHER, first(10)).await?;
    same("numbers of another", &numbers(&other), &vec![1])
}

async fn the_latest_failure_of_an_unsettled_message_outlives_them(held: Held) -> Check {
    let failures = [(1, 7), (2, 7), (3, 8), (4, 9)];
    let failures = failures.map(|(number, offset)| plain(number, offset, "dns")).to_vec();
    let open = |offsets: &[u64]| Arc::new(Open(offsets.to_vec()));
    held.attempts.append(failures, open(&[7, 8, 9])).await?;
    let end = 10 + RECENT_MAX as u64;
    held.attempts.append(successes(10..end), open(&[7, 9])).await?;
    let older = |kept: Vec<u64>| kept.into_iter().filter(|&number| number < 10).collect();
    same("older ones", &older(kept(&held).await?), &vec![4, 2])?;
    held.attempts.append(successes(end..end + 1), open(&[9])).await?;
    same("once settled", &older(kept(&held).await?), &vec![4])
}

async fn beyond_their_bound_the_oldest_failures_go(held: Held) -> Check {
    let count = (RECENT_MAX + FAILURES_MAX) as u64 + 3;
    append(&held, (1..=count).map(|number| plain(number, number, "dns")).collect()).await?;
    let expected: Vec<u64> = (4..=count).rev().collect();
    hold(kept(&held).await? == expected, || "others were kept".to_owned())
}

async fn a_forgotten_subscription_has_no_attempts(held: Held) -> Check {
    append(&held, vec![plain(1, 7, "dns"), of_other(plain(2, 7, "dns"))]).await?;
    held.attempts.forget(vec![SUBSCRIPTION, SubscriptionId(1)]).await?;
    same("numbers", &kept(&held).await?, &vec![])?;
    same("last", &last(&held).await?, &vec![0, 2])
}

async fn attempts_are_there_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let catalogue = store.engine().catalogue;
    let entry = catalogue.put(Kind::Subscription, "s", Bytes::new(), None).await?;
    let subscription = SubscriptionId(entry.id);
    drop(catalogue);
    let mut expected = Vec::new();
    for number in 1..4 {
        let mut new = plain(number, 7, "dns");
        new.attempt.subscription = subscription;
        let attempts = store.engine().attempts;
        attempts.append(vec![new.clone()], Arc::new(AllOpen)).await?;
        drop(attempts);
        expected.insert(0, new);
        store = store.reopen().await;
        let attempts = store.engine().attempts;
        let found = attempts.list(subscription, first(10)).await?.attempts;
        same("attempts", &found, &expected)?;
        same("last", &attempts.last(vec![subscription]).await?, &vec![number])?;
    }
    Ok(())
}

async fn attempts_of_what_is_gone_go_with_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    append(&held, vec![plain(1, 7, "dns")]).await?;
    drop(held);
    let store = store.reopen().await;
    same("attempts", &kept(&Held::of(&store).await?).await?, &vec![])
}

//! The registry by example: each rule, and each defect of the source that concerns it.

use std::time::Duration;

use domain::filter::Clause;
use domain::limits::{COLLECTION_BYTES_MAX, EXPIRED_REMEMBERED};
use domain::live::{Ended, Query, Refusal, Registered, Registry, Request, Settings, Spec};
use domain::{Moment, Now, Timestamp};

const LAG: Duration = Duration::from_millis(1_500);

/// So many milliseconds after the start.
pub(crate) fn at(ms: u64) -> Now {
    Now { moment: Moment(ms * 1_000), wall: Timestamp(1_700_000_000_000_000 + ms * 1_000) }
}

pub(crate) fn request(gateway: &str, id: &str) -> Request {
    Request {
        gateway: gateway.to_owned(),
        subscription: id.to_owned(),
        tenant: "default".to_owned(),
        collection: "rooms/room-1/messages".to_owned(),
        ..Request::default()
    }
}

fn clause(field: &str, op: &str, value: &str) -> Clause {
    Clause { field: field.to_owned(), op: op.to_owned(), value: value.to_owned() }
}

fn register(registry: &mut Registry, now: Now, request: Request) -> Result<Registered, Refusal> {
    let spec = Spec::new(request, registry.settings())?;
    registry.register(now, &spec)
}

fn with_ttl(gateway: &str, id: &str, ttl_s: i64) -> Request {
    Request { ttl_s: Some(ttl_s), ..request(gateway, id) }
}

fn ids(ended: &[Ended]) -> Vec<&str> {
    ended.iter().map(|ended| &*ended.id).collect()
}

/// Runs to `to` as a broker does: whenever there is something to do.
fn run(registry: &mut Registry, to: Now) -> Vec<(Moment, String)> {
    let mut ended = Vec::new();
    while let Some(wake) = registry.next_wake().filter(|wake| *wake <= to.moment) {
        let expired = registry.expire(wake, 100);
        ended.extend(expired.into_iter().map(|one| (wake, one.id.to_string())));
    }
    ended
}

#[test]
fn each_rule_of_a_registration_names_its_field() {
    let good = request("gateway-1", "sub-abc_123");
    let long = "x".repeat(256);
    let wide = vec!["x"; 17].join("/");
    let heavy = format!("a/{}", "x".repeat(COLLECTION_BYTES_MAX - 1));
    let cases: Vec<(&str, Request)> = vec![
        ("gatewayId", Request { gateway: String::new(), ..good.clone() }),
        ("gatewayId", Request { gateway: long.clone(), ..good.clone() }),
        ("gatewayId", Request { gateway: "a\nb".to_owned(), ..good.clone() }),
        ("subscriptionId", Request { subscription: String::new(), ..good.clone() }),
        ("subscriptionId", Request { subscription: "a b".to_owned(), ..good.clone() }),
        ("subscriptionId", Request { subscription: "é".to_owned(), ..good.clone() }),
        ("subscriptionId", Request { subscription: "a/b".to_owned(), ..good.clone() }),
        ("subscriptionId", Request { subscription: long.clone(), ..good.clone() }),
        ("tenant", Request { tenant: String::new(), ..good.clone() }),
        ("tenant", Request { tenant: long, ..good.clone() }),
        ("collection", Request { collection: String::new(), ..good.clone() }),
        ("collection", Request { collection: "/rooms".to_owned(), ..good.clone() }),
        ("collection", Request { collection: "rooms/".to_owned(), ..good.clone() }),
        ("collection", Request { collection: "a//b".to_owned(), ..good.clone() }),
        ("collection", Request { collection: "a\u{7f}".to_owned(), ..good.clone() }),
        ("collection", Request { collection: wide, ..good.clone() }),
        ("collection", Request { collection: heavy, ..good.clone() }),
        ("ttl", with_ttl("g", "s", 59)),
        ("ttl", with_ttl("g", "s", 3_601)),
        ("ttl", with_ttl("g", "s", 0)),
        ("ttl", with_ttl("g", "s", -1)),
        (
            "filter",
            Request {
                filters: vec![clause("data.a", "==", "1")],
                filter: Some("data.a == 1".to_owned()),
                ..good.clone()
            },
        ),
    ];
    for (field, request) in cases {
        let refusal = Spec::new(request.clone(), &Settings::default()).expect_err(field);
        assert_eq!(
            (refusal.code(), refusal.field()),
            ("INVALID_ARGUMENT", Some(field)),
            "{request:?}"
        );
    }
    let bad = vec![clause("data.a", "==", "1"), clause("data.b", "=", "1")];
    let refusal = Spec::new(Request { filters: bad, ..good.clone() }, &Settings::default());
    let refusal = refusal.unwrap_err();
    assert_eq!((refusal.code(), refusal.field()), ("INVALID_FILTER", Some("filters[1].op")));
    let bad = Request { filter: Some("data.a =".to_owned()), ..good.clone() };
    let refusal = Spec::new(bad, &Settings::default()).unwrap_err();
    assert_eq!((refusal.code(), refusal.field()), ("CEL_COMPILATION_FAILED", Some("filter")));
    let many = vec![clause("data.a", "==", "1"); 33];
    let refusal = Spec::new(Request { filters: many, ..good.clone() }, &Settings::default());
    assert_eq!(refusal.unwrap_err().code(), "FILTER_TOO_COMPLEX");
    for ttl in [None, Some(60), Some(3_600)] {
        assert!(Spec::new(Request { ttl_s: ttl, ..good.clone() }, &Settings::default()).is_ok());
    }
    assert!(
        Spec::new(Request { collection: vec!["x"; 16].join("/"), ..good }, &Settings::default())
            .is_ok()
    );
}

/// Defect 1: quotas were never asked.
#[test]
fn quotas_are_kept_exactly_and_given_back() {
    let settings =
        Settings { per_gateway_max: 2, per_tenant_max: 3, global_max: 4, ..Settings::default() };
    let mut registry = Registry::new(settings);
    let other =
        |gateway: &str, id: &str| Request { tenant: "t".to_owned(), ..request(gateway, id) };
    let code = |registry: &mut Registry, request| {
        register(registry, at(0), request).map_or_else(|refusal| refusal.code(), |_| "ok")
    };
    assert_eq!(code(&mut registry, request("a", "1")), "ok");
    assert_eq!(code(&mut registry, request("a", "2")), "ok");
    assert_eq!(code(&mut registry, request("a", "3")), "GATEWAY_QUOTA_EXCEEDED");
    // What is there is renewed, whatever the quota.
    assert_eq!(code(&mut registry, request("a", "2")), "ok");
    assert_eq!(code(&mut registry, request("b", "3")), "ok");
    assert_eq!(code(&mut registry, request("b", "4")), "TENANT_QUOTA_EXCEEDED");
    assert_eq!(code(&mut registry, other("b", "4")), "ok");
    assert_eq!(code(&mut registry, other("c", "5")), "GLOBAL_QUOTA_EXCEEDED");
    assert!(registry.delete("1", None).unwrap().is_some());
    assert_eq!(code(&mut registry, other("c", "5")), "ok");
    registry.close_gateway("b");
    assert_eq!(code(&mut registry, request("a", "1")), "ok");
    assert_eq!(code(&mut registry, request("d", "6")), "ok");
    assert_eq!(registry.by_tenant().collect::<Vec<_>>(), [("default", 3), ("t", 1)]);
    assert_eq!(registry.by_gateway().collect::<Vec<_>>(), [("a", 2), ("c", 1), ("d", 1)]);
    // What is taken back leaves room and no trace.
    let mut registry = Registry::new(Settings { global_max: 1, ..Settings::default() });
    let registered = register(&mut registry, at(0), request("a", "1")).unwrap();
    registry.withdraw(registered.handle);
    assert_eq!(registry.get(at(0), "1").unwrap_err().code(), "SUBSCRIPTION_NOT_FOUND");
    assert_eq!(code(&mut registry, request("a", "2")), "ok");
}

/// Defect 2: a renewal used the default TTL.
#[test]
fn a_heartbeat_renews_by_the_subscriptions_own_ttl() {
    let mut registry = Registry::default();
    for (id, ttl) in [("short", 60), ("long", 3_600)] {
        let registered = register(&mut registry, at(0), with_ttl("g", id, ttl)).unwrap();
        assert_eq!(registered.expires.since(at(0).wall).as_secs(), u64::try_from(ttl).unwrap());
        let expires = registry.heartbeat(at(30_000), id, Some("g")).unwrap();
        assert_eq!(expires.since(at(30_000).wall).as_secs(), u64::try_from(ttl).unwrap());
    }
    assert_eq!(ids(&registry.expire(at(89_900).moment, 10)), [""; 0]);
    assert_eq!(ids(&registry.expire(at(91_500).moment, 10)), ["short"]);
    assert_eq!(ids(&registry.expire(at(3_629_900).moment, 10)), [""; 0]);
    assert_eq!(ids(&registry.expire(at(3_631_500).moment, 10)), ["long"]);
}

/// Defects 3 and 4: the wrong ones expired, and renewals did not count.
#[test]
fn each_expires_after_its_own_ttl_and_never_early() {
    let mut registry = Registry::default();
    // Registered in an order that is neither that of the deadlines nor its reverse.
    for number in 0..500_u64 {
        let ttl = 60 + (number * 7_919) % 3_541;
        let request = with_ttl("g", &number.to_string(), i64::try_from(ttl).unwrap());
        register(&mut registry, at(number * 3), request).unwrap();
    }
    registry.heartbeat(at(59_000), "0", None).unwrap();
    let ended = run(&mut registry, at(4_000_000));
    assert_eq!(ended.len(), 500);
    for (when, id) in ended {
        let number: u64 = id.parse().unwrap();
        let start = if number == 0 { 59_000 } else { number * 3 };
        let deadline = at(start).moment.plus(Duration::from_secs(60 + (number * 7_919) % 3_541));
        assert!(when >= deadline && when <= deadline.plus(LAG), "{id}: {when:?} {deadline:?}");
    }
}

/// Defect 5: what was renewed between being found and being removed vanished all the same.
#[test]
fn an_answered_heartbeat_is_never_followed_by_expiry_before_the_new_deadline() {
    let mut registry = Registry::default();
    register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap();
    assert!(registry.next_wake().unwrap() <= at(60_000).moment.plus(Duration::from_millis(20)));
    // At the last moment, when the wheel would bring it up.
    registry.heartbeat(at(59_999), "s", None).unwrap();
    assert_eq!(ids(&registry.expire(at(60_500).moment, 10)), [""; 0]);
    assert_eq!(ids(&registry.expire(at(119_998).moment, 10)), [""; 0]);
    // Past its deadline it is expired, also when nobody has called yet.
    let refusal = registry.heartbeat(at(119_999), "s", None).unwrap_err();
    assert_eq!(refusal.code(), "SUBSCRIPTION_EXPIRED");
    assert_eq!(registry.get(at(119_999), "s").unwrap_err().code(), "SUBSCRIPTION_EXPIRED");
    assert_eq!(registry.heartbeat_gateway(at(119_999), "g"), 0);
    assert_eq!(ids(&registry.expire(at(121_000).moment, 10)), ["s"]);
}

/// Defect 6: nothing was ever active, and what expired was as if it had never been.
#[test]
fn states_are_entered_and_expired_ids_are_remembered_for_a_while() {
    let mut registry = Registry::default();
    register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap();
    assert!(!registry.get(at(0), "s").unwrap().active);
    assert_eq!((registry.counts().total, registry.counts().active), (1, 0));
    registry.heartbeat(at(1), "s", None).unwrap();
    assert!(registry.get(at(1), "s").unwrap().active);
    assert_eq!((registry.counts().total, registry.counts().active), (1, 1));
    let ended = registry.expire(at(61_100).moment, 10);
    assert!(ended[0].expired && &*ended[0].gateway == "g" && ended[0].group.is_none());
    let counts = registry.counts();
    assert_eq!((counts.total, counts.active, counts.expired), (0, 0, 1));
    let remembered = at(61_100 + u64::try_from(EXPIRED_REMEMBERED.as_millis()).unwrap() - 1);
    for id in ["s", "never"] {
        let expected = if id == "s" { "SUBSCRIPTION_EXPIRED" } else { "SUBSCRIPTION_NOT_FOUND" };
        assert_eq!(registry.heartbeat(remembered, id, None).unwrap_err().code(), expected);
    }
    let forgotten = Now { moment: Moment(remembered.moment.0 + 1_000), ..remembered };
    let refusal = registry.heartbeat(forgotten, "s", None).unwrap_err();
    assert_eq!(refusal.code(), "SUBSCRIPTION_NOT_FOUND");
    assert_eq!(registry.next_wake(), Some(forgotten.moment));
    registry.expire(forgotten.moment, 10);
    assert_eq!((registry.counts().expired, registry.next_wake()), (0, None));
    // Registering it again makes it anew, also for another gateway.
    register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap();
    registry.expire(at(61_000).moment, 10);
    assert!(!register(&mut registry, at(62_000), with_ttl("h", "s", 60)).unwrap().renewed);
    assert_eq!(registry.counts().expired, 0);
}

#[test]
fn deleting_is_idempotent_and_forgets_what_had_expired() {
    let mut registry = Registry::default();
    let handle = register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap().handle;
    registry.place(handle, 7, true);
    let ended = registry.delete("s", Some("g")).unwrap().unwrap();
    assert_eq!((ended.handle, ended.group, ended.expired), (handle, Some(7), false));
    assert_eq!(registry.delete("s", Some("g")), Ok(None));
    assert_eq!(registry.heartbeat(at(1), "s", None).unwrap_err().code(), "SUBSCRIPTION_NOT_FOUND");
    register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap();
    registry.expire(at(61_000).moment, 10);
    assert_eq!(registry.delete("s", Some("g")), Ok(None));
    let refusal = registry.heartbeat(at(61_001), "s", None).unwrap_err();
    assert_eq!(refusal.code(), "SUBSCRIPTION_NOT_FOUND");
}

/// Defect 9: closing a gateway took quadratic time.
#[test]
fn closing_a_gateway_ends_its_own_and_no_others() {
    let mut registry = Registry::default();
    for number in 0..10_000 {
        register(&mut registry, at(0), request("g", &format!("g-{number}"))).unwrap();
        if number % 4 == 0 {
            register(&mut registry, at(0), request("h", &format!("h-{number}"))).unwrap();
        }
    }
    registry.delete("g-5000", None).unwrap();
    let ended = registry.close_gateway("g");
    assert_eq!(ended.len(), 9_999);
    assert!(ended.iter().all(|ended| &*ended.gateway == "g" && !ended.expired));
    assert_eq!(registry.close_gateway("g").len(), 0);
    assert_eq!(registry.by_gateway().collect::<Vec<_>>(), [("h", 2_500)]);
}

/// Defect 14: registering again always failed, and anybody could renew and delete.
#[test]
fn registering_again_renews_and_owners_are_checked() {
    let mut registry = Registry::default();
    let filters = vec![clause("data.a", "==", "1"), clause("data.b", ">", "2")];
    let content = Request { filters, ..with_ttl("g", "s", 300) };
    let first = register(&mut registry, at(0), content.clone()).unwrap();
    // The same said otherwise, and another TTL.
    let same = Request {
        filters: Vec::new(),
        filter: Some("data.b > 2.0 && 1 == data.a".to_owned()),
        ttl_s: Some(60),
        ..content.clone()
    };
    let again = register(&mut registry, at(100_000), same).unwrap();
    assert!(again.renewed && again.handle == first.handle && again.created == first.created);
    assert_eq!(again.expires, at(160_000).wall);
    // A shorter TTL counts at once.
    let mut copy = Vec::new();
    copy.extend(run(&mut registry, at(159_000)));
    assert_eq!(copy, []);
    assert_eq!(run(&mut registry, at(161_500)).len(), 1);
    register(&mut registry, at(170_000), content.clone()).unwrap();
    let others = [
        Request { tenant: "other".to_owned(), ..content.clone() },
        Request { collection: "other".to_owned(), ..content.clone() },
        Request { filters: Vec::new(), ..content.clone() },
    ];
    for other in others {
        let refusal = register(&mut registry, at(171_000), other).unwrap_err();
        assert_eq!(refusal.code(), "SUBSCRIPTION_EXISTS");
    }
    let stolen = Request { gateway: "h".to_owned(), ..content };
    assert_eq!(register(&mut registry, at(171_000), stolen).unwrap_err().code(), "NOT_OWNER");
    let now = at(172_000);
    assert_eq!(registry.heartbeat(now, "s", Some("h")).unwrap_err().code(), "NOT_OWNER");
    assert_eq!(registry.delete("s", Some("h")).unwrap_err().code(), "NOT_OWNER");
    assert!(registry.heartbeat(now, "s", None).is_ok() && registry.get(now, "s").is_ok());
}

#[test]
fn what_is_past_its_deadline_is_replaced_and_reported() {
    let mut registry = Registry::new(Settings { global_max: 1, ..Settings::default() });
    let first = register(&mut registry, at(0), with_ttl("g", "s", 60)).unwrap();
    registry.place(first.handle, 3, true);
    let other = Request { tenant: "t".to_owned(), ..with_ttl("h", "s", 60) };
    let second = register(&mut registry, at(60_000), other).unwrap();
    let ended = second.ended.unwrap();
    assert!(!second.renewed && ended.expired);
    assert_eq!((ended.handle, ended.group), (first.handle, Some(3)));
    assert_ne!(second.handle, first.handle);
    assert_eq!(registry.resolve(first.handle), None);
    assert_eq!(registry.resolve(second.handle).unwrap().id, "s");
    assert_eq!(registry.by_tenant().collect::<Vec<_>>(), [("t", 1)]);
    assert_eq!(run(&mut registry, at(119_000)), []);
}

/// Defect 16: one request for every subscription, for what one can say.
#[test]
fn a_gateway_renews_all_of_its_own_at_once() {
    let mut registry = Registry::default();
    for number in 0..100 {
        let ttl = 60 + number;
        register(&mut registry, at(0), with_ttl("g", &number.to_string(), ttl)).unwrap();
    }
    register(&mut registry, at(0), with_ttl("h", "other", 60)).unwrap();
    assert_eq!(registry.heartbeat_gateway(at(50_000), "g"), 100);
    assert_eq!(registry.heartbeat_gateway(at(50_000), "nobody"), 0);
    assert_eq!(registry.counts().active, 100);
    let ended = run(&mut registry, at(300_000));
    assert_eq!(ended[0].1, "other");
    for (when, id) in &ended[1..] {
        let deadline = at(50_000 + (60 + id.parse::<u64>().unwrap()) * 1_000).moment;
        assert!(*when >= deadline && *when <= deadline.plus(LAG), "{id}");
    }
    assert_eq!(ended.len(), 101);
}

#[test]
fn an_open_stream_keeps_its_gateways_subscriptions_alive() {
    let mut registry = Registry::default();
    register(&mut registry, at(0), with_ttl("g", "late", 60)).unwrap();
    register(&mut registry, at(30_000), with_ttl("g", "s", 60)).unwrap();
    // What was past its deadline when the stream came is not brought back.
    assert_eq!(ids(&registry.open_stream(at(60_500), "g")), ["late"]);
    assert_eq!(
        registry.heartbeat(at(60_501), "late", None).unwrap_err().code(),
        "SUBSCRIPTION_EXPIRED"
    );
    assert!(registry.get(at(60_500), "s").unwrap().active);
    assert!(!registry.get(at(60_500), "s").unwrap().indexed);
    let new = register(&mut registry, at(70_000), with_ttl("g", "new", 60)).unwrap();
    assert!(registry.get(at(70_000), "new").unwrap().active && new.ended.is_none());
    registry.open_stream(at(80_000), "g");
    registry.close_stream(at(90_000), "g");
    assert_eq!(run(&mut registry, at(10_000_000)), []);
    assert_eq!(registry.heartbeat(at(10_000_000), "s", None), Ok(at(10_060_000).wall));
    registry.close_stream(at(10_000_500), "g");
    assert_eq!(run(&mut registry, at(10_060_000)), []);
    let ended = run(&mut registry, at(10_070_000));
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|(when, _)| *when <= at(10_060_500).moment.plus(LAG)));
    // A stream of a gateway without subscriptions leaves nothing behind.
    registry.open_stream(at(20_000_000), "empty");
    assert_eq!(registry.by_gateway().count(), 1);
    registry.close_stream(at(20_000_000), "empty");
    registry.close_stream(at(20_000_000), "empty");
    assert_eq!(registry.by_gateway().count(), 0);
}

#[test]
fn expiry_is_done_in_portions() {
    let mut registry = Registry::default();
    for number in 0..250 {
        register(&mut registry, at(0), with_ttl("g", &number.to_string(), 60)).unwrap();
    }
    let now = at(61_000).moment;
    let portions = [100, 100, 50, 0].map(|_| registry.expire(now, 100).len());
    assert_eq!(portions, [100, 100, 50, 0]);
}

#[test]
fn what_is_registered_can_be_seen_and_listed_in_pages() {
    let mut registry = Registry::default();
    for number in 0..25 {
        let (gateway, tenant) = (["g", "h"][number % 2], ["t", "u", "v"][number % 3]);
        let content = Request {
            tenant: tenant.to_owned(),
            filters: vec![clause("data.b", ">", "2"), clause("data.a", "==", "\"x\"")],
            ..request(gateway, &format!("s-{number}"))
        };
        register(&mut registry, at(0), content).unwrap();
    }
    let view = registry.get(at(1_000), "s-3").unwrap();
    assert_eq!((&*view.gateway, &*view.scope.tenant, view.listed), ("h", "t", true));
    assert_eq!(view.expires.since(view.created).as_secs(), 300);
    assert!(view.ttl.as_secs() == 300 && !view.active);
    let mut query = Query { page_size: 4, gateway: Some("h".to_owned()), ..Query::default() };
    let mut found = Vec::new();
    loop {
        let page = registry.list(at(1_000), &query);
        assert!(page.subscriptions.len() <= 4);
        found.extend(page.subscriptions.into_iter().map(|view| view.id));
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).filter(|n| n % 2 == 1).map(|n| format!("s-{n}")).collect();
    assert_eq!(found, expected);
    let count = |query: &Query| registry.list(at(1_000), query).subscriptions.len();
    assert_eq!(count(&Query::default()), 25);
    assert_eq!(count(&Query { tenant: Some("t".to_owned()), ..Query::default() }), 9);
    assert_eq!(count(&Query { collection: Some("x".to_owned()), ..Query::default() }), 0);
    let all = registry.list(at(300_000), &Query::default());
    assert_eq!(all.subscriptions.len(), 0);
}

#[test]
fn a_handle_never_stands_for_another_subscription() {
    let mut registry = Registry::default();
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..20_000 {
        let id = (number % 3).to_string();
        let handle = register(&mut registry, at(0), request("g", &id)).unwrap().handle;
        assert!(seen.insert(handle), "{handle:?} was used before");
        assert_eq!(
            registry.resolve(handle).map(|owned| (owned.id, &**owned.name)),
            Some((id.as_str(), "g"))
        );
        registry.delete(&id, None).unwrap();
        assert_eq!(registry.resolve(handle), None);
    }
}

//! The index against the naive evaluator, and what it promises besides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::Filter;
use domain::filter::Expression;
use domain::matching::{self, Index, Interest, RESIDUAL_MAX, Scope, Scratch, Subject, TooComplex};
use testkit::{Random, seed};

use crate::generate::{self, Sent};
use crate::naive;

fn scope(tenant: &str, collection: &str) -> Arc<Scope> {
    Arc::new(Scope { tenant: tenant.into(), collection: collection.into() })
}

fn canonical(text: &str) -> Expression {
    Filter::parse_cel("filter", text).unwrap().canonical()
}

/// Matches one record once, in order.
fn matches(index: &Index, scope: &Scope, record: &[u8]) -> Vec<u32> {
    let mut out = Vec::new();
    let subject = Subject::of(record).unwrap();
    let mut scratch = Scratch::default();
    index.matches(&scope.tenant, &scope.collection, subject, &mut scratch, &mut out).unwrap();
    out.sort_unstable();
    out
}

fn record(data: &str) -> Vec<u8> {
    Sent { attributes: BTreeMap::new(), data: data.into() }.body()
}

/// A subscription as the test knows it.
struct Held {
    scope: usize,
    filter: Option<Expression>,
    group: u32,
}

struct Model {
    scopes: Vec<Arc<Scope>>,
    index: Index,
    held: BTreeMap<u32, Held>,
    next: u32,
}

impl Model {
    fn new() -> Self {
        let scopes = [("one", "rooms"), ("two", "rooms"), ("one", "rooms/1/messages")];
        let scopes = scopes.iter().map(|(tenant, collection)| scope(tenant, collection)).collect();
        Self { scopes, index: Index::default(), held: BTreeMap::new(), next: 0 }
    }

    fn insert(&mut self, random: &mut Random) {
        let scope = random.index(self.scopes.len());
        let filter = match random.index(12) {
            0 => None,
            // The same again, so that there are groups.
            1..=3 if !self.held.is_empty() => {
                let at = random.index(self.held.len());
                self.held.values().nth(at).unwrap().filter.clone()
            }
            _ => Some(generate::filter(random)),
        };
        let text = filter.as_ref().map(Expression::cel);
        let canonical = text.map(|text| canonical_unlimited(&text));
        let placed = self.index.insert(self.next, &self.scopes[scope], canonical.as_ref()).unwrap();
        let held = self.index.filter(placed.group);
        let listed = held.as_ref().and_then(Expression::clauses);
        assert_eq!(held, canonical);
        assert_eq!(listed, canonical.as_ref().and_then(Expression::clauses));
        self.held.insert(self.next, Held { scope, filter, group: placed.group });
        self.next += 1;
    }

    fn remove(&mut self, random: &mut Random) {
        let at = random.index(self.held.len());
        let subscription = *self.held.keys().nth(at).unwrap();
        let held = self.held.remove(&subscription).unwrap();
        assert!(self.index.remove(subscription, held.group));
        assert!(!self.index.remove(subscription, held.group));
    }

    /// Compares one message; returns pairs looked at and how many of them matched.
    fn compare(&self, sent: &Sent, scratch: &mut Scratch, out: &mut Vec<u32>) -> (usize, usize) {
        let (record, data) = (sent.body(), naive::read(sent));
        let mut counts = (0, 0);
        for (number, scope) in self.scopes.iter().enumerate() {
            out.clear();
            let subject = Subject::of(&record).unwrap();
            self.index.matches(&scope.tenant, &scope.collection, subject, scratch, out).unwrap();
            out.sort_unstable();
            let own = self.held.iter().filter(|(_, held)| held.scope == number);
            let mut expected = Vec::new();
            for (subscription, held) in own {
                counts.0 += 1;
                let wanted = held
                    .filter
                    .as_ref()
                    .is_none_or(|filter| naive::matches_read(filter, sent, data.as_ref()));
                expected.extend(wanted.then_some(*subscription));
            }
            assert_eq!(*out, expected, "{}", self.explain(out, &expected, sent));
            counts.1 += expected.len();
        }
        self.check_interest(sent, &record);
        counts
    }

    fn explain(&self, found: &[u32], expected: &[u32], sent: &Sent) -> String {
        let found: BTreeSet<_> = found.iter().collect();
        let expected: BTreeSet<_> = expected.iter().collect();
        let wrong = found.symmetric_difference(&expected).map(|subscription| {
            self.held[*subscription].filter.as_ref().map_or("none".to_owned(), Expression::cel)
        });
        let wrong: Vec<String> = wrong.collect();
        format!("filters {wrong:?}\nattributes {:?}\ndata {}", sent.attributes, text(&sent.data))
    }

    /// A message that somebody wants is never dropped by the summary.
    fn check_interest(&self, sent: &Sent, record: &[u8]) {
        let mut keys = Vec::new();
        matching::keys_of(Subject::of(record).unwrap(), &mut keys).unwrap();
        for scope in &self.scopes {
            let summary = self.index.interest(&scope.tenant, &scope.collection);
            let wanted = !matches(&self.index, scope, record).is_empty();
            assert!(!wanted || summary.may_want(&keys), "{sent:?}");
        }
    }
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// Random filters may be longer than a user's.
fn canonical_unlimited(text: &str) -> Expression {
    match Filter::parse_cel("filter", text) {
        Ok(filter) => filter.canonical(),
        Err(refusal) => panic!("{text}: {refusal}"),
    }
}

/// A million pairs, or as many as `MATCHING_PAIRS` says; `TEST_SEED` begins elsewhere.
#[test]
fn the_index_finds_what_the_naive_evaluator_finds() {
    let wanted = seed::number("MATCHING_PAIRS").unwrap_or(1_000_000);
    let (mut pairs, mut matched, mut seed) = (0, 0, seed::number(seed::VARIABLE).unwrap_or(1));
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    while pairs < wanted {
        let mut random = Random::seeded(seed);
        seed::tell(seed);
        let mut model = Model::new();
        for _ in 0..200 + random.index(600) {
            model.insert(&mut random);
        }
        for step in 0..300 {
            match step % 6 {
                0 => model.insert(&mut random),
                1 => model.remove(&mut random),
                _ => {}
            }
            let sent = generate::sent(&mut random);
            let (looked_at, met) = model.compare(&sent, &mut scratch, &mut out);
            pairs += looked_at as u64;
            matched += met as u64;
        }
        while !model.held.is_empty() {
            model.remove(&mut random);
        }
        assert!(model.index.is_empty() && model.index.groups() == 0);
        seed += 1;
    }
    assert!(matched > pairs / 50, "{matched} of {pairs} matched");
}

/// Defect 7 of the source: the index knew collections without their tenant.
#[test]
fn tenants_never_cross() {
    let mut index = Index::default();
    let scopes = [scope("a", "b/c"), scope("a/b", "c"), scope("", "a/b/c"), scope("A", "b/c")];
    for (number, scope) in scopes.iter().enumerate() {
        let number = u32::try_from(number).unwrap();
        index.insert(number, scope, None).unwrap();
        index.insert(number + 10, scope, Some(&canonical("data.x == 1"))).unwrap();
    }
    for (number, scope) in scopes.iter().enumerate() {
        let number = u32::try_from(number).unwrap();
        assert_eq!(matches(&index, scope, &record(r#"{"x":1}"#)), [number, number + 10]);
    }
    assert_eq!(matches(&index, &scope("a", "b"), &record(r#"{"x":1}"#)), [0; 0]);
}

#[test]
fn data_that_is_not_json_matches_only_filters_that_do_not_look_at_it() {
    let mut index = Index::default();
    let all = scope("t", "c");
    index.insert(1, &all, None).unwrap();
    index.insert(2, &all, Some(&canonical("attributes.kind == 'new'"))).unwrap();
    index.insert(3, &all, Some(&canonical("!has(data.a)"))).unwrap();
    index.insert(4, &all, Some(&canonical("attributes.kind == 'new' || data.a == 1"))).unwrap();
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let in_member = format!("{{\"a\":1,\"b\":{deep}}}");
    for data in ["no JSON", "", "{\"a\":1}}", "{\"a\":1", "\u{0}", &deep, &in_member] {
        let attributes = [("kind".to_owned(), "new".to_owned())].into();
        let record = Sent { attributes, data: data.into() }.body();
        let start: String = data.chars().take(20).collect();
        assert_eq!(matches(&index, &all, &record), [1, 2], "{start}");
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        let subject = Subject::of(&record).unwrap();
        let matched = index.matches("t", "c", subject, &mut scratch, &mut out).unwrap();
        assert!(matched.unreadable);
    }
    let invalid = Sent { attributes: BTreeMap::new(), data: b"{\"a\":\"\xff\"}".to_vec() };
    assert_eq!(matches(&index, &all, &invalid.body()), [1]);
    // Without a filter that looks at the data, it is not read at all.
    let plain = scope("t", "plain");
    index.insert(5, &plain, Some(&canonical("attributes.kind == 'new'"))).unwrap();
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let record = record("no JSON");
    let subject = Subject::of(&record).unwrap();
    assert!(!index.matches("t", "plain", subject, &mut scratch, &mut out).unwrap().unreadable);
}

#[test]
fn an_earlier_document_is_matched_in_place_of_the_data() {
    let mut index = Index::default();
    let all = scope("t", "c");
    index.insert(1, &all, Some(&canonical("data.open"))).unwrap();
    let record = record(r#"{"open": false}"#);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let old = Subject { record: &record, data: br#"{"open": true}"# };
    index.matches("t", "c", old, &mut scratch, &mut out).unwrap();
    assert_eq!(out, [1]);
    assert_eq!(matches(&index, &all, &record), [0; 0]);
}

#[test]
fn filters_that_nothing_leads_to_are_said_to_be_and_capped() {
    let mut index = Index::default();
    let all = scope("t", "c");
    let filter = |number: u32| canonical(&format!("data.a != {number}"));
    for number in 0..RESIDUAL_MAX {
        assert!(!index.insert(number, &all, Some(&filter(number))).unwrap().indexed);
    }
    let next = RESIDUAL_MAX;
    assert_eq!(index.insert(next, &all, Some(&filter(next))), Err(TooComplex));
    // What is there already, what can be found, and other collections are not concerned.
    let again = index.insert(next, &all, Some(&filter(0))).unwrap();
    assert!(index.insert(next + 1, &all, Some(&canonical("data.a == 1"))).unwrap().indexed);
    assert!(index.insert(next + 2, &scope("t", "d"), Some(&filter(next))).is_ok());
    assert_eq!(matches(&index, &all, &record(r#"{"a": 5}"#)).len(), 1_000);
    index.remove(next, again.group);
    index.remove(0, again.group);
    assert!(index.insert(0, &all, Some(&filter(next))).is_ok());
    assert_eq!(index.insert(next, &all, Some(&filter(0))), Err(TooComplex));
    // A refusal leaves nothing behind.
    let empty = Index::default();
    assert_eq!(empty.largest(3), []);
}

/// Defects 10 and 11 of the source: a summary that misses filters, and one that is always open.
#[test]
fn the_summary_has_every_filter_and_is_open_only_where_it_must_be() {
    let number = |data: &str| {
        let mut keys = Vec::new();
        matching::keys_of(Subject::of(&record(data)).unwrap(), &mut keys).unwrap();
        keys
    };
    let cases = [
        ("data.a in [1, 2]", false, r#"{"a":2.0}"#, r#"{"a":3}"#),
        ("data.a.b == 'x'", false, r#"{"a":{"b":"\u0078"}}"#, r#"{"a.b":"x"}"#),
        ("data.n == 1000000", false, r#"{"n":1e6}"#, r#"{"n":"1000000"}"#),
        ("data.a == 1 && data.b > 5", false, r#"{"a":1}"#, r#"{"b":6}"#),
        ("data.a == 1 || data.b == 2", false, r#"{"b":2}"#, r#"{"b":1}"#),
        ("data.a != 1", true, "{}", ""),
        ("data.a.contains('x')", true, "{}", ""),
        ("data.a > 1", true, "{}", ""),
        ("data.a == 1 || data.b > 2", true, "{}", ""),
    ];
    for (text, all, wanted, unwanted) in cases {
        let mut index = Index::default();
        index.insert(1, &scope("t", "c"), Some(&canonical(text))).unwrap();
        let summary = index.interest("t", "c");
        assert_eq!(summary.match_all, all, "{text}");
        assert!(summary.may_want(&number(wanted)), "{text}");
        assert!(all || !summary.may_want(&number(unwanted)), "{text}");
    }
    let mut index = Index::default();
    index.insert(1, &scope("t", "c"), None).unwrap();
    assert!(index.interest("t", "c").match_all);
    assert!(!index.interest("t", "other").match_all);
}

#[test]
fn versions_of_the_summary_only_grow() {
    let mut index = Index::default();
    let all = scope("t", "c");
    let nothing = index.interest("t", "c").version;
    let first = index.insert(1, &all, Some(&canonical("data.a == 1"))).unwrap();
    assert!(first.interest_version > nothing);
    let other = index.insert(2, &scope("t", "d"), None).unwrap();
    assert_eq!(index.interest_version("t", "c"), first.interest_version);
    // Nothing more is wanted by a second one of the same kind.
    let same = index.insert(3, &all, Some(&canonical("1 == data.a"))).unwrap();
    assert_eq!(same, first);
    index.remove(3, same.group);
    assert_eq!(index.interest_version("t", "c"), first.interest_version);
    index.remove(1, first.group);
    let after = index.interest("t", "c");
    assert!(after.version > other.interest_version);
    assert_eq!(after.interest, Interest::Exact(Vec::new()));
    let again = index.insert(1, &all, None).unwrap();
    assert!(again.interest_version > after.version);
}

#[test]
fn the_largest_collections_are_named() {
    let mut index = Index::default();
    for subscription in 0..60 {
        let collection = ["small", "large", "large", "middle", "large", "middle"][subscription % 6];
        let subscription = u32::try_from(subscription).unwrap();
        index.insert(subscription, &scope("t", collection), None).unwrap();
    }
    let named: Vec<_> =
        index.largest(2).into_iter().map(|(s, n)| (s.collection.clone(), n)).collect();
    assert_eq!(named, [("large".into(), 30), ("middle".into(), 20)]);
    assert!((0..100).all(|tenant| matching::shard(&tenant.to_string(), "c", 16) < 16));
}

//! Measures live subscriptions on one core: how many messages a second are matched, how much
//! memory a subscription takes, how fast they come and go.
//! `cargo run --release -p postrider-domain --example live_speed`
//!
//! Times are the best of several or those of the processor, because a machine is rarely idle.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to say")]
#![allow(clippy::print_stdout, reason = "its answer")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::cast_precision_loss, reason = "far below 2^52")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use domain::filter::Clause;
use domain::live::{Registry, Request, Settings, Spec};
use domain::matching::{Index, Scratch, Subject};
use domain::{Message, Moment, Now, Offset, Timestamp, json, message};

const SUBSCRIPTIONS: usize = 100_000;
const MESSAGES: usize = 1_000;
const STATUSES: [&str; 5] = ["new", "active", "waiting", "done", "closed"];
const NOW: Now = Now { moment: Moment(1_000_000), wall: Timestamp(1_700_000_000_000_000) };

fn main() {
    let case = std::env::args().nth(1);
    // Memory is measured in a fresh process for each case.
    match case.as_deref() {
        Some(name) => measure(CASES.iter().find(|case| case.name == name).unwrap()),
        None => {
            parsing();
            for case in &CASES {
                let program = std::env::current_exe().unwrap();
                std::process::Command::new(program).arg(case.name).status().unwrap();
            }
        }
    }
}

/// One shape of subscriptions.
struct Case {
    name: &'static str,
    collection: fn(usize) -> String,
    filters: fn(usize) -> Vec<Clause>,
}

const CASES: [Case; 9] = [
    Case {
        name: "1,000 collections, status == and priority >",
        collection: thousand,
        filters: status,
    },
    Case { name: "1,000 collections, userId ==", collection: thousand, filters: user },
    Case { name: "one collection, userId ==", collection: one, filters: user },
    Case { name: "one collection, userId == and priority >", collection: one, filters: user_above },
    Case { name: "one collection, room == (1,000 values)", collection: one, filters: room },
    Case { name: "one collection, status == and 20,000 bounds", collection: one, filters: status },
    Case { name: "one collection, 50 different filters", collection: one, filters: fifty },
    Case { name: "one collection, no filter", collection: one, filters: none },
    Case {
        name: "100,000 collections, userId == and priority >",
        collection: own,
        filters: user_above,
    },
];

fn thousand(number: usize) -> String {
    format!("rooms/room-{}/messages", number % 1_000)
}

fn one(_: usize) -> String {
    "rooms/room-1/messages".to_owned()
}

fn own(number: usize) -> String {
    format!("rooms/room-{number}/messages")
}

fn clause(field: &str, op: &str, value: String) -> Clause {
    Clause { field: field.to_owned(), op: op.to_owned(), value }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Bounds so that half of a status are met.
fn status(number: usize) -> Vec<Clause> {
    let status = STATUSES[number / 1_000 % 5];
    let bound = number as f64 / SUBSCRIPTIONS as f64 * 20.0;
    let bound = clause("data.priority", ">", bound.to_string());
    vec![clause("data.status", "==", quoted(status)), bound]
}

fn user(number: usize) -> Vec<Clause> {
    vec![clause("data.userId", "==", quoted(&format!("user-{number}")))]
}

fn user_above(number: usize) -> Vec<Clause> {
    let mut filters = user(number);
    filters.push(clause("data.priority", ">", (number % 20).to_string()));
    filters
}

fn room(number: usize) -> Vec<Clause> {
    vec![clause("data.room", "==", quoted(&format!("room-{}", number % 1_000)))]
}

fn fifty(number: usize) -> Vec<Clause> {
    let status = STATUSES[number % 5];
    let bound = clause("data.priority", ">", (number / 5 % 10 * 2).to_string());
    vec![clause("data.status", "==", quoted(status)), bound]
}

fn none(_: usize) -> Vec<Clause> {
    Vec::new()
}

/// Ten fields, as a change in a chat might have.
fn data(number: usize) -> String {
    let user = number * 7_919 % SUBSCRIPTIONS;
    format!(
        r#"{{"userId":"user-{user}","room":"room-{}","status":"{}","priority":10,"title":"hello there","count":{number},"open":true,"score":1.5,"by":null,"tags":["a","b"]}}"#,
        number % 1_000,
        STATUSES[number % 5],
    )
}

fn record(number: usize) -> Vec<u8> {
    let attributes = [("tenant", "default"), ("collection", "rooms")];
    let message = Message {
        data: Bytes::from(data(number)),
        attributes: attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ordering_key: String::new(),
    };
    let mut body = Vec::new();
    message::encode(&message, Offset(7), Timestamp(1_500_000), &mut body);
    body
}

fn measure(case: &Case) {
    let records: Vec<Vec<u8>> = (0..MESSAGES).map(record).collect();
    let before = resident_bytes();
    let start = processor_s();
    let (mut registry, mut index) = (
        Registry::new(Settings { per_tenant_max: SUBSCRIPTIONS, ..Settings::default() }),
        Index::default(),
    );
    for number in 0..SUBSCRIPTIONS {
        register(&mut registry, &mut index, case, number);
    }
    let registering = processor_s() - start;
    let bytes = (resident_bytes() - before) as f64 / SUBSCRIPTIONS as f64;
    let collections: Vec<String> =
        (0..MESSAGES).map(|number| (case.collection)(number * 7_919 % SUBSCRIPTIONS)).collect();
    let (seconds, matched) = matching(&index, &collections, &records);
    let start = processor_s();
    let ended = registry.close_gateway("gateway-3");
    for ended in &ended {
        index.remove(ended.handle.0, ended.group.unwrap());
    }
    let closing = processor_s() - start;
    println!("{}", case.name);
    println!("    {bytes:.0} bytes a subscription, {} different filters", index.groups());
    println!(
        "    {:.0} messages/s matched, {:.2} µs each, {:.1} matches each",
        MESSAGES as f64 / seconds,
        seconds / MESSAGES as f64 * 1e6,
        matched as f64 / MESSAGES as f64,
    );
    println!(
        "    {:.0} registrations/s; {} of one gateway removed in {:.1} ms",
        SUBSCRIPTIONS as f64 / registering,
        ended.len(),
        closing * 1e3,
    );
}

fn register(registry: &mut Registry, index: &mut Index, case: &Case, number: usize) {
    let request = Request {
        gateway: format!("gateway-{}", number % 10),
        subscription: format!("sub-{number:08x}"),
        tenant: "default".to_owned(),
        collection: (case.collection)(number),
        filters: (case.filters)(number),
        ..Request::default()
    };
    let spec = Spec::new(request, registry.settings()).unwrap();
    let registered = registry.register(NOW, &spec).unwrap();
    let placed = index.insert(registered.handle.0, &registered.scope, spec.filter()).unwrap();
    registry.place(registered.handle, placed.group, placed.indexed);
}

/// The best time for all messages, few at a time, and how many matches they have.
fn matching(index: &Index, collections: &[String], records: &[Vec<u8>]) -> (f64, usize) {
    const FEW: usize = 20;
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let mut best = vec![f64::INFINITY; MESSAGES / FEW];
    let mut matched = 0;
    for _ in 0..50 {
        matched = 0;
        let portions = collections.chunks(FEW).zip(records.chunks(FEW));
        for (best, (collections, records)) in best.iter_mut().zip(portions) {
            let start = now_s();
            for (collection, record) in collections.iter().zip(records) {
                out.clear();
                let subject = Subject::of(record).unwrap();
                index.matches("default", collection, subject, &mut scratch, &mut out).unwrap();
                matched += black_box(&out).len();
            }
            *best = best.min(now_s() - start);
        }
    }
    (best.iter().sum(), matched)
}

/// What looking at a body costs, beside a tree of another library.
fn parsing() {
    let bodies: Vec<String> = (0..MESSAGES).map(data).collect();
    let best = |work: &dyn Fn(&str)| {
        let times = (0..100).map(|_| {
            let start = now_s();
            bodies.iter().for_each(|body| work(body));
            now_s() - start
        });
        times.fold(f64::INFINITY, f64::min) / MESSAGES as f64 * 1e6
    };
    let ours = best(&|body| {
        let members = json::open(body.as_bytes()).unwrap().unwrap();
        assert!(members.map(black_box).all(|member| member.is_ok()));
    });
    let theirs = best(&|body| {
        black_box(serde_json::from_str::<serde_json::Value>(body).unwrap());
    });
    println!(
        "a body of {} bytes: {ours:.2} µs to go through, {theirs:.2} µs as a tree",
        bodies[0].len()
    );
}

/// Time this thread has run; exact to a few milliseconds, and no matter who else runs.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn now_s() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed().as_secs_f64()
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

//! Messages a second through a sandbox, on one core, beside the null: the same with a function that
//! does nothing. `cargo run --release -p postrider-transforms --example speed`.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use transforms::{
    Bounds, Chain, Input, Metadata, Options, Program, Sandbox, Transform, Udf, Workers,
};

const TIME: Duration = Duration::from_secs(1);
const BATCH: usize = 100;
/// Started with this argument, the example is a helper.
const HELPER: &str = "helper";

const NULL: &str = "function f() {}";
const IDENTITY: &str = "function f(message) { return message; }";
const FILTER: &str =
    "function f(message) { return message.attributes.region === 'eu' ? message : null; }";
const EDIT: &str = "function f(message, metadata) {
    const data = JSON.parse(message.data);
    data.total = 100;
    message.data = JSON.stringify(data);
    message.attributes.edited = 'yes';
    return message;
}";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(HELPER) {
        return transforms::serve().unwrap();
    }
    for data in [small(), large()] {
        println!("messages of {} bytes, one sandbox, one thread:", data.len());
        for (name, codes) in [
            ("null: an empty function", vec![NULL]),
            ("identity", vec![IDENTITY]),
            ("filter by an attribute, dropped", vec![FILTER]),
            ("edit of JSON, an attribute more", vec![EDIT]),
            ("five identities", vec![IDENTITY; 5]),
        ] {
            let chain = chain(&codes);
            let mut sandbox = Sandbox::new(&chain, Bounds::default());
            let input = input(&data);
            let rate = rate(1, || {
                black_box(sandbox.run(black_box(&input)).unwrap());
            });
            println!("  {name:<34} {rate:>9.0} messages/s, {:>7.2} us", 1e6 / rate);
        }
    }
    for code in [NULL, EDIT] {
        let chain = chain(&[code]);
        let input = input(&small());
        let rate = rate(1, || {
            black_box(transforms::run(&chain, &input).unwrap());
        });
        println!("a sandbox for each message: {:.0} us", 1e6 / rate);
    }
    through_workers();
}

fn through_workers() {
    let workers = Workers::new(Program::itself(HELPER).unwrap(), Options::default()).unwrap();
    for (name, code, owners, batch) in [
        ("null, one owner, batches of 100", NULL, 1, BATCH),
        ("null, ten owners, one message at a time", NULL, 10, 1),
        ("identity, one owner, batches of 100", IDENTITY, 1, BATCH),
        ("edit, one owner, batches of 100", EDIT, 1, BATCH),
        ("edit, ten owners, batches of 100", EDIT, 10, BATCH),
        ("edit, ten owners, one message at a time", EDIT, 10, 1),
        ("edit, a hundred owners, batches of 100", EDIT, 100, BATCH),
    ] {
        let chains: Vec<_> = (0..owners).map(|_| chain(&[code])).collect();
        let names: Vec<_> = (0..owners).map(|n| format!("o{n}").into()).collect();
        let input = input(&small());
        let (sender, receiver) = channel();
        let mut at = 0;
        let mut submit = || {
            let sender = sender.clone();
            let done = move |results| drop(sender.send(results));
            let inputs = vec![input.clone(); batch];
            workers.submit(&names[at % owners], &chains[at % owners], inputs, done).unwrap();
            at += 1;
        };
        (0..20).for_each(|_| submit());
        let rate = rate(batch, || {
            black_box(receiver.recv().unwrap());
            submit();
        });
        println!("workers: {name:<40} {rate:>9.0} messages/s");
    }
}

fn rate(each: usize, mut work: impl FnMut()) -> f64 {
    for _ in 0..100 {
        work();
    }
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < TIME {
        for _ in 0..10 {
            work();
        }
        count += 10 * each;
    }
    f64::from(u32::try_from(count).unwrap()) / started.elapsed().as_secs_f64()
}

fn chain(codes: &[&str]) -> Chain {
    let udfs = codes.iter().map(|code| Transform::from(Udf::compile("f", code).unwrap()));
    Chain::new(udfs.collect()).unwrap()
}

fn small() -> String {
    r#"{"id":"order-000001","customer":"customer-000001","placed":1700000000000,"total":99.5,
    "paid":true,"lines":[{"sku":"sku-1","count":2,"price":12.5},{"sku":"sku-2","count":1}]}"#
        .to_owned()
}

fn large() -> String {
    let lines: Vec<_> = (0..200)
        .map(|n| format!(r#"{{"sku":"sku-{n:06}","count":{n},"price":12.5,"name":"a thing"}}"#))
        .collect();
    format!(r#"{{"id":"order-000001","total":99.5,"lines":[{}]}}"#, lines.join(","))
}

fn input(data: &str) -> Input {
    let attributes = [("region", "us"), ("kind", "order"), ("source", "web")];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let metadata = Metadata {
        message_id: Some("1234567".to_owned()),
        publish_time: Some("2026-11-16T20:00:00Z".to_owned()),
        ordering_key: None,
    };
    let attributes = attributes.into_iter().map(owned).collect();
    Input { data: data.to_owned().into(), attributes, metadata }
}

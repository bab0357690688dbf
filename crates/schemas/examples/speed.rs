//! How long a check takes: nanoseconds for a message of about 1 KiB, beside what the libraries
//! take that build what they read. `cargo run --release -p postrider-schemas --example speed`.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use schemas::{Compiled, Encoding, Kind};

const PROTOBUF: &str = "syntax = 'proto3'; message Order {
    string id = 1; string customer = 2; int64 placed = 3; double total = 4; bool paid = 5;
    State state = 6; repeated Line lines = 7; map<string, string> labels = 8; string note = 9;
    enum State { NEW = 0; DONE = 1; }
    message Line { string sku = 1; int32 count = 2; double price = 3; string name = 4; } }";

const AVRO: &str = r#"{"type":"record","name":"Order","fields":[
    {"name":"id","type":"string"},{"name":"customer","type":"string"},
    {"name":"placed","type":"long"},{"name":"total","type":"double"},
    {"name":"paid","type":"boolean"},
    {"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","DONE"]}},
    {"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
        {"name":"sku","type":"string"},{"name":"count","type":"int"},
        {"name":"price","type":"double"},{"name":"name","type":"string"}]}}},
    {"name":"labels","type":{"type":"map","values":"string"}},
    {"name":"note","type":["null","string"],"default":null}]}"#;

/// An order in JSON; `note` is as the two languages differ.
fn json(lines: usize, note: &str) -> String {
    let line = |n: usize| {
        format!(
            r#"{{"sku":"sku-{n:06}","count":{n},"price":12.5,"name":"a thing of some kind, {n}"}}"#
        )
    };
    let lines: Vec<_> = (0..lines).map(line).collect();
    format!(
        r#"{{"id":"order-000001","customer":"customer-000001","placed":1700000000000,
        "total":99.5,"paid":true,"state":"DONE","lines":[{}],
        "labels":{{"region":"europe","channel":"web"}},"note":{note}}}"#,
        lines.join(",")
    )
}

fn avro_value(lines: usize) -> Value {
    let text = |text: &str| Value::String(text.to_owned());
    let line = |n: usize| {
        Value::Record(vec![
            ("sku".into(), text(&format!("sku-{n:06}"))),
            ("count".into(), Value::Int(i32::try_from(n).unwrap())),
            ("price".into(), Value::Double(12.5)),
            ("name".into(), text(&format!("a thing of some kind, {n}"))),
        ])
    };
    let labels = [("region".to_owned(), text("europe")), ("channel".to_owned(), text("web"))];
    Value::Record(vec![
        ("id".into(), text("order-000001")),
        ("customer".into(), text("customer-000001")),
        ("placed".into(), Value::Long(1_700_000_000_000)),
        ("total".into(), Value::Double(99.5)),
        ("paid".into(), Value::Boolean(true)),
        ("state".into(), Value::Enum(1, "DONE".into())),
        ("lines".into(), Value::Array((0..lines).map(line).collect())),
        ("labels".into(), Value::Map(labels.into_iter().collect())),
        ("note".into(), Value::Union(1, Box::new(text("leave it at the door")))),
    ])
}

fn descriptor() -> MessageDescriptor {
    struct Files;
    impl protox::file::FileResolver for Files {
        fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
            protox::file::File::from_source(name, PROTOBUF)
        }
        fn resolve_path(&self, path: &std::path::Path) -> Option<String> {
            path.to_str().map(str::to_owned)
        }
    }
    let mut compiler = protox::Compiler::with_file_resolver(Files);
    let pool = compiler.open_file("order.proto").unwrap().descriptor_pool();
    pool.get_message_by_name("Order").unwrap()
}

/// The best of several rounds, in nanoseconds.
fn time(mut run: impl FnMut()) -> u128 {
    const RUNS: u32 = 2_000;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..RUNS {
            run();
        }
        start.elapsed() / RUNS
    };
    (0..20).map(round).min().unwrap_or(Duration::ZERO).as_nanos()
}

fn report(what: &str, bytes: usize, ours: impl FnMut(), theirs: Option<&mut dyn FnMut()>) {
    let ours = time(ours);
    let theirs = theirs.map_or_else(|| "-".to_owned(), |theirs| time(theirs).to_string());
    println!("{what:18} {bytes:5} bytes {ours:7} ns, built {theirs:>7} ns");
}

fn main() {
    let avro = Compiled::new(Kind::Avro, AVRO).unwrap();
    let protobuf = Compiled::new(Kind::Protobuf, PROTOBUF).unwrap();
    let check = |compiled: &Compiled, encoding, message: &[u8]| {
        compiled.check(black_box(encoding), black_box(message)).unwrap();
    };

    let schema = apache_avro::Schema::parse_str(AVRO).unwrap();
    let writer = GenericDatumWriter::builder(&schema).build().unwrap();
    let binary = writer.write_value_to_vec(avro_value(19)).unwrap();
    let reader = GenericDatumReader::builder(&schema).build().unwrap();
    let mut built = || drop(black_box(reader.read_value(&mut binary.as_slice()).unwrap()));
    let ours = || check(&avro, Encoding::Binary, &binary);
    report("avro binary", binary.len(), ours, Some(&mut built));

    let text = json(10, r#"{"string":"leave it at the door"}"#);
    let ours = || check(&avro, Encoding::Json, text.as_bytes());
    report("avro json", text.len(), ours, None);

    let text = json(17, r#""leave it at the door""#);
    let descriptor = descriptor();
    let mut parser = serde_json::Deserializer::from_str(&text);
    let message = DynamicMessage::deserialize(descriptor.clone(), &mut parser).unwrap();
    let binary = message.encode_to_vec();
    let mut built = || {
        let message = DynamicMessage::decode(descriptor.clone(), binary.as_slice());
        drop(black_box(message.unwrap()));
    };
    let ours = || check(&protobuf, Encoding::Binary, &binary);
    report("protobuf binary", binary.len(), ours, Some(&mut built));

    let text = json(10, r#""leave it at the door""#);
    let mut built = || {
        let mut parser = serde_json::Deserializer::from_str(&text);
        let message = DynamicMessage::deserialize(descriptor.clone(), &mut parser);
        drop(black_box(message.unwrap()));
    };
    let ours = || check(&protobuf, Encoding::Json, text.as_bytes());
    report("protobuf json", text.len(), ours, Some(&mut built));

    let compile = || drop(black_box(Compiled::new(Kind::Avro, black_box(AVRO)).unwrap()));
    report("avro compile", AVRO.len(), compile, None);
    let compile = || drop(black_box(Compiled::new(Kind::Protobuf, black_box(PROTOBUF)).unwrap()));
    report("protobuf compile", PROTOBUF.len(), compile, None);
}

//! Other libraries' opinions: what is accepted here, they accept too, and the other way round.

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use schemas::{Compiled, Encoding, Kind, Problem};

const AVRO: &str = r#"{"type":"record","name":"R","fields":[
    {"name":"s","type":"string"},{"name":"i","type":"int"},{"name":"l","type":"long"},
    {"name":"f","type":"float"},{"name":"d","type":"double"},{"name":"b","type":"bytes"},
    {"name":"x","type":{"type":"fixed","name":"F","size":3}},
    {"name":"e","type":{"type":"enum","name":"E","symbols":["A","B","C"]}},
    {"name":"a","type":{"type":"array","items":"long"}},
    {"name":"m","type":{"type":"map","values":"string"}},
    {"name":"u","type":["string","null","long"]}]}"#;

prop_compose! {
    fn record()(
        s in ".*", i in any::<i32>(), l in any::<i64>(), f in any::<f32>(), d in any::<f64>(),
        b in any::<Vec<u8>>(), x in any::<[u8; 3]>(), e in 0_u32..3,
        a in prop::collection::vec(any::<i64>(), 0..5),
        m in prop::collection::hash_map(".*", ".*", 0..4), u in 0_u32..3,
    ) -> Value {
        let symbol = ["A", "B", "C"][e as usize].to_owned();
        let union = match u {
            0 => Value::String(s.clone()),
            1 => Value::Null,
            _ => Value::Long(l),
        };
        Value::Record(vec![
            ("s".into(), Value::String(s)), ("i".into(), Value::Int(i)),
            ("l".into(), Value::Long(l)), ("f".into(), Value::Float(f)),
            ("d".into(), Value::Double(d)), ("b".into(), Value::Bytes(b)),
            ("x".into(), Value::Fixed(3, x.to_vec())), ("e".into(), Value::Enum(e, symbol)),
            ("a".into(), Value::Array(a.into_iter().map(Value::Long).collect())),
            ("m".into(), Value::Map(m.into_iter().map(|(k, v)| (k, Value::String(v))).collect())),
            ("u".into(), Value::Union(u, Box::new(union))),
        ])
    }
}

/// Bytes with a few of them changed, put in or taken out.
fn damaged(mut bytes: Vec<u8>, damage: &[(u8, prop::sample::Index, u8)]) -> Vec<u8> {
    for (how, at, byte) in damage {
        if bytes.is_empty() {
            break;
        }
        let at = at.index(bytes.len());
        match how % 3 {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

fn damage() -> impl Strategy<Value = Vec<(u8, prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(u8, prop::sample::Index, u8)>(), 0..4)
}

const PROTOBUF: &str = "syntax = 'proto3'; message M {
    string s = 1; int32 i = 2; int64 l = 3; float f = 4; double d = 5; bytes b = 6; E e = 7;
    repeated int64 a = 8; map<string, string> m = 9; repeated M n = 10; bool o = 11; sint32 z = 12;
    fixed32 x = 13; sfixed64 y = 14; uint32 u = 15; oneof c { string ca = 16; M cb = 17; }
    optional uint64 w = 18; map<int32, M> mm = 19; repeated string rs = 20;
    enum E { A = 0; B = 1; } }";

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
    let pool: DescriptorPool = compiler.open_file("m.proto").unwrap().descriptor_pool();
    pool.get_message_by_name("M").unwrap()
}

const JSON: [&str; 4] = [
    r#"{"s":"a","i":1,"l":"2","f":1.5,"d":"NaN","b":"YWI=","e":"B","a":[1,"2"],"m":{"k":"v"}}"#,
    r#"{"n":[{"o":true,"z":-1,"x":3,"y":"-4"},{}],"u":4294967295,"ca":"c","w":"5","rs":["x"]}"#,
    r#"{"cb":{"mm":{"-1":{"s":""}}},"e":1,"i":1e2,"n":[]}"#,
    r#"{"s":null,"w":null,"m":{},"ca":null,"cb":{}}"#,
];

/// Whether a message is refused here for a reason that others let pass.
fn is_about(ours: &Result<(), Problem>, parts: &[&str]) -> bool {
    let is_known = |problem: &Problem| parts.iter().any(|part| problem.what.contains(part));
    ours.as_ref().is_err_and(is_known)
}

proptest! {
    #[test]
    fn avro_as_apache_avro_reads_it(value in record(), damage in damage()) {
        let schema = Schema::parse_str(AVRO).unwrap();
        let compiled = Compiled::new(Kind::Avro, AVRO).unwrap();
        let good = GenericDatumWriter::builder(&schema).build().unwrap();
        let good = good.write_value_to_vec(value).unwrap();
        prop_assert!(compiled.check(Encoding::Binary, &good).is_ok());
        let bytes = damaged(good, &damage);
        let mut rest = bytes.as_slice();
        let reader = GenericDatumReader::builder(&schema).build().unwrap();
        let theirs = reader.read_value(&mut rest).is_ok() && rest.is_empty();
        let ours = compiled.check(Encoding::Binary, &bytes);
        // They take a block's length on trust, cut numbers to 64 bits, and take a union or string
        // that the message ends in for null.
        let known = ["block", "64 bits", "are left", "ends within a number"];
        let is_known = is_about(&ours, &known);
        prop_assert!(theirs == ours.is_ok() || is_known, "{bytes:?}: {ours:?}");
    }

    #[test]
    fn protobuf_as_prost_reads_it(seed in 0..JSON.len(), damage in damage()) {
        let descriptor = descriptor();
        let compiled = Compiled::new(Kind::Protobuf, PROTOBUF).unwrap();
        let mut parser = serde_json::Deserializer::from_str(JSON[seed]);
        let message = DynamicMessage::deserialize(descriptor.clone(), &mut parser).unwrap();
        let bytes = damaged(message.encode_to_vec(), &damage);
        let ours = compiled.check(Encoding::Binary, &bytes);
        let theirs = DynamicMessage::decode(descriptor, bytes.as_slice());
        // They read an entry of a map whatever its wire type is.
        let is_known = is_about(&ours, &["for message", "the end of a group"]);
        prop_assert!(theirs.is_ok() == ours.is_ok() || is_known, "{:?}: {:?}", bytes, ours);
    }

    #[test]
    fn protobufs_json_as_prost_reflect_reads_it(seed in 0..JSON.len(), damage in damage()) {
        let descriptor = descriptor();
        let compiled = Compiled::new(Kind::Protobuf, PROTOBUF).unwrap();
        let bytes = damaged(JSON[seed].as_bytes().to_vec(), &damage);
        let ours = compiled.check(Encoding::Json, &bytes);
        let mut parser = serde_json::Deserializer::from_slice(&bytes);
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let theirs = DynamicMessage::deserialize_with_options(descriptor, &mut parser, &options)
            .and_then(|message| parser.end().map(|()| message));
        let shown = String::from_utf8_lossy(&bytes);
        // They do not count the padding of base64, and the last of two fields counts.
        let is_known = is_about(&ours, &["expected bytes", "twice"]);
        prop_assert!(theirs.is_ok() == ours.is_ok() || is_known, "{}: {:?}", shown, ours);
    }
}

//! Definitions of schemas, and messages checked against them.

use std::sync::LazyLock;

use schemas::{Compiled, Encoding, Kind, Problem};

/// What problems may quote of an input, at most, in characters.
const SAID_CHARS_MAX: usize = 700;

/// Any text as an Avro definition.
pub(super) fn avro_definition(input: &[u8]) -> String {
    definition(Kind::Avro, input)
}

/// Any text as a Protobuf definition.
pub(super) fn protobuf_definition(input: &[u8]) -> String {
    definition(Kind::Protobuf, input)
}

/// Any bytes as a message of an Avro schema.
pub(super) fn avro_message(input: &[u8]) -> String {
    static SCHEMA: LazyLock<Option<Compiled>> =
        LazyLock::new(|| Compiled::new(Kind::Avro, AVRO).ok());
    messages(SCHEMA.as_ref(), input)
}

/// Any bytes as a message of a Protobuf schema.
pub(super) fn protobuf_message(input: &[u8]) -> String {
    static SCHEMA: LazyLock<Option<Compiled>> =
        LazyLock::new(|| Compiled::new(Kind::Protobuf, PROTOBUF).ok());
    messages(SCHEMA.as_ref(), input)
}

/// A definition that is good goes with itself, and answers any message.
fn definition(kind: Kind, input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let compiled = match Compiled::new(kind, &text) {
        Ok(compiled) => compiled,
        Err(problem) => {
            if let Some((line, _)) = problem.place.line {
                assert!(line <= text.lines().count() + 1, "{problem}");
            }
            return said(&problem);
        }
    };
    let beside = compiled.check_beside(&compiled);
    assert!(beside.is_ok(), "{beside:?}");
    format!("read; {}", messages(Some(&compiled), input))
}

fn messages(compiled: Option<&Compiled>, input: &[u8]) -> String {
    let compiled = compiled.unwrap_or_else(|| unreachable!("the schema is good"));
    let check = |encoding| match compiled.check(encoding, input) {
        Ok(()) => "good".to_owned(),
        Err(problem) => {
            assert!(problem.place.byte.is_none_or(|byte| byte <= input.len()), "{problem}");
            said(&problem)
        }
    };
    format!("{}; {}", check(Encoding::Binary), check(Encoding::Json))
}

fn said(problem: &Problem) -> String {
    let said = problem.to_string();
    assert!(said.chars().count() <= SAID_CHARS_MAX, "{said}");
    // Without what is quoted without quotes: a driver builds on every answer that is new to it.
    match said.split_once("unknown syntax") {
        Some((place, _)) => format!("{place}unknown syntax"),
        None => said,
    }
}

const AVRO: &str = r#"{"type":"record","name":"a.R","fields":[
    {"name":"u","type":["null","string","a.R",{"type":"fixed","name":"F","size":2}]},
    {"name":"a","type":{"type":"array","items":["null","a.R"]}},
    {"name":"m","type":{"type":"map","values":"double"}},
    {"name":"z","type":{"type":"array","items":"null"}},
    {"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},
    {"name":"i","type":"int"},{"name":"b","type":"bytes"},{"name":"o","type":"boolean"}]}"#;

const PROTOBUF: &str = "syntax = 'proto2'; import 'google/protobuf/timestamp.proto';
    import 'google/protobuf/duration.proto'; import 'google/protobuf/struct.proto';
    import 'google/protobuf/any.proto'; import 'google/protobuf/wrappers.proto';
    import 'google/protobuf/field_mask.proto';
    message M {
        optional string s = 1; optional M m = 2; repeated int32 r = 3 [packed = true];
        repeated group G = 4 { required bool b = 1; optional M m = 2; }
        map<int32, M> e = 5; optional google.protobuf.Timestamp t = 6;
        optional google.protobuf.Duration d = 7; optional google.protobuf.Struct x = 8;
        optional google.protobuf.Any a = 9; optional google.protobuf.DoubleValue w = 10;
        optional google.protobuf.FieldMask f = 11; oneof o { fixed64 p = 12; bytes q = 13; }
        optional E n = 14; enum E { ZERO = 0; ONE = 1; } }";

pub(super) const AVRO_DEFINITIONS: &[&[u8]] = &[
    AVRO.as_bytes(),
    br#"{"type":"record","name":"R","namespace":"x","aliases":["S"],"fields":[
        {"name":"a","type":["null","R"],"default":null,"aliases":["b"]},
        {"name":"n","type":{"type":"fixed","name":"y.R","size":0},"default":""}]}"#,
    br#"{"type":"map","values":{"type":"enum","name":"E","symbols":["A"],"default":"A"}}"#,
    br#"{"type":{"type":"bytes","logicalType":"decimal","precision":4}}"#,
];

pub(super) const AVRO_WORDS: &[&str] = &[
    "\"type\":",
    "\"record\"",
    "\"fields\":[",
    "\"array\",\"items\":",
    "\"map\",\"values\":",
    "[\"null\",\"R\"]",
    "\"default\":",
    "\"namespace\":\"x.y\"",
    "\"name\":\"R\"",
    "\"aliases\":[\"A\"]",
    "{}",
    "-1",
    "18446744073709551615",
];

pub(super) const AVRO_MESSAGES: &[&[u8]] = &[
    b"\x02\x02x\x02\0\0\x02\x02k\0\0\0\0\0\0\0\0\0\x80\x08\0\x02\x01\x02\xff\x01",
    b"\x00\x01\x02\0\0\0\0\0\0\0\0\0",
    br#"{"u":{"string":"x"},"a":[null],"m":{"k":1.5},"z":[null],"e":"A","i":-1,"b":"\u00ff",
        "o":true}"#,
    br#"{"u":{"a.F":"ab"},"a":[],"m":{},"z":[],"e":"B","i":0,"b":"","o":false}"#,
];

pub(super) const AVRO_MESSAGE_WORDS: &[&str] = &[
    "\x7f",
    "{\"a.R\":",
    "{\"string\":\"\"}",
    "null",
    "\u{ff}\u{ff}\u{ff}\u{ff}\x0f",
    "\\u00ff",
    "[",
    "}",
    "1e999",
];

pub(super) const PROTOBUF_DEFINITIONS: &[&[u8]] = &[
    PROTOBUF.as_bytes(),
    b"syntax = \"proto3\"; package a.b; /* c */ message M { string a = 1 [json_name = \"x\"]; }",
    b"syntax = 'proto2'; message M { required int32 a = 1 [default = -5]; reserved 2 to 4; \
      extensions 100 to max; option deprecated = true; } extend M { optional M m = 100; }",
];

pub(super) const PROTOBUF_WORDS: &[&str] = &[
    "message N {",
    "}",
    "enum E { A = 0; }",
    "repeated ",
    "optional ",
    "required ",
    "oneof o { ",
    "map<string, M> m = 9;",
    "group G = 7 {",
    "option (x) = { a: {",
    "import 'google/protobuf/descriptor.proto';",
    "syntax = 'proto3';",
    "536870911",
    "/*",
    "\"",
    "\\777",
];

pub(super) const PROTOBUF_MESSAGES: &[&[u8]] = &[
    b"\x0a\x01a\x12\x02\x18\x01\x1a\x02\x01\x02\x23\x08\x01\x24\x2a\x04\x08\x01\x12\x00",
    b"\x32\x02\x08\x01\x61\0\0\0\0\0\0\0\0\x70\x01\xf8\x07\x01",
    br#"{"s":"a","m":{"r":[1,"2"]},"g":[{"b":true}],"e":{"-1":{}},"p":"7","n":"ONE"}"#,
    br#"{"t":"2026-01-02T03:04:05.6Z","d":"-1.5s","x":{"a":[null]},"w":"NaN","f":"a.b,c",
        "a":{"@type":"x/y.Z"},"q":"YQ=="}"#,
];

pub(super) const PROTOBUF_MESSAGE_WORDS: &[&str] = &[
    "\x23",
    "\x24",
    "\x12\x7f",
    "\u{ff}\u{ff}\u{ff}\u{ff}\x0f",
    "{\"m\":",
    "null",
    "\"1e3\"",
    "9999-12-31T23:59:59Z",
    "[",
    "}",
];

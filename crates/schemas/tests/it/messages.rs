//! Messages, good and bad, in both languages and encodings; of the bad ones, what is said.

use schemas::{Compiled, Encoding, Kind};

const ORDER: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[
    {"name":"id","type":"string"},
    {"name":"count","type":"int"},
    {"name":"total","type":"long","default":0},
    {"name":"price","type":"double"},
    {"name":"paid","type":"boolean"},
    {"name":"raw","type":"bytes"},
    {"name":"hash","type":{"type":"fixed","name":"Hash","size":2}},
    {"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","DONE"]}},
    {"name":"lines","type":{"type":"array","items":"string"}},
    {"name":"tags","type":{"type":"map","values":"int"}},
    {"name":"note","type":["null","string",{"type":"record","name":"Note","fields":
        [{"name":"text","type":"string"}]}],"default":null}
]}"#;

/// The fields of an order in JSON, each replaced by what `change` has for it.
fn order(change: &[(&str, &str)]) -> String {
    let fields = [
        ("id", r#""a""#),
        ("count", "1"),
        ("total", "2"),
        ("price", "1.5"),
        ("paid", "true"),
        ("raw", r#""\u00ff""#),
        ("hash", r#""ab""#),
        ("state", r#""NEW""#),
        ("lines", r#"["x","y"]"#),
        ("tags", r#"{"a":1}"#),
        ("note", "null"),
    ];
    let fields = fields.iter().filter_map(|(name, value)| {
        let changed = change.iter().find(|(changed, _)| changed == name);
        let value = changed.map_or(*value, |(_, value)| value);
        (value != "-").then(|| format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn hold(compiled: &Compiled, encoding: Encoding, message: &[u8], said: &str) {
    let answer = match compiled.check(encoding, message) {
        Ok(()) => "good".to_owned(),
        Err(problem) => problem.to_string(),
    };
    let is_said = if said == "good" { answer == said } else { answer.contains(said) };
    let shown = String::from_utf8_lossy(message);
    assert!(is_said, "{shown}\nsaid: {answer}\nnot:  {said}");
}

#[test]
fn avro_in_json() {
    let compiled = Compiled::new(Kind::Avro, ORDER).unwrap();
    for (change, said) in [
        (&[][..], "good"),
        (&[("note", r#"{"string":"x"}"#)], "good"),
        (&[("note", r#"{"shop.Note":{"text":"x"}}"#)], "good"),
        (&[("price", "2")], "good"),
        (&[("raw", r#""""#), ("lines", "[]"), ("tags", "{}")], "good"),
        (&[("total", "9223372036854775807")], "good"),
        (&[("id", "1")], "id: invalid type: integer `1`, expected string"),
        (&[("id", "null")], "id: invalid type: null, expected string"),
        (&[("count", "2147483648")], "count: invalid value: integer `2147483648`, expected int"),
        (&[("count", "1.0")], "count: invalid type: floating point"),
        (&[("count", r#""1""#)], "count: a text, expected int"),
        (&[("total", "9223372036854775808")], "total: invalid value"),
        (&[("total", "-")], "field \"total\" is missing"),
        (&[("price", r#""NaN""#)], "price: a text, expected double"),
        (&[("paid", "1")], "paid: invalid type"),
        (&[("raw", r#""Ā""#)], "raw: \"Ā\", expected bytes"),
        (&[("hash", r#""abc""#)], "hash: \"abc\", expected shop.Hash of 2 bytes"),
        (&[("state", r#""OLD""#)], "state: \"OLD\", expected a symbol of shop.State"),
        (&[("lines", r#"["x",1]"#)], "lines[1]: invalid type"),
        (&[("lines", "{}")], "lines: invalid type: map, expected array"),
        (&[("tags", r#"{"a":1,"b":"c"}"#)], "tags[1]: a text, expected int"),
        (&[("note", r#""x""#)], "note: a text, expected a union"),
        (&[("note", r#"{"text":"x"}"#)], "note: the union has no branch \"text\""),
        (&[("note", r#"{"null":null}"#)], "note: the union has no branch \"null\""),
        (&[("note", r#"{"string":"x","shop.Note":{"text":"x"}}"#)], "note: invalid length 2"),
        (&[("note", "{}")], "note: invalid length 0"),
        (&[("note", r#"{"shop.Note":{"text":1}}"#)], "note.shop.Note.text: invalid type"),
        (&[("note", r#"null,"more":1"#)], "record shop.Order has no field \"more\""),
        (&[("note", r#"null,"id":"b""#)], "field \"id\" twice"),
    ] {
        hold(&compiled, Encoding::Json, order(change).as_bytes(), said);
    }
    for (message, said) in [
        ("", "EOF while parsing"),
        ("{}", "field \"id\" is missing"),
        ("[]", "invalid type: sequence, expected record shop.Order"),
        ("{\"id\":\"a\",\n\"count\":x}", "line 2, column 9"),
    ] {
        hold(&compiled, Encoding::Json, message.as_bytes(), said);
    }
    hold(&compiled, Encoding::Json, format!("{} 1", order(&[])).as_bytes(), "trailing characters");
    hold(&compiled, Encoding::Json, b"{\"id\":\"\xff\"}", "id: invalid unicode");
}

#[test]
fn avro_in_binary() {
    let compiled = Compiled::new(Kind::Avro, ORDER).unwrap();
    // id, count, total, price, paid, raw, hash, state, lines, tags, note
    let parts: [&[u8]; 11] = [
        b"\x02a",
        b"\x02",
        b"\x04",
        b"\0\0\0\0\0\0\xf8\x3f",
        b"\x01",
        b"\x02\xff",
        b"ab",
        b"\0",
        b"\x04\x02x\x02y\0",
        b"\x02\x02a\x02\0",
        b"\0",
    ];
    for (index, part, said) in [
        (0, parts[0], "good"),
        (8, b"\x03\x08\x02x\x02y\0", "good"),
        (8, b"\x02\x02x\x02\x02y\0", "good"),
        (10, b"\x02\x02x", "good"),
        (10, b"\x04\x02x", "good"),
        (1, b"\xff\xff\xff\xff\x0f", "good"),
        (0, b"\x02\xff", "byte 1: id: a string is not UTF-8"),
        (0, b"\x80\x80\x01a", "byte 0: id: a string of 8192 bytes, but"),
        (0, b"\x01", "id: a string of -1 bytes"),
        (1, b"\xff\xff\xff\xff\x1f", "byte 2: count: a number too large for an int"),
        (2, &[0xff; 11], "total: a number of more than 64 bits"),
        (4, b"\x02", "paid: a boolean is 0 or 1"),
        (7, b"\x04", "state: index 2 of an enum, which has 2"),
        (8, b"\x03\x0a\x02x\x02y\0", "lines: a block does not end where it says"),
        (8, b"\x04\x02x\x02\xff\0", "lines[1]: a string is not UTF-8"),
        (8, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "lines: a block of 9223372036854775807"),
        (8, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "lines: a block of 9223372036854775808"),
        (10, b"\x06", "note: index 3 of a union, which has 3"),
        (10, b"\x01", "note: index -1 of a union"),
        (10, b"", "note: the message ends within a number"),
        (10, b"\0\0", "byte 30: 1 more bytes than the schema asks for"),
    ] {
        let mut parts = parts;
        parts[index] = part;
        hold(&compiled, Encoding::Binary, &parts.concat(), said);
    }
    hold(&compiled, Encoding::Binary, b"", "byte 0: id: the message ends within a number");
}

const EVENT: &str = "syntax = 'proto3';
    import 'google/protobuf/timestamp.proto';
    import 'google/protobuf/duration.proto';
    import 'google/protobuf/struct.proto';
    import 'google/protobuf/wrappers.proto';
    import 'google/protobuf/any.proto';
    import 'google/protobuf/field_mask.proto';
    import 'google/protobuf/empty.proto';
    message Event {
        string display_name = 1; int32 count = 2; uint64 big = 3; double price = 4; bool on = 5;
        bytes raw = 6; State state = 7; repeated int32 numbers = 8; map<int32, string> names = 9;
        Event inner = 10; oneof choice { string left = 11; int32 right = 12; }
        google.protobuf.Timestamp at = 13; google.protobuf.Duration took = 14;
        google.protobuf.Struct extra = 15; google.protobuf.Int64Value maybe = 16;
        google.protobuf.Any any = 17; google.protobuf.FieldMask mask = 18;
        google.protobuf.Value value = 19; google.protobuf.ListValue list = 20;
        google.protobuf.NullValue nothing = 21; google.protobuf.Empty empty = 22; float f = 23;
        fixed32 four = 24; repeated Event inners = 25;
        enum State { UNKNOWN = 0; KNOWN = 1; }
    }";

#[test]
fn protobuf_in_json() {
    let compiled = Compiled::new(Kind::Protobuf, EVENT).unwrap();
    for (message, said) in [
        ("{}", "good"),
        (r#"{"displayName":"a","count":-1,"big":"18446744073709551615","price":1}"#, "good"),
        (r#"{"display_name":"a","on":true,"raw":"YQ==","state":"KNOWN","f":"NaN"}"#, "good"),
        (r#"{"state":1,"numbers":[1,"2",3.0],"names":{"1":"a"},"inner":{"inner":{}}}"#, "good"),
        (r#"{"left":"a","right":null,"inner":null,"numbers":null}"#, "good"),
        (r#"{"at":"2026-01-02T03:04:05.678Z","took":"-1.5s","mask":"a.bC,d"}"#, "good"),
        (r#"{"extra":{"a":[1,{"b":null}]},"value":[null],"list":[1,"a"],"maybe":"5"}"#, "good"),
        (r#"{"any":{"@type":"type.googleapis.com/a.B","x":1},"nothing":null,"empty":{}}"#, "good"),
        ("null", "invalid type: null, expected Event"),
        ("[]", "invalid type: sequence, expected Event"),
        (r#"{"nobody":1}"#, "message Event has no field \"nobody\""),
        (r#"{"count":2147483648}"#, "count: invalid type: integer `2147483648`, expected int32"),
        (r#"{"count":1.5}"#, "count: invalid type: floating point `1.5`, expected int32"),
        (r#"{"count":"1x"}"#, "count: \"1x\", expected int32"),
        (r#"{"big":-1}"#, "big: invalid type"),
        (r#"{"on":"true"}"#, "on: \"true\", expected bool"),
        (r#"{"raw":"Y"}"#, "raw: \"Y\", expected bytes"),
        (r#"{"state":"OTHER"}"#, "state: \"OTHER\", expected enum"),
        (r#"{"numbers":[1,null]}"#, "numbers[1]: invalid type: null"),
        (r#"{"numbers":1}"#, "numbers: invalid type: integer `1`, expected a list of int32"),
        (r#"{"names":{"x":"a"}}"#, "key \"x\" is not int32"),
        (r#"{"names":{"1":2}}"#, "names[0]: invalid type"),
        (r#"{"left":"a","right":1}"#, "field right of a oneof beside another of it"),
        (r#"{"displayName":"a","display_name":"b"}"#, "field display_name twice"),
        (
            r#"{"inner":{"inners":[{},{"count":""}]}}"#,
            "inner.inners[1].count: \"\", expected int32",
        ),
        (r#"{"at":"yesterday"}"#, "at: \"yesterday\", expected google.protobuf.Timestamp"),
        (r#"{"at":{"seconds":1}}"#, "at: invalid type: map"),
        (r#"{"took":"1"}"#, "took: \"1\", expected google.protobuf.Duration"),
        (r#"{"maybe":{"value":1}}"#, "maybe: invalid type: map"),
        (r#"{"any":{}}"#, "any: \"@type\" is missing"),
        (r#"{"any":{"@type":"x"}}"#, "any: \"x\" names no type"),
        (r#"{"extra":[]}"#, "extra: invalid type: sequence"),
        (r#"{"empty":{"a":1}}"#, "message google.protobuf.Empty has no field"),
        (r#"{"f":1e39}"#, "f: invalid type"),
        ("{\n\"count\":}", "line 2, column 9"),
        ("{} {}", "trailing characters"),
    ] {
        hold(&compiled, Encoding::Json, message.as_bytes(), said);
    }
}

#[test]
fn protobuf_in_binary() {
    let compiled = Compiled::new(Kind::Protobuf, EVENT).unwrap();
    for (message, said) in [
        (&b""[..], "good"),
        (b"\x0a\x01a\x10\x01\x18\x02\x21\0\0\0\0\0\0\0\0\x28\x01", "good"),
        (b"\x42\x02\x01\x02", "good"),
        (b"\x40\x01\x40\x02", "good"),
        (b"\x4a\x05\x08\x01\x12\x01a", "good"),
        (b"\x52\x04\x52\x02\x10\x01", "good"),
        (b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "good"),
        // Unknown fields of every wire type.
        (b"\xf8\x3f\x01\xf9\x3f\0\0\0\0\0\0\0\0\xfa\x3f\x01x\xfd\x3f\0\0\0\0", "good"),
        (b"\xfb\x3f\x08\x01\xfc\x3f", "good"),
        (b"\x0a\x01\xff", "byte 2: display_name: a string is not UTF-8"),
        (b"\x0a\x05a", "byte 1: display_name: 5 bytes long, but 1 are left"),
        (b"\x08\x01", "byte 1: display_name: wire type Varint, expected Length for string"),
        (b"\x10", "count: the message ends within a number"),
        (b"\x21\0\0", "price: the message ends within a number"),
        (b"\x12\x01\x01", "count: wire type Length, expected Varint for int32"),
        (b"\x42\x02\x01\x80", "numbers: the message ends within a number"),
        (b"\x52\x03\x52\x02\x10", "inner: 2 bytes long, but 1 are left"),
        (b"\x4a\x03\x08\x01\x10", "names.value: wire type"),
        (b"\x00", "not the beginning of a field"),
        (b"\x0e", "not the beginning of a field"),
        (b"\x0c", "the end of a group that is not open"),
        (b"\xfb\x3f", "group 1023 has no end"),
        (b"\xfb\x3f\x0c", "the end of a group that is not open"),
        (&[0xff; 11], "byte 0: a number of more than 64 bits"),
        (b"\xc5\x01\0\0\0\0", "good"),
    ] {
        hold(&compiled, Encoding::Binary, message, said);
    }
}

#[test]
fn proto2_has_required_fields_groups_and_texts_that_nobody_looks_at() {
    let definition = "syntax = 'proto2'; message M { required int32 a = 1; optional string s = 2;
        repeated group G = 3 { required bool b = 1; } }";
    let compiled = Compiled::new(Kind::Protobuf, definition).unwrap();
    for (message, said) in [
        (&b"\x08\x01"[..], "good"),
        (b"\x12\x01\xff\x08\x01", "good"),
        (b"\x08\x01\x1b\x08\x01\x1c\x1b\x08\x00\x1c", "good"),
        (b"", "required field a of M is missing"),
        (b"\x08\x01\x1b\x1c", "g: required field b of M.G is missing"),
        (b"\x08\x01\x1b\x08\x01", "g: group 3 has no end"),
    ] {
        hold(&compiled, Encoding::Binary, message, said);
    }
    hold(&compiled, Encoding::Json, br#"{"a":1,"g":[{"b":true}]}"#, "good");
    hold(&compiled, Encoding::Json, br#"{"a":null}"#, "a required field of M is missing");
}

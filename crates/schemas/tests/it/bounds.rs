//! Hostile definitions and messages: each is answered at once, without a crash.

use schemas::limits::{EMPTY_ITEMS_MAX, MESSAGE_DEPTH_MAX};
use schemas::{Compiled, Encoding, Kind};

fn avro(definition: &str) -> Compiled {
    Compiled::new(Kind::Avro, definition).unwrap()
}

fn protobuf(definition: &str) -> Compiled {
    Compiled::new(Kind::Protobuf, definition).unwrap()
}

/// What is wrong with a definition.
fn refused(kind: Kind, definition: &str) -> String {
    Compiled::new(kind, definition).unwrap_err().to_string()
}

/// A number as Avro writes it.
fn zigzag(value: i64) -> Vec<u8> {
    varint(((value << 1) ^ (value >> 63)).cast_unsigned())
}

/// A number as Protobuf writes it.
fn varint(mut left: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while left > 0x7f {
        bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
        left >>= 7;
    }
    bytes.push(u8::try_from(left).unwrap());
    bytes
}

#[test]
fn an_array_of_nulls_cannot_claim_to_be_endless() {
    let nulls = avro(r#"{"type":"array","items":"null"}"#);
    let of = |count: u64| [zigzag(i64::try_from(count).unwrap()), vec![0]].concat();
    assert!(nulls.check(Encoding::Binary, &of(EMPTY_ITEMS_MAX)).is_ok());
    assert!(nulls.check(Encoding::Binary, &of(EMPTY_ITEMS_MAX + 1)).is_err());
    assert!(nulls.check(Encoding::Binary, &of(1 << 60)).is_err());
    let many = [zigzag(60_000), zigzag(60_000), vec![0]].concat();
    assert!(nulls.check(Encoding::Binary, &many).is_err());
    let records = r#"{"type":"array","items":{"type":"record","name":"R","fields":[
        {"name":"n","type":"null"},{"name":"f","type":{"type":"fixed","name":"F","size":0}}]}}"#;
    assert!(avro(records).check(Encoding::Binary, &of(1 << 40)).is_err());
}

#[test]
fn fields_of_no_bytes_cost_nothing() {
    let fields: Vec<_> =
        (0..9_000).map(|n| format!(r#"{{"name":"f{n}","type":"null"}}"#)).collect();
    let definition = format!(
        r#"{{"type":"array","items":{{"type":"record","name":"R","fields":[{},
        {{"name":"b","type":"boolean"}}]}}}}"#,
        fields.join(",")
    );
    // Ten million records of nine thousand fields would take minutes.
    let message = [zigzag(10_000_000), vec![1; 10_000_000], vec![0]].concat();
    avro(&definition).check(Encoding::Binary, &message).unwrap();
}

#[test]
fn nesting_ends_at_a_bound() {
    let list =
        avro(r#"{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}"#);
    let of = |depth: usize| [vec![2; depth], vec![0]].concat();
    assert!(list.check(Encoding::Binary, &of(MESSAGE_DEPTH_MAX / 2 - 1)).is_ok());
    let problem = list.check(Encoding::Binary, &of(1_000_000)).unwrap_err().to_string();
    assert!(problem.contains("nested deeper than 100"), "{problem}");
    let endless = avro(
        r#"{"type":"record","name":"L","fields":[{"name":"a","type":"L"},
        {"name":"b","type":"L"}]}"#,
    );
    assert!(endless.check(Encoding::Binary, b"").is_err());

    let own = protobuf("syntax = 'proto3'; message M { M m = 1; repeated M n = 2; }");
    let of = |depth: usize| {
        let inner = |inner: Vec<u8>, _| [vec![0x0a], varint(inner.len() as u64), inner].concat();
        (0..depth).fold(Vec::new(), inner)
    };
    assert!(own.check(Encoding::Binary, &of(MESSAGE_DEPTH_MAX)).is_ok());
    assert!(own.check(Encoding::Binary, &of(MESSAGE_DEPTH_MAX + 1)).is_err());
    let groups = vec![0x1b; 1_000_000];
    assert!(own.check(Encoding::Binary, &groups).is_err());
}

#[test]
fn brackets_of_json_end_at_a_bound() {
    let brackets = "[".repeat(1_000_000);
    let objects = r#"{"m":"#.repeat(200_000);
    let own = protobuf(
        "syntax = 'proto3'; import 'google/protobuf/struct.proto';
        message M { M m = 1; google.protobuf.ListValue l = 2; }",
    );
    for message in [&brackets, &objects, &format!(r#"{{"l":{brackets}"#)] {
        assert!(own.check(Encoding::Json, message.as_bytes()).is_err());
    }
    let nested = avro(r#"{"type":"record","name":"M","fields":[{"name":"m","type":"M"}]}"#);
    for message in [&brackets, &objects] {
        assert!(nested.check(Encoding::Json, message.as_bytes()).is_err());
    }
    for bracket in ["[", r#"{"type":"#, r#"{"type":"array","items":"#] {
        assert!(
            refused(Kind::Avro, &bracket.repeat(20_000)[..290_000.min(20_000 * bracket.len())])
                .contains("recursion limit")
        );
    }
}

#[test]
fn defaults_that_would_double_again_and_again_are_not_built() {
    // Each record's default is two of the former: 2^40 values, were they built.
    let mut fields =
        vec![r#"{"name":"f0","type":{"type":"record","name":"R0","fields":[]}}"#.to_owned()];
    for n in 1..40 {
        let former = n - 1;
        fields.push(format!(
            r#"{{"name":"f{n}","type":{{"type":"record","name":"R{n}","fields":[
            {{"name":"a","type":"R{former}","default":{{}}}},
            {{"name":"b","type":"R{former}","default":{{}}}}]}},"default":{{}}}}"#
        ));
    }
    let definition = format!(r#"{{"type":"record","name":"T","fields":[{}]}}"#, fields.join(","));
    avro(&definition);
}

#[test]
fn defaults_that_would_be_tried_for_ever_are_refused() {
    // Sixty records that contain a union of all of them, and a default twenty levels deep that
    // fits none: 60^20 attempts.
    let names: Vec<_> = (0..60).map(|n| format!("\"R{n}\"")).collect();
    let value = format!("{}1{}", r#"{"a":"#.repeat(20), "}".repeat(20));
    let records: Vec<_> = (0..60)
        .map(|n| {
            let all = names[..=n].join(",");
            format!(
                r#"{{"name":"f{n}","type":{{"type":"record","name":"R{n}","fields":[
                {{"name":"a","type":[{all}]}}]}}}}"#
            )
        })
        .collect();
    let definition = format!(
        r#"{{"type":"record","name":"T","fields":[{},{{"name":"u","type":[{}],"default":{value}}}]}}"#,
        records.join(","),
        names.join(",")
    );
    let problem = refused(Kind::Avro, &definition);
    assert!(problem.contains("too long") || problem.contains("not of the field's"), "{problem}");
}

#[test]
fn many_aliases_of_a_large_record_are_no_copies_of_it() {
    let aliases: Vec<_> = (0..10_000).map(|n| format!("\"a{n}\"")).collect();
    let fields: Vec<_> = (0..5_000).map(|n| format!(r#"{{"name":"f{n}","type":"int"}}"#)).collect();
    let definition = format!(
        r#"{{"type":"record","name":"R","aliases":[{}],"fields":[{}]}}"#,
        aliases.join(","),
        fields.join(",")
    );
    avro(&definition);
}

#[test]
fn long_chains_of_types_are_compared_without_recursion() {
    let chain = |last: &str| {
        let mut fields =
            vec![r#"{"name":"f0","type":{"type":"record","name":"R0","fields":[]}}"#.to_owned()];
        for n in 1..2_500 {
            let former = n - 1;
            fields.push(format!(
                r#"{{"name":"f{n}","type":{{"type":"record","name":"R{n}","fields":[{{"name":"a","type":"R{former}"}}]}}}}"#
            ));
        }
        avro(&format!(
            r#"{{"type":"record","name":"T","fields":[{{"name":"x","type":"{last}"}},{}]}}"#,
            fields.join(",")
        ))
    };
    chain("int").check_beside(&chain("int")).unwrap();
    assert!(chain("int").check_beside(&chain("long")).is_err());
}

#[test]
fn large_and_deep_protobuf_definitions_are_answered() {
    let fields: Vec<_> = (1..9_000).map(|n| format!("int32 f{n} = {n};")).collect();
    protobuf(&format!("syntax='proto3'; message M {{ {} }}", fields.join("")));
    let fields: Vec<_> = (1..14_000).map(|n| format!("int32 f{n}={n};")).collect();
    let many = format!("syntax='proto3'; message M {{ {} }}", fields.join(""));
    assert!(refused(Kind::Protobuf, &many).contains("more than 10000 fields"));

    let deep = "message M {".repeat(20_000);
    assert!(refused(Kind::Protobuf, &deep).contains("nest deeper than 64"));
    let options = format!("message M {{ option (x) = {}", "{ a: ".repeat(50_000));
    assert!(refused(Kind::Protobuf, &options).contains("nest deeper than 64"));
    let dots = format!("message M {{ {}a = 1; }}", "a.".repeat(140_000));
    assert!(Compiled::new(Kind::Protobuf, &dots).is_err());
    let signs = format!("message M {{ option x = {}1; }}", "-".repeat(280_000));
    assert!(Compiled::new(Kind::Protobuf, &signs).is_err());
}

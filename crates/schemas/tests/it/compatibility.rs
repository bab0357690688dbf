//! Which definitions may be revisions of one schema.

use schemas::{Compiled, Kind};

/// Pairs, each tried in both orders: Google's rules are the same both ways.
fn hold(kind: Kind, table: &[(&str, &str, &str)]) {
    for (one, other, said) in table {
        for (new, old) in [(one, other), (other, one)] {
            let compile = |definition: &str| Compiled::new(kind, definition).unwrap();
            let answer = match compile(new).check_beside(&compile(old)) {
                Ok(()) => "good".to_owned(),
                Err(problem) => problem.to_string(),
            };
            let is_said = if *said == "good" { answer == "good" } else { answer.contains(said) };
            assert!(is_said, "{new}\nbeside {old}\nsaid: {answer}\nnot:  {said}");
        }
    }
}

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#)
}

#[test]
fn avro_revisions_read_each_other() {
    let a = r#"{"name":"a","type":"string"}"#;
    let with = |more: &str| record(&format!("{a},{more}"));
    let own = |text: &str| text.to_owned();
    let table: Vec<(String, String, &str)> = vec![
        (record(a), record(a), "good"),
        (record(a), with(r#"{"name":"b","type":"int","default":1}"#), "good"),
        (record(a), with(r#"{"name":"b","type":["null","int"],"default":null}"#), "good"),
        (record(a), with(r#"{"name":"b","type":"int"}"#), "field \"b\" is not written"),
        (record(a), record(r#"{"name":"a","type":"bytes"}"#), "good"),
        (record(a), record(r#"{"name":"a","type":"int"}"#), "cannot be read as"),
        (
            record(a),
            record(r#"{"name":"a","type":["null","string"]}"#),
            "null cannot be read as str",
        ),
        (own(r#""int""#), own(r#""long""#), "long cannot be read as int"),
        (
            own(r#"{"type":"enum","name":"E","symbols":["A"]}"#),
            own(r#"{"type":"enum","name":"E","symbols":["A","B"]}"#),
            "symbol \"B\" is not known",
        ),
        (
            own(r#"{"type":"enum","name":"E","symbols":["A"],"default":"A"}"#),
            own(r#"{"type":"enum","name":"E","symbols":["A","B"]}"#),
            "good",
        ),
        (
            own(r#"{"type":"fixed","name":"F","size":1}"#),
            own(r#"{"type":"fixed","name":"F","size":2}"#),
            "F cannot be read as F",
        ),
        (
            own(r#"{"type":"record","name":"x.R","fields":[]}"#),
            own(r#"{"type":"record","name":"y.R","fields":[]}"#),
            "good",
        ),
        (
            own(r#"{"type":"record","name":"R","fields":[]}"#),
            own(r#"{"type":"record","name":"S","fields":[]}"#),
            "cannot be read as",
        ),
        (
            record(r#"{"name":"n","type":["null","R"]}"#),
            record(r#"{"name":"n","type":["R","null"]},{"name":"x","type":"int","default":0}"#),
            "good",
        ),
        (
            own(r#"{"type":"array","items":{"type":"map","values":["null","int"]}}"#),
            own(r#"{"type":"array","items":{"type":"map","values":["null","string"]}}"#),
            "[][]: the",
        ),
    ];
    for (one, other, said) in &table {
        hold(Kind::Avro, &[(one, other, said)]);
    }
}

#[test]
fn an_alias_lets_a_renamed_field_be_read_one_way_only() {
    let old = Compiled::new(Kind::Avro, &record(r#"{"name":"a","type":"int"}"#)).unwrap();
    let new = record(r#"{"name":"b","type":"int","aliases":["a"]}"#);
    let problem = Compiled::new(Kind::Avro, &new).unwrap().check_beside(&old).unwrap_err();
    assert!(problem.to_string().contains("the old revision cannot read the new"), "{problem}");
}

#[test]
fn protobuf_revisions_differ_in_optional_fields_only() {
    let of = |fields: &str| format!("syntax = 'proto3'; message M {{ {fields} }}");
    for (one, other, said) in [
        ("", "string a = 1;", "good"),
        ("int32 b = 2;", "optional string a = 1; int32 b = 2;", "good"),
        ("", "oneof o { int32 a = 1; int32 b = 2; }", "good"),
        ("", "N n = 1; message N { repeated int32 a = 1; }", "good"),
        ("", "repeated string a = 1;", "repeated field a is"),
        ("", "map<string, string> a = 1;", "map field a is"),
        ("string a = 1;", "int32 a = 1;", "M.a: the type of an existing field cannot change"),
        ("int32 a = 1;", "sint32 a = 1;", "the type of an existing field cannot change"),
        ("string a = 1;", "string b = 1;", "the name of an existing field cannot change"),
        ("string a = 1;", "string a = 2;", "field a has number"),
        ("string a = 1;", "repeated string a = 1;", "the label of an existing field"),
        ("string a = 1;", "oneof o { string a = 1; }", "into or out of a oneof"),
        (
            "N n = 1; message N { int32 a = 1; }",
            "N n = 1; message N { int64 a = 1; }",
            "M.N.a: the type of an existing field",
        ),
        ("N n = 1; message N { M m = 1; }", "N n = 1; message N { M m = 1; int32 a = 2; }", "good"),
        ("N n = 1; message N { int32 a = 1; }", "O n = 1; message O { int32 a = 1; }", "good"),
        ("E e = 1; enum E { A = 0; }", "E e = 1; enum E { A = 0; B = 1; }", "good"),
        (
            "E e = 1; enum E { A = 0; B = 1; }",
            "E e = 1; enum E { A = 0; B = 2; }",
            "value \"B\" of the enum has another number",
        ),
    ] {
        hold(Kind::Protobuf, &[(&of(one), &of(other), said)]);
    }
    let proto2 = |fields: &str| format!("syntax = 'proto2'; message M {{ {fields} }}");
    let required = "required int32 a = 1;";
    hold(Kind::Protobuf, &[(&proto2(""), &proto2(required), "required field a is")]);
}

#[test]
fn the_two_languages_do_not_mix() {
    let avro = Compiled::new(Kind::Avro, "\"string\"").unwrap();
    let protobuf = Compiled::new(Kind::Protobuf, "message M {}").unwrap();
    assert!(avro.check_beside(&protobuf).is_err());
}

//! Definitions, good and bad; of the bad ones, what is said about them.

use schemas::{Compiled, Kind};

fn hold(kind: Kind, table: &[(&str, &str)]) {
    for (definition, said) in table {
        let answer = match Compiled::new(kind, definition) {
            Ok(_) => "good".to_owned(),
            Err(problem) => problem.to_string(),
        };
        if *said == "good" {
            assert_eq!(answer, "good", "{definition}");
        } else {
            assert!(answer.contains(said), "{definition}\nsaid: {answer}\nnot:  {said}");
        }
    }
}

#[test]
fn avro_definitions_that_are_good() {
    hold(
        Kind::Avro,
        &[
            (r#""string""#, "good"),
            (r#"{"type":"string"}"#, "good"),
            (r#"{"type":"record","name":"R","fields":[]}"#, "good"),
            (r#"{"type":"record","name":"a.b.R","fields":[{"name":"f","type":"int"}]}"#, "good"),
            (r#"{"type":"enum","name":"E","symbols":["A","B"],"default":"B"}"#, "good"),
            (r#"{"type":"fixed","name":"F","size":16,"logicalType":"uuid"}"#, "good"),
            (r#"{"type":"array","items":"long"}"#, "good"),
            (r#"{"type":"map","values":{"type":"array","items":"bytes"}}"#, "good"),
            (r#"{"type":{"type":"int","logicalType":"date"}}"#, "good"),
            (
                r#"{"type":"record","name":"L","namespace":"x","fields":[
                   {"name":"next","type":["null","L"],"default":null},
                   {"name":"also","type":["null","x.L"]}]}"#,
                "good",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"u","type":["null","string"],
                   "default":"any branch"}]}"#,
                "good",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"b","type":"bytes",
                   "default":"\u00ff"},{"name":"m","type":{"type":"map","values":"int"},
                   "default":{"a":1}}]}"#,
                "good",
            ),
        ],
    );
}

#[test]
fn avro_definitions_that_are_refused() {
    hold(
        Kind::Avro,
        &[
            ("", "the definition is empty"),
            ("{", "line 1, column 1: EOF"),
            ("{\n \"type\": x}", "line 2, column 10"),
            ("12", "a type is a name, an object or an array"),
            (r#"["null","string"]"#, "a union cannot be at the top"),
            (r#""strin""#, "\"strin\" is not defined"),
            (r#"{"name":"R"}"#, "\"type\" is missing"),
            (r#"{"type":"record","fields":[]}"#, "\"name\" is missing"),
            (r#"{"type":"record","name":"R"}"#, "\"fields\" is missing"),
            (r#"{"type":"record","name":"R","fields":{}}"#, "\"fields\" must be an array"),
            (r#"{"type":"record","name":"R","fields":[1]}"#, "fields[0]: a field is an object"),
            (r#"{"type":"record","name":"1R","fields":[]}"#, "\"1R\" is not a name"),
            (r#"{"type":"record","name":"int","fields":[]}"#, "a type of Avro's own"),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a-b","type":"int"}]}"#,
                "fields[0]: \"a-b\" is not a name",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},
                   {"name":"a","type":"int"}]}"#,
                "fields[1]: there is another field \"a\"",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":
                   {"type":"array","items":"S"}}]}"#,
                "fields[0].type.items: type \"S\" is not defined",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":
                   {"type":"enum","name":"R","symbols":["A"]}}]}"#,
                "\"R\" is defined twice",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int",
                   "default":"x"}]}"#,
                "fields[0].default: the default is not of the field's type, int",
            ),
            (
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int",
                   "default":3000000000}]}"#,
                "the default is not of the field's type",
            ),
            (r#"{"type":"enum","name":"E","symbols":["A","A"]}"#, "symbols[1]: there is another"),
            (r#"{"type":"enum","name":"E","symbols":["A-B"]}"#, "\"A-B\" is not a name"),
            (r#"{"type":"enum","name":"E","symbols":["A"],"default":"B"}"#, "not one of the sym"),
            (r#"{"type":"fixed","name":"F"}"#, "\"size\" must be a number"),
            (r#"{"type":"fixed","name":"F","size":-1}"#, "\"size\" must be a number"),
            (r#"{"type":"array"}"#, "\"items\" is missing"),
            (
                r#"{"type":"array","items":["int","int"]}"#,
                "items[1]: the union contains \"int\" tw",
            ),
            (r#"{"type":"array","items":["int",["null"]]}"#, "a union cannot contain a union"),
            (r#"{"type":"array","items":[]}"#, "the union is empty"),
        ],
    );
}

#[test]
fn protobuf_definitions() {
    hold(
        Kind::Protobuf,
        &[
            ("syntax = 'proto3'; message M { string a = 1; }", "good"),
            ("syntax = \"proto2\"; message M { required string a = 1; }", "good"),
            ("message M { optional int32 a = 1 [default = 5]; }", "good"),
            ("syntax = 'proto3'; package a.b; message M {}", "good"),
            (
                "syntax = 'proto3'; message M { N n = 1; message N { E e = 1; } \
                 enum E { ZERO = 0; } map<string, N> m = 2; oneof o { int32 x = 3; bool y = 4; } }",
                "good",
            ),
            (
                "syntax = 'proto3'; enum E { A = 0; } message M { E e = 1; repeated M m = 2; }",
                "good",
            ),
            (
                "syntax = 'proto3'; import 'google/protobuf/timestamp.proto'; \
                 import 'google/protobuf/struct.proto'; \
                 message M { google.protobuf.Timestamp t = 1; google.protobuf.Struct s = 2; }",
                "good",
            ),
            (
                "syntax = 'proto2'; message M { optional group G = 1 { optional int32 a = 1; } }",
                "good",
            ),
            ("  ", "the definition is empty"),
            ("syntax = 'proto3';", "has no message at the top"),
            ("syntax = 'proto3'; enum E { A = 0; }", "has no message at the top"),
            ("syntax = 'proto3'; message M {} message N {}", "\"N\" is a second message"),
            (
                "syntax = 'proto3'; import 'other.proto'; message M {}",
                "\"other.proto\" cannot be imp",
            ),
            (
                "syntax = 'proto3'; import 'google/type/date.proto'; message M {}",
                "\"google/type/date.proto\" cannot be imported",
            ),
            (
                "syntax = 'proto3'; import 'google/protobuf/nothing.proto'; message M {}",
                "not found",
            ),
            ("syntax = 'proto4'; message M {}", "line 1, column 10"),
            ("syntax = 'proto3';\nmessage M {\n  string a = 1\n}", "line 4, column 1"),
            ("syntax = 'proto3'; message M { string a = 0; }", "line 1, column 43"),
            ("syntax = 'proto3'; message M { string a = 1; int32 b = 1; }", "line 1"),
            ("syntax = 'proto3'; message M { string a = 1; int32 a = 2; }", "line 1"),
            ("syntax = 'proto3'; message M { Nowhere a = 1; }", "line 1, column 32"),
            ("syntax = 'proto3'; message M { required string a = 1; }", "line 1, column 32"),
            ("syntax = 'proto3'; message M { int32 a = 536870912; }", "line 1"),
            ("{\"type\":\"string\"}", "line 1, column 1"),
        ],
    );
}

#[test]
fn a_definition_has_300_kb_at_most() {
    for kind in [Kind::Avro, Kind::Protobuf] {
        let (head, tail) = match kind {
            Kind::Avro => (r#"{"type":"string","doc":""#, r#""}"#),
            Kind::Protobuf => ("syntax = 'proto3'; message M {} /*", "*/"),
        };
        let of =
            |bytes: usize| format!("{head}{}{tail}", "x".repeat(bytes - head.len() - tail.len()));
        assert!(Compiled::new(kind, &of(300_000)).is_ok());
        let problem = Compiled::new(kind, &of(300_001)).unwrap_err().to_string();
        assert!(problem.contains("300001 bytes, 300000 are allowed"), "{problem}");
    }
}

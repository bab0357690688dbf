use super::*;
use crate::error::Status;
use crate::{Encoding, Rejection, Settings, Validator};

const NOW: Timestamp = Timestamp(1);

fn name() -> SchemaName {
    SchemaName::parse("name", "projects/p/schemas/orders").unwrap()
}

fn record(fields: &[&str]) -> String {
    let field = |name: &&str| format!(r#"{{"name":"{name}","type":"int","default":0}}"#);
    let fields: Vec<_> = fields.iter().map(field).collect();
    format!(r#"{{"type":"record","name":"R","fields":[{}]}}"#, fields.join(","))
}

/// A source of randomness that counts.
fn counting() -> impl FnMut() -> u32 {
    let mut next = 0x0a;
    move || {
        next += 1;
        next - 1
    }
}

fn schema(random: &mut dyn FnMut() -> u32) -> Schema {
    Schema::create(name(), Kind::Avro, &record(&["a"]), NOW, random).unwrap()
}

#[test]
fn a_schema_begins_with_one_revision() {
    let schema = schema(&mut counting());
    assert_eq!(schema.revisions().len(), 1);
    assert_eq!(schema.newest().id.to_string(), "0000000a");
    assert_eq!(schema.newest().created, NOW);
    let bad = Schema::create(name(), Kind::Avro, "{", NOW, &mut counting()).unwrap_err();
    assert_eq!(bad.status(), Status::InvalidArgument);
}

#[test]
fn a_commit_adds_a_revision_that_goes_with_all_former_ones() {
    let mut random = counting();
    let mut schema = schema(&mut random);
    let second = schema.commit(Kind::Avro, &record(&["a", "b"]), NOW, &mut random).unwrap();
    assert_eq!((second.id, second.number), (RevisionId(0x0b), 1));
    let text = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}"#;
    let refused = schema.commit(Kind::Avro, text, NOW, &mut random).unwrap_err();
    assert!(matches!(refused, Error::Incompatible { revision: RevisionId(0x0b), .. }));
    assert_eq!(refused.status(), Status::InvalidArgument);
    let other = schema.commit(Kind::Protobuf, "message M {}", NOW, &mut random).unwrap_err();
    assert_eq!(other.to_string(), "schema.type: is PROTOCOL_BUFFER, that of the schema is AVRO");
    assert_eq!(schema.revisions().len(), 2);
}

#[test]
fn a_rollback_adds_a_revision_with_an_old_definition() {
    let mut random = counting();
    let mut schema = schema(&mut random);
    let first = schema.newest().id;
    schema.commit(Kind::Avro, &record(&["b"]), NOW, &mut random).unwrap();
    let third = schema.rollback(first, Timestamp(5), &mut random).unwrap().clone();
    assert_eq!(*third.definition, *record(&["a"]));
    assert_eq!((third.id, third.created), (RevisionId(0x0c), Timestamp(5)));
    assert_eq!(schema.newest().id, third.id);
    let missing = schema.rollback(RevisionId(0xff), NOW, &mut random).unwrap_err();
    assert_eq!(missing.to_string(), "schema revision projects/p/schemas/orders@000000ff not found");
    assert_eq!(missing.status(), Status::NotFound);
}

#[test]
fn the_only_revision_stays() {
    let mut random = counting();
    let mut schema = schema(&mut random);
    let first = schema.newest().id;
    let refused = schema.delete_revision(first).unwrap_err();
    assert_eq!(refused.status(), Status::FailedPrecondition);
    let second = schema.commit(Kind::Avro, &record(&["b"]), NOW, &mut random).unwrap().id;
    assert_eq!(schema.delete_revision(first).unwrap().id, first);
    assert_eq!(schema.newest().id, second);
    assert_eq!(schema.delete_revision(first).unwrap_err().status(), Status::NotFound);
    assert!(schema.revision(Some(first)).is_err());
    assert_eq!(schema.revision(None).unwrap().id, second);
}

#[test]
fn there_are_20_revisions_at_a_time() {
    let mut random = counting();
    let mut schema = schema(&mut random);
    for _ in 1..REVISIONS_MAX {
        schema.commit(Kind::Avro, &record(&["a"]), NOW, &mut random).unwrap();
    }
    let full = schema.commit(Kind::Avro, &record(&["a"]), NOW, &mut random).unwrap_err();
    assert_eq!(full.status(), Status::ResourceExhausted);
    let newest = schema.newest().id;
    assert_eq!(schema.rollback(newest, NOW, &mut random).unwrap_err(), Error::TooManyRevisions);
    schema.delete_revision(newest).unwrap();
    let next = schema.commit(Kind::Avro, &record(&["a"]), NOW, &mut random).unwrap();
    assert_eq!(next.number, 20, "the number of a deleted revision is not given again");
}

#[test]
fn ids_are_unique_though_the_random_source_repeats_itself() {
    let mut random = || u32::MAX;
    let mut schema = schema(&mut random);
    let second = schema.commit(Kind::Avro, &record(&["a"]), NOW, &mut random).unwrap();
    assert_eq!(second.id, RevisionId(0));
}

#[test]
fn what_was_kept_comes_back() {
    let schema = schema(&mut counting());
    let kept = schema.newest();
    let revision = |number| {
        Revision::new(Kind::Avro, kept.id, number, kept.created, Arc::clone(&kept.definition))
    };
    let back = Schema::restore(name(), Kind::Avro, vec![revision(0)], 1).unwrap();
    assert_eq!(back.newest().id, kept.id);
    assert!(back.newest().compiled().is_ok());
    assert!(Schema::restore(name(), Kind::Avro, vec![], 1).is_none());
    assert!(Schema::restore(name(), Kind::Avro, vec![revision(1), revision(0)], 2).is_none());
    assert!(Schema::restore(name(), Kind::Avro, vec![revision(1)], 1).is_none());
}

/// Revisions that accept `{"a":…}`, `{"b":…}`, `{"c":…}` and `{"d":…}`.
fn four() -> Schema {
    let mut random = counting();
    let mut schema = schema(&mut random);
    for name in ["b", "c", "d"] {
        schema.commit(Kind::Avro, &record(&[name]), NOW, &mut random).unwrap();
    }
    schema
}

/// Which of the four kinds of message are accepted.
fn accepted(schema: &Schema, settings: &Settings) -> String {
    let validator = Validator::new(schema, settings);
    let check = |name: &&str| validator.check(format!(r#"{{"{name}":1}}"#).as_bytes()).is_ok();
    ["a", "b", "c", "d"].into_iter().filter(check).collect()
}

#[test]
fn a_topic_accepts_a_range_of_revisions_though_its_ends_are_deleted() {
    let mut schema = four();
    let id = |n: u32| Some(RevisionId(0x0a + n));
    let settings = |first, last| Settings::new(&schema, Encoding::Json, first, last).unwrap();
    let (all, some) = (settings(None, None), settings(id(1), id(2)));
    let (from, to) = (settings(id(2), None), settings(None, id(0)));
    assert_eq!(accepted(&schema, &all), "abcd");
    assert_eq!(accepted(&schema, &some), "bc");
    assert_eq!(accepted(&schema, &from), "cd");
    assert_eq!(accepted(&schema, &to), "a");

    let wrong = Settings::new(&schema, Encoding::Json, id(2), id(1)).unwrap_err();
    assert_eq!(wrong.status(), Status::InvalidArgument);
    let missing = Settings::new(&schema, Encoding::Json, id(9), None).unwrap_err();
    assert_eq!(missing.status(), Status::NotFound);

    let wide = settings(id(0), id(3));
    for end in [0, 3] {
        schema.delete_revision(RevisionId(0x0a + end)).unwrap();
    }
    assert_eq!(accepted(&schema, &wide), "bc");
    assert_eq!(accepted(&schema, &to), "");
}

#[test]
fn the_newest_revision_that_accepts_a_message_is_named_and_the_newest_of_all_explains() {
    let schema = four();
    let settings = Settings::new(&schema, Encoding::Json, None, None).unwrap();
    let validator = Validator::new(&schema, &settings);
    assert_eq!(validator.check(br#"{"b":1}"#), Ok(RevisionId(0x0b)));
    let Rejection { revision, problem, .. } = validator.check(br#"{"e":1}"#).unwrap_err();
    assert_eq!(revision, Some(RevisionId(0x0d)));
    assert_eq!(problem.to_string(), "line 1, column 4: record R has no field \"e\"");
    let rejection = validator.check(b"").unwrap_err();
    assert_eq!(rejection.reason(), "INVALID_JSON_AVRO_MESSAGE");
}

#[test]
fn a_schema_in_the_servers_own_project_is_refused() {
    let own = SchemaName::parse("name", "projects/_postrider/schemas/orders").unwrap();
    let refused = Schema::create(own, Kind::Avro, "\"int\"", NOW, &mut counting()).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
}

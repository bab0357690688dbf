//! Schemas: kept, revised, and what topics are held to.

use std::sync::Arc;

use broker::{Error, Resource, Revised};
use domain::topic::{Change, SchemaChange, SchemaSettings};
use domain::{Message, SchemaName, TopicName, message};
use schemas::{Encoding, Kind, RevisionId};

use crate::fixture::{Fixture, message as text_message, topic_name};

const TEXT: &str = r#""string""#;

fn schema_name(id: &str) -> SchemaName {
    SchemaName::parse("name", &format!("projects/p/schemas/{id}")).unwrap()
}

fn settings(schema: &str) -> Option<SchemaSettings> {
    let (schema, encoding) = (schema_name(schema), Encoding::Json);
    Some(SchemaSettings { schema, encoding, first: None, last: None })
}

fn set(whole: Option<SchemaSettings>) -> Change {
    Change::joining(SchemaChange { whole: Some(whole), ..SchemaChange::default() })
}

impl Fixture {
    async fn schema(&self, id: &str) -> Result<Revised, Error> {
        self.broker.create_schema(schema_name(id), Kind::Avro, TEXT.to_owned()).await
    }

    async fn commit(&self, id: &str, definition: &str) -> Result<RevisionId, Error> {
        let definition = definition.to_owned();
        let made = self.broker.commit_schema(&schema_name(id), Kind::Avro, definition).await;
        made.map(|made| made.revision.id)
    }

    async fn held_topic(&self, schema: &str) -> TopicName {
        let plain = domain::Topic::new(topic_name("held"));
        let topic = domain::Topic { schema: settings(schema), ..plain };
        self.broker.create_topic(topic).await.unwrap().name().clone()
    }

    async fn try_publish(&self, topic: &TopicName, text: &str) -> Result<(), Error> {
        self.broker.publish(topic, vec![text_message(text)]).await.map(drop)
    }

    fn acts_done(&self) -> Vec<&'static str> {
        self.acts.0.lock().iter().map(|act| act.act).collect()
    }
}

#[tokio::test]
async fn what_is_kept_comes_back_with_the_next_start() {
    let mut fixture = Fixture::new().await;
    let first = fixture.schema("text").await.unwrap().revision;
    let second = fixture.commit("text", r#"{"type":"string"}"#).await.unwrap();
    let topic = fixture.held_topic("text").await;
    let held = fixture.broker.topic(&topic).unwrap().settings().schema.clone();
    assert_eq!(held, settings("text"));
    fixture.reopen().await;
    let kept = fixture.broker.schema(&schema_name("text")).unwrap().current();
    let ids: Vec<_> = kept.revisions().iter().map(|revision| revision.id).collect();
    assert_eq!(ids, [first.id, second]);
    assert_eq!(kept.next_number(), 2);
    assert_eq!(fixture.broker.topic(&topic).unwrap().settings().schema, held);
    fixture.try_publish(&topic, r#""hello""#).await.unwrap();
    assert!(matches!(fixture.try_publish(&topic, "7").await, Err(Error::Rejected(_))));
}

#[tokio::test]
async fn a_bad_message_refuses_the_whole_batch_and_is_named() {
    let fixture = Fixture::new().await;
    fixture.schema("text").await.unwrap();
    let topic = fixture.held_topic("text").await;
    fixture.subscription(&topic, "sub").await;
    let batch = vec![text_message(r#""good""#), text_message("bad")];
    let refused = fixture.broker.publish(&topic, batch).await.unwrap_err();
    assert!(refused.to_string().contains("messages[1]: revision "), "{refused}");
    assert!(fixture.pull("sub", 10).await.is_empty());
    // As much as goes to a thread of its own is held to the same.
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    fixture.try_publish(&topic, &long).await.unwrap();
    assert!(fixture.try_publish(&topic, &long[1..]).await.is_err());
}

#[tokio::test]
async fn messages_name_their_schema_encoding_and_revision() {
    let fixture = Fixture::new().await;
    let revision = fixture.schema("text").await.unwrap().revision.id;
    let topic = fixture.held_topic("text").await;
    fixture.subscription(&topic, "sub").await;
    fixture.try_publish(&topic, r#""hello""#).await.unwrap();
    let lease = fixture.pull("sub", 1).await.remove(0);
    let Message { attributes, .. } = message::decode(&lease.record.body).unwrap();
    let expected = [
        ("googclient_schemaencoding", "JSON".to_owned()),
        ("googclient_schemaname", "projects/p/schemas/text".to_owned()),
        ("googclient_schemarevisionid", revision.to_string()),
    ];
    let seen: Vec<_> =
        attributes.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_definition_is_compiled_once_and_kept() {
    let fixture = Fixture::new().await;
    let made = fixture.schema("text").await.unwrap();
    let before = made.revision.compiled().unwrap();
    fixture.commit("text", r#"{"type":"string"}"#).await.unwrap();
    let now = fixture.broker.schema(&schema_name("text")).unwrap().current();
    let after = now.revision(Some(made.revision.id)).unwrap().compiled().unwrap();
    assert!(Arc::ptr_eq(&before, &after));
}

#[tokio::test]
async fn a_schema_of_the_same_name_made_later_is_another() {
    let mut fixture = Fixture::new().await;
    fixture.schema("text").await.unwrap();
    let topic = fixture.held_topic("text").await;
    fixture.broker.delete_schema(&schema_name("text")).await.unwrap();
    fixture.schema("text").await.unwrap();
    for _ in 0..2 {
        assert!(fixture.broker.topic(&topic).unwrap().is_schema_deleted());
        let refused = fixture.try_publish(&topic, r#""hello""#).await.unwrap_err();
        assert!(matches!(refused, Error::SchemaDeleted(_)), "{refused}");
        fixture.reopen().await;
    }
    let encoding = SchemaChange { encoding: Some(Encoding::Binary), ..SchemaChange::default() };
    let refused = fixture.broker.update_topic(&topic, Change::joining(encoding)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let updated = fixture.broker.update_topic(&topic, set(settings("text"))).await;
    assert!(!updated.unwrap().is_schema_deleted());
    fixture.try_publish(&topic, r#""hello""#).await.unwrap();
}

#[tokio::test]
async fn ends_of_a_range_go_with_the_schema_they_were_of() {
    let fixture = Fixture::new().await;
    let first = fixture.schema("text").await.unwrap().revision.id;
    let topic = fixture.held_topic("text").await;
    let end = SchemaChange { first: Some(Some(first)), ..SchemaChange::default() };
    let updated = fixture.broker.update_topic(&topic, Change::joining(end)).await.unwrap();
    assert_eq!(updated.settings().schema.as_ref().unwrap().first, Some(first));
    fixture.broker.delete_schema(&schema_name("text")).await.unwrap();
    fixture.schema("text").await.unwrap();
    let again = SchemaChange { schema: Some(schema_name("text")), ..SchemaChange::default() };
    let updated = fixture.broker.update_topic(&topic, Change::joining(again)).await.unwrap();
    assert_eq!(updated.settings().schema, settings("text"));
}

#[tokio::test]
async fn another_update_of_the_topic_leaves_its_schema_alone() {
    let fixture = Fixture::new().await;
    fixture.schema("text").await.unwrap();
    let topic = fixture.held_topic("text").await;
    let labels = Some([("team".to_owned(), "a".to_owned())].into());
    let change = Change { labels, ..Change::default() };
    let updated = fixture.broker.update_topic(&topic, change).await.unwrap();
    assert!(updated.settings().schema.is_some());
    assert!(fixture.try_publish(&topic, "7").await.is_err());
    let updated = fixture.broker.update_topic(&topic, set(None)).await;
    assert!(updated.unwrap().settings().schema.is_none());
    fixture.try_publish(&topic, "7").await.unwrap();
}

#[tokio::test]
async fn changes_are_on_record() {
    let fixture = Fixture::new().await;
    let first = fixture.schema("text").await.unwrap().revision.id;
    let name = schema_name("text");
    let second = fixture.commit("text", TEXT).await.unwrap();
    fixture.broker.roll_back_schema(&name, first).await.unwrap();
    fixture.broker.delete_schema_revision(&name, second).await.unwrap();
    let topic = fixture.held_topic("text").await;
    fixture.broker.update_topic(&topic, set(None)).await.unwrap();
    fixture.broker.delete_schema(&name).await.unwrap();
    let acts =
        ["commit schema", "roll back schema", "delete schema revision", "change schema", "delete"];
    assert_eq!(fixture.acts_done(), acts);
}

#[tokio::test]
async fn what_is_not_there_or_there_already_is_named() {
    let fixture = Fixture::new().await;
    fixture.schema("text").await.unwrap();
    let again = fixture.schema("text").await.err();
    assert!(matches!(again, Some(Error::AlreadyExists(Resource::Schema, _))));
    let none = fixture.commit("nobody", TEXT).await;
    assert!(matches!(none, Err(Error::NotFound(Resource::Schema, _))));
    let plain = domain::Topic::new(topic_name("held"));
    let topic = domain::Topic { schema: settings("nobody"), ..plain };
    let refused = fixture.broker.create_topic(topic).await.err();
    assert!(matches!(refused, Some(Error::NotFound(Resource::Schema, _))));
    assert!(fixture.broker.topic(&topic_name("held")).is_err());
}

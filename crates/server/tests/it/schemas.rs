//! Schemas over gRPC and REST, and topics that are held to them.

use serde_json::{Value, json};
use server::Server;
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::Channel;
use wire::pubsub::schema::Type;
use wire::pubsub::schema_service_client::SchemaServiceClient;
use wire::pubsub::{
    CreateSchemaRequest, GetSchemaRequest, ListSchemasRequest, PublishRequest, Schema, SchemaView,
};

use crate::rig::{Rig, config, each_engine, message};

const SCHEMAS: &str = "/v1/projects/p/schemas";
const ORDER: &str = "/v1/projects/p/schemas/order";
const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";

/// An order with a number and perhaps a note.
fn order(with_note: bool) -> Value {
    let mut fields = vec![json!({"name": "n", "type": "long"})];
    if with_note {
        fields.push(json!({"name": "note", "type": ["null", "string"], "default": null}));
    }
    let definition = json!({"type": "record", "name": "Order", "fields": fields});
    json!({"type": "AVRO", "definition": definition.to_string()})
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

async fn make_topic(rig: &Rig) -> String {
    let made = rig.post(&format!("{SCHEMAS}?schemaId=order"), order(false)).await.ok();
    let settings = json!({"schema": "projects/p/schemas/order", "encoding": "JSON"});
    rig.put(TOPIC, json!({"schemaSettings": settings})).await.ok();
    rig.put(BILLING, json!({"topic": "projects/p/topics/orders"})).await.ok();
    text(&made, "revisionId")
}

/// `{"n":1}` and `{"n":1,"note":null}` in base64.
const PLAIN: &str = "eyJuIjoxfQ==";
const NOTED: &str = "eyJuIjoxLCJub3RlIjpudWxsfQ==";

async fn publish(rig: &Rig, data: &str) -> crate::rig::Answer {
    rig.post(&format!("{TOPIC}:publish"), json!({"messages": [{"data": data}]})).await
}

async fn every_call_is_answered_over_rest(rig: &Rig) {
    let made = rig.post(&format!("{SCHEMAS}?schemaId=order"), order(false)).await.ok();
    assert_eq!(made["name"], "projects/p/schemas/order");
    let first = text(&made, "revisionId");
    let body = json!({"schema": order(true)});
    let second = rig.post(&format!("{ORDER}:commit"), body).await.ok();
    let second_id = text(&second, "revisionId");
    assert_eq!(rig.get(ORDER).await.ok(), second);
    assert_eq!(rig.get(&format!("{ORDER}@{first}")).await.ok(), made);
    assert!(rig.get(&format!("{ORDER}?view=BASIC")).await.ok().get("definition").is_none());
    let listed = rig.get(SCHEMAS).await.ok();
    assert_eq!(listed["schemas"][0]["revisionId"], json!(second_id));
    assert!(listed["schemas"][0].get("definition").is_none(), "{listed}");
    let full = rig.get(&format!("{SCHEMAS}?view=FULL")).await.ok();
    assert_eq!(full["schemas"][0], second);
    let revisions = rig.get(&format!("{ORDER}:listRevisions?view=FULL")).await.ok();
    assert_eq!(revisions["schemas"], json!([second, made]));
    let body = json!({"revisionId": first});
    let third = rig.post(&format!("{ORDER}:rollback"), body).await.ok();
    assert_eq!(third["definition"], made["definition"]);
    let path = format!("{ORDER}@{second_id}:deleteRevision");
    assert_eq!(rig.call("DELETE", &path, None).await.ok(), second);
    rig.call("DELETE", &path, None).await.refused(404, "NOT_FOUND");
    let good = json!({"schema": order(true)});
    rig.post(&format!("{SCHEMAS}:validate"), good).await.ok();
    let message = json!({"name": "projects/p/schemas/order", "message": PLAIN, "encoding": "JSON"});
    rig.post(&format!("{SCHEMAS}:validateMessage"), message).await.ok();
    let message = json!({"schema": order(false), "message": NOTED, "encoding": "JSON"});
    let answer = rig.post(&format!("{SCHEMAS}:validateMessage"), message).await;
    answer.refused(400, "INVALID_ARGUMENT");
    assert_eq!(rig.call("DELETE", ORDER, None).await.ok(), json!({}));
    rig.get(ORDER).await.refused(404, "NOT_FOUND");
    assert_eq!(rig.get(SCHEMAS).await.ok(), json!({}));
}

async fn bad_requests_name_the_field(rig: &Rig) {
    make_topic(rig).await;
    let create = format!("{SCHEMAS}?schemaId=other");
    for (path, body, field) in [
        (SCHEMAS.to_owned(), order(false), "schemaId"),
        (format!("{SCHEMAS}?schemaId=goog"), order(false), "schemaId"),
        (create.clone(), json!({"definition": "x"}), "schema.type"),
        (create.clone(), json!({"type": "AVRO"}), "definition is empty"),
        (create, json!({"type": "AVRO", "definition": "{"}), "line 1, column 1"),
        (format!("{ORDER}:commit"), json!({}), "schema"),
        (format!("{ORDER}:rollback"), json!({"revisionId": "x"}), "revisionId"),
        (format!("{SCHEMAS}:validateMessage"), json!({"encoding": "JSON"}), "name"),
    ] {
        let message = rig.post(&path, body).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.contains(field), "{path}: {message}");
    }
    let message = rig.call("DELETE", &format!("{ORDER}:deleteRevision"), None).await;
    assert!(message.refused(400, "INVALID_ARGUMENT").contains("@{revision}"));
    let settings = json!({"schema": "projects/p/schemas/order"});
    let other = "/v1/projects/p/topics/other";
    let message = rig.put(other, json!({"schemaSettings": settings})).await;
    let message = message.refused(400, "INVALID_ARGUMENT");
    assert!(message.starts_with("schemaSettings.encoding: "), "{message}");
    let update = json!({"topic": {}, "updateMask": "schemaSettings.schema"});
    rig.call("PATCH", TOPIC, Some(update)).await.refused(400, "INVALID_ARGUMENT");
}

async fn a_rejected_message_is_told_by_reason_and_place(rig: &Rig) {
    let revision = make_topic(rig).await;
    publish(rig, PLAIN).await.ok();
    let answer = publish(rig, NOTED).await;
    let message = answer.refused(400, "INVALID_ARGUMENT");
    let google = "Invalid data in message: Message failed schema validation.";
    assert!(message.starts_with(google), "{message}");
    assert!(message.contains("messages[0]") && message.contains("note"), "{message}");
    let info = &answer.json()["error"]["details"][0];
    assert_eq!(info["reason"], "INVALID_JSON_AVRO_MESSAGE");
    assert_eq!(info["domain"], "pubsub.googleapis.com");
    assert!(text(&info["metadata"], "revisionInfo").contains(&revision), "{info}");
    let request = PublishRequest {
        topic: "projects/p/topics/orders".to_owned(),
        messages: vec![message_of("x")],
    };
    let refused = rig.publisher().await.publish(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(!refused.details().is_empty());
}

fn message_of(data: &'static str) -> wire::pubsub::PubsubMessage {
    message(data)
}

async fn a_commit_counts_for_the_next_publish(rig: &Rig) {
    let first = make_topic(rig).await;
    publish(rig, NOTED).await.refused(400, "INVALID_ARGUMENT");
    let made = rig.post(&format!("{ORDER}:commit"), json!({"schema": order(true)})).await.ok();
    let second = text(&made, "revisionId");
    publish(rig, NOTED).await.ok();
    publish(rig, PLAIN).await.ok();
    let settings = json!({"firstRevisionId": second});
    let topic = json!({"schemaSettings": settings});
    let update = json!({"topic": topic, "updateMask": "schemaSettings.firstRevisionId"});
    let updated = rig.call("PATCH", TOPIC, Some(update)).await.ok();
    assert_eq!(updated["schemaSettings"]["firstRevisionId"], json!(second));
    assert_eq!(updated["schemaSettings"]["encoding"], "JSON");
    publish(rig, PLAIN).await.refused(400, "INVALID_ARGUMENT");
    let body = json!({"maxMessages": 10, "returnImmediately": true});
    let pulled = rig.post(&format!("{BILLING}:pull"), body).await.ok();
    let received = pulled["receivedMessages"].as_array().unwrap();
    let id = |one: &Value| text(&one["message"]["attributes"], "googclient_schemarevisionid");
    assert_eq!(received.iter().map(id).collect::<Vec<_>>(), [second, first]);
}

async fn long_definitions_are_listed_a_few_at_a_time(rig: &Rig) {
    let channel = Channel::from_shared(format!("http://{}", rig.address)).unwrap();
    let mut schemas = SchemaServiceClient::new(channel.connect().await.unwrap());
    for n in 0..9 {
        let definition = format!("\"string\"{}", " ".repeat(290_000));
        let schema = Schema { r#type: Type::Avro.into(), definition, ..Schema::default() };
        let (parent, schema_id) = ("projects/p".to_owned(), format!("long-{n}"));
        let request = CreateSchemaRequest { parent, schema_id, schema: Some(schema) };
        schemas.create_schema(request).await.unwrap();
    }
    let mut request = ListSchemasRequest {
        parent: "projects/p".to_owned(),
        view: SchemaView::Full.into(),
        ..ListSchemasRequest::default()
    };
    let first = schemas.list_schemas(request.clone()).await.unwrap().into_inner();
    assert_eq!(first.schemas.len(), 7);
    request.page_token = first.next_page_token;
    let second = schemas.list_schemas(request).await.unwrap().into_inner();
    assert_eq!((second.schemas.len(), second.next_page_token.as_str()), (2, ""));
    assert_eq!(second.schemas[1].name, "projects/p/schemas/long-8");
    let request = GetSchemaRequest { name: "projects/p/schemas/x y".to_owned(), view: 0 };
    assert_eq!(schemas.get_schema(request).await.unwrap_err().code(), Code::InvalidArgument);
}

each_engine![
    every_call_is_answered_over_rest,
    bad_requests_name_the_field,
    a_rejected_message_is_told_by_reason_and_place,
    a_commit_counts_for_the_next_publish,
    long_definitions_are_listed_a_few_at_a_time,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_schemas_and_what_topics_say_of_them() {
    let folder = TempDir::new().unwrap();
    let more = format!("[storage]\nbackup_dir = {:?}\n", folder.path().join("backups"));
    let rig = Rig::on(Server::start(&config(&folder, "disk", &more)).await.unwrap());
    make_topic(&rig).await;
    let shown = (rig.get(ORDER).await.ok(), rig.get(TOPIC).await.ok());
    rig.put("/v1/backups/one", json!({})).await.ok();
    rig.stop().await;
    let restored = TempDir::new().unwrap();
    std::fs::rename(folder.path().join("backups/one"), restored.path().join("data")).unwrap();
    let rig = Rig::on(Server::start(&config(&restored, "disk", "")).await.unwrap());
    assert_eq!((rig.get(ORDER).await.ok(), rig.get(TOPIC).await.ok()), shown);
    publish(&rig, NOTED).await.refused(400, "INVALID_ARGUMENT");
    publish(&rig, PLAIN).await.ok();
    rig.stop().await;
}

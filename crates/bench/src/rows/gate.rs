//! What it costs that a topic looks at its messages: a schema, or a transform, beside a topic that
//! takes the same messages as they are. Pairs take turns, and the middle pair counts.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use prost::Message as _;
use wire::pubsub::{
    CreateSchemaRequest, Encoding, JavaScriptUdf, MessageTransform, Schema, SchemaSettings, Topic,
    message_transform, schema,
};

use super::Selection;
use super::comparison::rows;
use crate::clock;
use crate::lean;
use crate::load::Goal;
use crate::report::Report;
use crate::target::{Request, SUBSCRIPTION, Target, Workshop};

const BATCH: u32 = 100;
const IN_FLIGHT: u32 = 8;
const TIME_MAX: Duration = Duration::from_secs(60);

/// Items of an order: about 1 KiB in each encoding.
const ITEMS: i64 = 24;
const ITEM: &str = "a thing that somebody ordered, in words";

const AVRO: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item",
        "fields": [{"name": "n", "type": "long"}, {"name": "what", "type": "string"}]}}}]}"#;
const PROTOBUF: &str = "syntax = \"proto3\"; message Order { int64 id = 1; \
    message Item { int64 n = 1; string what = 2; } repeated Item items = 2; }";
const EDIT: &str = "function edit(message) { const order = JSON.parse(message.data); \
    order.seen = true; message.data = JSON.stringify(order); return message; }";

/// How a topic looks at its messages.
#[derive(Clone, Copy)]
enum Kind {
    Avro,
    Protobuf,
    Edit,
}

/// The group of each, and the name of the row beside the plain one.
const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::Avro, "schema/avro", "checked"),
    (Kind::Protobuf, "schema/protobuf", "checked"),
    (Kind::Edit, "transform/json", "edited"),
];

/// Runs the rows.
pub(crate) async fn run(
    workshop: &Workshop,
    selection: &Selection,
    report: &mut Report,
) -> Result<()> {
    for (kind, group, name) in KINDS {
        let names = [format!("{group}/plain"), format!("{group}/{name}")];
        if !selection.holds_any(&names) {
            continue;
        }
        let mut targets = Vec::new();
        for settings in [Topic::default(), settings(kind)] {
            let Some(target) = workshop.server().await? else { return Ok(()) };
            make(&target, kind, settings).await.context(group)?;
            targets.push(target);
        }
        let rates = take_turns(workshop, &targets, kind).await.context(group)?;
        report.comparisons.extend(rows(&names, &rates));
    }
    Ok(())
}

async fn make(target: &Target, kind: Kind, topic: Topic) -> Result<()> {
    if let Some(settings) = &topic.schema_settings {
        let (parent, id) = settings.schema.split_once("/schemas/").context("a schema's name")?;
        let (r#type, definition) = match kind {
            Kind::Protobuf => (schema::Type::ProtocolBuffer, PROTOBUF),
            Kind::Avro | Kind::Edit => (schema::Type::Avro, AVRO),
        };
        let schema = Schema {
            r#type: r#type.into(),
            definition: definition.to_owned(),
            ..Schema::default()
        };
        let request = CreateSchemaRequest {
            parent: parent.to_owned(),
            schema_id: id.to_owned(),
            schema: Some(schema),
        };
        target.channel.call("SchemaService/CreateSchema", lean::frame(&request)).await?;
    }
    target.create_topic_with(topic).await?;
    target.create_subscription(SUBSCRIPTION).await
}

fn settings(kind: Kind) -> Topic {
    let schema_settings = SchemaSettings {
        schema: "projects/bench/schemas/order".to_owned(),
        encoding: Encoding::Binary.into(),
        ..SchemaSettings::default()
    };
    let udf = JavaScriptUdf { function_name: "edit".to_owned(), code: EDIT.to_owned() };
    let transform = message_transform::Transform::JavascriptUdf(udf);
    let transform = MessageTransform { transform: Some(transform), ..MessageTransform::default() };
    match kind {
        Kind::Avro | Kind::Protobuf => {
            Topic { schema_settings: Some(schema_settings), ..Topic::default() }
        }
        Kind::Edit => Topic { message_transforms: vec![transform], ..Topic::default() },
    }
}

/// The rates of the targets, round by round.
async fn take_turns(workshop: &Workshop, targets: &[Target], kind: Kind) -> Result<Vec<Vec<f64>>> {
    let plan = &workshop.plan;
    let request = Request::of(BATCH, &order(kind));
    let goal = Goal::calls(plan.pair_messages.div_ceil(4 * u64::from(BATCH)), TIME_MAX);
    let mut rates = vec![Vec::new(); targets.len()];
    // The first round loads scripts and fills caches.
    for round in 0..=plan.pairs {
        for (target, rates) in targets.iter().zip(&mut rates) {
            let slice = target.publish(&request, IN_FLIGHT, goal).await?;
            target.settle().await?;
            if round > 0 {
                rates.push(clock::rate(slice.calls * u64::from(BATCH), slice.elapsed));
            }
        }
    }
    Ok(rates)
}

#[derive(Clone, PartialEq, prost::Message)]
struct Order {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Item>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Item {
    #[prost(int64, tag = "1")]
    n: i64,
    #[prost(string, tag = "2")]
    what: String,
}

/// One order in the encoding that the topic takes.
fn order(kind: Kind) -> Bytes {
    let items = || 0..ITEMS;
    match kind {
        Kind::Avro => {
            let mut bytes = Vec::new();
            put_long(&mut bytes, 1);
            put_long(&mut bytes, ITEMS);
            for n in items() {
                put_long(&mut bytes, n);
                put_long(&mut bytes, ITEM.len() as i64);
                bytes.extend_from_slice(ITEM.as_bytes());
            }
            put_long(&mut bytes, 0);
            bytes.into()
        }
        Kind::Protobuf => {
            let items = items().map(|n| Item { n, what: ITEM.to_owned() }).collect();
            Order { id: 1, items }.encode_to_vec().into()
        }
        Kind::Edit => {
            let items: Vec<String> =
                items().map(|n| format!("{{\"n\": {n}, \"what\": \"{ITEM}\"}}")).collect();
            format!("{{\"id\": 1, \"items\": [{}]}}", items.join(", ")).into()
        }
    }
}

/// A long as Avro writes it: zigzag, seven bits a byte.
fn put_long(bytes: &mut Vec<u8>, value: i64) {
    prost::encoding::encode_varint(((value << 1) ^ (value >> 63)) as u64, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_take_about_a_kibibyte() {
        for (kind, _, _) in KINDS {
            let bytes = order(kind).len();
            assert!((900..=1_600).contains(&bytes), "{bytes} bytes");
        }
        assert_eq!(order(Kind::Avro)[..3], [2, 48, 0]);
    }
}

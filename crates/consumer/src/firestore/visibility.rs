//! A record of every delivery, so that one can see that messages come. It counts deliveries, not
//! events.
//!
//! A message that is delivered twice counts twice, and so does a commit whose answer was lost:
//! nothing here is looked up before it is written. What must be exact belongs into a route of
//! kind `increment`.
//!
//! ```text
//! {collection}/{subscription}
//!   deliveriesNotEvents   how many deliveries were seen
//!   lastDeliveryAt        when the last was, by Firestore's clock
//! {collection}/{subscription}/deliveries/{messageId}
//!   deliveriesNotEvents   how many deliveries of this message were seen
//!   lastDeliveryAt, publishTime, dataBytes, expiresAt
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::Status;

use super::api;
use super::api::document_transform::FieldTransform;
use super::api::document_transform::field_transform::{ServerValue, TransformType};
use super::api::write::Operation;
use super::client::Client;
use super::value::{field_path, fields, to_api};
use crate::effects::{Path, Value};
use crate::{Message, Timestamp};

/// How long the record of one message is kept, where a TTL policy on `expiresAt` deletes it.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// The field that counts. It says what it counts.
const COUNT: &str = "deliveriesNotEvents";
const LAST: &str = "lastDeliveryAt";

/// Records deliveries in one collection.
#[derive(Clone, Debug)]
pub struct Visibility {
    client: Client,
    collection: String,
}

impl Visibility {
    /// Records in `collection`.
    pub fn new(client: Client, collection: impl Into<String>) -> Self {
        Self { client, collection: collection.into() }
    }

    /// Records one delivery. It is not tried again: a delivery that is not recorded is no reason
    /// to hold a message up.
    pub async fn record(&self, message: &Message, now: Timestamp) -> Result<(), Status> {
        let subscription = message.subscription.as_deref().unwrap_or("unknown");
        let subscription = subscription.rsplit_once('/').map_or(subscription, |(_, id)| id);
        let summary = Path { collection: self.collection.clone(), id: subscription.to_owned() };
        let deliveries = format!("{}/{subscription}/deliveries", self.collection);
        let one = Path { collection: deliveries, id: message.id.clone() };
        let bytes = i64::try_from(message.data.len()).unwrap_or(i64::MAX);
        let mut about = BTreeMap::from([
            ("dataBytes".to_owned(), Value::Integer(bytes)),
            ("expiresAt".to_owned(), Value::Time(now.plus(KEPT))),
        ]);
        let publish_time = message.publish_time.map(Value::Time);
        about.extend(publish_time.map(|at| ("publishTime".to_owned(), at)));
        let writes = vec![
            counted(self.client.name(&summary), &BTreeMap::new()),
            counted(self.client.name(&one), &about),
        ];
        self.client.commit(writes, None).await
    }
}

/// The fields put over what is there, one more counted, the time noted.
fn counted(name: String, values: &BTreeMap<String, Value>) -> api::Write {
    let field_paths = values.keys().map(|name| field_path(name)).collect();
    let transform = |field: &str, transform_type| FieldTransform {
        field_path: field.to_owned(),
        transform_type: Some(transform_type),
    };
    let request_time = TransformType::SetToServerValue(ServerValue::RequestTime.into());
    api::Write {
        operation: Some(Operation::Update(api::Document {
            name,
            fields: fields(values),
            ..api::Document::default()
        })),
        update_mask: Some(api::DocumentMask { field_paths }),
        update_transforms: vec![
            transform(COUNT, TransformType::Increment(to_api(&Value::Integer(1)))),
            transform(LAST, request_time),
        ],
        current_document: None,
    }
}
